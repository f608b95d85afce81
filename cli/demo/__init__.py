"""`telesto demo`: a service, producers and readers on one screen, and a check of what came.

It imports `admin`, `common` and `terminal`. Begin with `demo`, then `run`.
"""
