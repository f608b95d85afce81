"""The PostgreSQL that `telesto serve` runs without a database URL.

It imports `install`. Begin with `server`.
"""
