"""What the scalability report takes from the tables of runs: one row, or one for each kind, of every run.

All functions take tables of which warm-up and cool-down are cut off (`windows.inside`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from telesto.benchmarks.run_data.latencies import merged

PHASES: Final = ("parse", "fifo", "database", "parked", "answer")
"""Where a request is in the middleware, one after the other."""
CALL_COUNTERS: Final = {
    "telesto_requests_total": "requests",
    "telesto_calls_total": "calls",
    "telesto_call_seconds_total": "busy",
}
"""Counters of the middlewares by kind of request, and what their rise in a second is called here."""
_US_PER_S: Final = 1e6


def response_times(histograms: DataFrame, shown: DataFrame) -> DataFrame:
    """The response time of each run, over several operations: `run` and what `latencies.merged` gives.

    `shown` says which operations of a run count: `run`, `operation`.
    """
    wanted = histograms.where(F.col("measure") == "latency").join(F.broadcast(shown), ["run", "operation"])
    return merged(wanted, ["run"]).drop("encoded")


def phase_means(phases: DataFrame) -> DataFrame:
    """Means of the time in each phase: `run`, `kind`, `followed`, PHASES with `_s`, `tries`, `batch`."""
    means = [F.avg(f"{name}_us").alias(name) for name in PHASES]
    groups = phases.groupBy("run", "kind").agg(
        F.count("*").alias("followed"), *means, F.avg("tries").alias("tries"), F.avg("batch").alias("batch")
    )
    seconds = [(F.col(name) / _US_PER_S).alias(f"{name}_s") for name in PHASES]
    return groups.select("run", "kind", "followed", *seconds, "tries", "batch")


def call_times(phases: DataFrame) -> DataFrame:
    """How a call gets longer with the requests in it: `run`, `kind`, `alone_s`, `each_s`.

    The straight line through the calls that were seen, S(n) = alone_s + each_s n, by least squares; both NULL
    where all calls were of one size. Requests that were in several calls do not tell how long each was.
    """
    once = phases.where((F.col("tries") == 1) & (F.col("batch") > 0))
    length, size = F.col("database_us") / _US_PER_S, F.col("batch").cast("double")
    return once.groupBy("run", "kind").agg(
        F.regr_intercept(length, size).alias("alone_s"), F.regr_slope(length, size).alias("each_s")
    )


def calls_per_s(metrics: DataFrame) -> DataFrame:
    """What the middlewares did together in a second: `run`, `kind`, `requests`, `calls`, `busy` (seconds).

    From the first look to the last one that counts. A counter that falls was set back, and begins anew.
    """
    counters = metrics.where(F.col("metric").isin(*CALL_COUNTERS) & (F.col("label") != ""))
    line = Window.partitionBy("run", "middleware", "metric", "label").orderBy("since_s")
    before = F.lag("value").over(line)
    rose = (
        F.when(before.isNull(), 0.0)
        .when(F.col("value") < before, F.col("value"))
        .otherwise(F.col("value") - before)
    )
    length = F.col("since_s") - F.lag("since_s").over(line)
    rises = counters.select(
        "run", "middleware", "metric", "label", rose.alias("rose"), length.alias("length")
    )
    rates = rises.groupBy("run", "middleware", "metric", "label").agg(
        (F.sum("rose") / F.sum("length")).alias("per_s")
    )
    columns = [
        F.coalesce(F.sum(F.when(F.col("metric") == metric, F.col("per_s"))), F.lit(0.0)).alias(name)
        for metric, name in CALL_COUNTERS.items()
    ]
    kinds = rates.groupBy("run", F.col("label").alias("kind")).agg(*columns)
    return kinds.where(F.col("requests") > 0)


def shown_operations(spark_frame: DataFrame, operations: Mapping[str, Sequence[str]]) -> DataFrame:
    """The operations of each run as a frame for `response_times`: `run`, `operation`."""
    rows = [(run, operation) for run, names in operations.items() for operation in names]
    return spark_frame.sparkSession.createDataFrame(rows, "run string, operation string")
