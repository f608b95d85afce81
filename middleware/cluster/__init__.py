"""A middleware among others: its registration, who is interested in what, wake-ups, and maintenance jobs.

It imports `execution` and the subpackages below. Begin with `registry`.
"""
