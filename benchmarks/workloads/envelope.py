"""What a body carries: the message's identity, when it was to be put, and its priority.

The identity comes first, as in all bodies of the benchmarks: the number of the stream (one lane of one
client) and the sequence within the stream, 32 bits each. The moment is of the monotonic clock, in seconds.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

_HEAD: Final = struct.Struct(">QdB")
ENVELOPE_BYTES: Final = _HEAD.size
BACKLOG_STREAM: Final = 1 << 31
"""The stream of messages that were there before the run; they carry nothing but their identities."""


class Envelope(NamedTuple):
    """What a body says of its message."""

    identity: int
    moment: float
    priority: int


def open_envelope(body: bytes) -> Envelope:
    """Read a body; ValueError when it is too short to be one of the benchmarks."""
    if len(body) < ENVELOPE_BYTES:
        raise ValueError(f"a body of {len(body)} bytes holds no envelope of {ENVELOPE_BYTES}")
    return Envelope(*_HEAD.unpack_from(body))


class Stationery:
    """Makes the bodies of one stream, each of `size` bytes (at least `ENVELOPE_BYTES`)."""

    __slots__ = ("_next", "_padding")

    def __init__(self, stream: int, size: int) -> None:
        if size < ENVELOPE_BYTES:
            raise ValueError(f"a body of {size} bytes cannot hold an envelope of {ENVELOPE_BYTES}")
        self._next = stream << 32
        self._padding = b"." * (size - ENVELOPE_BYTES)

    def next(self, moment: float, priority: int) -> tuple[int, bytes]:
        """Return the next identity and its body."""
        identity = self._next
        self._next += 1
        return identity, _HEAD.pack(identity, moment, priority) + self._padding
