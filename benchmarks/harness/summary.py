"""The figures of an experiment as text: a row for each combination of levels, medians of its runs.

Processor time is given for each message: it depends less on other load of the machine than rates do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Final

from telesto.benchmarks.harness.manifest import ExperimentDirectory
from telesto.benchmarks.results.audit import COLUMNS, headings
from telesto.benchmarks.results.ratios import ratio, table

TIERS: Final = ("client", "middleware", "postgres")
PERCENTILES: Final = ("p50_ms", "p99_ms")
_MIB: Final = 2**20

Result = dict[str, Any]
Levels = dict[str, Any]


def summarise(directory: ExperimentDirectory) -> str:
    """Return the figures and the audit of all complete runs, as text with Markdown tables."""
    whole = [run for run in directory.runs if directory.is_complete(run)]
    results = [directory.result_of(run) for run in whole]
    head = f"{directory.experiment.title}: {len(whole)} of {len(directory.runs)} runs"
    if not results:
        return head
    parts = [head, _figures(results, directory.experiment.against), _operations(results), _audit(results)]
    return "\n\n".join([*parts, *_remarks(results)])


def is_clean(directory: ExperimentDirectory) -> bool:
    """Tell whether the audit of every complete run is clean."""
    return all(
        directory.result_of(run)["balance"]["clean"] for run in directory.runs if directory.is_complete(run)
    )


def _combinations(results: Sequence[Result]) -> dict[int, list[Result]]:
    """Return the runs of each combination, in the order of their numbers."""
    found: dict[int, list[Result]] = {}
    for result in sorted(results, key=lambda each: (each["combination"], each["repetition"])):
        found.setdefault(result["combination"], []).append(result)
    return found


def _levels(runs: Sequence[Result]) -> list[str]:
    """Return the levels of a combination, or the number of runs if nothing varies."""
    return [str(level) for level in runs[0]["levels"].values()] or [str(len(runs))]


def _figures(results: Sequence[Result], against: Sequence[Levels]) -> str:
    header = [
        *(list(results[0]["levels"]) or ["runs"]),
        *("messages/s", "least", "most"),
        *("against " + ", ".join(f"{name} {level}" for name, level in levels.items()) for levels in against),
        *("slowest s", "fastest s", "last third"),
        *(f"{tier} us" for tier in TIERS),
        "middleware MiB",
    ]
    combinations = list(_combinations(results).values())
    return table(header, [_row(runs, combinations, against) for runs in combinations])


def _row(
    runs: Sequence[Result], combinations: Sequence[Sequence[Result]], against: Sequence[Levels]
) -> list[str]:
    rates = [run["figures"]["messages_per_s"] for run in runs]
    course = [run["figures"] for run in runs]
    memory = [run["tiers"].get("middleware", {}).get("memory_bytes") for run in runs]
    return [
        *_levels(runs),
        *(f"{rate:,.0f}" for rate in (median(rates), min(rates), max(rates))),
        *(_ratio(runs, combinations, levels) for levels in against),
        *(_median((each[name] for each in course), ",.0f") for name in ("slowest_s", "fastest_s")),
        _median((each["change"] for each in course), "+.1%"),
        *(_median((_processor_us(run, tier) for run in runs), ",.1f") for tier in TIERS),
        _median((None if each is None else each / _MIB for each in memory), ",.0f"),
    ]


def _ratio(runs: Sequence[Result], combinations: Sequence[Sequence[Result]], levels: Levels) -> str:
    """Return the ratio to the combination that has these levels instead, within each repetition."""
    wanted = runs[0]["levels"] | levels
    if wanted == runs[0]["levels"]:
        return ""
    base = {
        run["repetition"]: run["figures"]["messages_per_s"]
        for each in combinations
        for run in each
        if run["levels"] == wanted
    }
    paired = [run for run in runs if base.get(run["repetition"])]
    if not paired:
        return ""
    return str(
        ratio(
            [run["figures"]["messages_per_s"] for run in paired], [base[run["repetition"]] for run in paired]
        )
    )


def _processor_us(run: Result, tier: str) -> float | None:
    """Return a tier's microseconds of processor time for each message."""
    rate = run["figures"]["messages_per_s"]
    return 1e6 * run["tiers"][tier]["processors"] / rate if rate and tier in run["tiers"] else None


def _operations(results: Sequence[Result]) -> str:
    """Return rates and latencies by operation: medians over the runs, in milliseconds."""
    header = [
        *(list(results[0]["levels"]) or ["runs"]),
        *("operation", "per second", "p50 ms", "p99 ms", "age p50 ms", "age p99 ms"),
    ]
    rows = []
    for runs in _combinations(results).values():
        for operation in dict.fromkeys(name for run in runs for name in run["figures"]["rates"]):
            rate = median(run["figures"]["rates"].get(operation, 0.0) for run in runs)
            latencies = [run["figures"]["latencies"].get(operation, {}) for run in runs]
            rows.append(
                [
                    *(*_levels(runs), operation, f"{rate:,.0f}"),
                    *(
                        _median(each.get(measure, {}).get(percentile) for each in latencies)
                        for measure in ("latency", "age")
                        for percentile in PERCENTILES
                    ),
                ]
            )
    return table(header, rows)


def _median(values: Iterable[float | None], form: str = ",.2f") -> str:
    known = [value for value in values if value is not None]
    return format(median(known), form) if known else ""


def _audit(results: Sequence[Result]) -> str:
    sums = [f"{sum(result['balance'][column] for result in results):,}" for column in COLUMNS]
    return f"Audit of {len(results)} runs\n\n{table(headings(COLUMNS), [sums])}"


def _remarks(results: Sequence[Result]) -> list[str]:
    remarks = []
    errors: dict[str, int] = {}
    for result in results:
        for name, count in result["errors"].items():
            errors[name] = errors.get(name, 0) + count
    if errors:
        told = ", ".join(f"{count:,} x {name}" for name, count in sorted(errors.items()))
        remarks.append(f"Requests that failed: {told}")
    unsent, late = (sum(result[name] for result in results) for name in ("unsent", "late"))
    if unsent or late:
        remarks.append(f"Open loop: {late:,} requests were sent late, {unsent:,} were not sent in time")
    used_up = [result["name"] for result in results if _used_up(result)]
    if used_up:
        remarks.append(
            f"Nothing of the backlog was left in runs {', '.join(used_up)}: their rates are too low"
        )
    unclean = [result["name"] for result in results if not result["balance"]["clean"]]
    if unclean:
        remarks.append(f"NOT CLEAN: runs {', '.join(unclean)}")
    return remarks


def _used_up(result: Result) -> bool:
    """Tell whether clients took the whole backlog before the end of a run that is not a drain."""
    settings = result["settings"]
    waited = settings["backlog"] and settings["workload"] != "drain"
    return bool(waited and not result["balance"]["left"])
