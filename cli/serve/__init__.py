"""`telesto serve`: settings, processes, the embedded database, stopping in order.

It imports `admin`, `common` and `terminal`. Begin with `serve`, then `run`.
"""
