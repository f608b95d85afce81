"""How much credit a consumer has: it follows the pace of the application, unless that sets the credit."""

from __future__ import annotations

import math
from collections.abc import Callable

from telesto.client.bookkeeping.consumer_state import CREDIT_LEAST, ConsumerState
from telesto.client.connection.link import InternalRequest
from telesto.client.models import Message
from telesto.protocol import packets

#: The largest credit.
CREDIT_MOST = 256
#: The credit is not raised beyond what the application begins in this time, in seconds.
CREDIT_S = 0.5
#: How often it is checked whether the application has become slower, in seconds.
PACE_S = 1.0


class CreditControl:
    """Raises the credit of consumers while the application is quick, and lowers it when it slows down."""

    def __init__(
        self,
        clock: Callable[[], float],
        send: Callable[[InternalRequest], None],
        give_back: Callable[[ConsumerState, list[Message]], None],
    ) -> None:
        """``give_back`` gives messages back that the application was not given."""
        self._clock = clock
        self._send = send
        self._give_back = give_back

    def application_waits(self, state: ConsumerState, now: float) -> None:
        """Doubles the credit when the application waits, and has all of its credit open or has been quick."""
        if not state.paced or not state.consumer_id or state.credit_messages >= CREDIT_MOST:
            return
        given = state.given - state.given_before
        stuck = len(state.open) + len(state.buffer) >= state.credit_messages
        if not stuck and given < state.credit_messages:
            return
        quick = given * CREDIT_S >= state.credit_messages * (now - state.counted_since)
        state.given_before, state.counted_since = state.given, now
        if stuck or quick:
            self._set(state, min(CREDIT_MOST, 2 * state.credit_messages))

    def check_pace(self, state: ConsumerState, now: float) -> None:
        """Lowers the credit to twice what was begun since the last check, or is open; gives the rest back."""
        state.look_at = now + PACE_S
        pace, state.given_at_look = state.given - state.given_at_look, state.given
        most = max(CREDIT_LEAST, 2 * pace, 2 * len(state.open))
        if state.waiting or state.credit_messages <= most:
            return
        self._set(state, most)
        self._give_back(state, state.buffer.shorten(most, {lease.lease_id for lease in state.open}))

    def _set(self, state: ConsumerState, messages: int) -> None:
        state.credit_messages = messages
        state.look_at = math.inf if messages <= CREDIT_LEAST else min(state.look_at, self._clock() + PACE_S)
        self._send(InternalRequest(packets.Credit(state.consumer_id, messages, state.credit_bytes)))
