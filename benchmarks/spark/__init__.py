"""Spark: a session, and the tables of a service's database as data frames.

It imports the database package for the URL and the schema, and no other subpackage. `errors` can be imported
without Spark.

Begin with `session`, which finds Java and the driver and starts Spark, and `reading`, which reads tables over
JDBC by several connections in one `snapshot`; `tables` lists the columns. `stream` is the history as it
grows, and `archive` appends it to an archive. `failures` turns Spark's exceptions into errors of a report.
"""
