"""How far a client is in its subscriptions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from telesto.client.models import TopicMessage
from telesto.protocol import packets

#: Positions in one request at most, beside those that it needs itself; the rest goes with the next one.
POSITIONS_MAX = 1_000


@dataclass(slots=True)
class Position:
    """One subscription.

    Attributes:
        taken: the application has all messages up to this number; 0 when only the service knows.
        proven: the service is known to know so much of it.
        seen: the application was given all up to this number, of which it may not have confirmed all.
        fetched: messages behind those, which no call has asked for yet.
    """

    taken: int = 0
    proven: int = 0
    seen: int = 0
    fetched: deque[TopicMessage] = field(default_factory=deque)


class Positions:
    """The subscriptions that this process has used.

    ``drop_stored``, for a client with a state, drops a position from it: up to this number the service knows
    it, or (None) it no longer has the subscription.
    """

    def __init__(self, drop_stored: Callable[[int, int | None], None] | None = None) -> None:
        self._drop_stored = drop_stored
        self._positions: dict[int, Position] = {}
        self._unproven: dict[int, None] = {}
        self._ids: dict[str, int] = {}

    @property
    def owed(self) -> dict[int, int]:
        """What the service does not know yet: by subscription, up to which number the application is."""
        return {subscription_id: self._positions[subscription_id].taken for subscription_id in self._unproven}

    @property
    def unproven(self) -> int:
        """Of how many subscriptions the service does not know all."""
        return len(self._unproven)

    def subscription_of(self, topic: str) -> int:
        """The subscription of a topic, 0 when it is not known."""
        return self._ids.get(topic, 0)

    def learn(self, names: dict[int, str]) -> None:
        """Takes note of the topics of subscriptions."""
        for subscription_id, topic in names.items():
            self._ids[topic] = subscription_id

    def forget_names(self) -> None:
        """Another process may have subscribed anew meanwhile: the service is to say the ids again."""
        self._ids.clear()

    def forget_topic(self, topic: str) -> None:
        """The subscription of a topic begins or ends: what was fetched by the one before is void."""
        subscription_id = self._ids.pop(topic, 0)
        position = self._positions.get(subscription_id)
        if position is not None:
            position.fetched.clear()

    def forget(self, subscription_ids: list[int]) -> None:
        """The service does not know such positions; what it knows counts."""
        for subscription_id in subscription_ids:
            self._positions.pop(subscription_id, None)
            self._unproven.pop(subscription_id, None)
            if self._drop_stored is not None:
                self._drop_stored(subscription_id, None)

    # ------------------------------------------------------------------ messages

    def see(self, message: TopicMessage) -> None:
        """The application is given a message."""
        position = self._of(message.subscription_id)
        position.seen = max(position.seen, message.number)

    def take(self, subscription_id: int, number: int) -> bool:
        """The application has all messages up to a number; False when that was known."""
        position = self._of(subscription_id)
        if number <= position.taken:
            return False
        position.taken = number
        position.seen = max(position.seen, number)
        self._unproven[subscription_id] = None
        return True

    def give_back(self, message: TopicMessage) -> bool:
        """The application wants a message, and all behind it, once more; False when it confirmed it."""
        position = self._of(message.subscription_id)
        if message.number <= position.taken:
            return False
        position.seen = min(position.seen, message.number - 1)
        position.fetched.clear()
        return True

    def keep(self, messages: list[TopicMessage]) -> None:
        """No call has asked for these messages yet."""
        for message in messages:
            self._of(message.subscription_id).fetched.append(message)

    def put_back(self, messages: list[TopicMessage]) -> None:
        """The caller for whom these messages were has given up; they come before what was fetched."""
        for message in reversed(messages):
            position = self._of(message.subscription_id)
            if message.number > position.seen:
                position.fetched.appendleft(message)

    def take_fetched(self, topic: str | None, count: int) -> list[TopicMessage]:
        """Takes messages out that were fetched before: of a topic, or of all in the order of arrival."""
        found: list[TopicMessage] = []
        while len(found) < count:
            fetched = self._next_fetched(topic)
            if fetched is None:
                break
            found.append(fetched.popleft())
        return found

    def _next_fetched(self, topic: str | None) -> deque[TopicMessage] | None:
        if topic is not None:
            position = self._positions.get(self.subscription_of(topic))
            return position.fetched if position is not None and position.fetched else None
        filled = [position.fetched for position in self._positions.values() if position.fetched]
        return min(filled, key=_arrival, default=None)

    # ------------------------------------------------------------------ what the service is told

    def telling(self, subscription_ids: list[int] | None) -> list[packets.TopicPosition]:
        """What to tell with a get of these subscriptions, None for all; and what else fits."""
        told: dict[int, None] = {}
        for subscription_id in self._positions if subscription_ids is None else subscription_ids:
            position = self._positions.get(subscription_id)
            if position is not None and position.seen > position.proven:
                told[subscription_id] = None
        for subscription_id in self._unproven:
            if len(told) >= POSITIONS_MAX:
                break
            told[subscription_id] = None
        positions = ((subscription_id, self._positions[subscription_id]) for subscription_id in told)
        return [
            packets.TopicPosition(
                subscription_id, position.taken, position.seen if position.seen > position.taken else 0
            )
            for subscription_id, position in positions
        ]

    def prove(self, told: list[packets.TopicPosition]) -> None:
        """The service knows this."""
        for one in told:
            position = self._positions.get(one.subscription_id)
            if position is None:
                continue
            position.proven = max(position.proven, one.confirmed)
            if position.taken <= position.proven:
                self._unproven.pop(one.subscription_id, None)
            if self._drop_stored is not None:
                self._drop_stored(one.subscription_id, one.confirmed)

    def _of(self, subscription_id: int) -> Position:
        position = self._positions.get(subscription_id)
        if position is None:
            position = self._positions[subscription_id] = Position()
        return position


def _arrival(fetched: deque[TopicMessage]) -> tuple[int, int, int]:
    return fetched[0].arrival()
