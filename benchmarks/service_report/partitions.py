"""How evenly the keys of a queue share its messages."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import named


def skew_by_queue(keyed: DataFrame, leases: DataFrame, queues: DataFrame) -> DataFrame:
    """For each queue with keys: partitions that hold messages, messages, the largest, and its share.

    `fairness` is Jain's index (Jain, Chiu, Hawe, A quantitative measure of fairness, 1984): the square of the
    sum of the sizes, by the number of partitions times the sum of their squares; 1 when all are alike, 1/n
    when one of n has everything.
    """
    columns = ("queue_id", "sender_id", "partition_key")
    held = keyed.select(*columns).unionByName(
        leases.where(F.col("partition_key").isNotNull()).select(*columns)
    )
    sizes = held.groupBy(*columns).agg(F.count("*").alias("size"))
    size = F.col("size").cast("double")
    counted = sizes.groupBy("queue_id").agg(
        F.count("*").alias("partitions"),
        F.sum("size").alias("messages"),
        F.max("size").alias("largest"),
        F.max_by("partition_key", "size").alias("largest_key"),
        (F.max("size") / F.sum("size")).alias("largest_share"),
        (F.pow(F.sum(size), F.lit(2.0)) / (F.count("*") * F.sum(size * size))).alias("fairness"),
    )
    return named(counted, queues, "queue_id", "queue", "queue").select(
        "queue", "partitions", "messages", "largest", "largest_key", "largest_share", "fairness"
    )
