"""2^k r designs: k factors of two levels, each combination run r times.

The model is y = q0 + qA xA + qB xB + qAB xA xB + ... + e, where each x is -1 or +1. Columns of signs are
orthogonal, so every effect is q = (sum of sign times mean of the combination) / 2^k, and the effects and
errors account for the whole variation: SST = 2^k r (qA² + qB² + ...) + SSE.

Source: R. Jain, *The Art of Computer Systems Performance Analysis*, 1991, chapters 17 and 18.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

import numpy as np
from scipy import stats

CONFIDENCE: Final = 0.95
SPREAD_MANY: Final = 10.0
"""If the largest measurement is this many times the smallest, effects may multiply."""
TESTS_MIN: Final = 3
"""The test of normality needs at least this many residuals."""

Values = np.ndarray[Any, np.dtype[np.float64]]
Signs = tuple[int, ...]
"""A combination: for each factor -1 (its first level) or +1."""


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect of a factor, or of several together.

    Attributes:
        factors: their names; none for the overall mean.
        value: q, half of the change from the first level to the second.
        low, high: its interval; None without repetitions.
        share: the share of the variation that it explains; None for the mean.
    """

    factors: tuple[str, ...]
    value: float
    low: float | None
    high: float | None
    share: float | None

    @property
    def significant(self) -> bool | None:
        """Whether its interval excludes 0; None without an interval."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


@dataclass(frozen=True, slots=True)
class Analysis:
    """The analysis of one measure.

    Attributes:
        mean: of all measurements, as an effect.
        effects: of all factors and their interactions; those that explain most come first.
        repetitions: r.
        error_share: the share of the variation among repetitions; 0 without repetitions.
        error_deviation: s_e, the standard deviation of the errors; None without repetitions.
        predicted, residuals: of each measurement, ordered by combination, then by repetition.
        least, greatest: the extreme measurements.
    """

    mean: Effect
    effects: tuple[Effect, ...]
    repetitions: int
    error_share: float
    error_deviation: float | None
    predicted: tuple[float, ...]
    residuals: tuple[float, ...]
    least: float
    greatest: float

    @property
    def multiplies(self) -> bool:
        """Whether measurements span orders of magnitude, so that their logarithms fit the model better."""
        return self.least > 0 and self.greatest / self.least >= SPREAD_MANY


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Sorted values against the quantiles of a normal distribution.

    Attributes:
        slope, intercept: of the straight line through them.
        probability: the p-value of the Shapiro-Wilk test of normality; None if there are too few different
            values.
    """

    normal: tuple[float, ...]
    ordered: tuple[float, ...]
    slope: float
    intercept: float
    probability: float | None


def analyse(factors: Sequence[str], measured: Mapping[Signs, Sequence[float]]) -> Analysis:
    """Analyse a complete design.

    Args:
        factors: names, in the order of the signs.
        measured: the repetitions of each of the 2^k combinations, equally many of each.

    Raises:
        ValueError: a combination is missing, or has more repetitions than another.
    """
    orders = sorted(measured)
    count = len(factors)
    if count == 0 or len(orders) != 2**count or any(len(signs) != count for signs in orders):
        raise ValueError("a 2^k design has every combination of its factors' two levels")
    numbers = {len(values) for values in measured.values()}
    if len(numbers) != 1 or numbers == {0}:
        raise ValueError("a 2^k r design has equally many repetitions of each combination")
    repetitions = numbers.pop()
    values = np.array([measured[signs] for signs in orders], np.float64)
    table = np.array(orders, np.float64)
    subsets = [chosen for size in range(count + 1) for chosen in combinations(range(count), size)]
    columns = np.stack([np.prod(table[:, list(chosen)], axis=1) for chosen in subsets], axis=1)
    means = values.mean(axis=1)
    coefficients = columns.T @ means / len(orders)
    residuals = values - means[:, None]
    return _analysis(factors, subsets, coefficients, values, residuals, repetitions)


def _analysis(
    factors: Sequence[str],
    subsets: Sequence[tuple[int, ...]],
    coefficients: Values,
    values: Values,
    residuals: Values,
    repetitions: int,
) -> Analysis:
    size = values.size
    errors, total = float(np.sum(residuals**2)), float(np.sum((values - values.mean()) ** 2))
    freedom = len(values) * (repetitions - 1)
    deviation = math.sqrt(errors / freedom) if freedom else None
    reach = None
    if deviation is not None:
        reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * deviation / math.sqrt(size)
    found = []
    for chosen, value in zip(subsets, coefficients.tolist(), strict=True):
        low, high = (None, None) if reach is None else (value - reach, value + reach)
        share = (size * value**2 / total if total else 0.0) if chosen else None
        found.append(Effect(tuple(factors[index] for index in chosen), value, low, high, share))
    mean, *effects = found
    return Analysis(
        mean=mean,
        effects=tuple(sorted(effects, key=lambda effect: -(effect.share or 0.0))),
        repetitions=repetitions,
        error_share=errors / total if total else 0.0,
        error_deviation=deviation,
        predicted=tuple((values - residuals).ravel().tolist()),
        residuals=tuple(residuals.ravel().tolist()),
        least=float(values.min()),
        greatest=float(values.max()),
    )


def normal_quantiles(values: Sequence[float]) -> Quantiles:
    """Compare values with normal quantiles (Jain, chapter 12; Filliben's positions, as in scipy)."""
    (normal, ordered), (slope, intercept, _) = stats.probplot(np.asarray(values, np.float64))
    different = len(set(values))
    probability = float(stats.shapiro(values).pvalue) if different >= TESTS_MIN else None
    return Quantiles(
        tuple(normal.tolist()), tuple(ordered.tolist()), float(slope), float(intercept), probability
    )
