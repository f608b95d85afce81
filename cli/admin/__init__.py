"""The commands for queues, dead letters, clients and the database.

It imports `messages`, `common` and `terminal`. Begin with `queue`.
"""
