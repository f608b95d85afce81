"""What a durable client state costs: the same load with a `state_dir` and without."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from telesto.benchmarks.figures import cpu_cells, latency_cells, rate_cell, rates, ratio, table
from telesto.benchmarks.measurement import Conditions, Measurement, Shape, Timing
from telesto.benchmarks.report import Part
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.service import Middlewares
from telesto.benchmarks.tally import Workload
from telesto.benchmarks.throughput import ONE, PIPELINED

#: Whether the client blocks, and the load.
LOADS: Final = ((True, ONE), (False, PIPELINED))
WORKLOADS: Final[tuple[Workload, ...]] = ("put", "put-read")

_HEADER: Final = (
    *("load", "client", "shape", "state", "per second", "with against without"),
    *("put ms", "p99", "read ms", "p99", "client us", "middleware us", "postgres us"),
)


@dataclass(slots=True)
class States:
    """The runs of one load; the lists are parallel, one element for each repetition."""

    workload: Workload
    blocking: bool
    shape: Shape
    with_state: list[Measurement] = field(default_factory=list)
    without: list[Measurement] = field(default_factory=list)


async def measure_states(
    bench: Bench, middlewares: Middlewares, timing: Timing, repetitions: int, progress: Callable[[str], None]
) -> list[States]:
    """Run each load with a state and without, in turn."""
    found = [States(workload, *load) for workload in WORKLOADS for load in LOADS]
    for repetition in range(1, repetitions + 1):
        progress(f"with a state and without: repetition {repetition} of {repetitions}")
        for each in found:
            for runs, state in ((each.with_state, True), (each.without, False)):
                conditions = Conditions(blocking=each.blocking, state=state)
                runs.append(await bench.service(middlewares, each.shape, each.workload, timing, conditions))
    return found


def states_part(found: Sequence[States]) -> Part:
    """Return the part of the report."""
    rows = [row for each in found for row in _rows(each)]
    runs = [run for each in found for run in (*each.with_state, *each.without)]
    text = f"What a durable client state costs\n\n{table(_HEADER, rows)}"
    return Part("state", text, [], runs, [asdict(each) for each in found])


def _rows(found: States) -> list[list[str]]:
    load = [found.workload, "blocking" if found.blocking else "asyncio", str(found.shape)]
    share = str(ratio(rates(found.with_state), rates(found.without)))
    return [
        [*load, name, rate_cell(runs), told, *latency_cells(runs), *cpu_cells(runs)]
        for name, runs, told in (("yes", found.with_state, share), ("no", found.without, ""))
    ]
