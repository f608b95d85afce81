"""From the records of a run to its series, histograms, samples and figures."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

import numpy as np

from telesto.benchmarks.load.bodies import SEQUENCE_BITS, SEQUENCE_MASK
from telesto.benchmarks.load.recorder import PUTS, TAKES, Operation, Records
from telesto.benchmarks.load.settings import Window
from telesto.benchmarks.results.histograms import Latencies, encode, histogram_of, new_histogram
from telesto.benchmarks.results.tables import Row, Tables

Counts = dict[int, int]
"""Counts by second."""
Places = np.ndarray[Any, np.dtype[np.intp]]

MEASURES: Final = ("latency", "service", "age")
"""Since the scheduled time; since the sending; and the age of a delivered message since its scheduled put."""
HANDED_OVER: Final = (*TAKES, Operation.GET)


@dataclass(slots=True)
class Figures:
    """The figures of a run, within the window.

    Attributes:
        messages_per_s: messages delivered a second; messages put, if no client reads.
        rates: operations a second, by name.
        latencies: by operation and measure.
        slowest_s, fastest_s: messages in the slowest and in the fastest full second; None without any.
        change: of the median second, from the first third to the last; 0.1 is a rise of 10 %. None if there
            were none in the first.
    """

    messages_per_s: float = 0.0
    slowest_s: int | None = None
    fastest_s: int | None = None
    change: float | None = None
    rates: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, dict[str, Latencies]] = field(default_factory=dict)


def analyse(
    records: Sequence[Records], begin: float, window: Window, sample_every: int, tables: Tables
) -> Figures:
    """Analyse the records of all processes of a run that began at a time of the monotonic clock.

    Writes the tables `throughput`, `histograms` and `samples`.
    """
    figures = Figures()
    counts: dict[str, Counts] = {}
    for operation in Operation:
        chosen = [np.flatnonzero(part["operation"] == operation) for part in records]
        if any(len(places) for places in chosen):
            counts[operation.name.lower()] = _analyse_operation(
                figures, operation, _Columns(records, chosen), begin, window, tables
            )
            for part, places in zip(records, chosen, strict=True):
                tables.add("samples", _samples(operation, part[places[::sample_every]], begin))
    figures.messages_per_s = sum(figures.rates.get(name, 0.0) for name in _counted(figures.rates))
    _add_course(figures, [counts[name] for name in _counted(figures.rates) if name in counts], window)
    return figures


def _counted(rates: Mapping[str, float]) -> Sequence[str]:
    """Return the operations that count as messages: deliveries, or puts if there are none."""
    handed_over = [operation.name.lower() for operation in HANDED_OVER]
    if any(rates.get(name) for name in handed_over):
        return handed_over
    return [operation.name.lower() for operation in (*PUTS, Operation.PUBLISH)]


def _add_course(figures: Figures, counts: Sequence[Counts], window: Window) -> None:
    """Add the figures of full seconds within the window, for operations that count as messages."""
    first, last = math.ceil(window.begin), math.floor(window.end)
    seconds = [sum(each.get(second, 0) for each in counts) for second in range(first, last)]
    if not any(seconds):
        return
    third = max(1, len(seconds) // 3)
    early, late = median(seconds[:third]), median(seconds[-third:])
    figures.slowest_s, figures.fastest_s = min(seconds), max(seconds)
    figures.change = late / early - 1 if early else None


class _Columns:
    """Columns of chosen records, one at a time: the records of hours do not fit into memory together."""

    def __init__(self, records: Sequence[Records], chosen: Sequence[Places]) -> None:
        self._records = records
        self._chosen = chosen

    def __getitem__(self, name: str) -> Records:
        return np.concatenate(
            [part[name][places] for part, places in zip(self._records, self._chosen, strict=True)]
        )


def _analyse_operation(
    figures: Figures, operation: Operation, columns: _Columns, begin: float, window: Window, tables: Tables
) -> Counts:
    """Write the tables of one operation and add its figures; return its counts by second."""
    name = operation.name.lower()
    since = columns["ended"] - begin
    counted = int(np.count_nonzero((since >= window.begin) & (since < window.end)))
    figures.rates[name] = counted / window.seconds
    seconds = np.floor(since).astype(np.int32)
    order = np.argsort(seconds, kind="stable")
    seconds = seconds[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(seconds)) + 1])
    ends = [*starts[1:], len(seconds)]
    counts = {int(seconds[at]): int(end - at) for at, end in zip(starts, ends, strict=True)}
    tables.add("throughput", ((second, name, count) for second, count in counts.items()))
    latency = columns["latency"][order]
    figures.latencies[name] = {}
    for measure in MEASURES:
        values = latency if measure == "latency" else columns[measure][order]
        if measure == "service" and np.array_equal(values, latency):
            continue
        merged = new_histogram()
        for at, of_second in zip(starts, np.split(values, starts[1:]), strict=True):
            second, known = int(seconds[at]), of_second[of_second >= 0]
            if not len(known):
                continue
            histogram = histogram_of(known)
            tables.add("histograms", [(second, name, measure, len(known), encode(histogram))])
            if window.begin <= second < window.end:
                merged.add(histogram)
        if merged.get_total_count():
            figures.latencies[name][measure] = Latencies.of(merged)
    return counts


def _samples(operation: Operation, chosen: Records, begin: float) -> Iterator[Row]:
    for record in chosen:
        yield (
            float(record["ended"]) - begin,
            operation.name.lower(),
            int(record["slot"]),
            int(record["identity"]) >> SEQUENCE_BITS,
            int(record["identity"]) & SEQUENCE_MASK,
            int(record["priority"]),
            float(record["latency"]),
            float(record["service"]),
            float(record["age"]) if record["age"] >= 0 else None,
            bool(record["redelivered"]),
        )
