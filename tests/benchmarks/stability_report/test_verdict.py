"""What is said of a run, and why."""

import pytest

from telesto.benchmarks.analysis.repetitions import mean_of
from telesto.benchmarks.analysis.trend import Trend
from telesto.benchmarks.pages.section import Kind
from telesto.benchmarks.stability_report.verdict import (
    Assessment,
    Drift,
    Limits,
    Metric,
    Outcome,
    Stalled,
    drift_of,
    verdict_of,
)

RATE = Metric("rate", "messages per second", Kind.RATIO, decisive=True)
BACKLOG = Metric("backlog", "the backlog", Kind.COUNT, decisive=True, of_messages=True, strictness=0.1)
SHOWN = Metric("dead", "the dead rows", Kind.COUNT)
COUNTED_S = 100
QUIET = Stalled(0, 0, 0, COUNTED_S)


def trend(low: float, slope: float, high: float, p: float, median: float = 1000.0) -> Trend:
    """Of a series that changes by so much of its median over the run."""
    scale = median / COUNTED_S
    return Trend(60, median, slope * scale, low * scale, high * scale, p, 0.0)


def assess(found: Trend, metric: Metric = RATE, messages: float = 100_000.0) -> Drift:
    return drift_of(metric, found, COUNTED_S, messages, Limits().tolerance)


STEADY = assess(trend(-0.02, 0.01, 0.04, 0.4))
DRIFTING = assess(trend(-0.5, -0.3, -0.05, 0.01))
UNKNOWN = assess(trend(-0.2, 0.01, 0.2, 0.8))


class TestSeries:
    @pytest.mark.parametrize(
        ("low", "slope", "high", "p", "assessment"),
        [
            (-0.02, 0.01, 0.04, 0.4, Assessment.STEADY),
            (0.01, 0.02, 0.03, 0.001, Assessment.STEADY),
            (0.05, 0.2, 0.3, 0.01, Assessment.DRIFTS),
            (-0.3, -0.2, -0.05, 0.01, Assessment.DRIFTS),
            (-0.05, 0.2, 0.4, 0.2, Assessment.UNKNOWN),
            (0.02, 0.08, 0.14, 0.01, Assessment.UNKNOWN),
            (-0.2, 0.0, 0.2, 0.9, Assessment.UNKNOWN),
        ],
    )
    def test_a_change_is_assessed_with_its_interval(
        self, low: float, slope: float, high: float, p: float, assessment: Assessment
    ) -> None:
        drift = assess(trend(low, slope, high, p))
        assert drift.assessment is assessment
        assert (drift.low, drift.change, drift.high) == pytest.approx((low, slope, high))

    def test_the_backlog_is_a_share_of_all_messages_and_assessed_more_strictly(self) -> None:
        """From 0 to 200 messages: much for the backlog, little for 100,000 messages."""
        found = Trend(60, 0.0, 2.0, 1.5, 2.5, 0.001, 0.0)
        drift = assess(found, BACKLOG)
        assert drift.change == pytest.approx(0.002)
        assert drift.assessment is Assessment.STEADY
        assert assess(found, BACKLOG, messages=10_000).assessment is Assessment.DRIFTS

    @pytest.mark.parametrize("found", [Trend(5, 1000.0), Trend(60, 0.0, 1.0, 0.5, 1.5, 0.01, 0.0)])
    def test_without_a_test_or_a_reference_nothing_is_known(self, found: Trend) -> None:
        drift = assess(found)
        assert (drift.change, drift.assessment) == (None, Assessment.UNKNOWN)

    def test_slopes_are_told_by_the_hour(self) -> None:
        assert assess(trend(-0.02, 0.01, 0.04, 0.4)).per_hour == "+360 (−720 to +1,440)"
        assert assess(Trend(3, 1.0)).per_hour == "–"


class TestRuns:
    def test_stable(self) -> None:
        verdict = verdict_of([STEADY], QUIET, Limits())
        assert verdict.outcome is Outcome.STABLE
        assert "messages per second changed by no more than 10% over the run" in verdict.sentence()
        assert "no second had less than 50%" in verdict.sentence()

    def test_one_series_that_drifts_is_enough(self) -> None:
        verdict = verdict_of([STEADY, DRIFTING, UNKNOWN], QUIET, Limits())
        assert verdict.outcome is Outcome.NOT_STABLE
        assert verdict.sentence() == (
            "Not stable, because messages per second fell by 30.0% over the run "
            "(between -50.0% and -5.0%, p = 0.01)."
        )

    def test_what_may_have_drifted_is_no_verdict(self) -> None:
        verdict = verdict_of([STEADY, UNKNOWN], QUIET, Limits())
        assert verdict.outcome is Outcome.UNDECIDED
        assert "may have changed by -20.0% to +20.0%" in verdict.sentence()

    def test_too_short_a_run_is_no_verdict(self) -> None:
        verdict = verdict_of([assess(Trend(5, 1000.0))], QUIET, Limits())
        assert verdict.outcome is Outcome.UNDECIDED
        assert "has 5 intervals, but a test needs 10" in verdict.sentence()

    def test_what_is_only_shown_has_no_say(self) -> None:
        shown = drift_of(SHOWN, trend(0.5, 0.7, 0.9, 0.001), COUNTED_S, 1.0, 0.1)
        assert verdict_of([STEADY, shown], QUIET, Limits()).outcome is Outcome.STABLE
        assert verdict_of([shown], QUIET, Limits()).outcome is Outcome.UNDECIDED

    @pytest.mark.parametrize(
        ("seconds", "longest", "counted", "outcome"),
        [
            (2, 1, 60, Outcome.STABLE),
            (3, 1, 60, Outcome.NOT_STABLE),
            (10, 5, 1000, Outcome.STABLE),
            (11, 5, 1000, Outcome.NOT_STABLE),
            (6, 6, 10_000, Outcome.NOT_STABLE),
        ],
    )
    def test_stalls_count_when_they_are_many_or_long(
        self, seconds: int, longest: int, counted: int, outcome: Outcome
    ) -> None:
        verdict = verdict_of([STEADY], Stalled(2, seconds, longest, counted), Limits())
        assert verdict.outcome is outcome
        assert f"{seconds:,} of {counted:,} seconds" in verdict.sentence()


class TestRepetitions:
    def test_one_has_no_interval(self) -> None:
        mean = mean_of([5.0])
        assert (mean.count, mean.mean, mean.low, mean.high) == (1, 5.0, None, None)

    def test_several_have_student_s(self) -> None:
        """Three values with a deviation of 1: the quantile is 4.303 for two degrees of freedom."""
        mean = mean_of([9.0, 10.0, 11.0])
        assert mean.mean == 10.0
        assert mean.low == pytest.approx(10 - 4.30265 / 3**0.5, rel=1e-5)
        assert mean.high == pytest.approx(10 + 4.30265 / 3**0.5, rel=1e-5)
