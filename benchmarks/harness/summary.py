"""The figures of an experiment on one screen: a row for each combination of levels, medians of its runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import Any, Final

from telesto.benchmarks.audit import COLUMNS, headings
from telesto.benchmarks.figures import table
from telesto.benchmarks.harness.manifest import ExperimentDirectory

TIERS: Final = ("client", "middleware", "postgres")
SENT: Final = ("request", "put", "publish", "take")
"""The first of these that a run has is the operation whose latency is shown."""
HANDED_OVER: Final = ("take", "delivery", "get")
"""The first of these that a run has shows how old messages were when they were handed over."""


def summarise(directory: ExperimentDirectory) -> str:
    """Return the figures and the audit of all whole runs, as text with Markdown tables."""
    whole = [run for run in directory.runs if directory.is_whole(run)]
    results = [directory.result_of(run) for run in whole]
    head = f"{directory.experiment.title}: {len(whole)} of {len(directory.runs)} runs"
    if not results:
        return head
    parts = [head, _figures(results), _audit(results)]
    return "\n\n".join([*parts, *_remarks(results)])


def is_clean(directory: ExperimentDirectory) -> bool:
    """Tell whether the audit of every whole run is clean."""
    return all(
        directory.result_of(run)["balance"]["clean"] for run in directory.runs if directory.is_whole(run)
    )


def _figures(results: Sequence[dict[str, Any]]) -> str:
    factors = list(results[0]["levels"])
    header = [
        *(factors or ["runs"]),
        *("messages/s", "least", "most"),
        *("operation", "p50 ms", "p99 ms", "age p50 ms", "age p99 ms"),
        *(f"{tier} cpu" for tier in TIERS),
    ]
    by_combination: dict[int, list[dict[str, Any]]] = {}
    for result in results:
        by_combination.setdefault(result["combination"], []).append(result)
    return table(header, [_row(by_combination[each], factors) for each in sorted(by_combination)])


def _row(runs: Sequence[dict[str, Any]], factors: Sequence[str]) -> list[str]:
    rates = [run["figures"]["messages_per_s"] for run in runs]
    sent, handed_over = _first_of(SENT, runs), _first_of(HANDED_OVER, runs)
    return [
        *([str(runs[0]["levels"][factor]) for factor in factors] or [str(len(runs))]),
        *(f"{rate:,.0f}" for rate in (median(rates), min(rates), max(rates))),
        sent,
        *_latency(runs, sent, "latency"),
        *_latency(runs, handed_over, "age"),
        *(_median(run["tiers"].get(tier, {}).get("processors") for run in runs) for tier in TIERS),
    ]


def _first_of(operations: Sequence[str], runs: Sequence[dict[str, Any]]) -> str:
    """Return the first operation that the runs have figures of; nothing when there is none."""
    found = {name for run in runs for name, latencies in run["figures"]["latencies"].items() if latencies}
    return next((operation for operation in operations if operation in found), "")


def _latency(runs: Sequence[dict[str, Any]], operation: str, measure: str) -> list[str]:
    """Return the medians, over the runs, of the 50th and the 99th percentile in milliseconds."""
    found = [run["figures"]["latencies"].get(operation, {}).get(measure, {}) for run in runs]
    return [_median(latencies.get(percentile) for latencies in found) for percentile in ("p50_ms", "p99_ms")]


def _median(values: Iterable[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}" if known else ""


def _audit(results: Sequence[dict[str, Any]]) -> str:
    sums = [f"{sum(result['balance'][column] for result in results):,}" for column in COLUMNS]
    return f"Audit of {len(results)} runs\n\n{table(headings(COLUMNS), [sums])}"


def _remarks(results: Sequence[dict[str, Any]]) -> list[str]:
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
    unclean = [result["name"] for result in results if not result["balance"]["clean"]]
    if unclean:
        remarks.append(f"NOT CLEAN: runs {', '.join(unclean)}")
    return remarks
