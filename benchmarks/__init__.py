"""The code that measures Telesto and reports on it.

`telesto bench` and `telesto report` consist of these subpackages. Each may import those named before it, and
import-linter enforces that. Begin with ``harness``, or with ``service_report``.

load: processes that generate load, and their records. results, tiers: figures and audits from the records;
the measured processes and their machine. analysis, peers, spark: statistics and queueing theory; other
message queues; tables as data frames. harness, comparison, pages: experiments; `telesto bench peers`; the
parts of a report. run_data: the runs of an experiment, read with Spark. service_report, stability_report,
scalability_report: the reports.
"""
