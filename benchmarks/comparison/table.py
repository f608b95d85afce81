"""The text of a comparison: a table of ratios for each kind of work, audits, targets, settings."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from operator import attrgetter
from pathlib import Path
from statistics import median
from typing import Any, Final

from telesto.benchmarks.comparison.compare import REFERENCE, WORKS, Comparison, Run, Work
from telesto.benchmarks.results.audit import UNORDERED_COLUMNS, headings
from telesto.benchmarks.results.ratios import Ratio, Target, ratio, table
from telesto.benchmarks.tiers.machine import describe_machine, file_system

RABBITMQ: Final = ("rabbitmq-classic", "rabbitmq-quorum")
NATS: Final = ("nats",)
PGMQ: Final = ("pgmq",)
RATES_WANTED: Final[Mapping[Work, Sequence[tuple[str, Sequence[str], float]]]] = {
    "put": (
        ("RabbitMQ, the faster queue type", RABBITMQ, 5.0),
        ("NATS JetStream with its default sync", NATS, 1.5),
        ("PGMQ by single calls", PGMQ, 5.0),
    ),
    "end-to-end": (
        ("RabbitMQ, the faster queue type", RABBITMQ, 3.0),
        ("NATS JetStream with its default sync", NATS, 1.2),
    ),
}
DELAYS_WANTED: Final = (("RabbitMQ, the faster queue type", RABBITMQ), ("PGMQ by single calls", PGMQ))
TITLES: Final[Mapping[Work, str]] = {
    "put": "Durable puts",
    "end-to-end": "Put, delivered, acknowledged",
    "latency": "From put to delivery, open loop",
}

Figure = Callable[[Run], float]
_per_second: Figure = attrgetter("per_second")
_median_ms: Figure = attrgetter("median_ms")
_p99_ms: Figure = attrgetter("p99_ms")


def facts_of(directory: Path | None) -> dict[str, str]:
    """Return the machine, and the file system of the servers' data."""
    place = directory or Path(tempfile.gettempdir())
    return {**describe_machine(), "file system": file_system(place)}


def render(comparison: Comparison, facts: Mapping[str, str]) -> str:
    """Return the whole report as text, with tables in Markdown."""
    size = comparison.size
    load = (
        f"{size.connections} connections x {size.in_flight} in flight, {size.consumers} consumers, "
        f"{size.processes} processes, {size.body_bytes} bytes; latency at {size.rate:,.0f} a second; "
        f"{size.repetitions} repetitions of {size.seconds:g} s after {size.warm_up_s:g} s, interleaved"
    )
    parts = ["\n".join([*(f"{name}: {value}" for name, value in facts.items()), f"load: {load}"])]
    parts += [_work_section(work, runs) for work in WORKS if (runs := _measured(comparison, work))]
    parts += [_audit_section(comparison), _targets_section(targets(comparison))]
    if comparison.skipped:
        lines = [f"- {name}: {reason}" for name, reason in comparison.skipped.items()]
        parts.append("Skipped\n\n" + "\n".join(lines))
    parts.append(_settings_section(comparison))
    return "\n\n".join(parts) + "\n"


def as_plain(comparison: Comparison, facts: Mapping[str, str]) -> dict[str, Any]:
    """Return all measurements, as JSON."""
    return {
        "facts": dict(facts),
        "size": asdict(comparison.size),
        "runs": {
            work: {name: [asdict(run) for run in runs] for name, runs in found.items()}
            for work, found in comparison.runs.items()
        },
        "targets": [asdict(target) for target in targets(comparison)],
        "skipped": comparison.skipped,
        "settings": comparison.settings,
    }


def targets(comparison: Comparison) -> list[Target]:
    """Check the targets whose peers took part, and the audits."""
    found = [
        target
        for work, wanted in RATES_WANTED.items()
        for what, peers, least in wanted
        for target in _rate_target(work, _measured(comparison, work), what, peers, least)
    ]
    latency = _measured(comparison, "latency")
    for what, peers in DELAYS_WANTED:
        found += _delay_target(f"median delay against {what}", latency, peers, _median_ms)
        found += _delay_target(f"p99 delay against {what}", latency, peers, _p99_ms)
    return [*found, _audit_target(comparison)]


def _measured(comparison: Comparison, work: Work) -> dict[str, list[Run]]:
    """The peers with runs: none if the comparison ended in the first repetition."""
    return {name: runs for name, runs in comparison.runs.get(work, {}).items() if runs}


def _rate_target(
    work: Work, runs: Mapping[str, list[Run]], what: str, peers: Sequence[str], least: float
) -> list[Target]:
    rivals = _rivals(runs, peers)
    if rivals is None:
        return []
    best = [max(run.per_second for run in each) for each in zip(*rivals, strict=True)]
    found = ratio([run.per_second for run in runs[REFERENCE]], best)
    return [Target(f"{work} against {what}", f"at least {least:g} times", str(found), found.median >= least)]


def _delay_target(
    what: str, runs: Mapping[str, list[Run]], peers: Sequence[str], figure: Figure
) -> list[Target]:
    rivals = _rivals(runs, peers)
    if rivals is None:
        return []
    best = [min(figure(run) for run in each) for each in zip(*rivals, strict=True)]
    found = ratio([figure(run) for run in runs[REFERENCE]], best)
    return [Target(what, "less than 1 times", str(found), 0 < found.median < 1)]


def _rivals(runs: Mapping[str, list[Run]], peers: Sequence[str]) -> list[list[Run]] | None:
    """The runs of the measured peers among these; None if there is nothing to compare."""
    rivals = [runs[name] for name in peers if name in runs]
    return rivals if rivals and REFERENCE in runs else None


def _audit_target(comparison: Comparison) -> Target:
    audits = [run.audit for runs in _all_runs(comparison, REFERENCE) for run in runs]
    lost, twice = sum(audit.lost for audit in audits), sum(audit.duplicated for audit in audits)
    bad = any(not audit.clean for audit in audits)
    found = f"{lost} lost, {twice} duplicated in {len(audits)} runs"
    return Target("Telesto's audits", "nothing lost or duplicated", found, bool(audits) and not bad)


def _all_runs(comparison: Comparison, name: str) -> list[list[Run]]:
    return [found[name] for found in comparison.runs.values() if name in found]


def _work_section(work: Work, found: Mapping[str, list[Run]]) -> str:
    delays = work == "latency"
    header = ["peer", "messages per second", "range"]
    header += ["median ms", "p99 ms", "median / Telesto", "p99 / Telesto"] if delays else ["Telesto / peer"]
    header += ["client us", "server us"]
    own = found.get(REFERENCE)
    rows = [[name, *_row(runs, own, delays)] for name, runs in found.items()]
    return f"{TITLES[work]}\n\n{table(header, rows)}"


def _row(runs: Sequence[Run], own: Sequence[Run] | None, delays: bool) -> list[str]:
    rates = [run.per_second for run in runs]
    cells = [f"{median(rates):,.0f}", f"{min(rates):,.0f} to {max(rates):,.0f}"]
    if delays:
        cells += [f"{median(figure(run) for run in runs):,.2f}" for figure in (_median_ms, _p99_ms)]
        cells += [_ratio_cell(runs, own, figure) for figure in (_median_ms, _p99_ms)]
    else:
        cells.append(_ratio_cell(own, runs, _per_second))
    return cells + [f"{median(run.cpu_us[tier] for run in runs):.1f}" for tier in ("client", "server")]


def _ratio_cell(over: Sequence[Run] | None, under: Sequence[Run] | None, figure: Figure) -> str:
    """The ratio of two peers' runs; empty if one is missing, or for Telesto itself."""
    if over is None or under is None or over is under:
        return ""
    found: Ratio = ratio([figure(run) for run in over], [figure(run) for run in under])
    return str(found)


def _audit_section(comparison: Comparison) -> str:
    rows, errors = [], []
    for name in comparison.settings:
        runs = [run for part in _all_runs(comparison, name) for run in part]
        if runs:
            rows.append(
                [
                    name,
                    *(f"{sum(getattr(run.audit, column) for run in runs):,}" for column in UNORDERED_COLUMNS),
                ]
            )
        if unfinished := sum(run.unfinished for run in runs):
            errors.append(f"- {name}: consumers did not take everything in {unfinished} runs")
        named = sorted({error for run in runs for error in run.errors})
        errors += [f"- {name}: {error}" for error in named]
    text = f"Audit of every run, in messages\n\n{table(['peer', *headings(UNORDERED_COLUMNS)], rows)}"
    return text + ("\n\nWhat went wrong\n\n" + "\n".join(errors) if errors else "")


def _targets_section(found: Sequence[Target]) -> str:
    rows = [[target.what, target.wanted, target.found, "yes" if target.reached else "NO"] for target in found]
    return f"Targets\n\n{table(['what', 'target', 'found', 'reached'], rows)}"


def _settings_section(comparison: Comparison) -> str:
    parts = [
        f"{name}\n" + "\n".join(f"- {what}: {value}" for what, value in settings.items())
        for name, settings in comparison.settings.items()
    ]
    return "Versions and settings\n\n" + "\n\n".join(parts)
