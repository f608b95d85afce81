"""From the records of a run to its series, histograms, samples and figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import numpy as np
from hdrh.histogram import HdrHistogram

from telesto.benchmarks.harness.histograms import Latencies, encode, histogram_of, new_histogram
from telesto.benchmarks.harness.settings import RunSettings
from telesto.benchmarks.workloads.operations import PUTS, TAKES, Operation
from telesto.benchmarks.workloads.recorder import Records

MEASURES: Final = ("latency", "service", "age")
"""From the intended moment to the answer; from the sending to the answer; of a message handed over, from the
moment at which it was to be put."""
HANDED_OVER: Final = (*TAKES, Operation.GET)


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that counts, in seconds since its beginning."""

    begin: float
    end: float

    @classmethod
    def of(cls, settings: RunSettings) -> Window:
        """Return what is left without warm-up and cool-down."""
        return cls(settings.warm_up_s, settings.warm_up_s + settings.duration_s)

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.end - self.begin


@dataclass(slots=True)
class Figures:
    """The figures of a run, within the window.

    Attributes:
        messages_per_s: messages handed over a second; messages put, where nobody reads.
        rates: operations a second, by their names.
        latencies: by operation and measure.
    """

    messages_per_s: float = 0.0
    rates: dict[str, float] = field(default_factory=dict)
    latencies: dict[str, dict[str, Latencies]] = field(default_factory=dict)

    def as_plain(self) -> dict[str, Any]:
        """Return them as JSON has them."""
        return asdict(self)


@dataclass(slots=True)
class Analysis:
    """What was made of the records; rows of the tables `throughput`, `histograms` and `samples`."""

    figures: Figures = field(default_factory=Figures)
    throughput: list[tuple[object, ...]] = field(default_factory=list)
    histograms: list[tuple[object, ...]] = field(default_factory=list)
    samples: list[tuple[object, ...]] = field(default_factory=list)


def analyse(records: Sequence[Records], begin: float, window: Window, sample_every: int) -> Analysis:
    """Work on the records of all processes of a run that began at a moment of the monotonic clock."""
    analysis = Analysis()
    for operation in Operation:
        parts = [part[part["operation"] == operation] for part in records]
        parts = [part for part in parts if len(part)]
        if parts:
            _analyse_operation(analysis, operation, np.concatenate(parts), begin, window)
            for part in parts:
                analysis.samples += _samples(operation, part[::sample_every], begin)
    analysis.figures.messages_per_s = _messages_per_s(analysis.figures.rates)
    return analysis


def _analyse_operation(
    analysis: Analysis, operation: Operation, found: Records, begin: float, window: Window
) -> None:
    name = operation.name.lower()
    in_window: dict[str, HdrHistogram] = {}
    for second, of_second in _by_second(found, begin):
        analysis.throughput.append((second, name, len(of_second)))
        for measure in MEASURES:
            values = of_second[measure]
            values = values[values >= 0]
            if not len(values) or (measure == "service" and np.array_equal(values, of_second["latency"])):
                continue
            histogram = histogram_of(values)
            analysis.histograms.append((second, name, measure, len(values), encode(histogram)))
            if window.begin <= second < window.end:
                in_window.setdefault(measure, new_histogram()).add(histogram)
    since = found["ended"] - begin
    counted = int(np.count_nonzero((since >= window.begin) & (since < window.end)))
    analysis.figures.rates[name] = counted / window.seconds
    analysis.figures.latencies[name] = {
        measure: Latencies.of(histogram) for measure, histogram in in_window.items()
    }


def _by_second(found: Records, begin: float) -> Iterator[tuple[int, Records]]:
    """Yield the records that ended in each second of the run, and the second; they need not be in order."""
    seconds = np.floor(found["ended"] - begin).astype(np.int64)
    order = np.argsort(seconds, kind="stable")
    found, seconds = found[order], seconds[order]
    starts = np.concatenate([[0], np.flatnonzero(np.diff(seconds)) + 1])
    for start, part in zip(starts, np.split(found, starts[1:]), strict=True):
        yield int(seconds[start]), part


def _samples(operation: Operation, chosen: Records, begin: float) -> Iterator[tuple[object, ...]]:
    for record in chosen:
        yield (
            float(record["ended"]) - begin,
            operation.name.lower(),
            int(record["lane"]),
            int(record["identity"]) >> 32,
            int(record["identity"]) & 0xFFFF_FFFF,
            int(record["priority"]),
            float(record["latency"]),
            float(record["service"]),
            float(record["age"]) if record["age"] >= 0 else None,
            bool(record["redelivered"]),
        )


def _messages_per_s(rates: dict[str, float]) -> float:
    handed_over = sum(rates.get(operation.name.lower(), 0.0) for operation in HANDED_OVER)
    put = sum(rates.get(operation.name.lower(), 0.0) for operation in (*PUTS, Operation.PUBLISH))
    return handed_over or put
