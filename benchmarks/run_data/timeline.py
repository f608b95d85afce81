"""The measured part of each run, and its division into intervals.

Warm-up and cool-down are cut off in the same way from every table. Fine intervals are for plots, coarse ones
for tests of a trend. Every phase (warm-up, measured, cool-down) begins a new interval, so the same cut
applies to every table.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from telesto.benchmarks.run_data.runs import Runs
from telesto.benchmarks.spark.errors import RunsError

WARM_UP: Final = "warm-up"
COUNTED: Final = "counted"
COOL_DOWN: Final = "cool-down"

STEPS_S: Final = (1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 14_400, 43_200, 86_400)
FINE_MAX: Final = 900
"""The number of fine intervals of a run, at most: seconds, up to a quarter of an hour."""
COARSE_MAX: Final = 60
"""The number of coarse intervals: enough to test for a trend, with many messages in each."""

FINE, COARSE = "fine", "coarse"


@dataclass(frozen=True, slots=True)
class Timeline:
    """The beginning, the end and the total length of a run, in whole seconds since its load began.

    `begin_s` and `end_s` bound the measured part; `fine_s` and `coarse_s` are the lengths of the intervals.
    """

    begin_s: int
    end_s: int
    total_s: int
    fine_s: int
    coarse_s: int

    @classmethod
    def of(cls, begin_s: int, end_s: int, total_s: int) -> Timeline:
        """Choose the intervals of a run from its measured part."""
        fine, coarse = step_for(total_s, FINE_MAX), step_for(end_s - begin_s, COARSE_MAX)
        return cls(begin_s, end_s, total_s, fine, coarse)

    @property
    def counted_s(self) -> int:
        """The length of the measured part."""
        return self.end_s - self.begin_s


Timelines = Mapping[str, Timeline]


def step_for(span_s: int, points_max: int) -> int:
    """The shortest of STEPS_S of which `points_max` intervals cover a span."""
    return next((step for step in STEPS_S if span_s <= step * points_max), STEPS_S[-1])


def timelines(runs: Runs, throughput: DataFrame, names: Collection[str] | None = None) -> dict[str, Timeline]:
    """The timelines of the named complete runs, by default of all.

    A second that is partly warm-up or cool-down belongs to it, because the tables have whole seconds. A drain
    is measured from its beginning to its last message, which is found in the table of throughput. Raises
    RunsError if a run has no whole measured second.
    """
    chosen = [run for run in runs.complete if names is None or run.name in names]
    drains = [run.name for run in chosen if run.settings.workload == "drain"]
    lasts: dict[str, int] = {}
    if drains:
        seconds = (
            throughput.where(F.col("run").isin(drains)).groupBy("run").agg(F.max("second").alias("last"))
        )
        lasts = {row["run"]: row["last"] for row in seconds.collect()}
    found = {}
    for run in chosen:
        settings = run.settings
        begin, end = math.ceil(settings.warm_up_s), math.floor(settings.warm_up_s + settings.duration_s)
        total = int(settings.total_s)
        if run.name in drains:
            begin, end = 0, lasts.get(run.name, total - 1) + 1
            total = end
        if end <= begin:
            raise RunsError(f"run {run.name} is too short: no whole second is measured (duration_s)")
        found[run.name] = Timeline.of(begin, end, total)
    return found


def every_second(spark: SparkSession, lines: Timelines) -> DataFrame:
    """All seconds of the runs, `run` and `second`, including empty ones."""
    rows = [(name, line.total_s) for name, line in lines.items()]
    frame = spark.createDataFrame(rows, "run string, total_s int")
    return frame.select("run", F.explode(F.sequence(F.lit(0), F.col("total_s") - 1)).alias("second"))


def counted(frame: DataFrame, lines: Timelines, moment: str) -> DataFrame:
    """The measured rows."""
    line, time = _lines(lines), F.col(moment)
    return frame.where((time >= line["begin_s"]) & (time < line["end_s"]))


def placed(frame: DataFrame, lines: Timelines, moment: str) -> DataFrame:
    """Assign each row to its fine and its coarse interval: one row for each of the two.

    `moment` is the column of seconds since the load began. Rows of other runs are dropped, and those after
    the end of a run. Adds the columns of INTERVAL: `phase`, `step` (FINE or COARSE), `at_s` (the beginning of
    the interval) and `width_s`.
    """
    line, time = _lines(lines), F.col(moment)
    phases = (
        F.when(time < line["begin_s"], _phase(WARM_UP, F.lit(0), line["begin_s"], line))
        .when(time < line["end_s"], _phase(COUNTED, line["begin_s"], line["end_s"], line))
        .when(time < line["total_s"], _phase(COOL_DOWN, line["end_s"], line["total_s"], line))
    )
    rows = frame.where(time >= 0).withColumn("one", F.explode(phases))
    at = F.col("one.first_s") + F.floor((time - F.col("one.first_s")) / F.col("one.step_s")) * F.col(
        "one.step_s"
    )
    width = F.least(F.col("at_s") + F.col("one.step_s"), F.col("one.last_s")) - F.col("at_s")
    # In two steps: the width depends on the beginning.
    return (
        rows.withColumn("at_s", at.cast("int"))
        .withColumn("width_s", width.cast("int"))
        .select(*frame.columns, "one.phase", "one.step", "at_s", "width_s")
    )


INTERVAL: Final[Sequence[str]] = ("run", "phase", "step", "at_s", "width_s")
"""The columns that identify an interval."""


def _phase(name: str, first: Column, last: Column, line: Column) -> Column:
    return F.array(
        *(
            F.struct(
                F.lit(name).alias("phase"),
                F.lit(step).alias("step"),
                first.alias("first_s"),
                last.alias("last_s"),
                line[length].alias("step_s"),
            )
            for step, length in ((FINE, "fine_s"), (COARSE, "coarse_s"))
        )
    )


def _lines(lines: Timelines) -> Column:
    """The timeline of a row's run, NULL for other runs: there are few, so no join is needed."""
    known = F.lit(None)
    for name, line in lines.items():
        told = F.struct(
            *(
                F.lit(getattr(line, field)).alias(field)
                for field in ("begin_s", "end_s", "total_s", "fine_s", "coarse_s")
            )
        )
        known = F.when(F.col("run") == name, told).otherwise(known)
    return known
