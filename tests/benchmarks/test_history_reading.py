"""The benchmark of reading: what it fills a database with, and that it measures what it says."""

import psycopg
from pyspark.sql import SparkSession

from telesto.benchmarks import history_reading
from telesto.benchmarks.history_reading import QUEUES, fill_history
from telesto.db.checks.findings import find_contradictions

ROWS = 2000
CONTENTS = """
SELECT count(*), count(DISTINCT message_id), count(DISTINCT queue_id), count(DISTINCT priority),
       count(DISTINCT drop_on), bool_and(time_of_arrival <= handed_over_at AND handed_over_at <= ended_at),
       bool_and(drop_on > (ended_at AT TIME ZONE 'UTC')::date)
FROM telesto.history
"""


def test_the_rows_are_spread_and_all_of_them_are_read_and_reported(
    spark: SparkSession, database_url: str
) -> None:
    fill_history(database_url, ROWS)
    with psycopg.connect(database_url) as connection:
        assert find_contradictions(connection) == []
        found = connection.execute(CONTENTS).fetchone()
    assert found is not None
    rows, messages, queues, priorities, days, ordered, kept = found
    assert (rows, messages, ordered, kept) == (ROWS, ROWS, True, True)
    assert (queues, priorities) == (QUEUES, 10)
    assert days >= 1
    assert history_reading.read_history(spark, database_url, 2) == ROWS
    assert history_reading.report(spark, database_url) == ROWS


def test_the_table_has_a_line_for_each_work() -> None:
    figures = history_reading.Figures("reading in parts: 2", 1_000_000, 12.34, 20.0, 1 << 30, 100 << 20)
    header, rule, line = history_reading.table([figures]).splitlines()
    assert header.count("|") == rule.count("|") == line.count("|")
    assert [cell.strip() for cell in line.split("|")][2:7] == ["1,000,000", "12.3", "20.0", "1024", "100"]
