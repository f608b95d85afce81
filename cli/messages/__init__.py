"""The commands that put, read, consume and show messages.

It imports `common`. Begin with `put` and `get`.
"""
