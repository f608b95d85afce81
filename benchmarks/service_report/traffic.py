"""What came, what ended, and what was there, over time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import RETURNED

INTERVALS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 10800, 21600, 86400, 604800, 2592000, 31536000)
Point = tuple[datetime, int, int, int]
POINTS_MAX = 300
"""A curve has at most so many points, however long the history is."""


def interval_for(span_s: float) -> int:
    """The shortest interval, in seconds, of which POINTS_MAX cover so many seconds."""
    return next((step for step in INTERVALS_S if span_s / step < POINTS_MAX), INTERVALS_S[-1])


def traffic(history: DataFrame, present: DataFrame, interval_s: int) -> DataFrame:
    """For each interval in which something happened: messages that arrived, that ended, and the backlog at
    its end.

    The backlog is counted from its end: what is there now, less what has come since, and with what has ended
    since. So what came before the history began is in it. Dead letters are none: they ended when they died.
    """
    ended = history.where(F.col("ending") != RETURNED)
    alive = present.where(F.col("state") != "dead")
    events = (
        _events(ended, "time_of_arrival", interval_s, 1, 0)
        .unionByName(_events(alive, "time_of_arrival", interval_s, 1, 0))
        .unionByName(_events(ended, "ended_at", interval_s, 0, 1))
    )
    counted = events.groupBy("moment").agg(F.sum("arrived").alias("arrived"), F.sum("ended").alias("ended"))
    # At most POINTS_MAX rows and a few: the one task that a window without a partition is does no harm.
    since = Window.orderBy(F.col("moment").desc()).rowsBetween(Window.unboundedPreceding, -1)
    change = F.coalesce(F.sum(F.col("arrived") - F.col("ended")).over(since), F.lit(0))
    now = alive.agg(F.count("*").alias("now"))
    return (
        counted.withColumn("change", change)
        .crossJoin(now)
        .select(
            F.timestamp_seconds("moment").alias("moment"),
            "arrived",
            "ended",
            (F.col("now") - F.col("change")).alias("backlog"),
        )
    )


def _events(frame: DataFrame, column: str, interval_s: int, arrived: int, ended: int) -> DataFrame:
    moment = F.floor(F.col(column).cast("double") / interval_s) * interval_s
    return frame.select(moment.alias("moment"), F.lit(arrived).alias("arrived"), F.lit(ended).alias("ended"))


def filled(rows: Sequence[Sequence[Any]], interval_s: int) -> list[Point]:
    """Rows of `traffic` with those in between in which nothing happened, at most 2 * POINTS_MAX."""
    complete: list[Point] = []
    step = timedelta(seconds=interval_s)
    for moment, arrived, ended, backlog in rows:
        while complete and complete[-1][0] + step < moment and len(complete) < 2 * POINTS_MAX:
            complete.append((complete[-1][0] + step, 0, 0, complete[-1][3]))
        complete.append((moment, arrived, ended, backlog))
    return complete
