"""Who has logged in on a connection, and what that user may do.

It imports `common`. Begin with `users`.
"""
