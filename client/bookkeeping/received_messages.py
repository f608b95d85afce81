"""What the service has handed to this client: who has it, what is confirmed, kept for later or given back."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable
from typing import Any

from telesto.client.bookkeeping.confirmations import Confirmations, ConfirmContents
from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.bookkeeping.unclaimed_messages import UnclaimedMessages
from telesto.client.bookkeeping.write_ahead_log import WriteAheadLog
from telesto.client.calls.queue_calls import TakingCall
from telesto.client.calls.readers import ReaderMessages
from telesto.client.calls.state import OperationId
from telesto.client.connection.link import InternalRequest
from telesto.client.models import HandOverId, Message
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import TelestoError

_log = logging.getLogger("telesto.client")

#: How many messages one Release packet gives back at most, so that it fits into any frame.
RELEASE_ITEMS_MAX = 512


class ReceivedMessages:
    """Records which messages of queues one client has received, and what becomes of each.

    ``offer`` gives a message to a read that waits at the service, False when there is none. ``given_back`` is
    told which messages are back in their queues, or at least no longer this client's.

    Attributes:
        confirmations: what is owed to the service.
        unclaimed: messages that no call waits for.
        release_due: when messages have to be given back, by the session's clock; infinity without any.
        closing: no more reads will come, so unclaimed messages go back at once.
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
        self._send = send
        self._offer = offer
        self._given_back = given_back
        self._wal = wal
        self._reader_messages: ReaderMessages[HandOverId] = ReaderMessages()
        self._auto_confirm = options.auto_confirm
        self._clock = clock
        self._retry_time = retry_time
        #: How many Confirm packets are under way.
        self._confirming = 0
        #: How many Confirm and Release packets were refused in a row.
        self._refusals = 0
        self._with_application: set[HandOverId] = set()
        self._to_release: dict[HandOverId, None] = {}
        self.release_due = math.inf
        self.confirmations = Confirmations(options.confirm_after, wal)
        self.closing = False
        self.unclaimed = UnclaimedMessages(options.recovered_hold, options.max_recovered)

    @property
    def settled(self) -> bool:
        """Tells whether the service has been told everything."""
        return not (self.confirmations.owed or self._confirming or self._to_release)

    def tick(self, now: float) -> None:
        """Sends what is due."""
        if now >= self.confirmations.due:
            self.send_confirm()
        if now >= self.unclaimed.due:
            self.release(self.unclaimed.take_due(now))
        if now >= self.release_due:
            self._send_releases()

    # ------------------------------------------------------------------ messages

    def arrived(self, messages: list[Message]) -> None:
        """These messages are on their way to a caller."""
        if self._wal is not None:
            self._wal.handed(messages)
        held = self.confirmations.held
        for message in messages:
            if message.hand_over is not None and message.hand_over.number:
                held.add(message.hand_over)

    def taken(self, call: TakingCall[Any], now: float) -> None:
        """The caller has the messages of its read."""
        confirmations = self.confirmations
        messages = call.messages
        names = [message.hand_over for message in messages if message.hand_over and message.hand_over.number]
        if not names:
            return
        if not self._auto_confirm or self._wal is not None:
            self._open_reads(names)
            self._with_application.update(names)
            if self._auto_confirm:
                self._reader_messages.give(call.reader, _source(call), names)
        elif call.from_recovered:
            for name in names:
                confirmations.take_message(name, now)
        else:
            confirmations.take_messages(names, now)

    def came_back(self, call: TakingCall[Any], now: float) -> None:
        """The caller of a read asks for more: it has processed what it got."""
        self.confirm(self._reader_messages.come_back(call.reader, _source(call)), now)

    def all_came_back(self, now: float) -> None:
        """The application is done: it has processed what its readers got."""
        self.confirm(self._reader_messages.all_back(), now)

    def confirm(self, hand_overs: Iterable[HandOverId], now: float) -> None:
        """The application has processed these messages."""
        hand_overs = list(hand_overs)
        if self._wal is not None:
            self._wal.taken(name for name in hand_overs if name in self._with_application)
        for name in hand_overs:
            if name in self._with_application:
                self._with_application.remove(name)
                self.confirmations.take_message(name, now)

    def take_back(self, hand_overs: Iterable[HandOverId], now: float) -> list[HandOverId]:
        """Returns those of these messages that may still be given back; the application has them no more."""
        names = self.confirmations.give_back((name for name in hand_overs if name.number), now)
        self._with_application.difference_update(names)
        self._reader_messages.drop(names)
        return names

    def keep(self, messages: list[Message], now: float) -> None:
        """These messages have no caller: a waiting read gets them, the next matching one, or the queue."""
        self._open_reads(message.hand_over for message in messages if message.hand_over is not None)
        surplus = []
        for message in messages:
            if message.hand_over is not None:
                self.confirmations.held.discard(message.hand_over)
                kept = not self.closing and (self._offer(message) or self.unclaimed.place(message, now))
                if not kept:
                    surplus.append(message.hand_over)
        self.release(surplus)

    def _open_reads(self, names: Iterable[HandOverId]) -> None:
        """The messages of these reads are dealt with one by one from now on."""
        by_read: dict[OperationId, list[int]] = {}
        for session, number, message_id in names:
            if number:
                by_read.setdefault(OperationId(session, number), []).append(message_id)
        for (session, number), message_ids in by_read.items():
            self.confirmations.hold(session, number, message_ids)

    # ------------------------------------------------------------------ confirming

    def send_confirm(self) -> None:
        """Sends what is owed, one packet at a time."""
        if self._confirming:
            self.confirmations.due = math.inf  # the answer under way makes the rest due
        else:
            self._send_confirm(self.confirmations.carry_all())

    def send_ahead(self) -> None:
        """Sends what the requests that follow cannot carry themselves."""
        packets_ahead = []
        while contents := self.confirmations.carry_all(with_numbers=False):
            packets_ahead.append(contents)
        for contents in packets_ahead:
            self._send_confirm(contents)

    def _send_confirm(self, contents: ConfirmContents) -> None:
        if not contents:
            return
        self._confirming += 1
        self._send(
            InternalRequest(
                contents.packet(),
                lambda _: self._confirmed(contents),
                lambda error: self._not_confirmed(contents, self._retry_at(error)),
                lambda: self._not_confirmed(contents, math.inf),
            )
        )

    def _confirmed(self, contents: ConfirmContents) -> None:
        self._confirming -= 1
        self._refusals = 0
        self.confirmations.proven(contents)
        if self.confirmations.owed and self.confirmations.due == math.inf:
            self.confirmations.hurry(self._clock())

    def _not_confirmed(self, contents: ConfirmContents, due: float) -> None:
        self._confirming -= 1
        self.confirmations.bring_back(contents, due)

    def _retry_at(self, error: TelestoError) -> float:
        """When to send again what was refused, unless a request that follows carries it earlier."""
        self._refusals += 1
        return max(self._retry_time(self._refusals), self._clock() + (error.retry_after or 0.0))

    # ------------------------------------------------------------------ giving back

    def release(self, hand_overs: Iterable[HandOverId]) -> None:
        """Gives these messages back to their queues."""
        for hand_over in hand_overs:
            if hand_over.number:
                self.confirmations.release(hand_over)
                self._to_release[hand_over] = None
        if self._to_release:
            self._send_releases()

    def release_all(self, now: float) -> None:
        """Gives back whatever is neither confirmed nor on its way to a caller."""
        self.release(self.unclaimed.take_all())
        self.release(self.take_back(list(self._with_application), now))

    def _send_releases(self) -> None:
        self.release_due = math.inf
        names = list(self._to_release)
        self._to_release.clear()
        for start in range(0, len(names), RELEASE_ITEMS_MAX):
            self._send_release(names[start : start + RELEASE_ITEMS_MAX])

    def _send_release(self, names: list[HandOverId]) -> None:
        self._send(
            InternalRequest(
                packets.Release([packets.HandOverRef(*name) for name in names]),
                lambda _: self._released(names),
                lambda error: self._not_released(names, self._retry_at(error)),
                lambda: self._not_released(names, math.inf),
            )
        )

    def _released(self, names: list[HandOverId]) -> None:
        self._refusals = 0
        for name in names:
            self.confirmations.released(name)
        self._given_back(names)

    def _not_released(self, names: list[HandOverId], due: float) -> None:
        self._to_release.update(dict.fromkeys(names))
        self.release_due = min(self.release_due, due)

    # ------------------------------------------------------------------ takeover

    def settle(self, takeover: Takeover, unseen: Collection[OperationId], now: float) -> None:
        """Deals with what a takeover lists and no pending call asks for.

        ``unseen`` are reads of this process whose messages no caller has seen: these are not redelivered.
        """
        confirmations = self.confirmations
        listed = takeover.listed_hand_overs()
        confirmations.keep_listed(takeover.operations, listed, now)
        self.unclaimed.keep_listed(listed)
        gone = [name for name in self._to_release if name not in listed]
        for name in gone:
            del self._to_release[name]
        self._released(gone)
        for operation in takeover.operations:
            if self._wal is None or not self._wal.needs(operation):
                confirmations.take(*operation, now)
        for messages in takeover.hand_overs.values():
            strays = [message for message in messages if self._is_stray(message.hand_over)]
            for message in strays:
                message.redelivered = message.redelivered or self._was_seen(message.hand_over, unseen)
            self.keep(strays, now)
        self.release(name for name in takeover.surplus if self._is_stray(name))
        _report([name for name in takeover.too_large if self._is_stray(name)], TOO_LARGE_STRAYS)
        _report([name for name in takeover.denied if self._is_stray(name)], DENIED_STRAYS)
        confirmations.hurry(now)

    def _was_seen(self, name: HandOverId | None, unseen: Collection[OperationId]) -> bool:
        """Tells whether the application may have got this message before."""
        if name is None:
            return True
        if self._wal is not None:
            return self._wal.has_returned(name)
        return OperationId(name.session, name.number) not in unseen

    def _is_stray(self, hand_over: HandOverId | None) -> bool:
        return hand_over is not None and not (
            hand_over in self.confirmations.held
            or hand_over in self.unclaimed
            or hand_over in self._to_release
            or self.confirmations.confirms(hand_over)
        )


def _source(call: TakingCall[Any]) -> object:
    return type(call), call.queue_id


TOO_LARGE_STRAYS = (
    "%d messages that this client took before do not fit the frames of this connection, the first with id "
    "%d; they stay with the service until it connects with a larger max_frame, to a middleware that has one"
)
DENIED_STRAYS = (
    "%d messages that this client took before are from queues that its user may not read any more, the first "
    "with id %d; they stay with the service until it connects when its user has the right to get again"
)


def _report(names: list[HandOverId], what: str) -> None:
    if names:
        _log.warning(what, len(names), names[0].message_id)
