"""The report on how the runs of an experiment went over their time: `telesto report stability`.

This room imports `run_data`, `analysis` and `pages`.

Begin with `report`. `figures` has Spark compute the series of all runs; `sections` shows those of one run
with `plots`. `verdict` says what is tested for a trend, and whether a run was stable.
"""
