"""The subscriptions of a client: which get is sent next, and what the service is told of its positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from telesto.client.bookkeeping.write_ahead_log import WriteAheadLog
from telesto.client.calls.positions import Positions
from telesto.client.calls.readers import ReaderMessages
from telesto.client.calls.topic_calls import GetCall
from telesto.client.connection.link import InternalRequest
from telesto.client.models import TopicMessage
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, TelestoError

_Place = tuple[int, int]
"""A message of a topic: its subscription and its number."""


class Subscriptions:
    """Keeps one get at a time under way for each subscription, so that no two get the same messages.

    A get is open until its caller has taken the answer or has given up; the next one then begins behind what
    was taken. What the application has taken is told with the next get, or after a short while on its own.
    Nothing has to be given back: what the service is not told of comes again.

    Attributes:
        positions: how far the client is.
        waiting: gets that wait for an open one.
        due: when positions have to be told, by the session's clock.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], float],
        retry_time: Callable[[int], float],
        send: Callable[[InternalRequest], None],
        wal: WriteAheadLog | None = None,
    ) -> None:
        self._send = send
        self._wal = wal
        self._reader_messages: ReaderMessages[_Place] = ReaderMessages()
        self._came_back: dict[int, int] = {}
        self._confirm_after = options.confirm_after
        self._auto_confirm = options.auto_confirm
        self._clock = clock
        self._retry_time = retry_time
        self._refusals = 0
        self._open: dict[GetCall, None] = {}
        self._telling = False
        self.positions = Positions(None if wal is None else wal.drop_position)
        self.waiting: dict[GetCall, None] = {}
        self.due = math.inf

    # ------------------------------------------------------------------ the order of gets

    def enter(self, call: GetCall) -> bool:
        """Opens a get; False when it has to wait for one that is open."""
        call.positions = self.positions
        if self._can_open(call, list(self.waiting)):
            self._open[call] = None
            return True
        self.waiting[call] = None
        return False

    def leave(self, call: GetCall) -> list[GetCall]:
        """A get is over; opens those that waited for it and returns them, in order."""
        self.waiting.pop(call, None)
        self._open.pop(call, None)
        entered: list[GetCall] = []
        before: list[GetCall] = []
        for other in list(self.waiting):
            if self._can_open(other, before):
                del self.waiting[other]
                self._open[other] = None
                entered.append(other)
            else:
                before.append(other)
        return entered

    @property
    def next_expiry(self) -> float:
        """When the time of a get that waits for an open one is up, by the session's clock.

        If no open get waits at the service, all end soon, and each waiting one is sent, even without time.
        """
        if any(call.wait > 0 for call in self._open):
            return min((call.wait_until for call in self.waiting), default=math.inf)
        return math.inf

    def take_expired(self, now: float) -> list[GetCall]:
        """Takes out the gets whose time was up before they were opened."""
        if self.next_expiry > now:
            return []
        expired = [call for call in self.waiting if call.wait_until <= now]
        for call in expired:
            del self.waiting[call]
        return expired

    def _can_open(self, call: GetCall, before: list[GetCall]) -> bool:
        return not any(
            other.topic is None or call.topic is None or other.topic == call.topic
            for other in [*self._open, *before]
        )

    # ------------------------------------------------------------------ messages

    def taken(self, call: GetCall) -> None:
        """The caller has the messages of its get."""
        for message in call.messages:
            self.positions.see(message)
        if self._auto_confirm and self._wal is not None:
            self._reader_messages.give(call.reader, call.topic, map(_place, call.messages))
        elif self._auto_confirm:
            self.confirm(call.messages)

    def came_back(self, call: GetCall) -> None:
        """The caller of a get asks for more: it has processed what it got."""
        self._back(self._reader_messages.come_back(call.reader, call.topic))

    def all_came_back(self) -> None:
        """The application is done: it has processed what its readers got."""
        self._back(self._reader_messages.all_back())

    def confirm(self, messages: Iterable[TopicMessage]) -> None:
        """The application has these messages, and all before them."""
        for message in messages:
            self._take(*_place(message))

    def give_back(self, messages: Iterable[TopicMessage]) -> int:
        """Those of these messages that are not confirmed come again, with all behind; returns how many."""
        count = 0
        for message in messages:
            if self.positions.give_back(message):
                count += 1
                self._not_processed(*_place(message))
        return count

    def _not_processed(self, subscription_id: int, number: int) -> None:
        """The application has given back this message, and all behind it."""
        places = [
            place for place in self._reader_messages if place[0] == subscription_id and place[1] >= number
        ]
        self._reader_messages.drop(places)
        if self._came_back.get(subscription_id, 0) >= number:
            self._came_back[subscription_id] = number - 1

    def _back(self, places: list[_Place]) -> None:
        """These messages are processed; what is before one that a reader still has can be confirmed."""
        for subscription_id, number in places:
            self._came_back[subscription_id] = max(self._came_back.get(subscription_id, 0), number)
        for subscription_id, number in list(self._came_back.items()):
            in_hand = [other for held, other in self._reader_messages if held == subscription_id]
            if not in_hand:
                del self._came_back[subscription_id]
            self._take(subscription_id, min([number, *(other - 1 for other in in_hand)]))

    def _take(self, subscription_id: int, number: int) -> None:
        if self.positions.take(subscription_id, number):
            self.due = min(self.due, self._clock() + self._confirm_after)
            if self._wal is not None:
                self._wal.reached(subscription_id, number)

    # ------------------------------------------------------------------ what the service is told

    @property
    def settled(self) -> bool:
        """Tells whether the service has been told everything."""
        return not self._telling and not self.positions.unproven

    def sent(self, call: GetCall) -> None:
        """A get is on its way, with what is owed: its answer proves that it has come."""
        if len(call.told) >= self.positions.unproven:
            self.due = math.inf

    def failed(self) -> None:
        """A get was refused, so that nothing proves what it told."""
        if self.positions.unproven:
            self.due = min(self.due, self._clock() + self._confirm_after)

    def hurry(self) -> None:
        """Tells what is owed at once."""
        if self.positions.unproven:
            self.due = self._clock()

    def bring_back(self, owed: dict[int, int]) -> None:
        """The client is again what it was when it owed this."""
        for subscription_id, number in owed.items():
            self.positions.take(subscription_id, number)
        self.hurry()

    def tick(self, now: float) -> None:
        """Tells what is due, one packet at a time."""
        if now < self.due:
            return
        self.due = math.inf
        told = self.positions.telling([])
        if not told or self._telling:
            return
        self._telling = True
        self._send(
            InternalRequest(
                packets.ConfirmPositions(told),
                lambda _: self._told(told),
                lambda error: self._refused(told, error),
                self._lost,
            )
        )

    def _told(self, told: list[packets.TopicPosition]) -> None:
        self._telling = False
        self._refusals = 0
        self.positions.prove(told)
        self.hurry()

    def _refused(self, told: list[packets.TopicPosition], error: TelestoError) -> None:
        self._telling = False
        if error.error_class is ErrorClass.REJECTED:
            self.positions.forget([position.subscription_id for position in told])
        elif self.positions.unproven:
            self._refusals += 1
            self.due = max(self._retry_time(self._refusals), self._clock() + (error.retry_after or 0.0))

    def _lost(self) -> None:
        """The next connection tells it."""
        self._telling = False


def _place(message: TopicMessage) -> _Place:
    return message.subscription_id, message.number
