"""The account of a connection's numbered requests."""

from __future__ import annotations

from typing import Any

from telesto.middleware.requests import Line
from telesto.protocol import packets
from telesto.protocol.errors import TooManyUnconfirmedError, UnexpectedPacketError


class Numbers:
    """Checks that the numbers of a connection rise and that not too many are unconfirmed.

    Numbers start at 1 in each session; 0 stands for a request of which no record is kept. A number left out
    says that the client has seen a refusal for now and sends again, in order, what was refused.

    Attributes:
        resumes: the last number seen was not the one after the last before.
    """

    __slots__ = ("_last", "_line", "_max_unconfirmed", "_overloaded", "resumes")

    def __init__(self, line: Line, max_unconfirmed: int) -> None:
        self._line = line
        self._max_unconfirmed = max_unconfirmed
        self._last = 0
        self._overloaded = False
        self.resumes = False

    def see(self, number: int, overloaded: bool) -> bool:
        """Takes note of a number, whatever becomes of its request; raises UnexpectedPacketError.

        Returns True when the request has to be refused for now, because it is or one before it was.
        """
        if not number:
            return overloaded
        if number <= self._last:
            raise UnexpectedPacketError(f"number {number} does not rise: {self._last} was the last one")
        self.resumes = number != self._last + 1
        self._last = number
        self._overloaded = overloaded or (self._overloaded and not self.resumes)
        return self._overloaded

    def admit(self, number: int, confirmed: list[int]) -> None:
        """Takes note of a request, or raises TooManyUnconfirmedError."""
        unconfirmed = self._line.unconfirmed
        if number:
            if len(unconfirmed) >= self._max_unconfirmed:
                self._check_bound(confirmed)
            unconfirmed[number] = 1
        for confirmed_number in confirmed:
            unconfirmed.pop(confirmed_number, None)

    def note_confirm(self, packet: packets.Confirm) -> None:
        """Takes note of a Confirm."""
        for number in packet.confirmed:
            self._line.unconfirmed.pop(number, None)
        self.note_hand_overs(packet.hand_overs)

    def note_hand_overs(self, references: list[packets.HandOverRef]) -> None:
        """Takes note of single messages that are confirmed or given back."""
        unconfirmed = self._line.unconfirmed
        for reference in references:
            if reference.session == self._line.client.session and reference.number in unconfirmed:
                unconfirmed[reference.number] -= 1
                if unconfirmed[reference.number] <= 0:
                    del unconfirmed[reference.number]

    def _check_bound(self, confirmed: list[int]) -> None:
        unconfirmed = self._line.unconfirmed
        remaining = len(unconfirmed) - sum(number in unconfirmed for number in set(confirmed))
        if remaining >= self._max_unconfirmed:
            raise TooManyUnconfirmedError(
                f"{remaining} requests are unconfirmed, at most {self._max_unconfirmed} may be"
            )


def note_references(numbers: Numbers, packet: Any) -> None:
    """Takes note of what a request without a number confirms or gives back."""
    if isinstance(packet, packets.Confirm):
        numbers.note_confirm(packet)
    elif isinstance(packet, packets.Release):
        numbers.note_hand_overs(packet.hand_overs)
