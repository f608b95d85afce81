"""A mutating fuzzer over the handshake and all packets: `frames` makes what is sent, `run` sends it.

``make fuzz MINUTES=10`` runs it; ``test_fuzz`` runs it for some seconds.
"""
