"""Consumers: what each has, claims for them, how they behave, and telling the database of it.

It imports `waiting` and the subpackages below. Begin with `consumer`, then `registry`, then `claim_loop`.
"""
