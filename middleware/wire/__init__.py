"""Connections of clients: frames, checks, the conversation with one client, and shares of what there is.

It imports every other room. Begin with `connection`, then `conversation`.
"""
