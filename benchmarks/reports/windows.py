"""The part of each run that counts: warm-up and cool-down are cut off the same way from every table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.harness.settings import RunSettings
from telesto.benchmarks.reports.runs import Runs

TO_THE_END = float("inf")


@dataclass(frozen=True, slots=True)
class Cut:
    """From when to when a run counts, in seconds since its load began; the end does not count."""

    begin_s: float
    end_s: float

    @classmethod
    def of(cls, settings: RunSettings) -> Cut:
        """What the settings of a run say; a backlog that is drained counts from first to last."""
        if settings.workload == "drain":
            return cls(0.0, TO_THE_END)
        return cls(settings.warm_up_s, settings.warm_up_s + settings.duration_s)


def cuts_of(runs: Runs) -> dict[str, Cut]:
    """The part of each whole run that counts, by the run's name."""
    return {run.name: Cut.of(run.settings) for run in runs.whole}


def inside(frame: DataFrame, cuts: Mapping[str, Cut], moment: str) -> DataFrame:
    """The rows that count.

    Args:
        frame: a table of runs, with the column `run`.
        cuts: the part of each run that counts; runs that are not named are left out.
        moment: the column that says when, in seconds since the load began: `second` (of which the whole has
            to be inside) or `since_s`.
    """
    rows = [(name, float(cut.begin_s), float(cut.end_s)) for name, cut in cuts.items()]
    bounds = frame.sparkSession.createDataFrame(rows, "run string, begin_s double, end_s double")
    width = 1.0 if moment == "second" else 0.0
    kept = (F.col(moment) >= F.col("begin_s")) & (F.col(moment) + width <= F.col("end_s"))
    if not width:
        kept &= F.col(moment) < F.col("end_s")
    return frame.join(F.broadcast(bounds), "run").where(kept).select(*frame.columns)
