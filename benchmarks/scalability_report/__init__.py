"""The reports on experiments over factors: `telesto report scalability` and `telesto report factorial`.

It imports `run_data`, `analysis` and `pages`.

Begin with `report` for curves over a factor, with `factorial` for 2^k r designs. `sweep` arranges the runs as
levels of a factor. `throughput`, `stations_section` and `models` (laws, and a network of queues) are the
sections of the page of a sweep; `plots` draws them.
"""
