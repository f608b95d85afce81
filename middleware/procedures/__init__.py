"""One file for each kind of request: the arguments of its procedure, and the answers from its rows.

It imports `consumers` and the subpackages below. Begin with `put`.
"""
