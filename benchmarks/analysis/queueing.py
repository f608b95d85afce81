"""Bounds that hold for every system of stations, and open systems of one station.

Sources: E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik, *Quantitative System Performance*, 1984,
chapter 3 (operational laws, Little's law) and chapter 5 (asymptotic bounds); R. Jain, *The Art of Computer
Systems Performance Analysis*, 1991, chapters 31 (M/M/1, M/M/m) and 33.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Asymptotic bounds of a closed system with one class of customers.

    Attributes:
        demand_s: D, what one operation needs of all stations if it is alone.
        bottleneck_s: D_max, what it needs of the limiting station, divided by that station's servers.
        think_s: Z.
    """

    demand_s: float
    bottleneck_s: float
    think_s: float = 0.0

    def __post_init__(self) -> None:
        if not self.bottleneck_s > 0 or self.demand_s < 0 or self.think_s < 0:
            raise ValueError("demands have to be positive, and the think time not negative")

    @property
    def knee(self) -> float:
        """N* = (D + Z) / D_max: with more customers than that, some must wait."""
        return (self.demand_s + self.think_s) / self.bottleneck_s

    @property
    def capacity_per_s(self) -> float:
        """1 / D_max, which no number of customers exceeds."""
        return 1 / self.bottleneck_s

    def throughput_at_most(self, customers: float) -> float:
        """X(N) <= min(N / (D + Z), 1 / D_max), in operations per second."""
        lonely = self.demand_s + self.think_s
        return min(customers / lonely, self.capacity_per_s) if lonely else self.capacity_per_s

    def response_at_least(self, customers: float) -> float:
        """R(N) >= max(D, N D_max - Z), in seconds."""
        return max(self.demand_s, customers * self.bottleneck_s - self.think_s)


def response_by_law(customers: float, throughput_per_s: float, think_s: float = 0.0) -> float:
    """The response-time law: R = N / X - Z, in seconds (Lazowska et al., chapter 3; Jain, chapter 33).

    It holds for every closed system. If a measured response time differs, a measurement is wrong, or
    customers spend time that was not measured.
    """
    if throughput_per_s <= 0:
        raise ValueError("without throughput the law says nothing")
    return customers / throughput_per_s - think_s


def deviation(measured: float, expected: float) -> float:
    """The relative deviation of a measurement from the expected value: -0.1 is 10 % too little."""
    return measured / expected - 1 if expected else float("inf")


@dataclass(frozen=True, slots=True)
class Station:
    """A station as it was measured.

    Attributes:
        servers: how many operations, or calls, it serves at a time.
        busy: the mean number of busy servers.
        throughput_per_s: X, operations of the whole system per second.
    """

    name: str
    servers: int
    busy: float
    throughput_per_s: float

    @property
    def utilisation(self) -> float:
        """The share of its servers that is busy (utilisation law: U = X D / m)."""
        return self.busy / self.servers

    @property
    def demand_s(self) -> float:
        """D = busy / X: what one operation needs of it, over all its visits (service demand law)."""
        return self.busy / self.throughput_per_s

    @property
    def limit_per_s(self) -> float:
        """m / D, the most operations that it can serve; infinite if no operation needs it."""
        return self.servers / self.demand_s if self.busy else math.inf


@dataclass(frozen=True, slots=True)
class Queue:
    """M/M/m: random arrivals, exponential service, `servers` servers, unlimited space (Jain, section 31.3).

    Attributes:
        arrivals_per_s: λ.
        service_s: s, the mean service time.
        servers: m; with 1 it is M/M/1 (section 31.2).
    """

    arrivals_per_s: float
    service_s: float
    servers: int = 1

    def __post_init__(self) -> None:
        if self.arrivals_per_s < 0 or self.service_s <= 0 or self.servers < 1:
            raise ValueError("arrivals must not be negative; service and servers have to be positive")

    @property
    def utilisation(self) -> float:
        """ρ = λ s / m; from 1 on there is no steady state."""
        return self.arrivals_per_s * self.service_s / self.servers

    @property
    def stable(self) -> bool:
        """Whether the queue has a steady state."""
        return self.utilisation < 1

    @property
    def waiting_probability(self) -> float:
        """Erlang's C: the share of arrivals that find all servers busy.

        It is computed from Erlang's B, whose recursion has positive terms only: B(0) = 1, B(k) = a B(k-1) /
        (k + a B(k-1)).
        """
        if not self.stable:
            return 1.0
        load, blocked = self.arrivals_per_s * self.service_s, 1.0
        for servers in range(1, self.servers + 1):
            blocked = load * blocked / (servers + load * blocked)
        return blocked / (1 - self.utilisation * (1 - blocked))

    @property
    def waiting_s(self) -> float:
        """W = C s / (m (1 - ρ)); infinite without a steady state."""
        if not self.stable:
            return math.inf
        return self.waiting_probability * self.service_s / (self.servers * (1 - self.utilisation))

    @property
    def response_s(self) -> float:
        """R = s + W."""
        return self.service_s + self.waiting_s
