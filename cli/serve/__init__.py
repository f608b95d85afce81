"""`telesto serve`: settings, processes, the embedded database, stopping in order.

It imports `common`. Begin with `serve`, then `run`.
"""
