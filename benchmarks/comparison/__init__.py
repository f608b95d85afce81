"""The same work for Telesto and other message queues, interleaved, on one machine: `telesto bench peers`.

It imports `peers` for the systems, `load` for processes and records, `results` for the audit and
ratios, and `tiers` for processor time.

Begin with `compare`: it starts the servers, runs the work and audits each run. `catalog` lists the peers and
their requirements, and installs what is missing; `load` is the process that generates load; `table` prints
ratios and compares them with the targets.
"""
