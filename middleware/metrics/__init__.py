"""What a middleware counts and measures, and its port for /metrics, /livez and /readyz.

It imports `scheduling` and the subpackages below. Begin with `counters`.
"""
