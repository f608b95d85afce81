"""The Universal Scalability Law, X(N) = λN / (1 + σ(N - 1) + κN(N - 1)), fitted to measurements.

λ is the throughput of a single customer, σ the share that cannot run in parallel (contention), κ the cost of
coordination for each pair (coherency). With σ = κ = 0 throughput grows with N; with κ > 0 it has a peak at N
= sqrt((1 - σ) / κ).

Source: N. J. Gunther, *Guerrilla Capacity Planning*, 2007, chapters 4 to 6.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import optimize, stats

CONFIDENCE: Final = 0.95
PARAMETERS: Final = ("λ", "σ", "κ")
LEVELS_MIN: Final = len(PARAMETERS) + 1
"""With fewer levels the curve passes through all points, whatever they are."""
EVALUATIONS_MAX: Final = 20_000

Values = np.ndarray[Any, np.dtype[np.float64]]


@dataclass(frozen=True, slots=True)
class Coefficient:
    """A coefficient with its interval, which ends at 0 because the law has no negative ones."""

    value: float
    low: float
    high: float

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.low > 0


@dataclass(frozen=True, slots=True)
class Scalability:
    """A fitted law; `unexplained` is the share of the variation that it does not explain (1 - R²)."""

    single: Coefficient
    contention: Coefficient
    coherency: Coefficient
    unexplained: float

    def throughput(self, customers: float) -> float:
        """The throughput that the law gives for a number of customers."""
        return float(_law(customers, self.single.value, self.contention.value, self.coherency.value))

    @property
    def peak(self) -> float | None:
        """The number of customers with the highest throughput; None if none is proven (κ may be 0)."""
        if not self.coherency.significant or self.contention.value >= 1:
            return None
        return math.sqrt((1 - self.contention.value) / self.coherency.value)

    @property
    def limit_per_s(self) -> float | None:
        """The highest throughput that the law gives; None if none is proven."""
        if self.peak is not None:
            return self.throughput(self.peak)
        return self.single.value / self.contention.value if self.contention.significant else None


def fit(customers: Sequence[float], throughput: Sequence[float]) -> Scalability | str:
    """Fit the law to the throughput of each repetition at each number of customers, or say why not.

    Least squares of relative errors, because throughput scatters in proportion to itself. No coefficient is
    negative. The intervals are those of the linearised problem, with Student's t.
    """
    n, x = np.asarray(customers, np.float64), np.asarray(throughput, np.float64)
    if len(levels := np.unique(n)) < LEVELS_MIN:
        return f"the law has 3 coefficients: it takes {LEVELS_MIN} levels, and there are {len(levels)}"
    if np.any(x <= 0) or np.any(n <= 0):
        return "the law needs positive throughput everywhere"
    found = _least_squares(n, x)
    if found is None:
        return "no coefficients were found with which the law comes near to the measurements"
    values, errors = found
    if not np.all(np.isfinite(errors)):
        return "different coefficients fit equally well: the levels do not tell them apart"
    reach = stats.t.ppf((1 + CONFIDENCE) / 2, len(x) - len(PARAMETERS)) * errors
    single, contention, coherency = (
        Coefficient(float(value), max(0.0, float(value - by)), float(value + by))
        for value, by in zip(values, reach, strict=True)
    )
    if not single.significant:
        return "different coefficients fit nearly equally well: measure with fewer customers too, down to one"
    total = float(np.sum((x - x.mean()) ** 2))
    left = float(np.sum((x - _law(n, *values)) ** 2))
    return Scalability(single, contention, coherency, left / total if total else 0.0)


def _law(n: Any, single: float, contention: float, coherency: float) -> Any:
    return single * n / (1 + contention * (n - 1) + coherency * n * (n - 1))


def _least_squares(n: Values, x: Values) -> tuple[Values, Values] | None:
    """The coefficients and their standard errors; None if the search does not converge."""
    first = int(np.argmin(n))
    scale = float(x[first] / n[first])

    def relative(at: Values, single: float, contention: float, coherency: float) -> Values:
        values: Values = _law(at, single * scale, contention, coherency) / x
        return values

    best: tuple[float, Values, Values] | None = None
    # The search finds a local minimum, so it begins at several places.
    for start in ((1.0, 0.01, 1e-4), (1.5, 0.1, 1e-6), (4.0, 0.5, 1e-3)):
        try:
            with warnings.catch_warnings():
                # If the covariance cannot be estimated, the errors are infinite.
                warnings.simplefilter("ignore", optimize.OptimizeWarning)
                values, covariance = optimize.curve_fit(
                    relative, n, np.ones_like(x), p0=start, bounds=(0, np.inf), x_scale=start,
                    maxfev=EVALUATIONS_MAX,
                )  # fmt: skip
        except RuntimeError:
            continue
        left = float(np.sum((relative(n, *values) - 1) ** 2))
        if best is None or left < best[0]:
            best = left, values, np.sqrt(np.diag(covariance))
    if best is None:
        return None
    factors = np.array([scale, 1.0, 1.0])
    return best[1] * factors, best[2] * factors
