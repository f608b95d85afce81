"""The content of a benchmark's message: its identity, the scheduled time of its put, and its priority.

The identity is the number of its stream (one slot of one client) and its sequence in the stream, 32 bits
each. By it the audit accounts for every message. It comes first, in eight bytes; the scheduled time (seconds
of the monotonic clock) and the priority follow. The comparison with other systems needs bodies of text, and
writes the same identity in digits (`comparison.load`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

IDENTITY_BYTES: Final = 8
SEQUENCE_BITS: Final = 32
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1
BACKLOG_STREAM: Final = 1 << 31
"""The stream of messages from before the run; no slot has it."""
ENVELOPES: Final = np.dtype([("identity", ">u8"), ("moment", ">f8"), ("priority", "u1")])
ENVELOPE_BYTES: Final = ENVELOPES.itemsize
_ENVELOPE: Final = struct.Struct(">QdB")
assert _ENVELOPE.size == ENVELOPE_BYTES

KEY_FACTOR: Final = 0x9E3779B97F4A7C15
"""An odd number of 64 bits: products with it spread consecutive identities evenly, as if at random."""
_KEY_MASK: Final = (1 << 64) - 1
KEY_SHIFT: Final = 33


class Stream:
    """The base of all makers of bodies: the next identity of one stream, and the padding.

    The `next` of each maker counts up the identity itself: another call for each message would add to the CPU
    time of clients.

    Attributes:
        HEAD: what a body begins with, for error messages.
        HEAD_BYTES: its length; no body is shorter.
    """

    __slots__ = ("_next", "_padding")
    HEAD: ClassVar[str] = "identity"
    HEAD_BYTES: ClassVar[int] = IDENTITY_BYTES

    def __init__(self, stream: int, size: int) -> None:
        if size < self.HEAD_BYTES:
            raise ValueError(f"a body of {size} bytes cannot hold an {self.HEAD} of {self.HEAD_BYTES}")
        self._next = stream << SEQUENCE_BITS
        self._padding = b"." * (size - self.HEAD_BYTES)


class Envelope(NamedTuple):
    """The head of a body."""

    identity: int
    moment: float
    priority: int


def open_envelope(body: bytes) -> Envelope:
    """Read the head of a body; ValueError if it is too short to be one of the benchmarks."""
    if len(body) < ENVELOPE_BYTES:
        raise ValueError(f"a body of {len(body)} bytes holds no envelope of {ENVELOPE_BYTES}")
    return Envelope(*_ENVELOPE.unpack_from(body))


def open_envelopes(bodies: Iterable[bytes]) -> np.ndarray[Any, np.dtype[Any]]:
    """Read the heads of many bodies into an array with these fields."""
    return np.frombuffer(b"".join([body[:ENVELOPE_BYTES] for body in bodies]), ENVELOPES)


class BodyMaker(Stream):
    """Makes the bodies of one stream, each of `size` bytes (at least `ENVELOPE_BYTES`)."""

    __slots__ = ()
    HEAD: ClassVar[str] = "envelope"
    HEAD_BYTES: ClassVar[int] = ENVELOPE_BYTES

    def next(self, moment: float, priority: int) -> tuple[int, bytes]:
        """Return the next identity and its body."""
        identity = self._next
        self._next = identity + 1
        return identity, _ENVELOPE.pack(identity, moment, priority) + self._padding


def key_number_of(identity: int, keys: int) -> int:
    """Return which of `keys` partition keys the message with this identity has."""
    return ((identity * KEY_FACTOR & _KEY_MASK) >> KEY_SHIFT) % keys


def partition_key_of(identity: int, keys: int) -> str:
    """Return the partition key of the message with this identity, of `keys`."""
    return f"key-{key_number_of(identity, keys)}"
