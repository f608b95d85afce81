"""The mean of independent repetitions, with its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Final

from scipy import stats

CONFIDENCE: Final = 0.95


@dataclass(frozen=True, slots=True)
class Mean:
    """The mean of some repetitions and its interval; one repetition has no interval (None)."""

    count: int
    mean: float
    low: float | None
    high: float | None


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of at least one repetition, with Student's interval of CONFIDENCE (Jain, chapter 13)."""
    count, mean = len(values), fmean(values)
    if count < 2:
        return Mean(count, mean, None, None)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, count - 1)) * stdev(values) / math.sqrt(count)
    return Mean(count, mean, mean - reach, mean + reach)
