"""The report: tables of what was measured, and the targets with whether they are reached."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from telesto.benchmarks.idle import Idle
from telesto.benchmarks.measurement import Measurement
from telesto.benchmarks.steady import SHAPE, Steady
from telesto.benchmarks.throughput import MANY, ONE, PIPELINED, Throughput

GATHERING_MIN: Final = 5.0
CEILING_SHARE_MIN: Final = 0.4
LATENCY_MAX: Final = 1.6
CHANGE_MAX: Final = 0.15
RESIDENT_MIB_MAX: Final = 150

_MIB: Final = 2**20


@dataclass(slots=True)
class Report:
    """Everything that was measured, and where."""

    machine: Mapping[str, str]
    settings: Mapping[str, str]
    throughput: list[Throughput] = field(default_factory=list)
    steady: list[Steady] = field(default_factory=list)
    idle: Idle | None = None


@dataclass(frozen=True, slots=True)
class Ratio:
    """The quotient of two figures, taken in each repetition: median, least, greatest."""

    median: float
    least: float
    greatest: float

    def __str__(self) -> str:
        return f"{self.median:.2f} ({self.least:.2f} to {self.greatest:.2f})"


@dataclass(frozen=True, slots=True)
class Target:
    """A target and what came out."""

    what: str
    wanted: str
    found: str
    reached: bool


def ratio(over: Iterable[float], under: Iterable[float]) -> Ratio:
    """Divide repetition by repetition; a divisor of 0 counts as no result and gives 0."""
    quotients = [a / b if b else 0.0 for a, b in zip(over, under, strict=True)]
    return Ratio(median(quotients), min(quotients), max(quotients))


def rates(runs: Sequence[Measurement]) -> list[float]:
    """Return the messages per second of each run."""
    return [run.per_second for run in runs]


def targets(report: Report) -> list[Target]:
    """Return all targets that the report's measurements can decide."""
    found = [target for part in report.throughput for target in _throughput_targets(part)]
    found += [_steady_target(part) for part in report.steady]
    if report.idle:
        found.append(_idle_target(report.idle))
    return [*found, _audit_target(report)]


def _throughput_targets(part: Throughput) -> list[Target]:
    found = []
    if MANY in part.service:
        gathering = ratio(rates(part.service[MANY]), rates(part.ungathered))
        found.append(_at_least(f"{part.workload}, {MANY}: times without gathering", GATHERING_MIN, gathering))
    if PIPELINED in part.service:
        share = ratio(rates(part.service[PIPELINED]), rates(part.ceiling[PIPELINED]))
        found.append(
            _at_least(f"{part.workload}, {PIPELINED}: share of the ceiling", CEILING_SHARE_MIN, share)
        )
    if ONE in part.service:
        found.extend(_latency_targets(part))
    return found


def _latency_targets(part: Throughput) -> list[Target]:
    """Compare the latency of one connection with that of a single bare call of the same procedure."""
    service, bare = part.service[ONE], part.single_call
    put = ratio((run.put.median_s for run in service), (run.put.median_s for run in bare))
    found = [_at_most(f"{part.workload}, {ONE}: latency of a put, times a bare call", LATENCY_MAX, put)]
    if part.workload == "put-read":
        take = ratio((run.take.median_s for run in service), (run.take.median_s for run in bare))
        found.append(
            _at_most(f"{part.workload}, {ONE}: latency of a read, times a bare call", LATENCY_MAX, take)
        )
    return found


def _at_least(what: str, wanted: float, found: Ratio) -> Target:
    return Target(what, f"at least {wanted:g}", str(found), found.median >= wanted)


def _at_most(what: str, wanted: float, found: Ratio) -> Target:
    return Target(what, f"at most {wanted:g}", str(found), 0 < found.median <= wanted)


def _steady_target(part: Steady) -> Target:
    what = f"put-read, {part.condition}: last third against first"
    return Target(what, f"within {CHANGE_MAX:.0%}", f"{part.change:+.1%}", abs(part.change) <= CHANGE_MAX)


def _idle_target(idle: Idle) -> Target:
    resident = idle.bytes_with / _MIB
    what = f"resident memory of a middleware with {idle.connections:,} idle connections"
    reached = resident <= RESIDENT_MIB_MAX and idle.connections >= idle.wanted
    return Target(what, f"at most {RESIDENT_MIB_MAX} MiB", f"{resident:.0f} MiB", reached)


def _audit_target(report: Report) -> Target:
    runs = all_runs(report)
    bad = [run.audit for run in runs if not run.audit.clean]
    lost, twice = sum(audit.lost for audit in bad), sum(audit.duplicated for audit in bad)
    foreign = sum(audit.foreign for audit in bad)
    found = f"{lost} lost, {twice} duplicated, {foreign} foreign in {len(runs)} runs"
    return Target("audit of every run", "nothing lost or duplicated", found, not bad)


def all_runs(report: Report) -> list[Measurement]:
    """Return every measurement of the report."""
    runs = [part.measurement for part in report.steady]
    for part in report.throughput:
        for arm in (*part.service.values(), *part.ceiling.values(), part.ungathered, part.single_call):
            runs.extend(arm)
    return runs


def render(report: Report) -> str:
    """Return the whole report as text, its tables in Markdown."""
    sections = [_facts(report)]
    sections += [_throughput_section(part) for part in report.throughput]
    if report.steady:
        sections.append(_steady_section(report.steady))
    if report.idle:
        sections.append(_idle_section(report.idle))
    return "\n\n".join([*sections, _audit_section(report), _targets_section(report)]) + "\n"


def _facts(report: Report) -> str:
    facts = [f"{name}: {value}" for name, value in {**report.machine, **report.settings}.items()]
    return "\n".join(facts)


def _throughput_section(part: Throughput) -> str:
    best = part.ungathered_with
    title = (
        "Durable exactly-once puts"
        if part.workload == "put"
        else "Durable exactly-once put plus read, messages"
    )
    rows = [_arm_row(str(shape), part, runs, part.ceiling[shape]) for shape, runs in part.service.items()]
    alone = f"without gathering ({best.workers} workers, {best.connections} connections)"
    rows.append(_arm_row(alone, part, part.ungathered, None))
    rows += [
        _arm_row(f"ceiling, {shape} connections' clients", part, runs, None)
        for shape, runs in part.ceiling.items()
    ]
    rows.append(_arm_row("single bare calls", part, part.single_call, None))
    header = ["connections", "per second", "times without gathering", "share of ceiling"]
    header += ["put ms", "p99", "read ms", "p99", "client us", "middleware us", "postgres us"]
    legend = "per second, medians (ratios: least to greatest; us: CPU per message)"
    return f"{title} {legend}\n\n{table(header, rows)}"


def _arm_row(
    name: str, part: Throughput, runs: Sequence[Measurement], ceiling: Sequence[Measurement] | None
) -> list[str]:
    """Return the row of one arm; those beside the service have no ratios."""
    gathering = str(ratio(rates(runs), rates(part.ungathered))) if ceiling else ""
    share = str(ratio(rates(runs), rates(ceiling))) if ceiling else ""
    times = [(run.put.median_s, run.put.p99_s, run.take.median_s, run.take.p99_s) for run in runs]
    milliseconds = [_milliseconds(median(column)) for column in zip(*times, strict=True)]
    cpu = [f"{median(run.cpu_us[tier] for run in runs):.1f}" for tier in ("client", "middleware", "postgres")]
    return [name, f"{median(rates(runs)):,.0f}", gathering, share, *milliseconds, *cpu]


def _milliseconds(seconds: float) -> str:
    return f"{1000 * seconds:.2f}" if seconds else ""


def _steady_section(parts: Sequence[Steady]) -> str:
    header = ["condition", "seconds", "per second", "slowest second", "fastest second"]
    header += ["last third against first", "postgres us, first third", "last third"]
    rows = [_steady_row(part) for part in parts]
    return f"Put plus read over time, {SHAPE} connections\n\n{table(header, rows)}"


def _steady_row(part: Steady) -> list[str]:
    run = part.measurement
    rates_per_s = [f"{rate:,.0f}" for rate in (run.per_second, min(run.series), max(run.series))]
    cpu = [f"{part.postgres_us[0]:.1f}", f"{part.postgres_us[-1]:.1f}"]
    return [part.condition, str(len(run.series)), *rates_per_s, f"{part.change:+.1%}", *cpu]


def _idle_section(idle: Idle) -> str:
    text = (
        f"Idle connections: {idle.connections:,}; resident memory of the middleware "
        f"{idle.bytes_before / _MIB:.0f} MiB before, {idle.bytes_with / _MIB:.0f} MiB with them"
    )
    if idle.connections < idle.wanted:
        text += (
            f". {idle.wanted:,} need more than {idle.open_files:,} open files: raise the limit (ulimit -n)"
        )
    return text


def _audit_section(report: Report) -> str:
    runs = all_runs(report)
    audits = [run.audit for run in runs]
    errors = sum(sum(run.errors.values()) for run in runs)
    names = sorted({name for run in runs for name in run.errors})
    rows = [[f"{sum(getattr(audit, column) for audit in audits):,}" for column in _AUDIT_COLUMNS]]
    examples = [str(example) for audit in audits for example in audit.examples]
    text = f"Audit of {len(runs)} runs\n\n{table(_AUDIT_COLUMNS, rows)}"
    if examples:
        text += f"\n\nMessages concerned, for example: {', '.join(examples[:10])}"
    if errors:
        text += f"\n\nRequests that failed: {errors:,} ({', '.join(names)})"
    return text


_AUDIT_COLUMNS: Final = ("put", "read", "left", "lost", "duplicated", "foreign")


def _targets_section(report: Report) -> str:
    rows = [
        [target.what, target.wanted, target.found, "yes" if target.reached else "NO"]
        for target in targets(report)
    ]
    return f"Targets\n\n{table(['what', 'target', 'found', 'reached'], rows)}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose columns are aligned, the first to the left, the others to the right."""
    widths = [max(len(line[column]) for line in (header, *rows)) for column in range(len(header))]
    rule = ["-" * width if column == 0 else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    lines = [_aligned(header, widths), _aligned(rule, widths), *(_aligned(row, widths) for row in rows)]
    return "\n".join(lines)


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        cell.ljust(width) if column == 0 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"
