"""The sections of a report of stability about one run: figures, plots and explanations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from telesto.benchmarks.analysis.trend import Trend
from telesto.benchmarks.pages.section import (
    Field,
    Figures,
    Kind,
    Section,
    Value,
    columns,
    duration,
    figures_from,
    figures_of,
)
from telesto.benchmarks.run_data.timeline import COARSE, COUNTED, FINE, Timeline
from telesto.benchmarks.run_data.usage import DEAD_ROWS
from telesto.benchmarks.stability_report import plots
from telesto.benchmarks.stability_report.figures import LOG_COLUMN, Course
from telesto.benchmarks.stability_report.plots import Line
from telesto.benchmarks.stability_report.verdict import (
    METRICS,
    RATE,
    Drift,
    Stalled,
    Verdict,
    drift_of,
    trends_of_run,
    verdict_of,
)

EVENTS_MAX: Final = 6
"""Wait events that the plot distinguishes."""
TIERS: Final = ("client", "middleware", "postgres", "harness")
TITLES: Final = {"latency": "response time", "age": "age at hand-over"}
COUNTERS_SHOWN: Final = {
    "wal": ("wal_bytes", "wal_records", "wal_fpi", "wal_buffers_full"),
    "database": (
        *("xact_commit", "xact_rollback", "tup_inserted", "tup_updated", "tup_deleted"),
        *("blks_read", "deadlocks", "temp_bytes"),
    ),
    "tables": ("seq_scan", "idx_scan", "autovacuum_count"),
    "checkpointer": ("num_timed", "num_requested"),
    "bgwriter": ("checkpoints_timed", "checkpoints_req"),
}
"""The counters of PostgreSQL that the page shows, by view; the figures have all of them, about a hundred."""


DRIFT_COLUMNS: Final[Mapping[Field, Callable[[Drift], Value]]] = {
    Field("metric", "series", Kind.TEXT): lambda drift: drift.metric.title.removeprefix("the "),
    Field("decisive", "decisive", Kind.TEXT, on_page=False): lambda drift: (
        "yes" if drift.metric.decisive else "no"
    ),
    Field("points", "intervals", Kind.COUNT, on_page=False): lambda drift: drift.trend.points,
    Field("change", "change", Kind.CHANGE): lambda drift: drift.change,
    Field("change_low", "from", Kind.CHANGE): lambda drift: drift.low,
    Field("change_high", "to", Kind.CHANGE): lambda drift: drift.high,
    Field("per_hour", "in an hour, with its interval", Kind.TEXT): lambda drift: drift.per_hour,
    Field("slope", "slope per second", Kind.RATIO, on_page=False): lambda drift: drift.trend.slope,
    Field("slope_low", "from", Kind.RATIO, on_page=False): lambda drift: drift.trend.slope_low,
    Field("slope_high", "to", Kind.RATIO, on_page=False): lambda drift: drift.trend.slope_high,
    Field("p", "p", Kind.RATIO): lambda drift: drift.trend.p,
    Field("correlation", "correlation", Kind.RATIO, on_page=False): lambda drift: drift.trend.correlation,
    Field("assessment", "assessment", Kind.TEXT): lambda drift: (
        drift.assessment.value if drift.metric.decisive else "shown only"
    ),
}


@dataclass(frozen=True, slots=True)
class OneRun:
    """A run that is shown in detail, with its verdict."""

    course: Course
    name: str
    drifts: tuple[Drift, ...]
    stalled: Stalled
    verdict: Verdict

    @property
    def line(self) -> Timeline:
        """Its timeline."""
        return self.course.lines[self.name]

    @property
    def result(self) -> Mapping[str, Any]:
        """Its run.json."""
        return self.course.runs.results[self.name]

    @property
    def rate(self) -> float:
        """Messages per second of the measured part."""
        return float(self.result["figures"]["messages_per_s"])

    def figures(self, key: str) -> Figures:
        """Its figures of one kind, except for series."""
        return self.course.of(key, self.name)

    def fine(self, key: str) -> Figures:
        """A series in fine intervals, of the whole run."""
        return self.course.of(key, self.name, FINE)

    def coarse(self, key: str) -> Figures:
        """A series in coarse intervals, of the measured part."""
        return self.course.of(key, self.name, COARSE, COUNTED)

    def latency(self, measure: str) -> dict[str, Any]:
        """The figures of its main operation; empty if there is none."""
        operation = self.course.operations.get((self.name, measure))
        rows = self.figures("latencies").where(operation=operation, measure=measure).dicts()
        return rows[0] if rows else {}


def assess(course: Course, name: str) -> OneRun:
    """Assess a run by its figures."""
    line = course.lines[name]
    trends = _trends(course, name)
    stalls = course.of("stalls", name).dicts()
    stalled = Stalled(
        len(stalls),
        sum(row["seconds"] for row in stalls),
        max((row["seconds"] for row in stalls), default=0),
        line.counted_s,
    )
    messages = (trends[RATE].median or 0.0) * line.counted_s if RATE in trends else 0.0
    tolerance = course.limits.tolerance
    drifts = tuple(
        drift_of(metric, trends[metric.key], line.counted_s, messages, tolerance)
        for metric in METRICS
        if metric.key in trends
    )
    return OneRun(course, name, drifts, stalled, verdict_of(drifts, stalled, course.limits))


def _trends(course: Course, name: str) -> dict[str, Trend]:
    """Test the coarse intervals of the measured part."""
    series = {
        key: course.of(key, name, COARSE, COUNTED).dicts()
        for key in ("throughput", "latency", "backlog", "processors", "memory", "levels")
    }
    log = [row for row in _log(course, name).dicts() if row["phase"] == COUNTED]
    dead = [row for row in series.pop("levels") if (row["source"], row["counter"]) == DEAD_ROWS]
    return trends_of_run(**series, log=log, levels=dead)


def _log(course: Course, name: str) -> Figures:
    """Bytes of PostgreSQL's log for each message, in coarse intervals that have messages."""
    rates = {row["at_s"]: row["rate"] for row in course.of("throughput", name, COARSE).dicts()}
    grown = course.of("wal", name, COARSE)
    rows = tuple(
        (row["phase"], row["at_s"], row["width_s"], row["per_s"] / rates[row["at_s"]])
        for row in grown.dicts()
        if rates.get(row["at_s"])
    )
    return figures_of(grown.key, (*grown.fields[:3], LOG_COLUMN), rows)


def sections(run: OneRun) -> list[Section]:
    """All sections about a run."""
    parts = (
        verdict_part(run),
        throughput_part(run),
        latency_part(run),
        distribution_part(run),
        stalls_part(run),
        backlog_part(run),
        tiers_part(run),
        database_part(run),
        waits_part(run),
        audit_part(run),
    )
    several = len(run.course.runs.complete) > 1
    return (
        [replace(part, group=f"Run {run.name}{levels_of(run.result)}") for part in parts]
        if several
        else list(parts)
    )


def verdict_part(run: OneRun) -> Section:
    """The basis of the verdict."""
    tolerance = run.course.limits.tolerance
    return Section(
        "Drift: the basis of the verdict",
        f"Each series in intervals of {duration(run.line.coarse_s)}, tested for a trend (Mann and Kendall, "
        "corrected for autocorrelation) and measured (Theil and Sen). It is steady if the whole confidence "
        f"interval of its change lies within ±{tolerance:.0%} (the backlog: ±{tolerance / 10:.0%} of all "
        "messages). It drifts if the trend is significant and the change is larger.",
        figures_from(_key(run, "trends"), DRIFT_COLUMNS, run.drifts),
        plots.drifts(run.drifts, tolerance)
        if any(drift.change is not None for drift in run.drifts)
        else None,
        "The change of each series over the measured part, with its 95% interval. A series whose interval "
        "leaves the grey band is not steady. Series in grey do not affect the verdict.",
    )


def throughput_part(run: OneRun) -> Section:
    """Throughput over time."""
    fine, coarse = run.fine("throughput"), run.coarse("throughput")
    stalls = [(row["from_s"], row["seconds"]) for row in run.figures("stalls").dicts()]
    median = _median(run, RATE)
    share = run.course.limits.stall_below
    return Section(
        "Throughput",
        "Messages delivered per second (put, if no client reads). A healthy service keeps its throughput; it "
        "may vary from second to second.",
        coarse,
        plots.throughput(run.line, _line(fine, "rate"), _line(coarse, "rate"), median, stalls, share)
        if fine.rows
        else None,
        "Thin: each interval; thick: means of longer ones. Grey times are not measured (warm-up, cool-down); "
        "red ones are stalls.",
        folded=True,
        more=(fine,),
    )


def latency_part(run: OneRun) -> Section:
    """Latency over time."""
    fine, coarse = run.fine("latency"), run.coarse("latency")
    panels = {}
    for measure in ("latency", "age"):
        rows = fine.where(measure=measure)
        if rows.rows:
            operation = run.course.operations[run.name, measure]
            panels[f"{TITLES[measure]} ({operation})"] = {
                name: _line(rows, name) for name in plots.PERCENTILES
            }
    told = duration(run.line.fine_s)
    return Section(
        "Response time over the run",
        "How long requests took, from their scheduled times, and how old messages were when they were "
        "delivered. A p99 of 20 ms means that 99 of 100 took 20 ms or less.",
        coarse,
        plots.latencies(run.line, panels) if panels else None,
        f"Percentiles of each {told}, from merged histograms, on a logarithmic scale. Where only the upper "
        "lines rise, a few requests wait for something.",
        folded=True,
        more=(fine,),
    )


def distribution_part(run: OneRun) -> Section:
    """The distribution of latencies."""
    figures, classes = run.figures("latencies"), run.figures("distribution")
    counts = {(row["operation"], row["measure"]): row["count"] for row in figures.dicts()}
    curves = {}
    for (operation, measure), count in counts.items():
        rows = classes.where(operation=operation, measure=measure).dicts()
        if measure == "latency" and count and rows:
            times = [rows[0]["from_s"], *(row["to_s"] for row in rows)]
            curves[operation] = (times, [1.0, *(row["longer"] / count for row in rows)])
    return Section(
        "Distribution of response times",
        "The share of the operations that took longer than a given time. Random variation gives a straight "
        "line; a shoulder shows a second cause, such as a checkpoint or a wait for a lock.",
        figures,
        plots.tails(curves) if curves else None,
        "Both scales are logarithmic, so that one operation in a million is visible. An operation “request” "
        "is a round trip through both of its queues.",
        more=(classes,),
    )


def stalls_part(run: OneRun) -> Section:
    """The stalls."""
    return Section(
        "Stalls",
        "Times with a throughput below "
        f"{run.course.limits.stall_below:.0%} of the median of all seconds. {_stalls(run.stalled)}",
        run.figures("stalls"),
    )


def _stalls(stalled: Stalled) -> str:
    if not stalled.stalls:
        return f"There were none in {stalled.counted_s:,} seconds."
    return (
        f"There were {stalled.stalls:,}, together {stalled.seconds:,} of {stalled.counted_s:,} seconds; the "
        f"longest took {stalled.longest_s:,} s."
    )


def backlog_part(run: OneRun) -> Section:
    """The backlog over time."""
    fine, coarse = run.fine("backlog"), run.coarse("backlog")
    return Section(
        "Backlog",
        "Messages that were put but not delivered yet, by the records of the clients. The backlog may go up "
        "and down; if it keeps growing, the readers are too slow.",
        coarse,
        plots.area(run.line, _line(fine, "backlog"), "messages waiting") if fine.rows else None,
        "At the end of each interval. A request counts as put when its response comes, so the backlog may "
        "look smaller than it was, by the number of waiting clients, and even be below 0.",
        folded=True,
        more=(fine,),
    )


def tiers_part(run: OneRun) -> Section:
    """Processors and memory of the tiers."""
    processors, memory = run.fine("processors"), run.fine("memory")
    rows = []
    for tier in TIERS:
        used = [row["processors"] for row in processors.where(tier=tier).dicts() if row["phase"] == COUNTED]
        bytes_ = [row["memory_bytes"] for row in memory.where(tier=tier).dicts() if row["phase"] == COUNTED]
        if used and bytes_:
            rows.append((tier, sum(used) / len(used), max(used), bytes_[0], bytes_[-1], max(bytes_)))
    fields = (
        *columns(Kind.TEXT, "tier"),
        *columns(Kind.RATIO, processors="processors, mean", processors_most="most"),
        *columns(Kind.BYTES, memory_first="memory at first", memory_last="at the end", memory_most="most"),
    )
    return Section(
        "Processors and memory",
        "The usage of each tier, over all of its processes. PostgreSQL's memory grows until its shared "
        f"buffers ({run.result['server'].get('shared_buffers', 'unknown')}) are full, and the client's with "
        "its records. The middlewares keep no state, so their memory should stay constant.",
        figures_of(_key(run, "tiers"), fields, rows),
        plots.tiers(
            run.line,
            {tier: _line(processors.where(tier=tier), "processors") for tier in _known_tiers(processors)},
            {tier: _line(memory.where(tier=tier), "memory_bytes") for tier in _known_tiers(processors)},
        )
        if processors.rows
        else None,
        "1 is one fully used processor. “harness” is the process that takes the samples.",
        more=(processors, memory, run.coarse("processors"), run.coarse("memory")),
    )


def database_part(run: OneRun) -> Section:
    """PostgreSQL's counters."""
    counters, levels, log = (run.figures("counters"), run.fine("levels"), _log(run.course, run.name))
    messages = run.rate * run.line.counted_s
    found = {(row["source"], row["counter"]): row for row in counters.dicts()}
    rows = tuple(
        (
            *name,
            found[name]["total"],
            found[name]["per_s"],
            found[name]["total"] / messages if messages else None,
        )
        for source, names in COUNTERS_SHOWN.items()
        for name in ((source, each) for each in names)
        if name in found
    )
    fields = (*counters.fields, Field("per_message", "per message", Kind.RATIO))
    checkpoints = run.figures("checkpoints")
    dead = levels.where(source=DEAD_ROWS[0], counter=DEAD_ROWS[1])
    return Section(
        "PostgreSQL",
        "The log for each message rises after a checkpoint, when whole pages are written to it (wal_fpi). "
        "Vacuum removes dead rows: their number goes up and down, and must not rise from one vacuum to the "
        "next.",
        figures_of(_key(run, "database"), fields, rows),
        plots.database(
            run.line,
            _line(log, "bytes"),
            _line(dead, "level"),
            [row["since_s"] for row in checkpoints.dicts()],
        )
        if log.rows or dead.rows
        else None,
        f"Means of {duration(run.line.coarse_s)} above, of {duration(run.line.fine_s)} below; a vertical "
        f"line is a checkpoint ({len(checkpoints.rows)} began)." + _no_checkpoints(found),
        folded=True,
        more=(counters, levels, log, checkpoints),
    )


def waits_part(run: OneRun) -> Section:
    """The wait events of backends."""
    figures, over_time = run.figures("waits"), run.course.of("waits_over_time", run.name, COARSE)
    rows = tuple(sorted(figures.rows, key=lambda row: -float(row[1])))  # type: ignore[arg-type]
    return Section(
        "Wait events of PostgreSQL",
        "Active backends by wait event, from samples; the largest is where time could be saved. Running "
        "means that a backend waited for nothing, as far as PostgreSQL knows.",
        figures_of(figures.key, figures.fields, rows),
        plots.waits(run.line, _events(over_time, [str(row[0]) for row in rows])) if over_time.rows else None,
        f"Means of {duration(run.line.coarse_s)}, stacked: the total is the number of active backends.",
        folded=True,
        more=(over_time,),
    )


def audit_part(run: OneRun) -> Section:
    """The audit and the failures."""
    balance, result = run.result["balance"], run.result
    amiss = [
        ("messages put", balance["put"], ""),
        ("lost", balance["lost"], "must be 0"),
        ("duplicated", balance["duplicated"], "must be 0"),
        ("out of order", balance["out_of_order"], "must be 0"),
        ("foreign", balance["foreign"], "must be 0: no client put them"),
        ("in doubt", balance.get("in_doubt"), "puts and acknowledgements without a known outcome"),
        ("redelivered", result.get("redelivered"), "marked as redelivered"),
        ("sent late", result["late"], "open loop: no slot was free at the scheduled time"),
        ("not sent", result["unsent"], "open loop: not sent before the end"),
        *((f"failed: {name}", count, "") for name, count in sorted(result["errors"].items())),
    ]
    fields = (
        *columns(Kind.TEXT, "what"),
        *columns(Kind.COUNT, count="how many"),
        *columns(Kind.TEXT, "remark"),
    )
    return Section(
        "Audit and failures",
        "The fate of every message, including warm-up and cool-down, and the requests that were late or "
        "failed.",
        figures_of(_key(run, "audit"), fields, amiss),
    )


def _events(figures: Figures, names: Sequence[str]) -> dict[str, Line]:
    """The largest events individually, the others together, at all times."""
    moments = sorted({(row["at_s"], row["width_s"]) for row in figures.dicts()})
    found = {(row["at_s"], row["event"]): row["backends"] for row in figures.dicts()}
    middles = [at + width / 2 for at, width in moments]

    def sums(events: Sequence[str]) -> Line:
        return Line(middles, [sum(found.get((at, event), 0.0) for event in events) for at, _ in moments])

    lines = {name: sums([name]) for name in names[:EVENTS_MAX]}
    return lines | ({"others": sums(names[EVENTS_MAX:])} if names[EVENTS_MAX:] else {})


def _line(figures: Figures, value: str) -> Line:
    rows = figures.dicts()
    return Line([row["at_s"] + row["width_s"] / 2 for row in rows], [row[value] for row in rows])


def _median(run: OneRun, key: str) -> float:
    return next((drift.trend.median or 0.0 for drift in run.drifts if drift.metric.key == key), 0.0)


def _known_tiers(figures: Figures) -> list[str]:
    there = {row["tier"] for row in figures.dicts()}
    return [tier for tier in TIERS if tier in there]


def _key(run: OneRun, name: str) -> str:
    """The key of figures that this module makes, in the form of those that Spark computes."""
    return run.course.key_of(name, run.name)


def levels_of(result: Mapping[str, Any]) -> str:
    """The levels of a run, in parentheses behind its name."""
    levels = result.get("levels") or {}
    return f" ({', '.join(f'{name} = {value}' for name, value in levels.items())})" if levels else ""


def _no_checkpoints(found: Mapping[tuple[str, str], object]) -> str:
    known = any("checkpoint" in source or "checkpoint" in counter for source, counter in found)
    return "" if known else " This run has no record of checkpoints."
