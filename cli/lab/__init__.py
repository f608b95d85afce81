"""The commands that measure and report; they need the extra packages.

It imports `common`. Begin with `bench`.
"""
