"""What is kept about each request, and the figures that follow from it.

Times are seconds of the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Self


@dataclass(slots=True)
class Record:
    """The requests of one kind that were answered: identity of the message, end, latency."""

    identities: array[int] = field(default_factory=lambda: array("Q"))
    ended: array[float] = field(default_factory=lambda: array("d"))
    latencies: array[float] = field(default_factory=lambda: array("d"))

    def add(self, identity: int, began: float, ended: float) -> None:
        """Keep one answered request."""
        self.identities.append(identity)
        self.ended.append(ended)
        self.latencies.append(ended - began)

    def add_batch(self, identities: Iterable[int], began: float, ended: float) -> None:
        """Keep the messages of one call, all answered at the same moment."""
        before = len(self.identities)
        self.identities.extend(identities)
        count = len(self.identities) - before
        self.ended.extend([ended] * count)
        self.latencies.extend([ended - began] * count)

    def merge(self, other: Self) -> None:
        """Add the requests of `other`."""
        self.identities.extend(other.identities)
        self.ended.extend(other.ended)
        self.latencies.extend(other.latencies)

    def save(self, path: Path) -> None:
        """Write the record to a file that `load` reads on the same machine."""
        with path.open("wb") as file:
            array("Q", [len(self.identities)]).tofile(file)
            for column in (self.identities, self.ended, self.latencies):
                column.tofile(file)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a record that `save` wrote."""
        record, header = cls(), array("Q")
        with path.open("rb") as file:
            header.fromfile(file, 1)
            for column in (record.identities, record.ended, record.latencies):
                column.fromfile(file, header[0])
        return record


@dataclass(frozen=True, slots=True)
class Window:
    """The part of a run that counts: from `begin` until before `end`."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return self.end - self.begin

    def thirds(self) -> list[Window]:
        """Return the first, the middle and the last third."""
        length = self.seconds / 3
        return [Window(self.begin + part * length, self.begin + (part + 1) * length) for part in range(3)]

    def __contains__(self, moment: float) -> bool:
        return self.begin <= moment < self.end


def completed(record: Record, window: Window) -> int:
    """Count the requests that were answered within the window."""
    begin, end = window.begin, window.end
    return sum(begin <= moment < end for moment in record.ended)


def series(record: Record, window: Window) -> list[int]:
    """Count the requests answered in each whole second of the window."""
    counts = [0] * int(window.seconds)
    for moment in record.ended:
        second = int(moment - window.begin) if moment >= window.begin else -1
        if 0 <= second < len(counts):
            counts[second] += 1
    return counts


def latencies(record: Record, window: Window) -> list[float]:
    """Return the latencies in seconds of the requests answered within the window, sorted."""
    pairs = zip(record.ended, record.latencies, strict=True)
    return sorted(latency for moment, latency in pairs if moment in window)


def percentile(ordered: Sequence[float], fraction: float) -> float:
    """Return the value below which `fraction` of the sorted values lie; 0 when there are none."""
    if not ordered:
        return 0.0
    return ordered[min(len(ordered) - 1, int(fraction * len(ordered)))]


def change_between_thirds(counts: Sequence[int]) -> float:
    """Compare the medians of the first and the last third of a series: 0.1 is a rise of 10 %."""
    third = max(1, len(counts) // 3)
    first, last = median(counts[:third]), median(counts[-third:])
    return last / first - 1 if first else 0.0
