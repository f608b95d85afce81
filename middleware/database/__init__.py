"""Connections to the database: opening, finding the primary, calling, its clock and its disk.

It imports `metrics` and the subpackages below. Begin with `connection`, which makes calls and says
what became of them.
"""
