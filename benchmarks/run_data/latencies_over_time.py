"""Latencies over the time of a run."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.run_data.latencies import merged
from telesto.benchmarks.run_data.timeline import INTERVAL, Timelines, placed


def latencies_by_interval(
    histograms: DataFrame, lines: Timelines, shown: Mapping[tuple[str, str], str]
) -> DataFrame:
    """Latencies in each interval (INTERVAL, `measure`), as `latencies.merged` gives them.

    `shown` says of which operation of a run each measure is told, by run and measure.
    """
    wanted = F.lit(False)
    for (run, measure), operation in shown.items():
        one = (F.col("run") == run) & (F.col("measure") == measure) & (F.col("operation") == operation)
        wanted = wanted | one
    return merged(placed(histograms.where(wanted), lines, "second"), [*INTERVAL, "measure"])
