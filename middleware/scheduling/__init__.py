"""Requests: whose are next, in which batch, and what came of them.

It imports `common` and the subpackages below. Begin with `requests`, then `dispatcher`, which says
whose requests come next.
"""
