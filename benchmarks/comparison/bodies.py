"""Bodies of the comparison: ASCII, so that every system can carry them as they are.

A body begins with its identity and the moment at which its put was intended (microseconds of the monotonic
clock), in hexadecimal digits.
"""

from __future__ import annotations

from typing import ClassVar, Final

from telesto.benchmarks.load.bodies import Stream

IDENTITY_END: Final = 16
MOMENT_END: Final = 32


class TextBodyMaker(Stream):
    """Makes the bodies of one stream, each of `size` bytes."""

    __slots__ = ()
    HEAD: ClassVar[str] = "identity and a moment"
    HEAD_BYTES: ClassVar[int] = MOMENT_END

    def next(self, intended: float) -> tuple[int, bytes]:
        """Return the next identity and its body."""
        identity = self._next
        self._next = identity + 1
        return identity, b"%016x%016x%b" % (identity, int(1e6 * intended), self._padding)


def identity_of(body: bytes) -> int:
    """Return the identity of a message."""
    return int(body[:IDENTITY_END], 16)


def intended_of(body: bytes) -> float:
    """Return when the put of a message was intended, in seconds of the monotonic clock."""
    return int(body[IDENTITY_END:MOMENT_END], 16) / 1e6
