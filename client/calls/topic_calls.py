"""The application's requests about topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from telesto.client import arguments
from telesto.client.calls.positions import Positions
from telesto.client.calls.queue_calls import Call, ResultT, headers_of
from telesto.client.models import Body, Duration, Subscription, TopicMessage, TopicPutResult, TopicStatistics
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode, TelestoError
from telesto.protocol.packets import ElementResult, Packet


class TopicCall(Call[ResultT]):
    """A request that changes a subscription."""

    topic: str


class SubscribeCall(TopicCall[int], request=packets.Subscribe):
    """Subscribes to a topic; returns the subscription's id."""

    def __init__(self, topic: str, max_behind: int | None, max_age: Duration | None, drop: bool) -> None:
        self.topic = arguments.check_topic(topic)
        self.max_behind = None if max_behind is None else arguments.check_count("max_behind", max_behind)
        self.max_age_ms = None if max_age is None else arguments.check_duration_ms("max_age", max_age)
        self.drop = arguments.check_drop(drop, max_behind, max_age)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        limits = {"max_behind": self.max_behind, "max_age_ms": self.max_age_ms}
        packet = packets.Subscribe(number, confirmed, self.topic, **limits, drop=self.drop or None)
        return packet.encode(packet_id)

    @property
    def has_limits(self) -> bool:
        """Tells whether any limit is given."""
        return self.max_behind is not None or self.max_age_ms is not None

    def is_met_by(self, there: Subscription) -> bool:
        """Tells whether a subscription that there is has the topic and the limits."""
        max_age = None if self.max_age_ms is None else self.max_age_ms / 1000
        given = (self.topic, self.max_behind, max_age, self.drop)
        return given == (there.topic, there.max_behind, there.max_age, there.drop)

    def result(self) -> int:
        """Returns the subscription's id."""
        subscription_id: int = self.response.subscription_id
        return subscription_id

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        self.raise_recorded(results)
        return packets.SubscribeResponse(results[0].related_id)


class UnsubscribeCall(TopicCall[None], request=packets.Unsubscribe):
    """Ends the subscription of a topic."""

    def __init__(self, topic: str) -> None:
        self.topic = arguments.check_topic(topic)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.Unsubscribe(number, confirmed, self.topic).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class DeleteTopicCall(Call[None], request=packets.DeleteTopic):
    """Deletes a topic."""

    def __init__(self, topic: str) -> None:
        self.topic = arguments.check_topic(topic)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.DeleteTopic(number, confirmed, self.topic).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class PutToTopicCall(Call[list[TopicPutResult]], request=packets.PutToTopic):
    """Puts messages to a topic."""

    may_be_fast = True
    noted = True

    def __init__(self, topic: str, messages: list[packets.NewTopicMessage]) -> None:
        self.topic = topic
        self.messages = messages

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.PutToTopic(number, confirmed, self.topic, self.messages).encode(packet_id)

    def result(self) -> list[TopicPutResult]:
        """Returns what became of each message."""
        return [
            TopicPutResult(result.number, result.duplicate)
            if result.error is None
            else TopicPutResult(None, False, self._refused(result.error, result.number))
            for result in self.response.results
        ]

    def _refused(self, code: int, number: int) -> TelestoError:
        details = None
        if code == ErrorCode.SEQUENCE_GAP:
            details = f"the sequence that topic {self.topic!r} expects next of this client is {number}"
        return self.refusal(code, None, number, details)

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        pairs = zip(self.messages, results, strict=True)
        return packets.PutToTopicResponse([_recorded(result) for _, result in pairs])


def _recorded(result: ElementResult) -> packets.TopicPutResult:
    """Makes the result of a put from what was recorded: a duplicate has a negative number, or none."""
    duplicate = result.error is None and result.related_id <= 0
    return packets.TopicPutResult(abs(result.related_id), duplicate, result.error)


class PutOneToTopicCall(PutToTopicCall):
    """Puts one message to a topic."""

    def __init__(
        self,
        topic: str,
        body: Body,
        sequence: int | None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        message = arguments.new_topic_message(body, sequence, headers)
        super().__init__(arguments.check_topic(topic), [message])

    def result(self) -> list[TopicPutResult]:
        """Returns what became of the message. Raises why it was not put."""
        results = super().result()
        if results[0].error is not None:
            raise results[0].error
        return results


class GetCall(Call[list[TopicMessage]], request=packets.GetFromTopics):
    """Gets messages of one topic, or of all; it may wait at the service until one comes or the time is up.

    Attributes:
        topic: the topic, None for all.
        max_messages: how many the caller wants.
        ahead: how many are fetched at a time, so that later calls find them at hand.
        positions: how far the client is; the session sets it.
        told: the positions that the request under way carries.
        by_id: the request under way names the subscription.
        messages: what it got.
    """

    positions: Positions
    told: list[packets.TopicPosition]
    by_id: bool = False
    messages: list[TopicMessage]

    def __init__(
        self,
        topic: str | None,
        timeout: Duration | None,
        max_messages: int = 1,
        max_bytes: int | None = None,
        ahead: int = 1,
    ) -> None:
        self.topic = None if topic is None else arguments.check_topic(topic)
        self.wait = arguments.check_timeout(timeout)
        self.max_messages = arguments.check_count("max_messages", max_messages)
        self.max_bytes = 0 if max_bytes is None else arguments.check_count("max_bytes", max_bytes)
        self.ahead = max(ahead, max_messages)
        self.told = []
        self.messages = []

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request, with the time that is left to wait and what there is to tell of positions."""
        wait_ms = arguments.wait_ms(self.wait_until - now) if self.wait else 0
        subscription_id = 0 if self.topic is None else self.positions.subscription_of(self.topic)
        self.by_id = subscription_id != 0
        self.told = self.positions.telling(None if self.topic is None else [subscription_id])
        name = "" if self.by_id or self.topic is None else self.topic
        return packets.GetFromTopics(
            subscription_id, name, self.told, wait_ms, self.ahead, self.max_bytes
        ).encode(packet_id)

    def result(self) -> list[TopicMessage]:
        """Returns the messages."""
        return self.messages

    def got(self) -> list[TopicMessage]:
        """Returns the answer's messages as the application sees them."""
        response: packets.GetFromTopicsResponse = self.response
        names = {name.subscription_id: name.topic for name in response.names}
        self.positions.learn(names)
        return [
            TopicMessage(
                self.topic or names[message.subscription_id],
                message.number,
                message.sender_id,
                message.time_of_arrival,
                message.body,
                message.subscription_id,
                {} if message.headers is None else headers_of(message.headers),
            )
            for message in response.messages
        ]


class TopicsCall(Call[tuple[list[TopicStatistics], bool]], request=packets.ListTopics):
    """Asks for a page of topics; returns it and whether there is more."""

    def __init__(self, like: str | None, after_topic_id: int, limit: int) -> None:
        self._request = packets.ListTopics(after_topic_id, limit, like=like)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self._request.encode(packet_id)

    def result(self) -> tuple[list[TopicStatistics], bool]:
        """Returns the page and whether there is more."""
        rows: list[packets.TopicFigures] = self.response.topics
        found = [
            TopicStatistics(row.topic_id, row.topic, row.last_number, row.subscribers, row.depth)
            for row in rows
        ]
        return found, bool(found) and self.response.more


class SubscriptionsCall(Call[tuple[list[Subscription], bool]], request=packets.ListSubscriptions):
    """Asks for a page of the client's subscriptions; returns it and whether there is more."""

    def __init__(self, after_subscription_id: int, limit: int) -> None:
        self.after_subscription_id = after_subscription_id
        self.limit = limit

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.ListSubscriptions(self.after_subscription_id, self.limit).encode(packet_id)

    def result(self) -> tuple[list[Subscription], bool]:
        """Returns the page and whether there is more."""
        found = [_subscription(row) for row in self.response.subscriptions]
        return found, bool(found) and self.response.more


def _subscription(row: Any) -> Subscription:
    return Subscription(
        row.subscription_id,
        row.topic,
        row.position,
        row.last_number,
        row.state,
        row.max_behind,
        None if row.max_age_ms is None else row.max_age_ms / 1000,
        bool(row.drop),
    )
