"""Reads that wait for messages, and what wakes them.

It imports `database` and the rooms below. Begin with `room`.
"""
