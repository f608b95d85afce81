"""Expressions that several analyses have in common."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

DONE = ("confirmed", "acknowledged", "unrecorded")
"""Endings of a message that somebody processed."""
RETURNED = "returned"
"""The ending of a hand-over after which the message goes on."""

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999}
ACCURACY = 10_000
"""Of percentiles: the rank is met within 1 / ACCURACY of the number of rows (Greenwald and Khanna,
Space-efficient
online computation of quantile summaries, 2001), in memory that does not grow with it."""


def seconds_between(earlier: str, later: str) -> Column:
    """The time between two columns of time, in seconds; never below 0, whatever a clock did."""
    return _not_below_0(F.col(later).cast("double") - F.col(earlier).cast("double"))


def age(column: str, taken_at: datetime) -> Column:
    """How old the oldest of a column of times is, in seconds, at the time of the snapshot; NULL for none."""
    return _not_below_0(F.lit(taken_at).cast("double") - F.min(column).cast("double"))


def _not_below_0(value: Column) -> Column:
    # Not `greatest`, which passes over NULL.
    return F.when(value < 0, 0.0).otherwise(value)


def percentiles(column: Column, prefix: str) -> list[Column]:
    """Percentiles and the largest value of a column, as columns of an aggregation."""
    # One and the same expression, so that all are taken from one summary.
    summary = F.percentile_approx(column, list(PERCENTILES.values()), ACCURACY)
    estimated = [summary[index].alias(f"{prefix}_{name}") for index, name in enumerate(PERCENTILES)]
    return [*estimated, F.max(column).alias(f"{prefix}_max")]


def counted_where(condition: Column) -> Column:
    """How many rows of a group meet a condition."""
    return F.count(F.when(condition, True))


def named(frame: DataFrame, names: DataFrame, key: str, column: str, kind: str) -> DataFrame:
    """Add a column with the name for a key; one that is not there any more is told by its number."""
    known = names.select(F.col(key), F.col("name").alias(column))
    number = F.concat(F.lit(f"{kind} "), F.col(key).cast("string"))
    return frame.join(F.broadcast(known), key, "left").withColumn(column, F.coalesce(F.col(column), number))


def newest(frame: DataFrame, key: str) -> DataFrame:
    """Of each key the newest version, as the states of queues and topics are kept."""
    others = [name for name in frame.columns if name not in (key, "version")]
    return frame.groupBy(key).agg(*(F.max_by(name, "version").alias(name) for name in others))
