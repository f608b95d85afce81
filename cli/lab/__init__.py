"""The commands that measure and report; they need the extra packages.

It imports `admin` and `common`. Begin with `bench`.
"""
