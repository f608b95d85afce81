"""The commands that measure and report; they need the extra packages.

It imports `admin`, `common` and `terminal`. Begin with `bench`.
"""
