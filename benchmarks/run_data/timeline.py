"""The measured part of each run, and its division into intervals.

Warm-up and cool-down are cut off in the same way from every table. Fine intervals are for plots, coarse ones
for tests of a trend. Every phase (warm-up, measured, cool-down) begins a new interval, so the same cut
applies to every table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from telesto.benchmarks.harness.settings import RunSettings
from telesto.benchmarks.run_data.runs import Runs
from telesto.benchmarks.spark.errors import RunsError

TO_THE_END = float("inf")


@dataclass(frozen=True, slots=True)
class Cut:
    """The measured part of a run, in whole seconds since its load began, without the end.

    A second that is partly warm-up or cool-down belongs to it, because the tables have whole seconds.
    """

    begin_s: float
    end_s: float

    @classmethod
    def of(cls, settings: RunSettings) -> Cut:
        """The measured part by the settings of a run; of a drain everything."""
        if settings.workload == "drain":
            return cls(0.0, TO_THE_END)
        return cls(math.ceil(settings.warm_up_s), math.floor(settings.warm_up_s + settings.duration_s))


def cuts_of(runs: Runs) -> dict[str, Cut]:
    """The measured part of each complete run, by the run's name."""
    return {run.name: Cut.of(run.settings) for run in runs.whole}


def inside(frame: DataFrame, cuts: Mapping[str, Cut], moment: str) -> DataFrame:
    """The measured rows of a table, of the runs in `cuts`; `moment` is its column of seconds since the load
    began."""
    rows = [(name, float(cut.begin_s), float(cut.end_s)) for name, cut in cuts.items()]
    bounds = frame.sparkSession.createDataFrame(rows, "run string, begin_s double, end_s double")
    kept = (F.col(moment) >= F.col("begin_s")) & (F.col(moment) < F.col("end_s"))
    return frame.join(F.broadcast(bounds), "run").where(kept).select(*frame.columns)


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
    def of(cls, cut: Cut, total_s: int) -> Timeline:
        """Choose the intervals of a run from its measured part."""
        begin, end = int(cut.begin_s), int(min(cut.end_s, total_s))
        return cls(begin, end, total_s, step_for(total_s, FINE_MAX), step_for(end - begin, COARSE_MAX))

    @property
    def counted_s(self) -> int:
        """The length of the measured part."""
        return self.end_s - self.begin_s


Timelines = Mapping[str, Timeline]


def step_for(span_s: int, points_max: int) -> int:
    """The shortest of STEPS_S of which `points_max` intervals cover a span."""
    return next((step for step in STEPS_S if span_s <= step * points_max), STEPS_S[-1])


def timelines(runs: Runs, cuts: Mapping[str, Cut], throughput: DataFrame) -> dict[str, Timeline]:
    """The timelines of some runs; a drain ends with its last message, found in the table of throughput.

    Raises RunsError if a run has no whole measured second.
    """
    totals = {run.name: int(run.settings.total_s) for run in runs.whole if run.name in cuts}
    if open_ones := [name for name, cut in cuts.items() if cut.end_s == TO_THE_END]:
        of_drains = throughput.where(F.col("run").isin(open_ones)).groupBy("run")
        totals |= {
            row["run"]: row["last"] + 1 for row in of_drains.agg(F.max("second").alias("last")).collect()
        }
    found = {name: Timeline.of(cut, totals[name]) for name, cut in cuts.items()}
    for name, timeline in found.items():
        if timeline.counted_s < 1:
            raise RunsError(f"no whole second of run {name} counts; let it last longer (duration_s)")
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
