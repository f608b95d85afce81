"""What is known of a closed system whatever is inside of it: Little's law and the asymptotic bounds.

Sources: E. D. Lazowska, J. Zahorjan, G. S. Graham, K. C. Sevcik, *Quantitative System Performance*, 1984,
chapters 3 and 5; R. Jain, *The Art of Computer Systems Performance Analysis*, 1991, chapter 33.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Bounds:
    """Asymptotic bounds of a closed system with one class of customers.

    Attributes:
        demand_s: D, what one operation needs of all stations together when nobody else is there.
        bottleneck_s: D_max, what it needs of the station that limits, divided by that station's servers.
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
        """N* = (D + Z) / D_max: with more customers than that, some have to wait."""
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

    It holds for every closed system. Where a measured response time is another one, something was measured
    wrong, or customers spend time where it was not looked for.
    """
    if throughput_per_s <= 0:
        raise ValueError("without throughput the law says nothing")
    return customers / throughput_per_s - think_s


def deviation(measured: float, expected: float) -> float:
    """By which share a measurement is off what was expected: -0.1 is ten per cent too little."""
    return measured / expected - 1 if expected else float("inf")
