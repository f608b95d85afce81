"""The tiers that are measured, and the machine that they run on.

This room imports the database package, for an embedded PostgreSQL with the schema, and nothing else of
Telesto: middlewares are processes.

Begin with `service`: it starts PostgreSQL and middlewares, and gives each run of an experiment a database of
its own. `usage` reads processor time and memory from the operating system; `machine` says where figures were
taken.
"""
