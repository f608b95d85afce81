"""Spark: a session of it, and the tables of a service's database as data frames.

This room imports the database package for the URL and the schema, and no other room. What is no more than an
error (`errors`) is imported without Spark.

Begin with `session`, which finds Java and the driver and starts Spark, and `reading`, which reads tables over
JDBC by several sessions in one `snapshot`; `tables` says which columns. `stream` is the history as it grows,
`archive` adds to an archive from it. `failures` turns what Spark raises into errors of a report.
"""
