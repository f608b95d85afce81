"""What is in the queues: how much of what kind, how old the oldest is, what failed, what died and why."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import DONE, RETURNED, age, counted_where, named

PRESENT = {
    "messages": "waiting",
    "keyed_messages": "in_partitions",
    "delayed_messages": "delayed",
    "staged_messages": "staged",
    "deliveries": "handed_over",
    "leases": "leased",
    "dead_letters": "dead",
}
"""The tables that hold messages, and what those are."""
STATES = tuple(PRESENT.values())

_COLUMNS = ("queue_id", "message_id", "sender_id", "priority", "attempt", "time_of_arrival", "bytes")


def present_messages(tables: Mapping[str, DataFrame]) -> DataFrame:
    """All messages that are anywhere but in the history, one row each with its `state`."""
    parts = [tables[name].select(*_COLUMNS, F.lit(state).alias("state")) for name, state in PRESENT.items()]
    return reduce(DataFrame.unionByName, parts)


def contents_by_queue(present: DataFrame, queues: DataFrame, taken_at: datetime) -> DataFrame:
    """For each queue: messages by state, their bytes, the age in seconds of the oldest that is not dead."""
    alive = F.when(F.col("state") != "dead", F.col("time_of_arrival"))
    counted = (
        present.withColumn("alive_since", alive)
        .groupBy("queue_id")
        .agg(
            *(counted_where(F.col("state") == state).alias(state) for state in STATES),
            F.sum("bytes").alias("bytes"),
            age("alive_since", taken_at).alias("oldest_s"),
        )
    )
    every = queues.select("queue_id").join(counted, "queue_id", "full").fillna(0, [*STATES, "bytes"])
    return named(every, queues, "queue_id", "queue", "queue").select("queue", *STATES, "bytes", "oldest_s")


def endings_by_queue(history: DataFrame, queues: DataFrame) -> DataFrame:
    """For each queue and way in which messages ended: how many, and when the last."""
    counted = history.groupBy("queue_id", "ending").agg(
        F.count("*").alias("rows"), F.max("ended_at").alias("last")
    )
    return named(counted, queues, "queue_id", "queue", "queue").select("queue", "ending", "rows", "last")


def attempts(history: DataFrame) -> DataFrame:
    """By the number of the attempt: how many hand-overs were done with, came back, or ended the message."""
    handed = history.where(F.col("handed_over_at").isNotNull())
    return handed.groupBy("attempt").agg(
        counted_where(F.col("ending").isin(*DONE)).alias("done"),
        counted_where(F.col("ending") == RETURNED).alias("came_back"),
        counted_where(F.col("ending") == "dead").alias("died"),
    )


def dead_by_reason(dead_letters: DataFrame, queues: DataFrame, taken_at: datetime) -> DataFrame:
    """The dead letters that there are, by queue and reason, with the age in seconds of the oldest."""
    counted = dead_letters.groupBy("queue_id", "reason").agg(
        F.count("*").alias("letters"),
        F.max("attempt").alias("attempts_max"),
        age("died_at", taken_at).alias("oldest_s"),
    )
    return named(counted, queues, "queue_id", "queue", "queue").select(
        "queue", "reason", "letters", "attempts_max", "oldest_s"
    )


def totals(present: DataFrame, history: DataFrame, taken_at: datetime) -> DataFrame:
    """One row: messages alive and dead, the age in seconds of the oldest alive, messages processed."""
    alive = F.col("state") != "dead"
    there = present.withColumn("alive_since", F.when(alive, F.col("time_of_arrival"))).agg(
        counted_where(alive).alias("alive"),
        counted_where(~alive).alias("dead"),
        age("alive_since", taken_at).alias("oldest_s"),
    )
    return there.crossJoin(history.agg(counted_where(F.col("ending").isin(*DONE)).alias("processed")))
