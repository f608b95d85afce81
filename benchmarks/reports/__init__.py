"""Reports with Spark: what a service's database says about it, read over JDBC in one snapshot, and what the
runs of an experiment say.

- `java`, `driver` and `session` start Spark; `snapshot` and `reading` read the tables;
- `queues`, `topics`, `consumers`, `residence`, `traffic`, `partitions`, `clients` and `audit` are functions
  from data frames to data frames and know nothing of where the rows come from;
- `section`, `plots` and `page` show them, `destination` keeps half a report from being taken for one;
- `runs` reads the runs of an experiment, `windows` cuts off what does not count, `latencies` merges
  histograms;
- `service` is the report of a live service; `stream` and `archive` read the history as it grows.
- `timeline` puts the tables of a run into intervals, `run_throughput`, `run_latencies` and `run_usage`
  reckon with them, `trend` and `verdict` judge, `stability` is the report.
"""
