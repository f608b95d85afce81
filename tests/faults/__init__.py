"""Fault tests: real processes, faults drawn from a seed, and a checker that reads what every client saw."""
