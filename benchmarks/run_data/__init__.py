"""The runs of an experiment, read with Spark.

This room imports `harness` and `results` for the files that a run leaves, `spark` for its errors, `pages`
for findings.

Begin with `runs`: which runs are whole, what they say, and their tables. `windows` cuts off warm-up and
cool-down, `timeline` puts the tables of a run into intervals; `throughput`, `latencies_over_time` and
`usage` are what they tell over time. `latencies` merges histograms. `findings` is what is said of runs in
any report.
"""
