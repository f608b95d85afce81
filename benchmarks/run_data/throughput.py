"""Messages over the time of a run, and stalls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from telesto.benchmarks.load.recorder import PUTS, TAKES, Operation
from telesto.benchmarks.results.analysis import HANDED_OVER
from telesto.benchmarks.run_data.timeline import INTERVAL, Timelines, counted, every_second, placed

_HANDED_OVER: Final = [operation.name.lower() for operation in HANDED_OVER]
_PUT: Final = [operation.name.lower() for operation in (*PUTS, Operation.PUBLISH)]
_INTO_QUEUES: Final = [operation.name.lower() for operation in PUTS]
_OUT_OF_QUEUES: Final = [operation.name.lower() for operation in TAKES]


def messages_by_second(throughput: DataFrame, lines: Timelines) -> DataFrame:
    """Messages in every second, including empty ones: `run`, `second`, `messages`.

    Deliveries count, as in `messages_per_s` of a run; without readers, puts count.
    """
    sums = _every_second(throughput, lines, handed_over=_sum_of(_HANDED_OVER), put=_sum_of(_PUT))
    anybody = F.sum("handed_over").over(Window.partitionBy("run")) > 0
    chosen = F.when(anybody, F.col("handed_over")).otherwise(F.col("put"))
    return sums.select("run", "second", chosen.alias("messages"))


def messages_by_interval(seconds: DataFrame, lines: Timelines) -> DataFrame:
    """Messages per second in each interval (INTERVAL): `rate`, and in its slowest and fastest second."""
    groups = placed(seconds, lines, "second").groupBy(*INTERVAL)
    return groups.agg(
        (F.sum("messages") / F.col("width_s")).alias("rate"),
        F.min("messages").alias("least"),
        F.max("messages").alias("most"),
    )


def stalls(seconds: DataFrame, lines: Timelines, share: float) -> DataFrame:
    """Consecutive measured seconds with fewer messages than a share of the median.

    Columns: `run`, `from_s`, `seconds`, `least` (messages in its worst second), `missed` (the shortfall
    against the median).
    """
    inside = counted(seconds, lines, "second")
    median = F.median("messages").over(Window.partitionBy("run"))
    low = inside.withColumn("median", median).where(F.col("messages") < share * F.col("median"))
    # Within a stall the second and its row number rise together.
    number = F.row_number().over(Window.partitionBy("run").orderBy("second"))
    stretches = low.withColumn("stretch", F.col("second") - number).groupBy("run", "stretch")
    return stretches.agg(
        F.min("second").alias("from_s"),
        F.count("*").alias("seconds"),
        F.min("messages").alias("least"),
        F.sum(F.col("median") - F.col("messages")).alias("missed"),
    ).drop("stretch")


def backlog_by_second(throughput: DataFrame, lines: Timelines, at_first: Mapping[str, int]) -> DataFrame:
    """The content of the queues at the end of every second: `run`, `second`, `backlog`.

    A message counts from the end of its put until its reader has it. The record of a request is written when
    its response comes, so a request seems to be put later than it was. Runs without `at_first` (the backlog
    before the load) are left out: topics have no backlog.
    """
    kept = {name: line for name, line in lines.items() if name in at_first}
    changes = _every_second(throughput, kept, change=_sum_of(_INTO_QUEUES) - _sum_of(_OUT_OF_QUEUES))
    first = F.lit(0)
    for name, count in at_first.items():
        first = F.when(F.col("run") == name, F.lit(count)).otherwise(first)
    so_far = F.sum("change").over(Window.partitionBy("run").orderBy("second"))
    return changes.select("run", "second", (first + so_far).alias("backlog"))


def backlog_by_interval(seconds: DataFrame, lines: Timelines) -> DataFrame:
    """The backlog at the end of each interval, and the maximum in it."""
    groups = placed(seconds, lines, "second").groupBy(*INTERVAL)
    return groups.agg(F.max_by("backlog", "second").alias("backlog"), F.max("backlog").alias("most"))


def _every_second(throughput: DataFrame, lines: Timelines, **sums: Column) -> DataFrame:
    """Sums for each second of the runs, 0 for empty ones."""
    nothing = every_second(throughput.sparkSession, lines).select(
        "run", "second", F.lit("").alias("operation"), F.lit(0).cast("long").alias("completed")
    )
    known = throughput.where(F.col("run").isin(list(lines)))
    rows = known.select("run", "second", "operation", "completed").unionByName(nothing)
    groups = rows.groupBy("run", "second")
    return groups.agg(*(column.alias(name) for name, column in sums.items()))


def _sum_of(operations: list[str]) -> Column:
    chosen = F.when(F.col("operation").isin(operations), F.col("completed"))
    return F.coalesce(F.sum(chosen), F.lit(0))
