"""Latencies from HdrHistograms: merged where the rows are, never averaged, and only then read off.

The table `histograms` of a run has one for each second, operation and measure. `merged` makes one of all of a
group, in the workers of Spark; what comes to the driver are figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np
from hdrh.histogram import HdrHistogram
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from telesto.benchmarks.results.histograms import US_PER_S, encode, new_histogram
from telesto.benchmarks.run_data.timeline import INTERVAL, Timelines, placed

PERCENTILES: Final = {"p50_s": 0.5, "p90_s": 0.9, "p99_s": 0.99, "p99_9_s": 0.999}
FIGURES: Final = ("count", "mean_s", *PERCENTILES, "max_s")
"""What `merged` reads off a histogram, in seconds."""
SENT: Final = ("request", "put", "publish", "take")
"""The first of these that a run has is the operation whose latency is shown."""
HANDED_OVER: Final = ("take", "delivery", "get")
"""The first of these that a run has shows how old messages were when they were handed over."""
CLASSES_PER_DECADE: Final = 20
"""Classes of a distribution for each factor of ten."""

_MERGED: Final = (
    "count long, mean_s double, p50_s double, p90_s double, p99_s double, p99_9_s double, max_s double, "
    "encoded string"
)
_CLASSES: Final = "array<struct<from_s: double, to_s: double, count: long, longer: long>>"

Whole = np.ndarray[Any, np.dtype[np.int64]]


def merged(histograms: DataFrame, keys: Sequence[str]) -> DataFrame:
    """One histogram for each group, and its figures: `keys`, FIGURES (in seconds), `encoded`.

    Args:
        histograms: with `encoded` (as in a run's table, or as this function gave them) and the keys.
        keys: what makes a group; for a longer time, a column with the number of the interval.
    """
    groups = histograms.groupBy(*keys).agg(F.collect_list("encoded").alias("parts"))
    merge = F.udf(_merge, _MERGED, useArrow=False)
    # What Spark takes for determinate it may compute once for each column that is read off.
    one = groups.select(*keys, merge.asNondeterministic()("parts").alias("one"))
    return one.select(*keys, *(F.col(f"one.{name}").alias(name) for name in (*FIGURES, "encoded")))


def distribution(histograms: DataFrame, keys: Sequence[str]) -> DataFrame:
    """How many values are in which class: `keys`, `from_s`, `to_s`, `count`, and how many are `longer`.

    Classes are equally wide on a logarithmic scale, CLASSES_PER_DECADE to a factor of ten; empty ones are
    left out. Each group has to have one histogram, as `merged` gives them.
    """
    classes = F.udf(_classes, _CLASSES, useArrow=False)
    exploded = histograms.select(*keys, F.explode(classes("encoded")).alias("one"))
    return exploded.select(*keys, "one.from_s", "one.to_s", "one.count", "one.longer")


def _merge(parts: Sequence[str]) -> tuple[Any, ...]:
    histogram = new_histogram()
    for part in parts:
        histogram.decode_and_add(part.encode("ascii"))
    return (*_figures(histogram), encode(histogram))


def _figures(histogram: HdrHistogram) -> tuple[int | float | None, ...]:
    """FIGURES of a histogram, None where nothing was recorded.

    Those of the library take some milliseconds each, for it counts in Python; a run of hours has ten
    thousands of histograms.
    """
    lowest, highest = _values(histogram.counts_len, histogram.sub_bucket_half_count)
    counts = _counts(histogram)
    recorded = np.flatnonzero(counts)
    if not len(recorded):
        return (0, *(None for _ in FIGURES[1:]))
    numbers = np.cumsum(counts[recorded])
    total = int(numbers[-1])
    # A percentile is the value of which at least that share is no greater.
    ranks = [max(1, int(share * total + 0.5)) for share in PERCENTILES.values()]
    at = highest[recorded[np.searchsorted(numbers, ranks)]] / US_PER_S
    middle = (lowest[recorded] + highest[recorded] + 1) // 2
    mean = float(np.dot(middle, counts[recorded])) / total / US_PER_S
    return (total, mean, *(float(value) for value in at), float(highest[recorded[-1]]) / US_PER_S)


def _classes(encoded: str) -> list[tuple[float, float, int, int]]:
    histogram = new_histogram()
    histogram.decode_and_add(encoded.encode("ascii"))
    lowest, highest = _values(histogram.counts_len, histogram.sub_bucket_half_count)
    counts = _counts(histogram)
    recorded = np.flatnonzero(counts)
    middle = (lowest[recorded] + highest[recorded]) / 2 / US_PER_S
    steps = np.floor(np.log10(np.maximum(middle, 1 / US_PER_S)) * CLASSES_PER_DECADE).astype(np.int64)
    found, starts = np.unique(steps, return_index=True)
    of_class = np.add.reduceat(counts[recorded], starts) if len(found) else np.empty(0, np.int64)
    longer = int(of_class.sum()) - np.cumsum(of_class)
    return [
        (
            float(10 ** (step / CLASSES_PER_DECADE)),
            float(10 ** ((step + 1) / CLASSES_PER_DECADE)),
            int(count),
            int(rest),
        )
        for step, count, rest in zip(found, of_class, longer, strict=True)
    ]


def _counts(histogram: HdrHistogram) -> Whole:
    return np.frombuffer(histogram.counts, dtype=f"u{histogram.word_size}").astype(np.int64)


@cache
def _values(length: int, half: int) -> tuple[Whole, Whole]:
    """The least and the greatest value, in microseconds, that each place of a histogram counts.

    Its first `half` places count one value each, as do the next; with every further `half` places a place
    counts twice as many.
    """
    places = np.arange(length, dtype=np.int64)
    bucket = np.maximum(places // half - 1, 0)
    within = np.where(places < half, places, places % half + half)
    lowest: Whole = np.left_shift(within, bucket)
    highest: Whole = lowest + np.left_shift(np.ones_like(bucket), bucket) - 1
    return lowest, highest


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
