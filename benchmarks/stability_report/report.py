"""The report of stability: the course of the runs of an experiment, and whether they were stable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pyspark.sql import SparkSession

from telesto.benchmarks.analysis.repetitions import CONFIDENCE, mean_of
from telesto.benchmarks.load.settings import RunSettings
from telesto.benchmarks.pages.page import Finding, Report
from telesto.benchmarks.pages.section import (
    Field,
    Kind,
    Row,
    Section,
    Value,
    columns,
    duration,
    figures_from,
    figures_of,
    shown,
)
from telesto.benchmarks.run_data.runs import Runs, incomplete, told
from telesto.benchmarks.spark.failures import explained_failures
from telesto.benchmarks.stability_report import plots
from telesto.benchmarks.stability_report.figures import STEPS as FIGURE_STEPS
from telesto.benchmarks.stability_report.figures import Course, compute
from telesto.benchmarks.stability_report.plots import Line
from telesto.benchmarks.stability_report.sections import OneRun, assess, levels_of, sections
from telesto.benchmarks.stability_report.verdict import Limits, Outcome

CURVES_MAX: Final = 12
RUN_COLUMNS: Final[Mapping[Field, Callable[[OneRun], Value]]] = {
    Field("run", "run", Kind.TEXT): lambda run: run.name,
    Field("levels", "levels", Kind.TEXT): lambda run: levels_of(run.result).strip(" ()"),
    Field("repetition", "repetition", Kind.COUNT): lambda run: int(run.result.get("repetition", 1)),
    Field("messages_per_s", "messages/s", Kind.COUNT): lambda run: run.rate,
    Field("operation", "operation", Kind.TEXT): lambda run: run.latency("latency").get("operation"),
    Field("p50_s", "p50", Kind.SECONDS): lambda run: run.latency("latency").get("p50_s"),
    Field("p99_s", "p99", Kind.SECONDS): lambda run: run.latency("latency").get("p99_s"),
    Field("max_s", "max", Kind.SECONDS): lambda run: run.latency("latency").get("max_s"),
    Field("stalled_s", "stalled", Kind.SECONDS): lambda run: float(run.stalled.seconds),
    Field("longest_s", "longest stall", Kind.SECONDS): lambda run: float(run.stalled.longest_s),
    Field("clean", "audit", Kind.TEXT): lambda run: (
        "clean" if run.result["balance"]["clean"] else "NOT CLEAN"
    ),
    Field("verdict", "verdict", Kind.TEXT): lambda run: run.verdict.outcome.value,
}
AT_ONCE: Final = 4
"""How many kinds of figures are computed concurrently."""
STEPS: Final = FIGURE_STEPS + 1
"""How often `step` is called."""
TONES: Final = {Outcome.STABLE: "good", Outcome.NOT_STABLE: "bad", Outcome.UNDECIDED: "note"}


def comparison_parts(course: Course, detailed: Sequence[OneRun]) -> list[Section]:
    """The sections that compare several runs; none for a single run."""
    if len(course.runs.complete) < 2:
        return []
    return [runs_part(course, detailed), repetitions_part(course.runs)]


def runs_part(course: Course, detailed: Sequence[OneRun]) -> Section:
    """A row for each run that is shown in detail."""
    curves = {f"{run.name}{levels_of(run.result)}": _counted_curve(run) for run in detailed[:CURVES_MAX]}
    return Section(
        "Comparison of the runs",
        "Repetitions should look alike; where one differs, its machine or its data did.",
        figures_from("runs", RUN_COLUMNS, detailed),
        plots.side_by_side(curves),
        "Throughput of the measured part, each run from its own beginning.",
    )


def repetitions_part(runs: Runs) -> Section:
    """A row for each combination of levels, with intervals over its repetitions."""
    rows: list[Row] = []
    alone = 0
    for combination, group in runs.repetitions().items():
        results = [runs.results[run.name] for run in group]
        rate = mean_of([result["figures"]["messages_per_s"] for result in results])
        alone += rate.count == 1
        rows.append(
            (str(combination), levels_of(results[0]).strip(" ()"), rate.count, rate.mean, rate.low, rate.high)
        )
    fields = (
        *columns(Kind.TEXT, "combination", "levels"),
        *columns(
            Kind.COUNT, repetitions="repetitions", messages_per_s="messages/s, mean", low="from", high="to"
        ),
    )
    without = f" {alone} of them have one repetition and so no interval." if alone else ""
    return Section(
        "Repetitions",
        f"The mean throughput of all complete runs of each combination of levels, with its {CONFIDENCE:.0%} "
        f"interval over independent repetitions.{without}",
        figures_of("repetitions", fields, rows),
    )


def settings_part(runs: Runs) -> Section:
    """The settings of the runs, and where they ran."""
    first = runs.complete[0].settings
    factors = runs.experiment.varied
    rows: list[Row] = [("experiment", "name", runs.experiment.name, "")]
    rows += [("experiment", key, text, "") for key, text in _texts(runs) if text]
    for name, value in first.model_dump().items():
        default = RunSettings.model_fields[name].default
        shown = ", ".join(str(level) for level in factors[name]) if name in factors else _told(value)
        rows.append(("settings", name, shown, "varied" if name in factors else _unless(value, default)))
    rows += _plain("machine", runs.origin.get("machine"))
    rows += _plain("versions", runs.origin.get("versions"))
    rows += _plain("source", runs.origin.get("source"))
    rows += _plain("PostgreSQL", runs.results[runs.complete[0].name].get("server"))
    return Section(
        "What was run, and where",
        "All settings of the runs, the machine, the versions and the commit: everything that is needed to "
        "repeat them.",
        figures_of("settings", columns(Kind.TEXT, "part", "name", "value", "remark"), rows),
        folded=True,
        group="The experiment" if len(runs.complete) > 1 else "",
    )


def _counted_curve(run: OneRun) -> Line:
    rows = run.coarse("throughput").dicts()
    middles = [row["at_s"] + row["width_s"] / 2 - run.line.begin_s for row in rows]
    return Line(middles, [row["rate"] for row in rows])


def _texts(runs: Runs) -> list[tuple[str, str]]:
    experiment = runs.experiment
    return [
        ("description", experiment.description),
        ("hypothesis", experiment.hypothesis),
        ("begun", str(runs.origin.get("created") or "")),
        ("seed", str(runs.directory.seed)),
    ]


def _plain(part: str, values: Mapping[str, Any] | None) -> list[Row]:
    return [(part, str(name), _told(value), "") for name, value in (values or {}).items()]


def _told(value: object) -> str:
    return "not given" if value is None else str(value)


def _unless(value: object, default: object) -> str:
    return "" if value == default else f"by default {_told(default)}"


def stability_report(
    spark: SparkSession, runs: Runs, limits: Limits, step: Callable[[], None] = lambda: None
) -> Report:
    """Make the report.

    `limits` is the user's definition of stable; `step` is called STEPS times. Raises RunsError if a table of
    a run is missing or of another release, or a run has no measured second; ReportError if Spark fails.
    """
    with explained_failures(), ThreadPoolExecutor(AT_ONCE) as pool:
        course = compute(spark, runs, limits, pool, step)
    report = _put_together(course)
    step()
    return report


def _put_together(course: Course) -> Report:
    runs = course.runs
    detailed = [assess(course, name) for name in course.lines]
    parts: list[Section] = comparison_parts(course, detailed)
    for run in detailed:
        parts += sections(run)
    parts.append(settings_part(runs))
    return Report(
        title=f"Telesto: stability of “{runs.experiment.title}”",
        subtitle=_subtitle(runs),
        summary=_summary(detailed),
        findings=_findings(course, detailed),
        sections=parts,
        footer=(
            "Latencies come from HdrHistograms (three digits) that were merged, never averaged. Warm-up and "
            "cool-down are cut off from every figure in the same way.",
            "docs/how-to/reports.md has the formulas and where they come from.",
        ),
    )


def _subtitle(runs: Runs) -> str:
    commit = str((runs.origin.get("source") or {}).get("commit") or "unknown")[:12]
    begun = str(runs.origin.get("created", "at an unknown time"))
    begun = begun.replace("T", " ").removesuffix("+00:00")
    return f"{runs.directory.path.name}, begun {begun} UTC, commit {commit}"


def _summary(detailed: Sequence[OneRun]) -> list[tuple[str, str]]:
    first = detailed[0]
    cards = [("verdict", _verdicts(detailed))]
    if len(detailed) > 1:
        return [*cards, ("runs", str(len(detailed))), *_range(detailed)]
    latency = first.latency("latency")
    return [
        *cards,
        ("messages per second", shown(first.rate, Kind.COUNT)),
        ("p50 of " + latency.get("operation", "latency"), shown(latency.get("p50_s"), Kind.SECONDS)),
        ("p99", shown(latency.get("p99_s"), Kind.SECONDS)),
        ("counted", duration(first.line.counted_s)),
        ("stalled", duration(first.stalled.seconds) if first.stalled.seconds else "never"),
        ("lost or duplicated", shown(_wrong(first.result), Kind.COUNT)),
    ]


def _range(detailed: Sequence[OneRun]) -> list[tuple[str, str]]:
    rates = [run.rate for run in detailed]
    return [
        ("messages per second, minimum", shown(min(rates), Kind.COUNT)),
        ("maximum", shown(max(rates), Kind.COUNT)),
        ("longest stall", duration(max(run.stalled.longest_s for run in detailed))),
        ("lost or duplicated", shown(sum(_wrong(run.result) for run in detailed), Kind.COUNT)),
    ]


def _verdicts(detailed: Sequence[OneRun]) -> str:
    stable = sum(run.verdict.outcome is Outcome.STABLE for run in detailed)
    if len(detailed) == 1:
        return detailed[0].verdict.outcome.value
    return f"{stable} of {len(detailed)} stable"


def _wrong(result: Mapping[str, Any]) -> int:
    balance = result["balance"]
    return sum(int(balance[name]) for name in ("lost", "duplicated", "out_of_order", "foreign"))


def _findings(course: Course, detailed: Sequence[OneRun]) -> list[Finding]:
    runs = course.runs
    findings = incomplete(runs)
    for run in detailed:
        name = f"Run {run.name}: " if len(detailed) > 1 else ""
        findings.append(Finding(TONES[run.verdict.outcome], name + run.verdict.sentence()))
    if len(detailed) < len(runs.complete):
        findings.append(
            Finding(
                "note",
                f"{len(detailed)} of {len(runs.complete)} runs are shown in detail: "
                f"{told(list(course.lines))}.",
            )
        )
    if not runs.unclean:
        findings.append(Finding("good", "The audit found nothing lost, duplicated, out of order or foreign."))
    return findings
