"""What measures Telesto, and what reports on it.

`telesto bench` and `telesto report` are made of these rooms; each may import those that stand before it here,
and import-linter holds them to it. Begin with ``harness``, or with ``service_report``.

load: processes that generate load, and what they record.
results, tiers: what the records tell; the processes that are measured and their machine.
analysis, peers, spark: statistics and queueing theory; other message queues; tables as data frames.
harness, comparison, pages: experiments; `telesto bench peers`; what a report is made of.
run_data: the runs of an experiment, read with Spark.
service_report, stability_report, scalability_report: the reports.
"""
