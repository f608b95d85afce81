"""The commands for queues, dead letters, clients and the database.

It imports `common` and `messages`. Begin with `queue`.
"""
