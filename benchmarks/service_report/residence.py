"""How long messages stay: waiting for a reader, and with it."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import DONE, percentiles, seconds_between

STEPS_PER_DECADE = 5
"""Of the distribution: its classes are powers of ten divided by so many."""
SHORTEST_S = 1e-4


def residence_by_priority(history: DataFrame) -> DataFrame:
    """For each priority: messages processed, percentiles of the wait and of the time with the reader, in
    seconds.

    A message waits from its arrival to the hand-over after which it was processed; earlier ones count as
    waiting.
    """
    return (
        _processed(history)
        .groupBy("priority")
        .agg(
            F.count("*").alias("messages"),
            *percentiles(F.col("waited_s"), "waited"),
            *percentiles(F.col("held_s"), "held"),
        )
    )


def wait_distribution(history: DataFrame) -> DataFrame:
    """How many messages waited for how long, in classes of equal width on a logarithmic scale.

    `from_s` is where a class begins; what waited for less than SHORTEST_S is in the first.
    """
    waited = F.greatest(F.col("waited_s"), F.lit(SHORTEST_S))
    step = F.floor(F.log10(waited) * STEPS_PER_DECADE)
    begin = F.pow(F.lit(10.0), step / STEPS_PER_DECADE)
    return _processed(history).groupBy(begin.alias("from_s")).agg(F.count("*").alias("messages"))


def _processed(history: DataFrame) -> DataFrame:
    done = history.where(F.col("ending").isin(*DONE) & F.col("handed_over_at").isNotNull())
    return done.select(
        "priority",
        seconds_between("time_of_arrival", "handed_over_at").alias("waited_s"),
        seconds_between("handed_over_at", "ended_at").alias("held_s"),
    )
