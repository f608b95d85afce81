"""Bodies that name themselves, so that every message can be accounted for.

A body begins with its identity: the number of its stream (one lane of one generator) and its
sequence within the stream, 32 bits each.
"""

from __future__ import annotations

import struct
from array import array
from typing import Final

IDENTITY_BYTES: Final = 8
_IDENTITY = struct.Struct(">Q")


class BodyMaker:
    """Makes the bodies of one stream, each of `size` bytes (at least `IDENTITY_BYTES`)."""

    def __init__(self, stream: int, size: int) -> None:
        if size < IDENTITY_BYTES:
            raise ValueError(f"a body of {size} bytes cannot hold an identity of {IDENTITY_BYTES}")
        self._next = stream << 32
        self._padding = b"." * (size - IDENTITY_BYTES)

    def next(self) -> tuple[int, bytes]:
        """Return the next identity and its body."""
        identity = self._next
        self._next += 1
        return identity, _IDENTITY.pack(identity) + self._padding


def identity_of(body: bytes) -> int:
    """Return the identity at the beginning of `body`; `ValueError` when it is too short."""
    if len(body) < IDENTITY_BYTES:
        raise ValueError(f"a body of {len(body)} bytes holds no identity")
    identity: int = _IDENTITY.unpack_from(body)[0]
    return identity


def identities_of(packed: bytes) -> array[int]:
    """Return the identities in a concatenation of the first bytes of bodies."""
    count, rest = divmod(len(packed), IDENTITY_BYTES)
    if rest:
        raise ValueError(f"{rest} bytes left over: a body was shorter than its identity")
    return array("Q", struct.unpack(f">{count}Q", packed))
