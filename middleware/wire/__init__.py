"""Connections of clients: frames, checks, the conversation with one client, and quotas.

It imports every other subpackage. Begin with `connection`, then `conversation`.
"""
