"""Reads that wait for messages, and what wakes them after a batch.

It imports `database` and the rooms below. Begin with `room`.
"""
