"""The record of each request: fixed size, written to a file while the load runs.

A run of hours has more requests than fit into memory, and averages cannot give figures that are needed later.
So everything is recorded, cheaply, and analysed after the load.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, Self

import numpy as np


class Operation(IntEnum):
    """An operation of a client.

    Attributes:
        PUT: a message was put into a queue.
        TAKE: a message was read from a queue.
        REQUEST: a request was put and its response came; the identity is the request's.
        RESPONSE: the response to a request; the identity is the response's.
        REPLY: a response was put.
        PUBLISH: a message was put to a topic.
        GET: a subscriber got a message of a topic.
        DELIVERY: a message was pushed to a consumer.
        ACK: a consumer acknowledged a message.
    """

    PUT = 0
    TAKE = 1
    REQUEST = 2
    RESPONSE = 3
    REPLY = 4
    PUBLISH = 5
    GET = 6
    DELIVERY = 7
    ACK = 8


PUTS: Final = (Operation.PUT, Operation.REQUEST, Operation.REPLY)
"""Each put one message into a queue, where the audit must find it again."""
TAKES: Final = (Operation.TAKE, Operation.RESPONSE, Operation.ACK)
"""Each is the end of one message of a queue."""
IN_ORDER: Final = (Operation.TAKE, Operation.RESPONSE, Operation.DELIVERY, Operation.GET)
"""These reach a slot in the order in which each stream put them, for each priority."""


RECORD: Final = np.dtype(
    [
        ("identity", "<u8"),
        ("ended", "<f8"),
        ("latency", "<f4"),
        ("service", "<f4"),
        ("age", "<f4"),
        ("slot", "<u4"),
        ("operation", "u1"),
        ("priority", "u1"),
        ("redelivered", "u1"),
    ]
)
"""A record, in seconds: `ended` by the monotonic clock; `latency` since the scheduled time of the request;
`service` since it was sent; `age` of the delivered message since its scheduled put, -1 without one."""
Records = np.ndarray[Any, np.dtype[Any]]

FLUSH_BYTES: Final = 1 << 18
NO_AGE: Final = -1.0
_PACKED: Final = struct.Struct("<QdfffIBBB")
assert _PACKED.size == RECORD.itemsize


class Recorder:
    """Writes the records of one process.

    Attributes:
        errors: how many requests failed, by operation and error.
        doubtful: identities of messages whose puts failed: each may have been stored or not.
        doubtful_takes: identities of messages whose acknowledgements failed: each may be gone or come again.
        late: requests that were sent late because no slot was free (open loop).
        unsent: scheduled requests that were not sent before the end (open loop).
        redelivered: messages that were marked as redelivered.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb")
        self._buffer = bytearray()
        self.errors: Counter[str] = Counter()
        self.doubtful: list[int] = []
        self.doubtful_takes: list[int] = []
        self.late = 0
        self.unsent = 0
        self.redelivered = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def add(
        self,
        operation: Operation,
        slot: int,
        identity: int,
        intended: float,
        sent: float,
        ended: float,
        *,
        priority: int = 0,
        age: float = NO_AGE,
        redelivered: bool = False,
    ) -> None:
        """Record an operation that succeeded."""
        self._buffer += _PACKED.pack(
            identity, ended, ended - intended, ended - sent, age, slot, operation, priority, redelivered
        )
        if redelivered:
            self.redelivered += 1
        if len(self._buffer) >= FLUSH_BYTES:
            self._flush()

    def add_batch(
        self,
        operation: Operation,
        slot: int,
        identities: Sequence[int] | np.ndarray[Any, np.dtype[Any]],
        intended: np.ndarray[Any, np.dtype[Any]] | float,
        sent: float,
        ended: float,
        *,
        priority: int = 0,
        age: np.ndarray[Any, np.dtype[Any]] | float = NO_AGE,
    ) -> None:
        """Record the operations of one call, which succeeded together."""
        records = np.zeros(len(identities), RECORD)
        records["identity"] = identities
        records["ended"] = ended
        records["latency"] = ended - intended
        records["service"] = ended - sent
        records["age"] = age
        records["slot"] = slot
        records["operation"] = operation
        records["priority"] = priority
        self._buffer += records.tobytes()
        if len(self._buffer) >= FLUSH_BYTES:
            self._flush()

    def failed(self, operation: Operation, error: str) -> None:
        """Count an operation that failed."""
        self.errors[f"{operation.name.lower()}: {error}"] += 1

    def close(self) -> None:
        """Write the rest."""
        if not self._file.closed:
            self._flush()
            self._file.close()

    def result(self) -> dict[str, Any]:
        """Return the result for the parent process, as JSON."""
        return {
            "records": str(self._path),
            "errors": dict(self.errors),
            "doubtful": self.doubtful,
            "doubtful_takes": self.doubtful_takes,
            "late": self.late,
            "unsent": self.unsent,
            "redelivered": self.redelivered,
        }

    def _flush(self) -> None:
        self._file.write(self._buffer)
        self._buffer.clear()


def read_records(path: Path) -> Records:
    """Return the records of a file, mapped into memory rather than read."""
    if not path.stat().st_size:
        return np.empty(0, RECORD)
    return np.memmap(path, RECORD, "r")
