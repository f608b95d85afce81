"""Histograms are exact to three digits, merge without loss, and come back from their encoding."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from telesto.benchmarks.results.histograms import (
    Latencies,
    decode,
    encode,
    histogram_of,
    merge,
    new_histogram,
)


def spread(seed: int, count: int) -> list[float]:
    random = Random(seed)
    return [random.lognormvariate(-6, 1.5) for _ in range(count)]


def percentiles(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [1000 * ordered[int(len(ordered) * part)] for part in (0.5, 0.9, 0.99, 0.999)]


def told(figures: Latencies) -> list[float]:
    return [figures.p50_ms, figures.p90_ms, figures.p99_ms, figures.p999_ms]


def test_figures_are_those_of_the_values() -> None:
    values = spread(1, 20_000)
    figures = Latencies.of(histogram_of(np.array(values, np.float32)))
    assert figures.count == 20_000
    assert told(figures) == pytest.approx(percentiles(values), rel=0.01)
    assert figures.max_ms == pytest.approx(1000 * max(values), rel=0.001)
    assert figures.mean_ms == pytest.approx(1000 * sum(values) / len(values), rel=0.01)


def test_merged_histograms_are_those_of_all_values() -> None:
    """The mean of two 99th percentiles is nothing; that of all values is what counts."""
    quick, slow = [0.001] * 9_900, [1.0] * 300
    parts = [histogram_of(np.array(values, np.float32)) for values in (quick, slow)]
    merged = Latencies.of(merge(parts))
    assert merged.count == 10_200
    assert merged.p50_ms == pytest.approx(1, rel=0.001)
    assert merged.p99_ms == pytest.approx(1000, rel=0.001)
    assert merge(parts).encode() == histogram_of(np.array(quick + slow, np.float32)).encode()


def test_an_encoded_histogram_comes_back() -> None:
    histogram = histogram_of(np.array(spread(2, 1_000), np.float32))
    again = decode(encode(histogram))
    assert Latencies.of(again) == Latencies.of(histogram)
    assert encode(again) == encode(histogram)


def test_what_is_out_of_range_counts_at_its_end() -> None:
    figures = Latencies.of(histogram_of(np.array([0.0, 1e-9, 7200.0], np.float32)))
    assert figures.count == 3
    assert figures.max_ms == pytest.approx(3_600_000, rel=0.001)
    assert figures.p50_ms == 0.001


def test_an_empty_histogram_has_figures_of_zero() -> None:
    assert Latencies.of(new_histogram()) == Latencies(0, 0, 0, 0, 0, 0, 0)
