"""The client as a state machine without I/O: bytes and time go in, bytes and finished calls come out.

It imports `bookkeeping` and the subpackages below. Begin with `session`; `base` has its connection and
identity.
"""
