"""A client whose state outlives its process: the log on disk and the session that waits for it.

It imports `session` and the subpackages below. Begin with `durable_session`.
"""
