"""What one client has received, what it has to confirm, and how far it is in its topics."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from telesto.client.bookkeeping.confirmations import ConfirmContents
from telesto.client.bookkeeping.identity import HandshakeResult
from telesto.client.bookkeeping.received_messages import ReceivedMessages
from telesto.client.bookkeeping.subscriptions import Subscriptions
from telesto.client.bookkeeping.write_ahead_log import WriteAheadLog
from telesto.client.calls.queue_calls import Call
from telesto.client.connection.link import InternalRequest
from telesto.client.models import HandOverId, Message
from telesto.client.options import ClientOptions


@dataclass(frozen=True, slots=True)
class _Owed:
    """What one client of a service has not been able to confirm."""

    client_id: int | None
    incarnation: str
    contents: ConfirmContents
    positions: dict[int, int]

    def to(self, result: HandshakeResult) -> bool:
        """Tells whether this is owed by the client that a connection was established for."""
        return (self.client_id, self.incarnation) == (result.client_id, result.incarnation)


class Ledger:
    """Keeps the records of the client that a session is at present.

    Attributes:
        received: the messages of queues.
        confirmations: what is owed to the service for answers taken.
        subscriptions: the messages of topics.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], float],
        retry_time: Callable[[int], float],
        send: Callable[[InternalRequest], None],
        offer: Callable[[Message], bool],
        given_back: Callable[[Collection[HandOverId]], None],
        wal: WriteAheadLog | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._retry_time = retry_time
        self._send = send
        self._offer = offer
        self._given_back = given_back
        self._wal = wal
        self._owed: _Owed | None = None
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begins with a client of which nothing is known."""
        self.received = ReceivedMessages(
            self._options,
            self._clock,
            self._retry_time,
            self._send,
            self._offer,
            self._given_back,
            self._wal,
        )
        self.confirmations = self.received.confirmations
        self.subscriptions = Subscriptions(
            self._options, self._clock, self._retry_time, self._send, self._wal
        )

    def remember_owed(self, client_id: int | None, incarnation: str) -> None:
        """Keeps what is owed for the case that the session becomes this client again.

        What the application has taken must not come back to it.
        """
        owed = self.confirmations.all_owed(), self.subscriptions.positions.owed
        self._owed = _Owed(client_id, incarnation, *owed)

    def bring_back_owed(self, result: HandshakeResult) -> None:
        """What was kept is owed again if the session is that client now; otherwise it is forgotten."""
        owed, self._owed = self._owed, None
        if owed is not None and owed.to(result):
            self.confirmations.bring_back(owed.contents, math.inf)
            self.subscriptions.bring_back(owed.positions)

    def bring_back_carried(self, call: Call[Any]) -> None:
        """The confirmations that a refused request carried are owed again, and due after the usual time."""
        self._bring_back(call, self._clock() + self._options.confirm_after)

    def bring_back_lost(self, call: Call[Any]) -> None:
        """The confirmations that a request carried over a lost connection are owed again, on the next one."""
        self._bring_back(call, math.inf)

    def _bring_back(self, call: Call[Any], due: float) -> None:
        if call.carried:
            self.confirmations.bring_back(ConfirmContents(call.carried, [], []), due)
            call.carried = None
