"""Latencies from HdrHistograms: merged where the rows are, never averaged.

The table `histograms` of a run has one histogram for each second, operation and measure. `merged` merges
those of a group in the workers of Spark; the driver receives figures only.
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
"""The figures of a merged histogram, in seconds."""
SENT: Final = ("request", "put", "publish", "take")
"""The latency of the first of these operations that a run has is shown."""
HANDED_OVER: Final = ("take", "delivery", "get")
"""The age of messages at the first of these operations that a run has is shown."""
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

    `histograms` has `encoded` (as in a run's table, or from this function) and the keys of the groups.
    """
    groups = histograms.groupBy(*keys).agg(F.collect_list("encoded").alias("parts"))
    merge = F.udf(_merge, _MERGED, useArrow=False)
    # Spark may compute a deterministic function once for each column that is selected.
    one = groups.select(*keys, merge.asNondeterministic()("parts").alias("one"))
    return one.select(*keys, *(F.col(f"one.{name}").alias(name) for name in (*FIGURES, "encoded")))


def distribution(histograms: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The number of values in each class: `keys`, `from_s`, `to_s`, `count`, and how many are `longer`.

    Classes are equally wide on a logarithmic scale, CLASSES_PER_DECADE to a factor of ten; empty ones are
    left out. Each group must have one histogram, from `merged`.
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
    """FIGURES of a histogram, None if nothing was recorded.

    The library's own take some milliseconds each, because it counts in Python; a run of hours has tens of
    thousands of histograms.
    """
    lowest, highest = _values(histogram.counts_len, histogram.sub_bucket_half_count)
    counts = _counts(histogram)
    recorded = np.flatnonzero(counts)
    if not len(recorded):
        return (0, *(None for _ in FIGURES[1:]))
    numbers = np.cumsum(counts[recorded])
    total = int(numbers[-1])
    # A percentile is the least value that at least this share of the values does not exceed.
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
    """The smallest and the largest value, in microseconds, of each slot of a histogram.

    Its first `half` slots count one value each, as do the next; with every further `half` slots a slot counts
    twice as many.
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
    """Latencies in each interval (INTERVAL, `measure`), as `merged` gives them.

    `shown` names the operation of a run for each measure, by run and measure.
    """
    wanted = F.lit(False)
    for (run, measure), operation in shown.items():
        one = (F.col("run") == run) & (F.col("measure") == measure) & (F.col("operation") == operation)
        wanted = wanted | one
    return merged(placed(histograms.where(wanted), lines, "second"), [*INTERVAL, "measure"])
