"""`telesto serve`: settings, processes, the embedded database, stopping in order.

It imports `admin` and `common`. Begin with `serve`, then `run`.
"""
