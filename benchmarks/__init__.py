"""Benchmarks of Telesto: the tiers, the generators of load, the ceiling, the audit, the report.

Each module does one thing, so that other experiments can be put together from the same parts:

- `service` starts PostgreSQL and middleware processes;
- `load` and `ceiling` are processes that generate requests, `worker` starts and times them;
- `bodies`, `records` and `tally` say what a message carries and what is kept about a request;
- `audit` compares what was acknowledged with what is there: `stored` reads it, `identity_space` counts it;
- `usage` and `machine` read the operating system;
- `measurement` says what a run is asked and gives, `runs` carries it out, `report` prints many;
- `core` is the experiment that `make bench-core` runs.

`workloads` and `harness` are what `telesto bench` is made of.
"""
