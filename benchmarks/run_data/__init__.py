"""The runs of an experiment, read with Spark.

It imports `harness` and `results` for the files of a run, `spark` for its errors, `pages` for
findings.

Begin with `runs`: which runs are complete, their results, and their tables. `timeline` cuts off warm-up and
cool-down and divides the tables of a run into intervals; `throughput`, `latencies` and `usage` compute the
series over time.
"""
