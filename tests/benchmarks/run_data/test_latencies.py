"""Histograms are merged, not averaged, and read off as their library reads them."""

from random import Random

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram
from pyspark.sql import Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from telesto.benchmarks.results.histograms import Latencies, encode, histogram_of, new_histogram
from telesto.benchmarks.run_data.latencies import FIGURES, distribution, merged

HISTOGRAM = "run string, second int, encoded string"


def encoded(*seconds: float) -> str:
    return encode(histogram_of(np.array(seconds, np.float32)))


def chance(seed: int, count: int) -> list[float]:
    random = Random(seed)
    return [random.lognormvariate(-6, 2) for _ in range(count)]


@pytest.mark.parametrize("count", [1, 2, 3, 10, 999, 1001])
def test_the_figures_are_those_of_the_library(spark: SparkSession, count: int) -> None:
    values = chance(count, count)
    frame = spark.createDataFrame([("a", 1, encoded(*values))], HISTOGRAM)
    (row,) = merged(frame, ["run"]).collect()
    told = Latencies.of(histogram_of(np.array(values, np.float32)))
    expected = (told.count, told.mean_ms, told.p50_ms, told.p90_ms, told.p99_ms, told.p999_ms, told.max_ms)
    found = (row["count"], *(1000 * row[name] for name in FIGURES[1:]))
    assert found == pytest.approx(expected, rel=1e-12)


def test_all_values_of_a_group_count_alike(spark: SparkSession) -> None:
    """The mean of 1 ms and 1 s is of no percentile: 9,900 were quick and 300 slow."""
    rows = [("a", 1, encoded(*[0.001] * 9_900)), ("a", 2, encoded(*[1.0] * 300)), ("b", 1, encoded(0.5))]
    found = {row["run"]: row for row in merged(spark.createDataFrame(rows, HISTOGRAM), ["run"]).collect()}
    assert found["a"]["count"] == 10_200
    assert found["a"]["p50_s"] == pytest.approx(0.001, rel=1e-3)
    assert found["a"]["p90_s"] == pytest.approx(0.001, rel=1e-3)
    assert found["a"]["p99_s"] == pytest.approx(1.0, rel=1e-3)
    assert found["a"]["mean_s"] == pytest.approx((9_900 * 0.001 + 300) / 10_200, rel=1e-3)
    assert found["b"]["max_s"] == pytest.approx(0.5, rel=1e-3)


def test_merged_ones_can_be_merged_again(spark: SparkSession) -> None:
    rows = [("a", second, encoded(*chance(second, 50))) for second in range(6)]
    frame = spark.createDataFrame(rows, HISTOGRAM)
    minutes = merged(frame, ["run", "second"])
    assertDataFrameEqual(merged(minutes, ["run"]), merged(frame, ["run"]))
    (row,) = merged(frame, ["run"]).collect()
    assert HdrHistogram.decode(row["encoded"]).get_total_count() == 300


def test_an_empty_histogram_has_no_figures(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, encode(new_histogram()))], HISTOGRAM)
    (row,) = merged(frame, ["run"]).collect()
    assert [row[name] for name in FIGURES] == [0, *[None] * 6]
    assert distribution(merged(frame, ["run"]), ["run"]).collect() == []


def test_nothing_gives_nothing(spark: SparkSession) -> None:
    assert merged(spark.createDataFrame([], HISTOGRAM), ["run"]).collect() == []


def test_a_distribution_has_every_value_in_one_class(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, encoded(*[0.0105] * 5, *[0.3] * 2, 20.0))], HISTOGRAM)
    found = distribution(merged(frame, ["run"]), ["run"])
    step = 10 ** (1 / 20)
    expected = [
        Row(run="a", from_s=0.01, to_s=0.01 * step, count=5, longer=3),
        Row(run="a", from_s=10 ** (-11 / 20), to_s=10 ** (-10 / 20), count=2, longer=1),
        Row(run="a", from_s=10 * step**6, to_s=10 * step**7, count=1, longer=0),
    ]
    assertDataFrameEqual(found, expected, rtol=1e-9)


def test_what_is_beyond_all_classes_is_in_the_first_and_the_last(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", 1, encoded(0.0, 1e-6, 7200.0))], HISTOGRAM)
    rows = distribution(merged(frame, ["run"]), ["run"]).orderBy("from_s").collect()
    assert [row["count"] for row in rows] == [2, 1]
    assert rows[0]["from_s"] == pytest.approx(1e-6)
    assert rows[1]["from_s"] <= 3600 <= rows[1]["to_s"]
