"""The commands that put, read, consume and show messages.

It imports `common` and `terminal`. Begin with `put` and `get`.
"""
