"""One connection as the client sees it, and where to find the next one. It has no I/O.

It imports `calls`. Begin with `link`.
"""
