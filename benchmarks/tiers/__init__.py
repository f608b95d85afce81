"""The tiers that are measured, and the machine that they run on.

This room imports the database package, for an embedded PostgreSQL with the schema, and nothing else of
Telesto: middlewares are processes.

Begin with `service`: it starts PostgreSQL and middlewares. `databases` gives each run of an experiment one
of its own. `usage` reads processor time and memory from the operating system; `machine` and `provenance`
say where figures were taken.
"""
