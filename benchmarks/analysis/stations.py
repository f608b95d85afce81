"""Stations that serve operations: how busy they are, what an operation needs; open systems of one station.

Sources: E. D. Lazowska et al., *Quantitative System Performance*, 1984, chapter 3 (operational laws); R.
Jain, *The Art of Computer Systems Performance Analysis*, 1991, chapters 31 (M/M/1, M/M/m) and 33.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Station:
    """A station as it was measured.

    Attributes:
        name: what it is.
        servers: how many operations, or calls, it works on at a time.
        busy: how many of its servers were busy, in the mean.
        throughput_per_s: X, operations of the whole system per second.
    """

    name: str
    servers: int
    busy: float
    throughput_per_s: float

    @property
    def utilisation(self) -> float:
        """The share of its servers that was busy (utilisation law: U = X D / m)."""
        return self.busy / self.servers

    @property
    def demand_s(self) -> float:
        """D = busy / X: what one operation needs of it, over all its visits (service demand law)."""
        return self.busy / self.throughput_per_s

    @property
    def limit_per_s(self) -> float:
        """m / D: more operations it cannot serve; infinite where nothing is needed of it."""
        return self.servers / self.demand_s if self.busy else math.inf


@dataclass(frozen=True, slots=True)
class Queue:
    """M/M/m: arrivals by chance, exponential service, `servers` servers, room for all (Jain, section 31.3).

    Attributes:
        arrivals_per_s: λ.
        service_s: s, the mean time of service.
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
        """ρ = λ s / m; at 1 and beyond there is no steady state."""
        return self.arrivals_per_s * self.service_s / self.servers

    @property
    def stable(self) -> bool:
        """Whether the queue has a mean length at all."""
        return self.utilisation < 1

    @property
    def waiting_probability(self) -> float:
        """Erlang's C: the share of arrivals that find all servers busy.

        By way of Erlang's B, whose recursion has positive terms only:
        B(0) = 1, B(k) = a B(k-1) / (k + a B(k-1)).
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
