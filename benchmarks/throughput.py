"""Throughput: the service in several shapes, beside itself ungathered and beside the ceiling.

The runs of one repetition follow each other, so that a machine that gets slower or faster during the
experiment hits all of them; ratios are taken within a repetition.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from telesto.benchmarks.measurement import Measurement, Shape, Timing
from telesto.benchmarks.runs import CEILING_BATCH, Bench
from telesto.benchmarks.service import Middlewares, running_middlewares
from telesto.benchmarks.tally import Workload

ONE: Final = Shape(1)
MANY: Final = Shape(64)
PIPELINED: Final = Shape(8, 64)
SHAPES: Final = (ONE, Shape(16), MANY, Shape(256), PIPELINED)
UNGATHERED_WORKERS: Final = (4, 16, 32)
UNGATHERED_CONNECTIONS: Final = (16, 64, 256)

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Ungathered:
    """A way to run the service without gathering: workers of each kind (calls at a time) and clients."""

    workers: int
    connections: int

    def settings(self) -> dict[str, str]:
        """Return the middleware's settings for it."""
        return {
            "TELESTO_MAX_BATCH": "1",
            "TELESTO_PUT_WORKERS": str(self.workers),
            "TELESTO_TAKE_WORKERS": str(self.workers),
        }


@dataclass(slots=True)
class Throughput:
    """All runs of one workload. Lists are parallel: one element for each repetition."""

    workload: Workload
    ungathered_with: Ungathered
    service: dict[Shape, list[Measurement]] = field(default_factory=dict)
    ceiling: dict[Shape, list[Measurement]] = field(default_factory=dict)
    ungathered: list[Measurement] = field(default_factory=list)
    single_call: list[Measurement] = field(default_factory=list)
    """Bare asyncpg with batches of one: the latency of the procedure alone."""


@dataclass(frozen=True, slots=True)
class ThroughputPlan:
    """How much is measured."""

    shapes: Sequence[Shape]
    candidates: Sequence[Ungathered]
    timing: Timing
    repetitions: int
    middlewares: int


def ungathered_candidates() -> list[Ungathered]:
    """Return the ways without gathering that are tried before the best is measured."""
    return [
        Ungathered(workers, connections)
        for workers in UNGATHERED_WORKERS
        for connections in UNGATHERED_CONNECTIONS
        if connections >= workers
    ]


async def measure_throughput(
    bench: Bench, workload: Workload, plan: ThroughputPlan, directory: Path, progress: Progress
) -> Throughput:
    """Find the best way without gathering, then measure all arms in turn."""
    best = await _best_ungathered(bench, workload, plan, directory, progress)
    found = Throughput(workload, best)
    url = bench.database.url
    async with (
        running_middlewares(url, directory, plan.middlewares) as service,
        running_middlewares(url, directory, plan.middlewares, best.settings()) as ungathered,
    ):
        for repetition in range(1, plan.repetitions + 1):
            progress(f"{workload}: repetition {repetition} of {plan.repetitions}")
            await _repeat(bench, plan, found, service, ungathered)
    return found


async def _repeat(
    bench: Bench, plan: ThroughputPlan, found: Throughput, service: Middlewares, ungathered: Middlewares
) -> None:
    """Measure every arm once."""
    workload, timing = found.workload, plan.timing
    one_at_a_time = Shape(found.ungathered_with.connections)
    found.ungathered.append(await bench.service(ungathered, one_at_a_time, workload, timing))
    found.single_call.append(await bench.ceiling(1, 1, workload, timing))
    for shape in plan.shapes:
        clients = min(shape.connections, CEILING_BATCH)
        found.service.setdefault(shape, []).append(await bench.service(service, shape, workload, timing))
        found.ceiling.setdefault(shape, []).append(
            await bench.ceiling(clients, CEILING_BATCH, workload, timing)
        )


async def _best_ungathered(
    bench: Bench, workload: Workload, plan: ThroughputPlan, directory: Path, progress: Progress
) -> Ungathered:
    """Try the candidates once each; return the fastest. A single one need not be tried."""
    if len(plan.candidates) == 1:
        return plan.candidates[0]
    rates: dict[Ungathered, float] = {}
    for candidate in plan.candidates:
        async with running_middlewares(
            bench.database.url, directory, plan.middlewares, candidate.settings()
        ) as ungathered:
            run = await bench.service(ungathered, Shape(candidate.connections), workload, plan.timing)
        rates[candidate] = run.per_second
        progress(f"{workload} without gathering, {candidate}: {run.per_second:,.0f} a second")
    return max(rates, key=lambda candidate: rates[candidate])
