"""The runs of an experiment beside each other, and what they were told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from telesto.benchmarks.analysis.repetitions import CONFIDENCE, mean_of
from telesto.benchmarks.harness.settings import RunSettings
from telesto.benchmarks.pages.section import Field, Figures, Kind, Row, Section
from telesto.benchmarks.run_data.runs import Runs
from telesto.benchmarks.stability_report import plots
from telesto.benchmarks.stability_report.figures import Course
from telesto.benchmarks.stability_report.plots import Line
from telesto.benchmarks.stability_report.sections import OneRun

CURVES_MAX: Final = 12


def comparison_parts(course: Course, told_of: Sequence[OneRun]) -> list[Section]:
    """The sections that compare several runs; none where there is one."""
    if len(course.runs.whole) < 2:
        return []
    return [runs_part(course, told_of), repetitions_part(course.runs)]


def runs_part(course: Course, told_of: Sequence[OneRun]) -> Section:
    """A row for each run that is told of."""
    rows = tuple(_row(run) for run in told_of)
    fields = (
        Field("run", "run", Kind.TEXT),
        Field("levels", "levels", Kind.TEXT),
        Field("repetition", "repetition", Kind.COUNT),
        Field("messages_per_s", "messages/s", Kind.COUNT),
        Field("operation", "operation", Kind.TEXT),
        Field("p50_s", "p50", Kind.SECONDS),
        Field("p99_s", "p99", Kind.SECONDS),
        Field("max_s", "max", Kind.SECONDS),
        Field("stalled_s", "stalled", Kind.SECONDS),
        Field("longest_s", "longest stall", Kind.SECONDS),
        Field("clean", "audit", Kind.TEXT),
        Field("verdict", "verdict", Kind.TEXT),
    )
    curves = {f"{run.name}{_levels(run.result)}": _counted_curve(run) for run in told_of[:CURVES_MAX]}
    return Section(
        "The runs beside each other",
        "Repetitions that are alike should look alike; where one differs, its machine or its data did.",
        Figures("runs", fields, rows, len(rows)),
        plots.side_by_side(curves),
        "Throughput of the time that counts, each run from its own beginning.",
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
            (str(combination), _levels(results[0]).strip(" ()"), rate.count, rate.mean, rate.low, rate.high)
        )
    fields = (
        Field("combination", "combination", Kind.TEXT),
        Field("levels", "levels", Kind.TEXT),
        Field("repetitions", "repetitions", Kind.COUNT),
        Field("messages_per_s", "messages/s, mean", Kind.COUNT),
        Field("low", "from", Kind.COUNT),
        Field("high", "to", Kind.COUNT),
    )
    without = f" {alone} of them have one repetition and so no interval." if alone else ""
    return Section(
        "Repetitions",
        f"The mean throughput of all whole runs of each combination of levels, with its {CONFIDENCE:.0%} "
        f"interval over independent repetitions.{without}",
        Figures("repetitions", fields, tuple(rows), len(rows)),
    )


def settings_part(runs: Runs) -> Section:
    """What the runs were told, and where they ran."""
    first = runs.whole[0].settings
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
    rows += _plain("PostgreSQL", runs.results[runs.whole[0].name].get("server"))
    fields = (
        Field("part", "part", Kind.TEXT),
        Field("name", "name", Kind.TEXT),
        Field("value", "value", Kind.TEXT),
        Field("remark", "remark", Kind.TEXT),
    )
    return Section(
        "What was run, and where",
        "All settings of the runs, the machine, the versions and the commit: what somebody needs to do it "
        "again.",
        Figures("settings", fields, tuple(rows), len(rows)),
        folded=True,
        group="The experiment" if len(runs.whole) > 1 else "",
    )


def _row(run: OneRun) -> Row:
    latency = run.latency("latency")
    return (
        run.name,
        _levels(run.result).strip(" ()"),
        int(run.result.get("repetition", 1)),
        run.rate,
        latency.get("operation"),
        latency.get("p50_s"),
        latency.get("p99_s"),
        latency.get("max_s"),
        float(run.stalled.seconds),
        float(run.stalled.longest_s),
        "clean" if run.result["balance"]["clean"] else "NOT CLEAN",
        run.verdict.outcome.value,
    )


def _counted_curve(run: OneRun) -> Line:
    figures = run.coarse("throughput")
    names = [field.name for field in figures.fields]
    kept = [dict(zip(names, row, strict=True)) for row in figures.rows]
    middles = [float(row["at_s"]) + float(row["width_s"]) / 2 - run.line.begin_s for row in kept]  # type: ignore[arg-type]
    return Line(middles, [float(row["rate"]) for row in kept])  # type: ignore[arg-type]


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


def _levels(result: Mapping[str, Any]) -> str:
    levels = result.get("levels") or {}
    return f" ({', '.join(f'{name} = {value}' for name, value in levels.items())})" if levels else ""
