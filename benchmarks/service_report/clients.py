"""Who puts and who takes how much."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.service_report.columns import DONE, RETURNED, counted_where, named


def volume_by_client(history: DataFrame, present: DataFrame, clients: DataFrame) -> DataFrame:
    """For each client: messages that it put, that it has processed, that came back from it; bytes that wait
    by it.

    Bodies of what is over are kept only where a queue's history is `full`, so bytes are those of what is
    there.
    """
    over = history.where(F.col("ending") != RETURNED).groupBy(F.col("sender_id").alias("client_id"))
    waiting = present.where(F.col("state") != "dead").groupBy(F.col("sender_id").alias("client_id"))
    put = (
        over.agg(F.count("*").alias("put"), F.lit(0).cast("bigint").alias("bytes"))
        .unionByName(waiting.agg(F.count("*").alias("put"), F.sum("bytes").alias("bytes")))
        .groupBy("client_id")
        .agg(F.sum("put").alias("put"), F.sum("bytes").alias("bytes_waiting"))
    )
    taken = (
        history.where(F.col("client_id").isNotNull())
        .groupBy("client_id")
        .agg(
            counted_where(F.col("ending").isin(*DONE)).alias("processed"),
            counted_where(F.col("ending") == RETURNED).alias("came_back"),
        )
    )
    joined = put.join(taken, "client_id", "full").fillna(
        0, ["put", "bytes_waiting", "processed", "came_back"]
    )
    return named(joined, clients, "client_id", "client", "client").select(
        "client", "put", "processed", "came_back", "bytes_waiting"
    )
