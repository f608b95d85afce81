"""The runs of an experiment, read with Spark.

This room imports `harness` and `results` for the files that a run leaves, `spark` for its errors, `pages` for
findings.

Begin with `runs`: which runs are whole, what they say, and their tables. `timeline` cuts off warm-up and
cool-down and puts the tables of a run into intervals; `throughput`, `latencies` and `usage` are what they
tell over time.
"""
