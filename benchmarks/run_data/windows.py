"""The part of each run that counts: warm-up and cool-down are cut off the same way from every table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.harness.settings import RunSettings
from telesto.benchmarks.run_data.runs import Runs

TO_THE_END = float("inf")


@dataclass(frozen=True, slots=True)
class Cut:
    """From when to when a run counts, in whole seconds since its load began; the end does not count.

    A second that is in the warm-up or the cool-down with a part of it is in it as a whole, for the tables
    have no parts of seconds.
    """

    begin_s: float
    end_s: float

    @classmethod
    def of(cls, settings: RunSettings) -> Cut:
        """What the settings of a run say; a backlog that is drained counts from first to last."""
        if settings.workload == "drain":
            return cls(0.0, TO_THE_END)
        return cls(math.ceil(settings.warm_up_s), math.floor(settings.warm_up_s + settings.duration_s))


def cuts_of(runs: Runs) -> dict[str, Cut]:
    """The part of each whole run that counts, by the run's name."""
    return {run.name: Cut.of(run.settings) for run in runs.whole}


def inside(frame: DataFrame, cuts: Mapping[str, Cut], moment: str) -> DataFrame:
    """The rows that count.

    Args:
        frame: a table of runs, with the column `run`.
        cuts: the part of each run that counts; runs that are not named are left out.
        moment: the column that says when, in seconds since the load began.
    """
    rows = [(name, float(cut.begin_s), float(cut.end_s)) for name, cut in cuts.items()]
    bounds = frame.sparkSession.createDataFrame(rows, "run string, begin_s double, end_s double")
    kept = (F.col(moment) >= F.col("begin_s")) & (F.col(moment) < F.col("end_s"))
    return frame.join(F.broadcast(bounds), "run").where(kept).select(*frame.columns)
