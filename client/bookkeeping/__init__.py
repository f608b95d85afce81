"""What a client has to remember: puts in doubt, messages received, subscriptions, consumers.

It imports `connection` and `calls`. Begin with `ledger`, which has the records of one client, and `takeover`.
"""
