"""The blocking client: what an application calls.

It imports every other folder of the client but `aio`. Begin with `client`. All but `client` and `pool` is
generated from `aio`.
"""
