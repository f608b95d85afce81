"""The test of a trend finds those that there are, and seldom others, also where neighbours are alike."""

import numpy as np
import pytest
from scipy import stats

from telesto.benchmarks.analysis.trend import POINTS_MIN, Trend, trend_of
from telesto.benchmarks.stability_report.verdict import trends_of_run

POINTS = 60


def noise(seed: int, correlation: float = 0.0, points: int = POINTS) -> np.ndarray:
    """A series around 0 whose neighbours correlate."""
    random = np.random.default_rng(seed)
    values = random.normal(size=points + 50)
    for at in range(1, len(values)):
        values[at] += correlation * values[at - 1]
    return values[50:]


def of(values: np.ndarray) -> Trend:
    return trend_of([float(at) for at in range(len(values))], values.tolist())


def test_a_line_is_found_as_it_is() -> None:
    found = trend_of([10.0 * at for at in range(20)], [5.0 + 0.3 * at for at in range(20)])
    assert found.slope == pytest.approx(0.03)
    assert (found.slope_low, found.slope_high) == (pytest.approx(0.03), pytest.approx(0.03))
    assert found.p is not None
    assert found.p < 1e-6
    assert found.median == pytest.approx(5.0 + 0.3 * 9.5)


def test_it_is_the_test_of_the_library_where_neighbours_are_not_alike() -> None:
    """Kendall's tau against the time, with the same normal approximation but for the step of the score."""
    values = noise(4)
    found = of(values)
    assert found.correlation == 0.0
    assert found.p == pytest.approx(
        stats.kendalltau(range(POINTS), values, method="asymptotic").pvalue, abs=0.01
    )
    slope, _, low, high = stats.theilslopes(values, range(POINTS), 0.95)
    assert found.slope == pytest.approx(slope)
    assert (found.slope_low, found.slope_high) == (
        pytest.approx(low, abs=1e-3),
        pytest.approx(high, abs=1e-3),
    )


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6, 0.8])
def test_without_a_trend_few_are_found(correlation: float) -> None:
    """At most one in seven, of which a twentieth would be right; the plain test finds up to every second."""
    found = [of(noise(seed, correlation)) for seed in range(200)]
    assert sum(trend.p < 0.05 for trend in found) <= 200 / 7
    inside = sum(trend.slope_low <= 0 <= trend.slope_high for trend in found)
    assert inside >= 200 * 6 / 7


@pytest.mark.parametrize("correlation", [0.0, 0.5])
def test_a_trend_is_found_and_its_interval_holds_it(correlation: float) -> None:
    line = 0.1 * np.arange(POINTS)
    found = [of(line + noise(seed, correlation)) for seed in range(100)]
    assert sum(trend.p < 0.05 for trend in found) >= 95
    assert sum(trend.slope_low <= 0.1 <= trend.slope_high for trend in found) >= 85


def test_a_trend_that_bends_is_one_too() -> None:
    line = np.linspace(0, 1, POINTS)
    for curve in (line**2, np.sqrt(line), np.exp(line)):
        assert of(curve + 0.05 * noise(2)).p < 0.01


def test_one_odd_value_decides_nothing() -> None:
    values = np.full(POINTS, 7.0) + 0.01 * noise(1)
    values[-1] = 1e6
    found = of(values)
    assert abs(found.slope * POINTS) < 0.1


def test_a_series_that_stays_the_same_has_no_trend() -> None:
    found = of(np.full(POINTS, 3.0))
    assert (found.slope, found.slope_low, found.slope_high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_too_few_points_have_no_test() -> None:
    found = of(np.arange(POINTS_MIN - 1.0))
    assert found == Trend(POINTS_MIN - 1, 4.0)
    assert trend_of([], []) == Trend(0, None)


def test_the_fewest_points_have_one() -> None:
    assert of(np.arange(float(POINTS_MIN))).p < 0.01


class TestSeries:
    """Which series of a run are tested."""

    def rows(self, count: int, **values: object) -> list[dict[str, object]]:
        return [{"at_s": 10 * at, "width_s": 10, **values} for at in range(count)]

    def test_each_is_tested_by_itself(self) -> None:
        rising = [row | {"rate": row["at_s"]} for row in self.rows(12)]
        memory = [
            *self.rows(12, tier="client", memory_bytes=5),
            *self.rows(12, tier="middleware", memory_bytes=7),
        ]
        latency = [*self.rows(12, measure="latency", p50_s=0.1, p99_s=0.2)]
        found = trends_of_run(rising, latency, [], [], memory, [], [])
        assert list(found) == [
            "messages_per_s",
            "latency_p50_s",
            "latency_p99_s",
            "memory_middleware",
            "memory_client",
        ]
        assert found["messages_per_s"].slope == pytest.approx(1.0)
        assert found["memory_client"].median == 5.0
        assert found["memory_middleware"].median == 7.0

    def test_a_last_interval_that_is_cut_short_is_left_out(self) -> None:
        rows = [*self.rows(10, rate=1.0), {"at_s": 100, "width_s": 4, "rate": 9.0}]
        assert trends_of_run(rows, [], [], [], [], [], [])["messages_per_s"].points == 10
        rows[-1]["width_s"] = 5
        assert trends_of_run(rows, [], [], [], [], [], [])["messages_per_s"].points == 11

    def test_what_was_not_measured_is_left_out(self) -> None:
        rows = [*self.rows(3, bytes=5.0), *self.rows(1, bytes=None)]
        found = trends_of_run([], [], [], [], [], rows, [])
        assert list(found) == ["wal_bytes_per_message"]
        assert found["wal_bytes_per_message"].points == 3
