"""The topics of the service in memory."""

import itertools
from dataclasses import dataclass, field

from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode


class TopicRefusalError(Exception):
    def __init__(self, code: ErrorCode, related_id: int | None = None) -> None:
        super().__init__(code)
        self.code = code
        self.related_id = related_id


@dataclass
class FakeTopic:
    topic_id: int
    name: str
    messages: list[tuple[int, int, bytes]] = field(default_factory=list)
    sequences: dict[int, int] = field(default_factory=dict)
    numbers: dict[int, int] = field(default_factory=dict)

    @property
    def last_number(self) -> int:
        return len(self.messages)


@dataclass
class FakeSubscription:
    subscription_id: int
    client_id: int
    topic: FakeTopic
    start: int
    position: int
    max_behind: int | None
    max_age_ms: int | None
    drop: bool | None


class FakeTopics:
    """All topics and subscriptions; time is counted in messages."""

    def __init__(self) -> None:
        self.topics: dict[str, FakeTopic] = {}
        self.subscriptions: dict[int, FakeSubscription] = {}
        self._ids = itertools.count(1)
        self._time = itertools.count(1_700_000_000_000_000)

    def topic(self, name: str) -> FakeTopic:
        if name not in self.topics:
            self.topics[name] = FakeTopic(next(self._ids), name)
        return self.topics[name]

    def of_client(self, client_id: int) -> list[FakeSubscription]:
        return [found for found in self.subscriptions.values() if found.client_id == client_id]

    def find(self, client_id: int, name: str) -> FakeSubscription | None:
        return next((found for found in self.of_client(client_id) if found.topic.name == name), None)

    def subscribe(self, client_id: int, packet: packets.Subscribe) -> int:
        existing = self.find(client_id, packet.topic)
        if existing is not None:
            raise TopicRefusalError(ErrorCode.ALREADY_SUBSCRIBED, existing.subscription_id)
        topic = self.topic(packet.topic)
        subscription_id = next(self._ids)
        self.subscriptions[subscription_id] = FakeSubscription(
            subscription_id,
            client_id,
            topic,
            topic.last_number,
            topic.last_number,
            packet.max_behind,
            packet.max_age_ms,
            packet.drop,
        )
        return subscription_id

    def unsubscribe(self, client_id: int, name: str) -> None:
        existing = self.find(client_id, name)
        if existing is None:
            raise TopicRefusalError(ErrorCode.NOT_SUBSCRIBED)
        del self.subscriptions[existing.subscription_id]

    def put(self, client_id: int, name: str, message: packets.NewTopicMessage) -> packets.TopicPutResult:
        topic = self.topic(name)
        if message.sequence is not None:
            last = topic.sequences.get(client_id, 0)
            if message.sequence <= last:
                number = topic.numbers.get(client_id, 0) if message.sequence == last else 0
                return packets.TopicPutResult(number, True, None)
            if message.sequence > last + 1:
                return packets.TopicPutResult(last + 1, False, ErrorCode.SEQUENCE_GAP)
            topic.sequences[client_id] = message.sequence
            topic.numbers[client_id] = topic.last_number + 1
        topic.messages.append((next(self._time), client_id, message.body, message.headers))
        return packets.TopicPutResult(topic.last_number, False, None)

    def confirm(self, client_id: int, positions: list[packets.TopicPosition]) -> None:
        known = {found.subscription_id: found for found in self.of_client(client_id)}
        for position in positions:
            subscription = known.get(position.subscription_id)
            if subscription is None:
                continue
            if max(position.confirmed, position.after) > subscription.topic.last_number:
                raise TopicRefusalError(ErrorCode.POSITION_UNKNOWN, subscription.topic.last_number)
        for position in positions:
            subscription = known.get(position.subscription_id)
            if subscription is not None:
                subscription.position = max(subscription.position, position.confirmed)

    def get(self, client_id: int, packet: packets.GetFromTopics) -> packets.GetFromTopicsResponse:
        self.confirm(client_id, packet.positions)
        wanted = [
            found
            for found in self.of_client(client_id)
            if packet.subscription_id in (0, found.subscription_id) and packet.topic in ("", found.topic.name)
        ]
        if not wanted:
            raise TopicRefusalError(ErrorCode.NOT_SUBSCRIBED)
        afters = {position.subscription_id: position.after for position in packet.positions}
        messages = [
            packets.TopicMessage(found.subscription_id, number, sender, time, body, headers=headers)
            for found in wanted
            for number, (time, sender, body, headers) in enumerate(found.topic.messages, 1)
            if number > max(found.position, afters.get(found.subscription_id, 0))
        ]
        messages.sort(key=lambda message: message.time_of_arrival)
        chosen = messages[: packet.max_messages]
        if packet.max_bytes and chosen and len(chosen[0].body) > packet.max_bytes:
            raise TopicRefusalError(ErrorCode.MESSAGE_TOO_LARGE, chosen[0].number)
        names = (
            {} if packet.subscription_id else {found.subscription_id: found.topic.name for found in wanted}
        )
        told = [packets.SubscriptionName(key, name) for key, name in names.items()]
        return packets.GetFromTopicsResponse(chosen, told if chosen else [])

    def list_topics(self, found: list[FakeTopic], limit: int) -> packets.ListTopicsResponse:
        rows = []
        for topic in found[:limit]:
            positions = [
                subscription.position
                for subscription in self.subscriptions.values()
                if subscription.topic is topic
            ]
            depth = topic.last_number - min(positions, default=topic.last_number)
            rows.append(
                packets.TopicFigures(topic.topic_id, topic.name, topic.last_number, len(positions), depth)
            )
        return packets.ListTopicsResponse(rows, len(found) > limit)

    def list_subscriptions(
        self, client_id: int, packet: packets.ListSubscriptions
    ) -> packets.ListSubscriptionsResponse:
        found = [
            subscription
            for subscription in self.of_client(client_id)
            if subscription.subscription_id > packet.after_subscription_id
        ]
        rows = [
            packets.SubscriptionFigures(
                one.subscription_id,
                one.topic.name,
                one.position,
                one.topic.last_number,
                packets.SubscriptionState.ACTIVE,
                max_behind=one.max_behind,
                max_age_ms=one.max_age_ms,
                drop=one.drop,
            )
            for one in found[: packet.limit]
        ]
        return packets.ListSubscriptionsResponse(rows, len(found) > packet.limit)
