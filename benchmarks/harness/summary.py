"""The figures of an experiment on one screen: a row for each combination of levels, medians of its runs."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from telesto.benchmarks.figures import table
from telesto.benchmarks.harness.manifest import ExperimentDirectory

TIERS: Final = ("client", "middleware", "postgres")
MAIN_OPERATIONS: Final = ("request", "put", "publish", "take", "ack", "get")
"""Of the operations of a run the first two of these are shown."""
OPERATIONS_SHOWN: Final = 2
AUDIT_COLUMNS: Final = (
    "put",
    "handed_over",
    "left",
    "in_doubt",
    "lost",
    "duplicated",
    "out_of_order",
    "foreign",
)


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
    operations = _operations(results)
    header = [
        *(factors or ["runs"]),
        "messages/s",
        "least",
        "most",
        *(f"{operation} {what}" for operation in operations for what in ("p50 ms", "p99 ms")),
        *(f"{tier} cpu" for tier in TIERS),
    ]
    by_combination: dict[int, list[dict[str, Any]]] = {}
    for result in results:
        by_combination.setdefault(result["combination"], []).append(result)
    rows = [_row(by_combination[combination], factors, operations) for combination in sorted(by_combination)]
    return table(header, rows)


def _operations(results: Sequence[dict[str, Any]]) -> list[str]:
    found = {operation for result in results for operation in result["figures"]["latencies"]}
    return [operation for operation in MAIN_OPERATIONS if operation in found][:OPERATIONS_SHOWN]


def _row(runs: Sequence[dict[str, Any]], factors: Sequence[str], operations: Sequence[str]) -> list[str]:
    rates = [run["figures"]["messages_per_s"] for run in runs]
    levels = [str(runs[0]["levels"][factor]) for factor in factors] or [str(len(runs))]
    return [
        *levels,
        *(f"{rate:,.0f}" for rate in (median(rates), min(rates), max(rates))),
        *(
            _median(
                run["figures"]["latencies"].get(operation, {}).get("latency", {}).get(what) for run in runs
            )
            for operation in operations
            for what in ("p50_ms", "p99_ms")
        ),
        *(_median(run["tiers"].get(tier, {}).get("processors") for run in runs) for tier in TIERS),
    ]


def _median(values: Any) -> str:
    known = [value for value in values if value is not None]
    return f"{median(known):.2f}" if known else ""


def _audit(results: Sequence[dict[str, Any]]) -> str:
    sums = [f"{sum(result['balance'][column] for result in results):,}" for column in AUDIT_COLUMNS]
    names = [column.replace("_", " ") for column in AUDIT_COLUMNS]
    return f"Audit of {len(results)} runs\n\n{table(names, [sums])}"


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
