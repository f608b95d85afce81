"""What exactly-once costs: the same load with the delivery `once` and with `fast`, which keeps no records."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from telesto.benchmarks.figures import (
    Ratio,
    at_least,
    cpu_cells,
    latency_cells,
    rate_cell,
    rates,
    ratio,
    table,
)
from telesto.benchmarks.measurement import Conditions, Measurement, Timing
from telesto.benchmarks.report import Part
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.service import Middlewares
from telesto.benchmarks.tally import Workload
from telesto.benchmarks.throughput import PIPELINED

WORKLOADS: Final[tuple[Workload, ...]] = ("put", "put-read")
SHARE_MIN: Final = 0.5

_ONCE: Final = Conditions(old_snapshot=True, delivery="once")
_FAST: Final = Conditions(old_snapshot=True, delivery="fast")

_HEADER: Final = (
    *("load", "delivery", "per second", "once against fast"),
    *("put ms", "p99", "read ms", "p99", "client us", "middleware us", "postgres us"),
)


@dataclass(slots=True)
class Deliveries:
    """The runs of one workload; the lists are parallel, one element for each repetition."""

    workload: Workload
    once: list[Measurement] = field(default_factory=list)
    fast: list[Measurement] = field(default_factory=list)


async def measure_deliveries(
    bench: Bench, middlewares: Middlewares, timing: Timing, repetitions: int, progress: Callable[[str], None]
) -> list[Deliveries]:
    """Run each workload with both, in turn, while an old snapshot is held."""
    found = [Deliveries(workload) for workload in WORKLOADS]
    for repetition in range(1, repetitions + 1):
        progress(f"exactly-once beside fast: repetition {repetition} of {repetitions}")
        for each in found:
            for runs, conditions in ((each.once, _ONCE), (each.fast, _FAST)):
                runs.append(await bench.service(middlewares, PIPELINED, each.workload, timing, conditions))
    return found


def deliveries_part(found: Sequence[Deliveries]) -> Part:
    """Return the part of the report."""
    rows = [row for each in found for row in _rows(each)]
    text = f"What exactly-once costs, {PIPELINED}, with an old snapshot held\n\n{table(_HEADER, rows)}"
    targets = [
        at_least(f"{each.workload}, {PIPELINED}: once against fast", SHARE_MIN, _share(each))
        for each in found
    ]
    runs = [run for each in found for run in (*each.once, *each.fast)]
    return Part("delivery", text, targets, runs, [asdict(each) for each in found])


def _share(found: Deliveries) -> Ratio:
    return ratio(rates(found.once), rates(found.fast))


def _rows(found: Deliveries) -> list[list[str]]:
    return [
        [found.workload, name, rate_cell(runs), share, *latency_cells(runs), *cpu_cells(runs)]
        for name, runs, share in (
            ("once", found.once, str(_share(found))),
            ("fast", found.fast, ""),
        )
    ]
