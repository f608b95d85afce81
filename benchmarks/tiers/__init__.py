"""The measured tiers, and the machine that they run on.

It imports the database package, for an embedded PostgreSQL with the schema, and nothing else of
Telesto: middlewares are processes.

Begin with `service`, which starts PostgreSQL and middlewares and creates a database for each run of an
experiment. `usage` reads processor time and memory from the operating system; `machine` describes the machine
and the versions.
"""
