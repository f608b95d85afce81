"""Processors and memory of the tiers over the time of a run, and what PostgreSQL counted meanwhile."""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from telesto.benchmarks.run_data.timeline import INTERVAL, Timelines, counted, placed

WAL_BYTES: Final = ("wal", "wal_bytes")
DEAD_ROWS: Final = ("tables", "n_dead_tup")
LEVELS: Final = ("n_dead_tup", "n_live_tup")
"""Counters that say how much there is; the others only rise."""
CHECKPOINTS: Final = (
    ("checkpointer", "num_timed"),
    ("checkpointer", "num_requested"),
    ("bgwriter", "checkpoints_timed"),
    ("bgwriter", "checkpoints_req"),
)
"""Where servers count checkpoints: from PostgreSQL 17 in a view of their own."""
RUNNING: Final = "running"
"""What a backend does that waits for nothing, as far as PostgreSQL knows."""


def processors_by_interval(tiers: DataFrame, lines: Timelines) -> DataFrame:
    """Processors that each tier uses in each interval (INTERVAL, `tier`): `processors`.

    What a process used between two looks is that of the interval in whose time the middle of both is.
    """
    used = _differences(tiers, ("tier", "process"), "cpu_s")
    of_process = placed(used, lines, "middle_s").groupBy(*INTERVAL, "tier", "process")
    rate = of_process.agg((F.sum("difference") / F.sum("lasted_s")).alias("rate"))
    return rate.groupBy(*INTERVAL, "tier").agg(F.sum("rate").alias("processors"))


def memory_by_interval(tiers: DataFrame, lines: Timelines) -> DataFrame:
    """Memory of each tier in each interval (INTERVAL, `tier`): `memory_bytes`, the mean of its looks."""
    looks = tiers.groupBy("run", "tier", "since_s").agg(F.sum("memory_bytes").alias("memory_bytes"))
    groups = placed(looks, lines, "since_s").groupBy(*INTERVAL, "tier")
    return groups.agg(F.avg("memory_bytes").alias("memory_bytes"))


def growth_by_interval(counters: DataFrame, lines: Timelines) -> DataFrame:
    """How much each counter rose per second in each interval (INTERVAL, `source`, `counter`): `per_s`."""
    rising = counters.where(~F.col("counter").isin(*LEVELS))
    rose = placed(_differences(rising, ("source", "counter"), "value"), lines, "middle_s")
    groups = rose.groupBy(*INTERVAL, "source", "counter")
    return groups.agg((F.sum("difference") / F.sum("lasted_s")).alias("per_s"))


def of_log(counters: DataFrame) -> DataFrame:
    """What counts the bytes of PostgreSQL's log."""
    return counters.where((F.col("source") == WAL_BYTES[0]) & (F.col("counter") == WAL_BYTES[1]))


def levels_by_interval(counters: DataFrame, lines: Timelines) -> DataFrame:
    """The mean of what tells how much there is, in each interval (INTERVAL, `source`, `counter`): `level`."""
    there = counters.where(F.col("counter").isin(*LEVELS))
    groups = placed(there, lines, "since_s").groupBy(*INTERVAL, "source", "counter")
    return groups.agg(F.avg("value").alias("level"))


def totals(counters: DataFrame, lines: Timelines) -> DataFrame:
    """By how much each counter rose while the run counted: `run`, `source`, `counter`, `total`, `per_s`."""
    rising = counters.where(~F.col("counter").isin(*LEVELS))
    rose = counted(_differences(rising, ("source", "counter"), "value"), lines, "middle_s")
    groups = rose.groupBy("run", "source", "counter")
    total = F.sum("difference")
    return groups.agg(total.alias("total"), (total / F.sum("lasted_s")).alias("per_s"))


def checkpoints(counters: DataFrame) -> DataFrame:
    """When checkpoints began: `run`, `since_s` (of the first look that counts it), `checkpoints`."""
    known = F.concat_ws(".", "source", "counter").isin([".".join(name) for name in CHECKPOINTS])
    rose = _differences(counters.where(known), ("source", "counter"), "value").where(F.col("difference") > 0)
    groups = rose.groupBy("run", "since_s")
    return groups.agg(F.sum("difference").cast("long").alias("checkpoints"))


def waits_by_interval(waits: DataFrame, lines: Timelines) -> DataFrame:
    """How many active backends of clients waited for what, in each interval: INTERVAL, `event`, `backends`.

    A mean over the samples; those that wait for nothing are RUNNING.
    """
    of_interval = Window.partitionBy(*INTERVAL)
    samples = F.size(F.collect_set("since_s").over(of_interval))
    sampled = placed(waits, lines, "since_s").withColumn("samples", samples)
    mean = F.sum("backends") / F.first("samples")
    return _active(sampled).groupBy(*INTERVAL, "event").agg(mean.alias("backends"))


def waits_by_event(waits: DataFrame, lines: Timelines) -> DataFrame:
    """The same over all that counts: `run`, `event`, `backends`, and the `share` of an event in all."""
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
    """From one look to the next: `difference`, `lasted_s`, `middle_s`, and `since_s` of the later one.

    A counter that falls was set back, and begins anew.
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
