"""Reads that wait for messages, and what wakes them.

It imports `database` and the subpackages below. Begin with `room`.
"""
