"""Processors and memory of the tiers over the time of a run, and PostgreSQL's counters."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from telesto.benchmarks.run_data.timeline import INTERVAL, Timelines, counted, placed

WAL_BYTES: Final = ("wal", "wal_bytes")
DEAD_ROWS: Final = ("tables", "n_dead_tup")
LEVELS: Final = ("n_dead_tup", "n_live_tup")
"""Counters that are levels; the others only rise."""
CHECKPOINTS: Final = (
    ("checkpointer", "num_timed"),
    ("checkpointer", "num_requested"),
    ("bgwriter", "checkpoints_timed"),
    ("bgwriter", "checkpoints_req"),
)
"""Where servers count checkpoints: PostgreSQL 17 and later have a separate view."""
RUNNING: Final = "running"
"""The event of a backend that waits for nothing, as far as PostgreSQL knows."""


def processors_by_interval(tiers: DataFrame, lines: Timelines) -> DataFrame:
    """Processors that each tier uses in each interval (INTERVAL, `tier`): `processors`.

    The usage between two samples belongs to the interval of their midpoint.
    """
    used = _differences(tiers, ("tier", "process"), "cpu_s")
    of_process = placed(used, lines, "middle_s").groupBy(*INTERVAL, "tier", "process")
    rate = of_process.agg((F.sum("difference") / F.sum("lasted_s")).alias("rate"))
    return rate.groupBy(*INTERVAL, "tier").agg(F.sum("rate").alias("processors"))


def memory_by_interval(tiers: DataFrame, lines: Timelines) -> DataFrame:
    """Memory of each tier in each interval (INTERVAL, `tier`): `memory_bytes`, the mean of its samples."""
    looks = tiers.groupBy("run", "tier", "since_s").agg(F.sum("memory_bytes").alias("memory_bytes"))
    groups = placed(looks, lines, "since_s").groupBy(*INTERVAL, "tier")
    return groups.agg(F.avg("memory_bytes").alias("memory_bytes"))


def growth_by_interval(counters: DataFrame, lines: Timelines) -> DataFrame:
    """The rise per second of each counter in each interval (INTERVAL, `source`, `counter`): `per_s`."""
    rising = counters.where(~F.col("counter").isin(*LEVELS))
    rose = placed(_differences(rising, ("source", "counter"), "value"), lines, "middle_s")
    groups = rose.groupBy(*INTERVAL, "source", "counter")
    return groups.agg((F.sum("difference") / F.sum("lasted_s")).alias("per_s"))


def of_log(counters: DataFrame) -> DataFrame:
    """The counter of the bytes of PostgreSQL's log."""
    return counters.where((F.col("source") == WAL_BYTES[0]) & (F.col("counter") == WAL_BYTES[1]))


def levels_by_interval(counters: DataFrame, lines: Timelines) -> DataFrame:
    """The mean of each level in each interval (INTERVAL, `source`, `counter`): `level`."""
    there = counters.where(F.col("counter").isin(*LEVELS))
    groups = placed(there, lines, "since_s").groupBy(*INTERVAL, "source", "counter")
    return groups.agg(F.avg("value").alias("level"))


def totals(counters: DataFrame, lines: Timelines) -> DataFrame:
    """The rise of each counter in the measured part: `run`, `source`, `counter`, `total`, `per_s`."""
    rising = counters.where(~F.col("counter").isin(*LEVELS))
    rose = counted(_differences(rising, ("source", "counter"), "value"), lines, "middle_s")
    groups = rose.groupBy("run", "source", "counter")
    total = F.sum("difference")
    return groups.agg(total.alias("total"), (total / F.sum("lasted_s")).alias("per_s"))


def checkpoints(counters: DataFrame) -> DataFrame:
    """When checkpoints began: `run`, `since_s` (of the first sample that counts it), `checkpoints`."""
    known = F.concat_ws(".", "source", "counter").isin([".".join(name) for name in CHECKPOINTS])
    rose = _differences(counters.where(known), ("source", "counter"), "value").where(F.col("difference") > 0)
    groups = rose.groupBy("run", "since_s")
    return groups.agg(F.sum("difference").cast("long").alias("checkpoints"))


def waits_by_interval(waits: DataFrame, lines: Timelines) -> DataFrame:
    """The mean number of active client backends in each interval by wait event: INTERVAL, `event`,
    `backends`.

    Backends that wait for nothing are RUNNING.
    """
    of_interval = Window.partitionBy(*INTERVAL)
    samples = F.size(F.collect_set("since_s").over(of_interval))
    sampled = placed(waits, lines, "since_s").withColumn("samples", samples)
    mean = F.sum("backends") / F.first("samples")
    return _active(sampled).groupBy(*INTERVAL, "event").agg(mean.alias("backends"))


def waits_by_event(waits: DataFrame, lines: Timelines) -> DataFrame:
    """The same for the measured part: `run`, `event`, `backends`, and the `share` of an event."""
    inside = counted(waits, lines, "since_s")
    samples = inside.groupBy("run").agg(F.count_distinct("since_s").alias("samples"))
    found = _active(inside).groupBy("run", "event").agg(F.sum("backends").alias("sum"))
    all_of_run = F.sum("sum").over(Window.partitionBy("run"))
    joined = found.withColumn("share", F.col("sum") / all_of_run).join(F.broadcast(samples), "run")
    return joined.select("run", "event", (F.col("sum") / F.col("samples")).alias("backends"), "share")


def _active(waits: DataFrame) -> DataFrame:
    active = waits.where((F.col("backend_type") == "client backend") & (F.col("state") == "active"))
    return active.withColumn("event", _event())


def _event() -> Column:
    named = F.concat_ws(": ", "wait_event_type", "wait_event")
    return F.when(F.col("wait_event_type") == "", RUNNING).otherwise(named)


def _differences(frame: DataFrame, keys: tuple[str, ...], value: str) -> DataFrame:
    """From one sample to the next: `difference`, `lasted_s`, `middle_s`, and `since_s` of the later one.

    A counter that falls was reset.
    """
    line = Window.partitionBy("run", *keys).orderBy("since_s")
    before, earlier = F.lag(value).over(line), F.lag("since_s").over(line)
    told = frame.withColumn("before", before).withColumn("earlier_s", earlier)
    known = told.where(F.col("before").isNotNull() & (F.col("since_s") > F.col("earlier_s")))
    difference = F.when(F.col(value) >= F.col("before"), F.col(value) - F.col("before")).otherwise(
        F.col(value)
    )
    return known.select(
        "run",
        *keys,
        "since_s",
        difference.alias("difference"),
        (F.col("since_s") - F.col("earlier_s")).alias("lasted_s"),
        ((F.col("since_s") + F.col("earlier_s")) / 2).alias("middle_s"),
    )
