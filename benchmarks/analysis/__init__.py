"""Statistics and queueing theory: functions of numbers, without Spark and without pages.

It imports no other subpackage.

Each method has its module: `trend` (Mann and Kendall, Theil and Sen), `two_levels` (2^k r designs),
`repetitions` (intervals of means), `queueing` (operational laws, asymptotic bounds, M/M/m), `network` (closed
networks with product form), `scalability_law` (the Universal Scalability Law). docs/how-to/reports.md has the
formulas.
"""
