"""Does put plus read stay as fast as it begins? A minute of load, under several conditions."""

from dataclasses import dataclass
from typing import Final

from telesto.benchmarks.measurement import Conditions, Measurement, Shape, Timing
from telesto.benchmarks.records import change_between_thirds
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.service import Middlewares

SHAPE: Final = Shape(64)


@dataclass(frozen=True, slots=True)
class Steady:
    """A run of put plus read under one condition."""

    condition: str
    measurement: Measurement

    @property
    def change(self) -> float:
        """The rate in the last third against the first: -0.1 is a fall of 10 %."""
        return change_between_thirds(self.measurement.series)

    @property
    def postgres_us(self) -> list[float]:
        """Microseconds of PostgreSQL's CPU per message in each third, which others' load hardly changes."""
        return self.measurement.cpu_us_thirds["postgres"]


def steady_conditions(backlog: int) -> dict[str, Conditions]:
    """Return the conditions by the name that the report gives them."""
    return {
        "alone": Conditions(),
        "an old snapshot is held": Conditions(old_snapshot=True),
        f"{backlog:,} wait in another priority": Conditions(backlog=backlog),
    }


async def measure_steady(
    bench: Bench, middlewares: Middlewares, timing: Timing, backlog: int
) -> list[Steady]:
    """Run put plus read under each condition."""
    return [
        Steady(name, await bench.service(middlewares, SHAPE, "put-read", timing, conditions))
        for name, conditions in steady_conditions(backlog).items()
    ]
