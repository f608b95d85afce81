# Generated from client/aio/requests.py by "python -m tools.codegen"; do not edit.
"""The requests of the blocking client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Unpack, overload

from telesto.client import arguments
from telesto.client.blocking.lists import all_pages
from telesto.client.blocking.queue import Queue, Queues
from telesto.client.blocking.topic import SubscribedTopics, Topic
from telesto.client.calls import queue_calls
from telesto.client.calls.list_calls import (
    ClientListCall,
    ConsumerListCall,
    MiddlewareListCall,
    QueueListCall,
)
from telesto.client.calls.topic_calls import SubscriptionsCall, TopicsCall
from telesto.client.durable.durable_session import DurableSession
from telesto.client.errors import QueueSettingsDifferError
from telesto.client.io import shared
from telesto.client.io.driver import Driver
from telesto.client.models import (
    Body,
    ClientFigures,
    ConsumerFigures,
    Duration,
    Message,
    MessageHistory,
    MiddlewareFigures,
    PutResult,
    QueueFigures,
    RecoveredPut,
    Subscription,
    TopicMessage,
    TopicStatistics,
)
from telesto.client.queue_settings import (
    QueueSettingChanges,
    QueueSettings,
    differences,
    given_settings,
)
from telesto.client.session.session import Session
from telesto.protocol.errors import QueueNameNotUniqueError, QueueNotExistingError, TelestoError
from telesto.protocol.packets import ClientMode, ReadMode


class Requests:
    """What a client asks the service for, each by a call that the session makes."""

    _session: Session
    _driver: Driver
    _queues: Queues

    # ------------------------------------------------------------------ the client

    @property
    def client_id(self) -> int | None:
        """The client's id; None before it is connected for the first time."""
        return self._session.client_id

    @property
    def name(self) -> str | None:
        """The client's name; None before it is connected for the first time."""
        return self._session.name

    @property
    def mode(self) -> ClientMode | None:
        """What the client may do; None before it is connected for the first time."""
        return self._session.mode

    @property
    def session(self) -> int | None:
        """The number of the client's session on the service; rises with each new connection."""
        return self._session.session

    @property
    def address(self) -> str | None:
        """host:port of the middleware in use; None without a connection."""
        return self._session.address

    @property
    def connected(self) -> bool:
        """Whether there is a connection; a lost one is replaced without the caller's doing."""
        return self._session.connected

    @property
    def hindrance(self) -> TelestoError | None:
        """Why there is no connection, once an attempt has failed or one was lost; None while there is one."""
        return self._session.hindrance

    def ping(self) -> float:
        """Asks the middleware for a sign of life; returns the seconds that it took. Registers no client."""
        self._driver.attach()
        return self._driver.ask(self._session.ping)

    def delete_client(self) -> None:
        """Deletes this client. Messages that it took and did not confirm go back to their queues."""
        self._driver.run(queue_calls.DeleteClientCall())

    # ------------------------------------------------------------------ queues

    def queue(self, queue: Queue | str | int) -> Queue:
        """Returns a queue as this client uses it; the service is asked when that is used first.

        Args:
            queue: its name, its id, or the queue as another client uses it.
        """
        return self._queues.of(queue)

    def topic(self, name: str) -> Topic:
        """Returns a topic as this client uses it; the service is asked when that is used first."""
        return Topic(self._driver, name)

    @property
    def subscribed_topics(self) -> SubscribedTopics:
        """All topics that this client subscribes to, to be read together."""
        return SubscribedTopics(self._driver)

    def create_queue(
        self, name: str, settings: QueueSettings | None = None, **changes: Unpack[QueueSettingChanges]
    ) -> Queue:
        """Creates a queue.

        Args:
            name: 1 to 255 characters, unique.
            settings: its settings.
            changes: single settings by their names, such as ``lease=60``, instead of those in ``settings``.
                What is not given is as usual; ``help(QueueSettings)`` explains each.

        Raises QueueNameNotUniqueError, and QueueNotExistingError when there is no such dead letter queue.
        """
        wanted = self._queues.with_ids(given_settings(settings, changes))
        created = self._driver.run(queue_calls.CreateQueueCall(name, wanted))
        return self._queues.named(created.queue_id, created.name)

    def declare_queue(
        self,
        name: str,
        settings: QueueSettings | None = None,
        *,
        update: bool = False,
        **changes: Unpack[QueueSettingChanges],
    ) -> Queue:
        """Returns the queue of a name, which is created if there is none. Others may do the same meanwhile.

        Args:
            name: 1 to 255 characters.
            settings: all settings that it must have, those that are as usual included.
            update: change the settings that differ.
            changes: single settings by their names, such as ``lease=60``, instead of those in ``settings``.
                Without ``settings``, those that are not given may be anything. ``help(QueueSettings)``
                explains each.

        Raises QueueSettingsDifferError, which says what differs, unless ``update`` is set, and
        QueueNotExistingError when there is no such dead letter queue.
        """
        queue = self.queue(arguments.check_name("name", name))
        arguments.check_flag("update", update)
        given = given_settings(settings, changes)
        wanted = self._queues.with_ids(given)
        gone_id = 0
        while True:
            try:
                queue_id = queue._id_now()
                there = self._driver.run(queue_calls.QueueSettingsCall(queue_id))
            except QueueNotExistingError:
                try:
                    created = self._driver.run(queue_calls.CreateQueueCall(name, wanted))
                except QueueNameNotUniqueError:
                    continue
                return self._queues.named(created.queue_id, name)
            differing = {key: value for key, value in wanted.items() if getattr(there, key) != value}
            if not differing:
                return queue
            if not update:
                found = differences(there, {key: given[key] for key in differing})
                raise QueueSettingsDifferError(
                    f"queue {name!r} has {found}; update=True changes it", queue_id=queue_id
                )
            try:
                self._driver.run(queue_calls.UpdateQueueCall(queue_id, differing))
            except QueueNotExistingError as gone:
                if gone.related_id not in (None, queue_id) or queue_id == gone_id:  # that for dead letters
                    raise
                gone_id = queue_id
            else:
                return queue

    def delete_queue(self, queue: Queue | str | int) -> None:
        """Deletes a queue and its messages; reads that wait there get QueueNotExistingError."""
        self._queues.of(queue).delete()

    def get_queue_by_name(self, name: str) -> Queue:
        """Finds a queue. Raises QueueNotExistingError."""
        return self._queues.named(self._driver.run(queue_calls.GetQueueIdCall(name)), name)

    def get_queue_by_id(self, queue_id: int) -> Queue:
        """Finds a queue. Raises QueueNotExistingError."""
        return self._queues.named(queue_id, self._driver.run(queue_calls.GetQueueNameCall(queue_id)))

    def get_queues(self) -> list[Queue]:
        """Lists all queues, by rising id."""
        rows = all_pages(self._driver, queue_calls.GetQueuesCall, lambda row: row.queue_id)
        return [self._queues.named(row.queue_id, row.name) for row in rows]

    def get_active_queues(self) -> list[Queue]:
        """Lists the queues that hold a message which this client may read, by rising id."""
        rows = all_pages(self._driver, queue_calls.GetActiveQueuesCall, lambda row: row.queue_id)
        return [self._queues.named(row.queue_id, row.name) for row in rows]

    def read_messages(self, queue: Queue | str | int) -> Iterator[Message]:
        """Browses: yields the messages that this client may read, by rising id, without taking them."""
        return self._queues.of(queue).browse()

    def message_history(self, message_id: int, queue: Queue | str | int | None = None) -> MessageHistory:
        """Tells what is known of a message: how it and its hand-overs ended, and where it is now.

        Args:
            message_id: the message.
            queue: its queue; None looks in all. How it ended is known as far as the queue keeps a history.

        Raises MessageNotExistingError when nothing is known.
        """
        queue_id = None if queue is None else self._queues.of(queue)._id_now()
        return self._driver.run(queue_calls.MessageHistoryCall(message_id, queue_id))

    # ------------------------------------------------------------------ messages

    def put_message(
        self,
        queue: Queue | str | int,
        body: Body,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        correlation_id: int | None = None,
        partition_key: str | None = None,
        dedup_key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Puts a message into a queue, as ``put`` of the queue does; returns its id once it is durable."""
        return self._queues.of(queue).put(
            body,
            priority=priority,
            receiver_id=receiver_id,
            correlation_id=correlation_id,
            partition_key=partition_key,
            dedup_key=dedup_key,
            delay=delay,
            at=at,
            expires=expires,
            headers=headers,
        )

    def put_messages(
        self,
        queues: Sequence[Queue | str | int],
        body: Body,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        correlation_id: int | None = None,
        partition_key: str | None = None,
        dedup_key: str | None = None,
        delay: Duration | None = None,
        at: datetime | None = None,
        expires: Duration | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> list[PutResult]:
        """Puts one message into several queues, in one transaction; returns a result for each, in order.

        A queue that does not exist or is full is reported in its result, the others take the message. Only
        when none took it is the first error raised. A name that no queue has raises QueueNotExistingError
        before anything is put.
        """
        if at is not None:
            delay = arguments.delay_until(at, delay)
        handles = [self._queues.of(queue, "queues") for queue in arguments.check_queues(queues)]
        queue_ids = [handle.queue_id or handle._find() for handle in handles]
        call = queue_calls.PutSeveralCall(
            queue_ids,
            body,
            priority,
            receiver_id,
            correlation_id,
            dedup_key,
            delay,
            expires,
            partition_key,
            headers,
        )
        results = self._driver.run(call)
        for handle, result in zip(handles, results, strict=True):
            if isinstance(result.error, QueueNotExistingError):
                handle._forget()
        return shared.raise_if_all_failed(results)

    @overload
    def retrieve_message(
        self,
        queue: Queue | str | int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: None = None,
    ) -> Message: ...

    @overload
    def retrieve_message(
        self,
        queue: Queue | str | int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None,
    ) -> Message | None: ...

    def retrieve_message(
        self,
        queue: Queue | str | int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None = None,
    ) -> Message | None:
        """Takes a message from a queue, as ``get`` of the queue does; None when none came in time."""
        return self._queues.of(queue).get(sender_id=sender_id, mode=mode, timeout=timeout)

    def recovered_puts(self) -> Iterator[RecoveredPut]:
        """Tells what became of puts whose calls did not: the process died, or the call ended in doubt.

        Among them may be puts that returned just before the process was killed (for ``confirm_after``, if
        nothing else was written to the state meanwhile): their message_id is what they returned.

        Needs a state_dir. It waits until all of that is known, and yields each message in the order of the
        puts. Each counts as told when the application comes back for the next one; what it did not come back
        from is told again, also by the next process. Raises NotConnectedError.
        """
        return self._told_one_by_one(shared.durable(self._session))

    def _told_one_by_one(self, session: DurableSession) -> Iterator[RecoveredPut]:
        self._driver.start_connecting()
        self._driver.ask(session.when_settled)
        recovered = shared.told_one_by_one(session)
        while (put := self._driver.tell(lambda: next(recovered, None))) is not None:
            yield put

    def confirm(self, messages: Iterable[Message | TopicMessage]) -> None:
        """Says that these messages are processed, when ``auto_confirm`` is off; in topics, with all before.

        The confirmation travels with the next request or a little later; ``close`` sends it at the latest.
        With a state_dir it is durable on return. Raises ClientClosedError once the client is closed, though
        not while handlers end before that.
        """
        of_queues, of_topics = shared.by_source(messages)
        if of_topics:
            self._driver.tell(self._session.confirm_topics, of_topics)
        call = self._driver.tell(self._session.confirm, of_queues)
        if call is not None:
            self._driver.wait_for(call)

    def release(self, messages: Iterable[Message | TopicMessage]) -> int:
        """Gives messages back to their queues, to their old places, marked redelivered; returns how many.

        Messages of topics come again to the next ``get``, with all behind them. Messages whose confirmation
        was sent already stay taken. With ``auto_confirm`` that is soon after they were returned; switch it
        off to decide about each message.
        """
        of_queues, of_topics = shared.by_source(messages)
        self._driver.attach()
        again = self._driver.tell(self._session.give_back_topics, of_topics)
        return again + self._driver.ask(self._session.give_back, of_queues)

    # ------------------------------------------------------------------ topics

    def topics(self, like: str | None = None, *, limit: int | None = None) -> list[TopicStatistics]:
        """Lists the topics, by rising id.

        Args:
            like: only those whose name is like this: ``*`` stands for any characters, ``?`` for one,
                and ``%`` for itself.
            limit: at most this many.
        """
        page = partial(TopicsCall, arguments.check_like(like))
        return all_pages(self._driver, page, lambda topic: topic.topic_id, limit)

    def subscriptions(self) -> list[Subscription]:
        """Lists this client's subscriptions, by rising id, with how far each is."""
        return all_pages(self._driver, SubscriptionsCall, lambda row: row.subscription_id)

    # ------------------------------------------------------------------ what the service has

    def queues(self, like: str | None = None, *, limit: int | None = None) -> list[QueueFigures]:
        """Lists the queues, by rising id, with how many messages wait in each.

        Args:
            like: only those whose name is like this: ``*`` stands for any characters, ``?`` for one,
                and ``%`` for itself.
            limit: at most this many.
        """
        page = partial(QueueListCall, arguments.check_like(like))
        return all_pages(self._driver, page, lambda row: row.queue_id, limit)

    def clients(self, like: str | None = None, *, limit: int | None = None) -> list[ClientFigures]:
        """Lists the clients of the service, by rising id.

        Args:
            like: only those whose name is like this: ``*`` stands for any characters, ``?`` for one,
                and ``%`` for itself.
            limit: at most this many.
        """
        page = partial(ClientListCall, arguments.check_like(like))
        return all_pages(self._driver, page, lambda row: row.client_id, limit)

    def consumers(self, queue: Queue | str | int | None = None) -> list[ConsumerFigures]:
        """Lists the consumers of a queue, or of all queues, by rising id."""
        queue_id = None if queue is None else self._queues.of(queue)._id_now()
        page = partial(ConsumerListCall, queue_id)
        return all_pages(self._driver, page, lambda row: row.consumer_id)

    def middlewares(self) -> list[MiddlewareFigures]:
        """Lists the running middlewares, by rising id."""
        return all_pages(self._driver, MiddlewareListCall, lambda row: row.middleware_id)

    # ------------------------------------------------------------------ request and response

    def send_request_response_message(
        self,
        queue: Queue | str | int,
        body: Body,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Duration | None = shared.RESPONSE_TIMEOUT,
    ) -> Message:
        """Puts a request into a queue and waits for the response, as ``request`` of the queue does."""
        return self._queues.of(queue).request(
            body, priority=priority, receiver_id=receiver_id, headers=headers, timeout=timeout
        )

    def reply(
        self,
        request: Message,
        body: Body,
        *,
        priority: int | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> int:
        """Puts the response to a request, by default with the request's priority; returns its id.

        It expires with the request, whose asker waits no longer then; after 7 days if the request had no
        limit. When that time is over already it is not stored, and this returns 0.
        """
        return self._driver.run(shared.reply_call(request, body, priority, headers))
