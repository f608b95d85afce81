"""Experiments: factors and levels, unattended runs that can be resumed, and their files.

It starts the tiers, puts load on them with processes of `load`, and passes the records to `results`.
It may import these three subpackages, and no report.

Begin with `execution`, which runs an experiment. `one_run` measures one run: `preparation` gives clients
their roles and creates their queues, `sampling` samples the tiers every second. `experiment` defines
and checks what can be asked for, and the runs that follow; `manifest` is the directory, `summary`
prints the figures.
"""
