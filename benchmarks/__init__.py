"""What measures Telesto, and what reports on it.

`telesto bench` and `telesto report` are made of these rooms; import-linter holds each to what is below it.
"""
