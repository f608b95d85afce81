"""Histograms are exact to three digits, merge without loss, and come back from their encoding."""

from random import Random

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from telesto.benchmarks.results.histograms import Latencies, encode, histogram_of, new_histogram


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


def test_an_encoded_histogram_comes_back() -> None:
    histogram = histogram_of(np.array(spread(2, 1_000), np.float32))
    again = HdrHistogram.decode(encode(histogram))
    assert Latencies.of(again) == Latencies.of(histogram)
    assert encode(again) == encode(histogram)


def test_what_is_out_of_range_counts_at_its_end() -> None:
    figures = Latencies.of(histogram_of(np.array([0.0, 1e-9, 7200.0], np.float32)))
    assert figures.count == 3
    assert figures.max_ms == pytest.approx(3_600_000, rel=0.001)
    assert figures.p50_ms == 0.001


def test_an_empty_histogram_has_figures_of_zero() -> None:
    assert Latencies.of(new_histogram()) == Latencies(0, 0, 0, 0, 0, 0, 0)
