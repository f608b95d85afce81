"""Bodies that name themselves, so that every message can be accounted for.

A message's identity is the number of its stream (one lane of one client) and its sequence within the stream,
32 bits each. A body begins with it, in eight bytes; a body with more to carry has that behind it
(`workloads.envelope`). Bodies of the comparison with peers, which have to be text, write the same identity in
digits (`peers.bodies`).
"""

from __future__ import annotations

from typing import ClassVar, Final

IDENTITY_BYTES: Final = 8
SEQUENCE_BITS: Final = 32
SEQUENCE_MASK: Final = (1 << SEQUENCE_BITS) - 1
BACKLOG_STREAM: Final = 1 << 31
"""The stream of messages that were there before the run; no lane has it."""

KEY_FACTOR: Final = 0x9E3779B97F4A7C15
"""An odd number of 64 bits: products with it spread identities that follow each other as if by chance."""
_KEY_MASK: Final = (1 << 64) - 1
KEY_SHIFT: Final = 33


class Stream:
    """What makers of bodies have in common: the next identity of one stream, and the rest of each body.

    The makers' own `next` takes an identity itself: a call more for each message would be seen in the CPU
    seconds of clients.

    Attributes:
        HEAD: what stands at the beginning of a body, as messages call it.
        HEAD_BYTES: how long that is; no body is shorter.
    """

    __slots__ = ("_next", "_padding")
    HEAD: ClassVar[str] = "identity"
    HEAD_BYTES: ClassVar[int] = IDENTITY_BYTES

    def __init__(self, stream: int, size: int) -> None:
        if size < self.HEAD_BYTES:
            raise ValueError(f"a body of {size} bytes cannot hold an {self.HEAD} of {self.HEAD_BYTES}")
        self._next = stream << SEQUENCE_BITS
        self._padding = b"." * (size - self.HEAD_BYTES)


def key_number_of(identity: int, keys: int) -> int:
    """Return which of so many partition keys the message with this identity has."""
    return ((identity * KEY_FACTOR & _KEY_MASK) >> KEY_SHIFT) % keys


def partition_key_of(identity: int, keys: int) -> str:
    """Return the partition key of the message with this identity, of so many."""
    return f"key-{key_number_of(identity, keys)}"
