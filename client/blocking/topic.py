# Generated from client/aio/topic.py by "python -m tools.codegen"; do not edit.
"""Topics of the blocking client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from signal import Signals
from typing import overload

from telesto.client import arguments
from telesto.client.blocking.lists import all_pages, in_batches
from telesto.client.blocking.pool import stopping_at
from telesto.client.calls.topic_calls import (
    DeleteTopicCall,
    GetCall,
    PutOneToTopicCall,
    SubscribeCall,
    SubscriptionsCall,
    UnsubscribeCall,
)
from telesto.client.errors import ClientClosedError
from telesto.client.io import shared
from telesto.client.io.driver import Driver
from telesto.client.models import Body, Duration, NewTopicMessage, TopicMessage, TopicPutResult
from telesto.client.url import Existing, check_existing
from telesto.protocol.errors import AlreadySubscribedError


class SubscribedTopics:
    """All topics that a client subscribes to, to be read together; ``client.subscribed_topics`` is this."""

    __slots__ = ("_driver", "_name")

    def __init__(self, driver: Driver, name: str | None = None) -> None:
        self._driver = driver
        self._name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @overload
    def get(
        self,
        *,
        timeout: None = None,
    ) -> TopicMessage: ...

    @overload
    def get(
        self,
        *,
        timeout: Duration | None,
    ) -> TopicMessage | None: ...

    def get(
        self,
        *,
        timeout: Duration | None = None,
    ) -> TopicMessage | None:
        """Gets the next message; None when none came in time.

        Of several topics the message that arrived first comes first; those of one topic come in the order of
        their numbers. Each comes once. Gets of one topic at the same time have their turns one by one.

        Args:
            timeout: seconds to wait for a message; None without limit, 0 not at all.

        Raises NotSubscribedError and SubscriptionDroppedError.
        """
        messages = self._get(GetCall(self._name, timeout))
        return messages[0] if messages else None

    def get_many(
        self,
        max_messages: int,
        *,
        max_bytes: int | None = None,
        timeout: Duration | None = None,
    ) -> list[TopicMessage]:
        """Gets up to ``max_messages`` messages; none when none came in time.

        It waits for the first message only. ``max_bytes`` bounds the bodies together; a first message beyond
        it raises MessageTooLargeError, whose related_id is its number. For the rest see ``get``.
        """
        return self._get(GetCall(self._name, timeout, max_messages, max_bytes))

    def messages(
        self,
        *,
        timeout: Duration | None = None,
        stop_signals: Iterable[Signals] = (),
    ) -> Iterator[TopicMessage]:
        """Yields messages one by one as they come, as iterating does, until none came for some time.

        Args:
            timeout: how long to wait for each, in seconds; None without limit.
            stop_signals: signals that end it once what was yielded is worked on, such as
                ``(signal.SIGTERM, signal.SIGINT)``; a second one does what it does without this. In the main
                thread only.

        It ends when the client is closed as well. Several are fetched at a time (``fetch_ahead``); what was
        fetched and not yielded comes to the next ``get``.
        """
        stopped = False
        call = GetCall(self._name, timeout)

        def stop() -> None:
            nonlocal stopped
            stopped = True
            self._driver.tell_in_signal(self._driver.session.end_get, call)

        with stopping_at(arguments.check_signals("stop_signals", stop_signals), stop):
            while True:
                call = GetCall(self._name, timeout, ahead=self._driver.options.fetch_ahead)
                if stopped:
                    return
                try:
                    found = self._get(call)
                except ClientClosedError:
                    return
                if not found:
                    return
                yield found[0]

    def __iter__(self) -> Iterator[TopicMessage]:
        return self.messages()

    def _get(self, call: GetCall) -> list[TopicMessage]:
        """Makes a get; the next one of its topic begins when it is over."""
        try:
            return self._driver.run(call)
        finally:
            self._driver.flush_soon()


class Topic(SubscribedTopics):
    """A topic as one client uses it. ``client.topic(name)`` makes it, and asks the service nothing.

    Attributes:
        name: its name.
    """

    __slots__ = ("name",)

    def __init__(self, driver: Driver, name: str) -> None:
        super().__init__(driver, arguments.check_topic(name))
        self.name = name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def subscribe(
        self,
        *,
        max_behind: int | None = None,
        max_age: Duration | None = None,
        drop: bool = False,
        existing: Existing = "use",
    ) -> int:
        """Subscribes to the topic: to every message put from now on; returns the subscription's id.

        The topic is created on its first use. The subscription lives until ``unsubscribe``, whether the
        client is connected or not, or until the client is deleted; subscribing again changes nothing and
        returns its id. That of a temporary client, one without a name, goes with its ``close``. Where the
        name has {pid} or {random}, each process leaves one behind. Both are logged as a warning, once.

        Args:
            max_behind: behind by more messages, the subscription is lagging.
            max_age: when its next message is older, in seconds, the subscription is lagging.
            drop: lagging, it is dropped: its messages go, and the next ``get`` raises
                SubscriptionDroppedError. Without, it is only shown as lagging.
            existing: "use" a subscription that there is already, or "error".

        Raises AlreadySubscribedError, whose related_id is the subscription that there is, for "error" and
        when that has other limits than those given.
        """
        call = SubscribeCall(self.name, max_behind, max_age, drop)
        check_existing(existing)
        try:
            subscription_id = self._driver.run(call)
        except AlreadySubscribedError as already:
            if existing == "error":
                raise
            if call.has_limits:
                rows = all_pages(self._driver, SubscriptionsCall, lambda row: row.subscription_id)
                if not any(call.is_met_by(row) for row in rows):
                    raise AlreadySubscribedError(
                        f"there is a subscription of {self.name!r} with other limits; unsubscribe first",
                        related_id=already.related_id,
                    ) from None
            return already.related_id or 0
        shared.warn_of_short_life(self._driver.session)
        return subscription_id

    def unsubscribe(self) -> None:
        """Ends the subscription of the topic; not even what was put before comes any more.

        Raises NotSubscribedError.
        """
        self._driver.run(UnsubscribeCall(self.name))

    def put(
        self, body: Body, *, sequence: int | None = None, headers: Mapping[str, str] | None = None
    ) -> int:
        """Puts a message to the topic, for all who subscribe to it; returns its number once it is durable.

        The topic is created on its first use.

        Args:
            body: the content, see ``put`` of a queue.
            sequence: this client's own number in the topic, 1, 2, 3, ...: one that was put before is
                acknowledged again and stored once, and returns 0 when its number is no longer known.
            headers: short texts by their names, see ``put`` of a queue.

        Raises SequenceGapError, whose related_id is the sequence expected next, and MessageTooLargeError.
        """
        results = self._driver.run(PutOneToTopicCall(self.name, body, sequence, headers))
        return results[0].number or 0

    def put_many(self, messages: Iterable[NewTopicMessage | Body]) -> list[TopicPutResult]:
        """Puts many messages to the topic; returns a result for each, in order.

        They are sent in batches, as by ``put_many`` of a queue.
        """
        batches = shared.topic_batches(self.name, messages, self._driver.options)
        return in_batches(self._driver, batches, shared.refused_batch)

    def delete(self) -> None:
        """Deletes the topic, which has no subscriptions, and the sequences of its publishers.

        A topic of this name that is created later begins at number 1.
        Raises TopicInUseError while somebody subscribes, and TopicNotExistingError.
        """
        self._driver.run(DeleteTopicCall(self.name))
