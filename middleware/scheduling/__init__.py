"""Requests in pipeline: who is next, in which batch, and what came of it.

It imports `common` and the rooms below. Begin with `requests`; `dispatcher` gives requests to workers,
`fair_queue` says who is next.
"""
