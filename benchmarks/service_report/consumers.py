"""What each consumer has, and what it has done."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import RETURNED, age, counted_where, named, seconds_between

ACKNOWLEDGED = "acknowledged"


def work_by_consumer(tables: Mapping[str, DataFrame], taken_at: datetime) -> DataFrame:
    """For each consumer that is there now: leases, partitions, what it acknowledged and gave back.

    `held_s` is the median time from hand-over to acknowledgement, in seconds; `oldest_s` the age of the
    oldest message that it has.
    """
    leased = (
        tables["leases"]
        .groupBy("consumer_id")
        .agg(F.count("*").alias("leased"), age("handed_over_at", taken_at).alias("oldest_s"))
    )
    owned = owned_partitions(tables["partitions"])
    done = worked(tables["history"])
    joined = tables["consumers"].select("consumer_id", "queue_id", "client_id", "middleware_id")
    for frame in (leased, owned, done):
        joined = joined.join(frame, "consumer_id", "left")
    filled = joined.fillna(0, ["leased", "partitions", "acknowledged", "returned"])
    with_queue = named(filled, tables["queues"], "queue_id", "queue", "queue")
    return named(with_queue, tables["clients"], "client_id", "client", "client").select(
        "queue",
        "consumer_id",
        "client",
        "middleware_id",
        "leased",
        "oldest_s",
        "partitions",
        "acknowledged",
        "returned",
        "held_s",
    )


def owned_partitions(partitions: DataFrame) -> DataFrame:
    """How many partitions each consumer has."""
    return (
        partitions.where(F.col("owner_id") > 0)
        .groupBy(F.col("owner_id").alias("consumer_id"))
        .agg(F.count("*").alias("partitions"))
    )


def worked(history: DataFrame) -> DataFrame:
    """What the history says that each consumer did."""
    answered = F.col("ending") == ACKNOWLEDGED
    held = F.when(answered, seconds_between("handed_over_at", "ended_at"))
    return (
        history.where(F.col("consumer_id").isNotNull())
        .groupBy("consumer_id")
        .agg(
            counted_where(answered).alias("acknowledged"),
            counted_where(F.col("ending") == RETURNED).alias("returned"),
            F.percentile_approx(held, 0.5).alias("held_s"),
        )
    )
