"""Experiments: factors and levels, unattended runs that can be resumed, and what they leave in files.

This room starts the tiers, has processes of `load` work on them, and hands what they recorded to `results`;
it may import these three rooms, and no report.

Begin with `execution`: it carries an experiment out, run after run. `one_run` measures one of them:
`preparation` gives its clients their roles and makes their queues, `sampling` looks at the tiers every
second. `settings` and `experiment` say and check what is asked, and which runs follow; `manifest` is the
directory, `summary` the figures on one screen.
"""
