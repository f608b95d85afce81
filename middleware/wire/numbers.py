"""The account of a connection's numbered requests."""

from __future__ import annotations

import struct
from copy import copy
from typing import Any

from telesto.middleware.scheduling.requests import Pipeline
from telesto.middleware.wire.checking import invalid
from telesto.protocol import packets
from telesto.protocol.errors import NumberRepeatedError, TelestoError, TooManyUnconfirmedError

#: The largest number that the database holds.
NUMBER_MAX = (1 << 63) - 1
#: What every numbered request begins with.
_NUMBER = struct.Struct(">Q")


class Numbers:
    """Checks that the numbers of a connection rise and that not too many are unconfirmed.

    Numbers start at 1 in each session; 0 stands for a request of which no record is kept. A number left out
    begins a new series: the client has seen what was refused for now, and sends it again, in order. Every
    number is noted, whatever becomes of its request; else one that was refused would look like one left out.

    Attributes:
        series: how often a number was left out.
        refusal: how a request of this series was refused for now before it stood in the pipeline; so are all
            numbered requests behind it. None when none was.
    """

    __slots__ = ("_last", "_max_unconfirmed", "_pipeline", "_unread", "refusal", "series")

    def __init__(self, pipeline: Pipeline, max_unconfirmed: int) -> None:
        self._pipeline = pipeline
        self._max_unconfirmed = max_unconfirmed
        self._last = 0
        self._unread = 0
        self.refusal: TelestoError | None = None
        self.series = 0

    def see(self, number: int) -> None:
        """Takes note of a number. Raises NumberRepeatedError and InvalidParameterError."""
        if number <= self._last:
            if not number:
                return
            raise NumberRepeatedError(f"number {number} does not rise: {self._last} was the last one")
        if number > NUMBER_MAX:
            raise invalid("number", number, f"at most {NUMBER_MAX}")
        if number > self._last + 1 + self._unread:
            self.series += 1
            self.refusal = None
        self._last = number
        self._unread = 0

    def see_in(self, payload: bytes) -> int:
        """Takes note of the number of a request that is not decoded; returns it, or 0 without one."""
        if len(payload) < _NUMBER.size:
            # Which number it had, if it had one, is not known; it is not taken for one that was left out.
            self._unread += 1
            return 0
        number: int = _NUMBER.unpack_from(payload)[0]
        if self._last < number <= NUMBER_MAX:
            self.see(number)
        return number

    def admit(self, number: int, confirmed: list[int]) -> None:
        """Takes note of a request, or raises TooManyUnconfirmedError."""
        unconfirmed = self._pipeline.unconfirmed
        if number:
            if len(unconfirmed) >= self._max_unconfirmed:
                self._check_bound(confirmed)
            unconfirmed[number] = 1
        for confirmed_number in confirmed:
            unconfirmed.pop(confirmed_number, None)

    def note_confirm(self, packet: packets.Confirm) -> None:
        """Takes note of a Confirm."""
        for number in packet.confirmed:
            self._pipeline.unconfirmed.pop(number, None)
        self.note_hand_overs(packet.hand_overs)

    def note_hand_overs(self, references: list[packets.HandOverRef]) -> None:
        """Takes note of single messages that are confirmed or given back."""
        unconfirmed = self._pipeline.unconfirmed
        for reference in references:
            if reference.session == self._pipeline.client.session and reference.number in unconfirmed:
                unconfirmed[reference.number] -= 1
                if unconfirmed[reference.number] <= 0:
                    del unconfirmed[reference.number]

    def _check_bound(self, confirmed: list[int]) -> None:
        unconfirmed = self._pipeline.unconfirmed
        remaining = len(unconfirmed) - sum(number in unconfirmed for number in set(confirmed))
        if remaining >= self._max_unconfirmed:
            self.refusal = TooManyUnconfirmedError(
                f"{remaining} requests are unconfirmed, at most {self._max_unconfirmed} may be"
            )
            raise copy(self.refusal)


def note_references(numbers: Numbers, packet: Any) -> None:
    """Takes note of what a request without a number confirms or gives back."""
    if isinstance(packet, packets.Confirm):
        numbers.note_confirm(packet)
    elif isinstance(packet, packets.Release):
        numbers.note_hand_overs(packet.hand_overs)
