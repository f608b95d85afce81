"""The part of the report about throughput, with and without gathering and beside the ceiling."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Final

from telesto.benchmarks.figures import (
    Target,
    at_least,
    at_most,
    cpu_cells,
    latency_cells,
    rate_cell,
    rates,
    ratio,
    table,
)
from telesto.benchmarks.measurement import Measurement
from telesto.benchmarks.report import Part
from telesto.benchmarks.throughput import MANY, ONE, PIPELINED, Throughput

GATHERING_MIN: Final = 5.0
CEILING_SHARE_MIN: Final = 0.4
LATENCY_MAX: Final = 1.6

_HEADER: Final = (
    *("connections", "per second", "times without gathering", "share of ceiling"),
    *("put ms", "p99", "read ms", "p99", "client us", "middleware us", "postgres us"),
)
_LEGEND: Final = "per second, medians (ratios: least to greatest; us: CPU per message)"


def throughput_part(found: Throughput) -> Part:
    """Return the part for one workload."""
    return Part(found.workload, _text(found), _targets(found), _runs(found), _plain(found))


def _targets(found: Throughput) -> list[Target]:
    targets = []
    name = found.workload
    if MANY in found.service:
        gathering = ratio(rates(found.service[MANY]), rates(found.ungathered))
        targets.append(at_least(f"{name}, {MANY}: times without gathering", GATHERING_MIN, gathering))
    if PIPELINED in found.service:
        share = ratio(rates(found.service[PIPELINED]), rates(found.ceiling[PIPELINED]))
        targets.append(at_least(f"{name}, {PIPELINED}: share of the ceiling", CEILING_SHARE_MIN, share))
    if ONE in found.service:
        targets += _latency_targets(found)
    return targets


def _latency_targets(found: Throughput) -> list[Target]:
    """Compare the latency of one connection with that of a single bare call of the same procedure."""
    name = f"{found.workload}, {ONE}: latency of a"
    service, bare = found.service[ONE], found.single_call
    put = ratio((run.put.median_s for run in service), (run.put.median_s for run in bare))
    targets = [at_most(f"{name} put, times a bare call", LATENCY_MAX, put)]
    if found.workload == "put-read":
        take = ratio((run.take.median_s for run in service), (run.take.median_s for run in bare))
        targets.append(at_most(f"{name} read, times a bare call", LATENCY_MAX, take))
    return targets


def _text(found: Throughput) -> str:
    best = found.ungathered_with
    puts = found.workload == "put"
    title = "Durable exactly-once puts" if puts else "Durable exactly-once put plus read, messages"
    rows = [_row(str(shape), found, runs, found.ceiling[shape]) for shape, runs in found.service.items()]
    alone = f"without gathering ({best.workers} workers, {best.connections} connections)"
    rows.append(_row(alone, found, found.ungathered, None))
    rows += [
        _row(f"ceiling, {shape} connections' clients", found, runs, None)
        for shape, runs in found.ceiling.items()
    ]
    rows.append(_row("single bare calls", found, found.single_call, None))
    return f"{title} {_LEGEND}\n\n{table(_HEADER, rows)}"


def _row(
    name: str, found: Throughput, runs: Sequence[Measurement], ceiling: Sequence[Measurement] | None
) -> list[str]:
    """Return the row of one arm; those beside the service have no ratios."""
    gathering = str(ratio(rates(runs), rates(found.ungathered))) if ceiling else ""
    share = str(ratio(rates(runs), rates(ceiling))) if ceiling else ""
    return [name, rate_cell(runs), gathering, share, *latency_cells(runs), *cpu_cells(runs)]


def _arms(found: Throughput) -> dict[str, list[Measurement]]:
    arms = {f"service {shape}": runs for shape, runs in found.service.items()}
    arms |= {f"ceiling {shape}": runs for shape, runs in found.ceiling.items()}
    return arms | {"ungathered": found.ungathered, "single call": found.single_call}


def _runs(found: Throughput) -> list[Measurement]:
    return [run for runs in _arms(found).values() for run in runs]


def _plain(found: Throughput) -> dict[str, Any]:
    return {
        "ungathered with": asdict(found.ungathered_with),
        "arms": {name: [asdict(run) for run in runs] for name, runs in _arms(found).items()},
    }
