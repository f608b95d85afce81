"""A closed network of queues with one class of customers, solved exactly.

It has the product form (J. P. Buzen, *Computational algorithms for closed queueing networks with exponential
servers*, 1973; Jain, chapter 35), so that what exact mean value analysis gives (M. Reiser, S. S. Lavenberg,
*Mean-value analysis of closed multichain queuing networks*, 1980; Jain, chapters 34 and 36; Lazowska et al.,
chapter 6) follows from the normalising constants G(0) to G(N): X(N) = G(N - 1) / G(N).

The recursion of mean value analysis itself is not used. With load-dependent stations it takes the probability
of an empty station as 1 less a sum; near saturation that is a difference of nearly equal numbers, becomes
negative, and gives utilisations above one (M. Reiser, 1981). Here all terms are positive, and kept as
logarithms: nothing cancels, overflows or vanishes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Values = np.ndarray[Any, np.dtype[np.float64]]
Pace = Callable[[Values], Values]
"""The speed of a station relative to that with one customer, for each number of customers there."""


@dataclass(frozen=True, slots=True)
class Server:
    """A station of a model.

    Attributes:
        demand_s: what one operation needs of it, over all visits, if it is alone there.
        pace: the relative speed with more customers; 1 for one customer.
    """

    name: str
    demand_s: float
    pace: Pace

    @classmethod
    def of_servers(cls, name: str, demand_s: float, servers: int = 1) -> Server:
        """One queue in front of several servers."""
        return cls(name, demand_s, lambda n: np.minimum(n, servers))

    @classmethod
    def delay(cls, name: str, demand_s: float) -> Server:
        """A station where no customer waits for another."""
        return cls(name, demand_s, lambda n: n)


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the model predicts for a number of customers.

    Attributes:
        customers: N.
        throughput_per_s: X, operations per second.
        response_s: R, without the think time.
        residence_s: of an operation at each station, over all its visits, waiting included.
    """

    customers: int
    throughput_per_s: float
    response_s: float
    residence_s: dict[str, float]


def solve(stations: Sequence[Server], customers: int, think_s: float = 0.0) -> Prediction:
    """Solve the network for a number of customers.

    Raises:
        ValueError: there is no customer, or no station for one.
    """
    if customers < 1:
        raise ValueError("a closed network has at least one customer")
    wanted = [station for station in stations if station.demand_s > 0]
    if not wanted and think_s <= 0:
        raise ValueError("an operation has to need something")
    thinking = Server.delay("", think_s)
    weights = [_weights(station, customers) for station in wanted]
    rest = _weights(thinking, customers) if think_s > 0 else _nobody(customers)
    before, after = _taken_together(weights, rest), _taken_together(weights[::-1], _nobody(customers))[::-1]
    constants = before[-1]
    throughput = float(np.exp(constants[-2] - constants[-1]))
    residence = {}
    for index, station in enumerate(wanted):
        others = _together(before[index], after[index + 1])
        # The probability of n customers at the station and the others elsewhere.
        chances = np.exp(weights[index] + others[::-1] - constants[-1])
        residence[station.name] = float(np.dot(np.arange(customers + 1), chances)) / throughput
    return Prediction(customers, throughput, sum(residence.values()), residence)


def _weights(station: Server, customers: int) -> Values:
    """Logarithms of D^n / (α(1) ... α(n)), for n from 0 to N."""
    numbers = np.arange(1, customers + 1, dtype=np.float64)
    steps = np.log(station.demand_s) - np.log(station.pace(numbers))
    return np.concatenate([[0.0], np.cumsum(steps)])


def _nobody(customers: int) -> Values:
    """The weights of an absent station."""
    weights = np.full(customers + 1, -np.inf)
    weights[0] = 0.0
    return weights


def _taken_together(weights: Sequence[Values], first: Values) -> list[Values]:
    """The weights of `first` with none of some stations, with one, with two, and so on."""
    found = [first]
    for each in weights:
        found.append(_together(found[-1], each))
    return found


def _together(one: Values, other: Values) -> Values:
    """The weights of two stations combined, for each number of customers in both."""
    sums = np.empty_like(one)
    for n in range(len(one)):
        terms = one[: n + 1] + other[n::-1]
        greatest = terms.max()
        # If one of them is absent, this number of customers may be impossible; all terms are 0 then.
        sums[n] = greatest + np.log(np.exp(terms - greatest).sum()) if greatest > -np.inf else -np.inf
    return sums
