"""The reports on experiments over factors: `telesto report scalability` and `telesto report factorial`.

This room imports `run_data`, `analysis` and `pages`.

Begin with `report` for curves over a factor, with `factorial` for 2^k r designs. `sweep` has the runs as
levels of a factor, from the data frames of `sweep_frames`, with the figures of `sweep_values`. `sections`
puts the page of a sweep together: `throughput`, `stations_section`, `models` (laws, and the network of
queues of `network_model`); `plots` and `factorial_plots` draw.
"""
