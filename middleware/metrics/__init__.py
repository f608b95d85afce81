"""What a middleware counts and measures, and its port for /metrics and /healthz.

It imports `scheduling` and the subpackages below. Begin with `counters`.
"""
