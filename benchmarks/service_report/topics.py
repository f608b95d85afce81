"""How far the subscribers of each topic are."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import age, newest


def backlog_by_topic(tables: Mapping[str, DataFrame], taken_at: datetime) -> DataFrame:
    """For each topic: messages ever put, messages kept, subscribers, how far the last is behind.

    A subscription is behind by the last number of its topic less the number up to which it has confirmed.
    """
    last = newest(tables["topic_states"], "topic_id")
    kept = (
        tables["topic_messages"]
        .groupBy("topic_id")
        .agg(
            F.sum("kept").alias("kept"),
            F.sum("bytes").alias("bytes"),
            age("time_of_arrival", taken_at).alias("oldest_s"),
        )
    )
    behind = (
        _positions(tables)
        .join(last, "topic_id")
        .groupBy("topic_id")
        .agg(
            F.count("*").alias("subscribers"),
            F.max(F.greatest(F.col("last_number") - F.col("position"), F.lit(0))).alias("behind_max"),
        )
    )
    return (
        tables["topics"]
        .join(last, "topic_id", "left")
        .join(kept, "topic_id", "left")
        .join(behind, "topic_id", "left")
        .fillna(0, ["last_number", "kept", "bytes", "subscribers", "behind_max"])
        .select(
            F.col("name").alias("topic"),
            F.col("last_number").alias("put"),
            "kept",
            "bytes",
            "subscribers",
            "behind_max",
            "oldest_s",
        )
    )


def _positions(tables: Mapping[str, DataFrame]) -> DataFrame:
    """The subscriptions that are owed messages, and where each stands."""
    owed = tables["subscriptions"].where(F.col("dropped_at").isNull())
    position = newest(tables["positions"], "subscription_id")
    standing = F.coalesce(F.col("position"), F.col("start_number"))
    return owed.join(position, "subscription_id", "left").select("topic_id", standing.alias("position"))
