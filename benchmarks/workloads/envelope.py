"""What a body carries: the message's identity, when it was to be put, and its priority.

The identity comes first, as in all bodies of the benchmarks. The moment is of the monotonic clock, in
seconds.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from telesto.benchmarks.bodies import Stream

_HEAD: Final = struct.Struct(">QdB")
ENVELOPE_BYTES: Final = _HEAD.size


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


ENVELOPES: Final = np.dtype([("identity", ">u8"), ("moment", ">f8"), ("priority", "u1")])
assert ENVELOPES.itemsize == ENVELOPE_BYTES


def open_envelopes(bodies: Iterable[bytes]) -> np.ndarray[Any, np.dtype[Any]]:
    """Read many bodies, each of which has an envelope, into an array with its fields."""
    return np.frombuffer(b"".join([body[:ENVELOPE_BYTES] for body in bodies]), ENVELOPES)


class Stationery(Stream):
    """Makes the bodies of one stream, each of `size` bytes (at least `ENVELOPE_BYTES`)."""

    __slots__ = ()
    HEAD: ClassVar[str] = "envelope"
    HEAD_BYTES: ClassVar[int] = ENVELOPE_BYTES

    def next(self, moment: float, priority: int) -> tuple[int, bytes]:
        """Return the next identity and its body."""
        identity = self._next
        self._next = identity + 1
        return identity, _HEAD.pack(identity, moment, priority) + self._padding
