"""Counts by identity without sorting: a stream's sequences are dense, so an identity is a place in an array.

A run of hours has tens of millions of messages: to sort their identities takes fifty times as long.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from telesto.benchmarks.load.bodies import KEY_FACTOR, KEY_SHIFT, SEQUENCE_BITS, SEQUENCE_MASK

Identities = np.ndarray[Any, np.dtype[np.uint64]]
Counts = np.ndarray[Any, np.dtype[np.uint8]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]

COUNT_MAX: Final = 255
_SHIFT: Final = np.uint64(SEQUENCE_BITS)
_MASK: Final = np.uint64(SEQUENCE_MASK)


class IdentitySpace:
    """The identities that some puts had, each with a place of its own."""

    def __init__(self, identities: Identities) -> None:
        streams, sequences = _parts(identities)
        self._streams = np.unique(streams)
        sizes = np.zeros(len(self._streams), np.int64)
        np.maximum.at(sizes, np.searchsorted(self._streams, streams), sequences + 1)
        self._sizes = sizes
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])

    def __len__(self) -> int:
        return int(self._offsets[-1])

    def count(self, identities: Identities) -> tuple[Counts, Identities]:
        """Count how often each identity occurs, up to COUNT_MAX; return also those outside of the space."""
        streams, sequences = _parts(identities)
        at = np.searchsorted(self._streams, streams)
        known = at < len(self._streams)
        at[~known] = 0
        if len(self._streams):
            known &= (self._streams[at] == streams) & (sequences < self._sizes[at])
        places = self._offsets[at[known]] + sequences[known]
        counts = np.bincount(places, minlength=len(self))
        return np.minimum(counts, COUNT_MAX).astype(np.uint8), identities[~known]

    def identities(self, flags: Flags) -> Identities:
        """Return the identities at the places that are marked."""
        places = np.flatnonzero(flags)
        at = np.searchsorted(self._offsets, places, side="right") - 1
        sequences = (places - self._offsets[at]).astype(np.uint64)
        identities: Identities = (self._streams[at].astype(np.uint64) << _SHIFT) | sequences
        return identities


def streams_of(identities: Identities) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the streams, in the smallest type that holds them: short ones are sorted many times faster."""
    streams = (identities >> _SHIFT).astype(np.uint32)
    return shortened(streams)


def key_numbers_of(identities: Identities, keys: int) -> np.ndarray[Any, np.dtype[np.uint32]]:
    """Return which of so many partition keys each message has, as `bodies.key_number_of` says it."""
    spread = identities * np.uint64(KEY_FACTOR)
    return ((spread >> np.uint64(KEY_SHIFT)) % np.uint64(keys)).astype(np.uint32)


def shortened(numbers: np.ndarray[Any, np.dtype[np.uint32]]) -> np.ndarray[Any, np.dtype[Any]]:
    """Return the numbers in 16 bits if they all have so few."""
    if len(numbers) and int(numbers.max()) > np.iinfo(np.uint16).max:
        return numbers
    return numbers.astype(np.uint16)


def _parts(
    identities: Identities,
) -> tuple[np.ndarray[Any, np.dtype[np.uint32]], np.ndarray[Any, np.dtype[np.int64]]]:
    streams = (identities >> _SHIFT).astype(np.uint32)
    return streams, (identities & _MASK).astype(np.int64)
