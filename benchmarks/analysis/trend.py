"""Whether a series rises or falls: the test of Mann and Kendall, the slope of Theil and Sen, its interval.

Both use ranks, so a single outlier decides nothing, and they assume no distribution. Neighbours in a series
of measurements are similar, and the plain test then finds trends where there are none. So the variance is
that of the effective number of independent values, computed from the autocorrelation.
docs/how-to/reports.md has the formulas and their sources.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import stats

POINTS_MIN: Final = 10
"""A shorter series has no test: the normal approximation begins to hold here (Kendall)."""
CONFIDENCE: Final = 0.95
CORRELATION_MAX: Final = 0.98

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Trend:
    """The trend of a series.

    Attributes:
        slope: Theil and Sen's, in units of the value per second; None for too few points.
        slope_low, slope_high: its interval of CONFIDENCE.
        p: the probability of so clear a trend if there is none.
        correlation: of neighbours, after a parabola is removed; 0 if it is negative.
    """

    points: int
    median: float | None
    slope: float | None = None
    slope_low: float | None = None
    slope_high: float | None = None
    p: float | None = None
    correlation: float | None = None


def trend_of(moments: Sequence[float], values: Sequence[float]) -> Trend:
    """Test one series; its moments rise."""
    count = len(values)
    if not count:
        return Trend(0, None)
    x, y = np.asarray(moments, np.float64), np.asarray(values, np.float64)
    median = float(np.median(y))
    if count < POINTS_MIN:
        return Trend(count, median)
    first, second = np.triu_indices(count, 1)
    slopes = np.sort((y[second] - y[first]) / (x[second] - x[first]))
    slope = float(np.median(slopes))
    correlation = _correlation(x, y)
    variance = _variance(y) * _inflation(count, correlation)
    score = int(np.sign(slopes).sum())
    low, high = _interval(slopes, variance)
    return Trend(count, median, slope, low, high, _p(score, variance), correlation)


def _variance(values: Values) -> float:
    """The variance of the Mann-Kendall score without a trend; ties reduce it."""
    count = len(values)
    _, ties = np.unique(values, return_counts=True)
    tied = int((ties * (ties - 1) * (2 * ties + 5)).sum())
    return (count * (count - 1) * (2 * count + 5) - tied) / 18


def _correlation(x: Values, y: Values) -> float:
    """The correlation of neighbours, by their ranks, corrected for bias in short series; at least 0.

    A curve looks like a correlation if only a line is removed, so a parabola is removed.
    """
    count = len(y)
    centred = (x - x.mean()) / (x[-1] - x[0])
    # Rounding noise must not get ranks.
    rest = np.round(y - np.polyval(np.polyfit(centred, y, 2), centred), 12 - _digits(y))
    ranks = stats.rankdata(rest) - (count + 1) / 2
    spread = float(ranks @ ranks)
    if not spread:
        return 0.0
    found = float(ranks[:-1] @ ranks[1:]) / spread
    return min((count * found + 3) / (count - 5), CORRELATION_MAX) if found > 0 else 0.0


def _digits(values: Values) -> int:
    """The number of digits before the point of the largest value."""
    largest = float(np.abs(values).max())
    return math.ceil(math.log10(largest)) if largest else 0


def _inflation(count: int, correlation: float) -> float:
    """How many values of such a series equal one independent value."""
    r = correlation
    return 1 + 2 * (r ** (count + 1) - count * r**2 + (count - 1) * r) / (count * (r - 1) ** 2)


def _p(score: int, variance: float) -> float:
    if not variance:
        return 1.0
    z = (abs(score) - 1) / math.sqrt(variance) if score else 0.0
    return float(min(1.0, 2 * stats.norm.sf(z)))


def _interval(slopes: Values, variance: float) -> tuple[float, float]:
    """The slopes that lie as many ranks from the median as the score may vary."""
    reach = float(stats.norm.ppf((1 + CONFIDENCE) / 2)) * math.sqrt(variance)
    count = len(slopes)
    low = max(math.floor((count - reach) / 2) - 1, 0)
    high = min(math.ceil((count + reach) / 2), count - 1)
    return float(slopes[low]), float(slopes[high])
