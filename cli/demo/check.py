"""The check of the demonstration: every line once, unchanged, in order.

Readers write a record for each line that they took. The records of all readers are compared with the digests
of the lines that were sent.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

RECORD = struct.Struct("!QQQQ")


class LineRecord(NamedTuple):
    """One line as a reader took it: its number, its producer's client id, the message's id and its digest."""

    line: int
    sender_id: int
    message_id: int
    digest: int

    def pack(self) -> bytes:
        """The record as bytes of a fixed length."""
        return RECORD.pack(*self)


@dataclass(frozen=True)
class Verdict:
    """The result of the check; only `lines` may differ from zero."""

    lines: int
    lost: int
    duplicated: int
    changed: int
    unknown: int
    out_of_order: int

    @property
    def passed(self) -> bool:
        """Whether every line came out exactly once, unchanged and in order."""
        return not (self.lost or self.duplicated or self.changed or self.unknown or self.out_of_order)


def read_records(path: Path) -> Iterator[LineRecord]:
    """The records of one reader, in the order in which it took the lines."""
    with path.open("rb") as file:
        while record := file.read(RECORD.size):
            yield LineRecord._make(RECORD.unpack(record))


def check(digests: Sequence[int], records_by_reader: Sequence[Iterable[LineRecord]]) -> Verdict:
    """Compare the readers' records with the digests of the lines sent; line numbers start at 0."""
    arrivals = _Arrivals(digests)
    for records in records_by_reader:
        arrivals.add_reader(records)
    return arrivals.verdict()


class _Arrivals:
    """The arrivals by line number, in flat arrays, because a text may have millions of lines."""

    def __init__(self, digests: Sequence[int]) -> None:
        self._digests = digests
        self._counts = _zeros(len(digests))
        self._senders = _zeros(len(digests))
        self._message_ids = _zeros(len(digests))
        self._changed = self._unknown = self._out_of_order = 0

    def add_reader(self, records: Iterable[LineRecord]) -> None:
        """Add one reader's lines; those of each producer must have come to it in the producer's order."""
        last_lines: dict[int, int] = {}
        for record in records:
            if record.line >= len(self._digests):
                self._unknown += 1
                continue
            self._out_of_order += record.line < last_lines.get(record.sender_id, 0)
            last_lines[record.sender_id] = record.line
            self._changed += record.digest != self._digests[record.line]
            self._counts[record.line] += 1
            self._senders[record.line] = record.sender_id
            self._message_ids[record.line] = record.message_id

    def verdict(self) -> Verdict:
        """The figures of all readers together."""
        return Verdict(
            lines=len(self._digests),
            lost=sum(count == 0 for count in self._counts),
            duplicated=sum(count - 1 for count in self._counts if count > 1),
            changed=self._changed,
            unknown=self._unknown,
            out_of_order=self._out_of_order + self._inversions(),
        )

    def _inversions(self) -> int:
        """How many lines arrived in the queue before one that their producer had sent earlier."""
        inversions = 0
        last_ids: dict[int, int] = {}
        for sender_id, message_id in zip(self._senders, self._message_ids, strict=True):
            if message_id:
                inversions += message_id < last_ids.get(sender_id, 0)
                last_ids[sender_id] = message_id
        return inversions


def _zeros(count: int) -> array[int]:
    return array("Q", bytes(8 * count))
