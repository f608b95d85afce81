"""Workers that take batches of requests, call procedures and give out the results.

It imports `procedures` and the subpackages below. Begin with `worker_pool` and `batch_worker`.
"""
