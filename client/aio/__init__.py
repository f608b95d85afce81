"""The asyncio client: what an application calls.

It imports every other folder of the client, and of `blocking` what handlers of both have in common. Begin
with `client`; `queue` and `topic` have the verbs.
"""
