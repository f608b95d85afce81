"""The report of stability: how the runs of an experiment went over their time, and whether they held."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from telesto.benchmarks.pages.page import Finding, Report
from telesto.benchmarks.pages.section import Kind, Section, duration, shown
from telesto.benchmarks.run_data.runs import Runs, told
from telesto.benchmarks.spark.errors import explain
from telesto.benchmarks.stability_report.comparison import comparison_parts, settings_part
from telesto.benchmarks.stability_report.figures import STEPS as FIGURE_STEPS
from telesto.benchmarks.stability_report.figures import Course, reckon
from telesto.benchmarks.stability_report.sections import OneRun, judged, sections
from telesto.benchmarks.stability_report.verdict import Limits, Outcome

AT_ONCE: Final = 4
"""How many kinds of figures are reckoned at a time."""
STEPS: Final = FIGURE_STEPS + 1
"""How often the report says that it is a step further."""
TONES: Final = {Outcome.STABLE: "good", Outcome.NOT_STABLE: "bad", Outcome.UNDECIDED: "note"}


def stability_report(
    spark: SparkSession, runs: Runs, limits: Limits, step: Callable[[], None] = lambda: None
) -> Report:
    """Make the report.

    Args:
        spark: what reads and reckons.
        runs: of the experiment.
        limits: what is thought stable.
        step: is called STEPS times.

    Raises:
        RunsError: a table of a run is missing or not of this release, or nothing of it counts.
        ReportError: Spark failed.
    """
    with _explained_failures(), ThreadPoolExecutor(AT_ONCE) as pool:
        course = reckon(spark, runs, limits, pool, step)
    report = _put_together(course)
    step()
    return report


def _put_together(course: Course) -> Report:
    runs = course.runs
    told_of = [judged(course, name) for name in course.lines]
    parts: list[Section] = comparison_parts(course, told_of)
    for run in told_of:
        parts += sections(run)
    parts.append(settings_part(runs))
    return Report(
        title=f"Telesto: stability of “{runs.experiment.title}”",
        subtitle=_subtitle(runs),
        summary=_summary(told_of),
        findings=_findings(course, told_of),
        sections=parts,
        footer=(
            "Latencies are of HdrHistograms (three digits) that were merged, never averaged; warm-up and "
            "cool-down are cut off from every figure the same way.",
            "docs/reports.md has the formulas and where they come from.",
        ),
    )


def _subtitle(runs: Runs) -> str:
    commit = str((runs.origin.get("source") or {}).get("commit") or "unknown")[:12]
    begun = str(runs.origin.get("created", "at an unknown time"))
    begun = begun.replace("T", " ").removesuffix("+00:00")
    return f"{runs.directory.path.name}, begun {begun} UTC, commit {commit}"


def _summary(told_of: Sequence[OneRun]) -> list[tuple[str, str]]:
    first = told_of[0]
    cards = [("verdict", _verdicts(told_of))]
    if len(told_of) > 1:
        return [*cards, ("runs", str(len(told_of))), *_range(told_of)]
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


def _range(told_of: Sequence[OneRun]) -> list[tuple[str, str]]:
    rates = [run.rate for run in told_of]
    return [
        ("messages per second, least", shown(min(rates), Kind.COUNT)),
        ("most", shown(max(rates), Kind.COUNT)),
        ("longest stall", duration(max(run.stalled.longest_s for run in told_of))),
        ("lost or duplicated", shown(sum(_wrong(run.result) for run in told_of), Kind.COUNT)),
    ]


def _verdicts(told_of: Sequence[OneRun]) -> str:
    stable = sum(run.verdict.outcome is Outcome.STABLE for run in told_of)
    if len(told_of) == 1:
        return told_of[0].verdict.outcome.value
    return f"{stable} of {len(told_of)} stable"


def _wrong(result: Mapping[str, Any]) -> int:
    balance = result["balance"]
    return sum(int(balance[name]) for name in ("lost", "duplicated", "out_of_order", "foreign"))


def _findings(course: Course, told_of: Sequence[OneRun]) -> list[Finding]:
    runs = course.runs
    findings = []
    if runs.unclean:
        findings.append(
            Finding(
                "bad",
                f"The audit of {told(runs.unclean)} is NOT CLEAN: messages were lost, duplicated, out of "
                "order or foreign. The figures are those of a service that failed.",
            )
        )
    for run in told_of:
        name = f"Run {run.name}: " if len(told_of) > 1 else ""
        findings.append(Finding(TONES[run.verdict.outcome], name + run.verdict.told()))
    if runs.partial:
        findings.append(
            Finding(
                "note",
                f"This report is PARTIAL: {len(runs.whole)} of {len(runs.whole) + len(runs.missing)} runs "
                f"are whole; missing are {told(runs.missing)}. The same `telesto bench run` goes on with "
                "them.",
            )
        )
    if len(told_of) < len(runs.whole):
        findings.append(
            Finding(
                "note",
                f"Of {len(runs.whole)} runs, {len(told_of)} are told of in detail: "
                f"{told(list(course.lines))}.",
            )
        )
    if not runs.unclean:
        findings.append(Finding("good", "The audit found nothing lost, duplicated, out of order or foreign."))
    return findings


@contextmanager
def _explained_failures() -> Iterator[None]:
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise explain(error) from error
