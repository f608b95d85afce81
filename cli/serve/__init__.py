"""`telesto serve`: settings, processes, the embedded database, the shutdown.

It imports `admin`, `common` and `terminal`. Begin with `serve`, then `run`.
"""
