"""Fault tests: real processes, faults drawn from a seed, and a checker that reads what every client saw.

Begin with `run`. It brings together a service (`service`), its clients (`clients`) and checks of what they
saw (`checkers`); `queue_work` and the like say what clients do. `steps` tests single steps without a run.
"""
