"""The report on the course of an experiment's runs: `telesto report stability`.

It imports `run_data`, `analysis` and `pages`.

Begin with `report`. `figures` computes the series of all runs with Spark; `sections` shows those of one run
with `plots`. `verdict` tests for trends and decides whether a run was stable.
"""
