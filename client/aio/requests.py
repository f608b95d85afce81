"""The requests of the asyncio client; those of the blocking one are generated from them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Unpack, overload

from telesto.client import arguments
from telesto.client.aio.lists import all_pages
from telesto.client.aio.queue import AsyncQueue, AsyncQueues
from telesto.client.aio.topic import AsyncSubscribedTopics, AsyncTopic
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
from telesto.client.io.async_driver import AsyncDriver
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


class AsyncRequests:
    """What a client asks the service for, each by a call that the session makes."""

    _session: Session
    _driver: AsyncDriver
    _queues: AsyncQueues

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

    async def ping(self) -> float:
        """Asks the middleware for a sign of life; returns the seconds that it took. Registers no client."""
        self._driver.attach()
        return await self._driver.ask(self._session.ping)

    async def delete_client(self) -> None:
        """Deletes this client. Messages that it took and did not confirm go back to their queues."""
        await self._driver.run(queue_calls.DeleteClientCall())

    # ------------------------------------------------------------------ queues

    def queue(self, queue: AsyncQueue | str | int) -> AsyncQueue:
        """Returns a queue as this client uses it; the service is asked when that is used first.

        Args:
            queue: its name, its id, or the queue as another client uses it.
        """
        return self._queues.of(queue)

    def topic(self, name: str) -> AsyncTopic:
        """Returns a topic as this client uses it; the service is asked when that is used first."""
        return AsyncTopic(self._driver, name)

    @property
    def subscribed_topics(self) -> AsyncSubscribedTopics:
        """All topics that this client subscribes to, to be read together."""
        return AsyncSubscribedTopics(self._driver)

    async def create_queue(
        self, name: str, settings: QueueSettings | None = None, **changes: Unpack[QueueSettingChanges]
    ) -> AsyncQueue:
        """Creates a queue.

        Args:
            name: 1 to 255 characters, unique.
            settings: its settings.
            changes: single settings by their names, such as ``lease=60``, instead of those in ``settings``.
                What is not given is as usual; ``help(QueueSettings)`` explains each.

        Raises QueueNameNotUniqueError, and QueueNotExistingError when there is no such dead letter queue.
        """
        wanted = await self._queues.with_ids(given_settings(settings, changes))
        created = await self._driver.run(queue_calls.CreateQueueCall(name, wanted))
        return self._queues.named(created.queue_id, created.name)

    async def declare_queue(
        self,
        name: str,
        settings: QueueSettings | None = None,
        *,
        update: bool = False,
        **changes: Unpack[QueueSettingChanges],
    ) -> AsyncQueue:
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
        wanted = await self._queues.with_ids(given)
        gone_id = 0
        while True:
            try:
                queue_id = await queue._id_now()
                there = await self._driver.run(queue_calls.QueueSettingsCall(queue_id))
            except QueueNotExistingError:
                try:
                    created = await self._driver.run(queue_calls.CreateQueueCall(name, wanted))
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
                await self._driver.run(queue_calls.UpdateQueueCall(queue_id, differing))
            except QueueNotExistingError as gone:
                if gone.related_id not in (None, queue_id) or queue_id == gone_id:  # that for dead letters
                    raise
                gone_id = queue_id
            else:
                return queue

    async def delete_queue(self, queue: AsyncQueue | str | int) -> None:
        """Deletes a queue and its messages; reads that wait there get QueueNotExistingError."""
        await self._queues.of(queue).delete()

    async def get_queue_by_name(self, name: str) -> AsyncQueue:
        """Finds a queue. Raises QueueNotExistingError."""
        return self._queues.named(await self._driver.run(queue_calls.GetQueueIdCall(name)), name)

    async def get_queue_by_id(self, queue_id: int) -> AsyncQueue:
        """Finds a queue. Raises QueueNotExistingError."""
        return self._queues.named(queue_id, await self._driver.run(queue_calls.GetQueueNameCall(queue_id)))

    async def get_queues(self) -> list[AsyncQueue]:
        """Lists all queues, by rising id."""
        rows = await all_pages(self._driver, queue_calls.GetQueuesCall, lambda row: row.queue_id)
        return [self._queues.named(row.queue_id, row.name) for row in rows]

    async def get_active_queues(self) -> list[AsyncQueue]:
        """Lists the queues that hold a message which this client may read, by rising id."""
        rows = await all_pages(self._driver, queue_calls.GetActiveQueuesCall, lambda row: row.queue_id)
        return [self._queues.named(row.queue_id, row.name) for row in rows]

    def read_messages(self, queue: AsyncQueue | str | int) -> AsyncIterator[Message]:
        """Browses: yields the messages that this client may read, by rising id, without taking them."""
        return self._queues.of(queue).browse()

    async def message_history(
        self, message_id: int, queue: AsyncQueue | str | int | None = None
    ) -> MessageHistory:
        """Tells what is known of a message: how it and its hand-overs ended, and where it is now.

        Args:
            message_id: the message.
            queue: its queue; None looks in all. How it ended is known as far as the queue keeps a history.

        Raises MessageNotExistingError when nothing is known.
        """
        queue_id = None if queue is None else await self._queues.of(queue)._id_now()
        return await self._driver.run(queue_calls.MessageHistoryCall(message_id, queue_id))

    # ------------------------------------------------------------------ messages

    async def put_message(
        self,
        queue: AsyncQueue | str | int,
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
        return await self._queues.of(queue).put(
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

    async def put_messages(
        self,
        queues: Sequence[AsyncQueue | str | int],
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
        queue_ids = [handle.queue_id or await handle._find() for handle in handles]
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
        results = await self._driver.run(call)
        for handle, result in zip(handles, results, strict=True):
            if isinstance(result.error, QueueNotExistingError):
                handle._forget()
        return shared.raise_if_all_failed(results)

    @overload
    async def retrieve_message(
        self,
        queue: AsyncQueue | str | int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: None = None,  # noqa: ASYNC109 - the service does the waiting
    ) -> Message: ...

    @overload
    async def retrieve_message(
        self,
        queue: AsyncQueue | str | int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None,  # noqa: ASYNC109 - the service does the waiting
    ) -> Message | None: ...

    async def retrieve_message(
        self,
        queue: AsyncQueue | str | int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the service does the waiting
    ) -> Message | None:
        """Takes a message from a queue, as ``get`` of the queue does; None when none came in time."""
        return await self._queues.of(queue).get(sender_id=sender_id, mode=mode, timeout=timeout)

    def recovered_puts(self) -> AsyncIterator[RecoveredPut]:
        """Tells what became of puts whose calls did not: the process died, or the call ended in doubt.

        Among them may be puts that returned just before the process was killed (for ``confirm_after``, if
        nothing else was written to the state meanwhile): their message_id is what they returned.

        Needs a state_dir. It waits until all of that is known, and yields each message in the order of the
        puts. Each counts as told when the application comes back for the next one; what it did not come back
        from is told again, also by the next process. Raises NotConnectedError.
        """
        return self._told_one_by_one(shared.durable(self._session))

    async def _told_one_by_one(self, session: DurableSession) -> AsyncIterator[RecoveredPut]:
        await self._driver.start_connecting()
        await self._driver.ask(session.when_settled)
        recovered = shared.told_one_by_one(session)
        while (put := self._driver.tell(lambda: next(recovered, None))) is not None:
            yield put

    async def confirm(self, messages: Iterable[Message | TopicMessage]) -> None:
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
            await self._driver.wait_for(call)

    async def release(self, messages: Iterable[Message | TopicMessage]) -> int:
        """Gives messages back to their queues, to their old places, marked redelivered; returns how many.

        Messages of topics come again to the next ``get``, with all behind them. Messages whose confirmation
        was sent already stay taken. With ``auto_confirm`` that is soon after they were returned; switch it
        off to decide about each message.
        """
        of_queues, of_topics = shared.by_source(messages)
        self._driver.attach()
        again = self._driver.tell(self._session.give_back_topics, of_topics)
        return again + await self._driver.ask(self._session.give_back, of_queues)

    # ------------------------------------------------------------------ topics

    async def topics(self, like: str | None = None, *, limit: int | None = None) -> list[TopicStatistics]:
        """Lists the topics, by rising id.

        Args:
            like: only those whose name is like this: ``*`` stands for any characters, ``?`` for one,
                and ``%`` for itself.
            limit: at most this many.
        """
        page = partial(TopicsCall, arguments.check_like(like))
        return await all_pages(self._driver, page, lambda topic: topic.topic_id, limit)

    async def subscriptions(self) -> list[Subscription]:
        """Lists this client's subscriptions, by rising id, with how far each is."""
        return await all_pages(self._driver, SubscriptionsCall, lambda row: row.subscription_id)

    # ------------------------------------------------------------------ what the service has

    async def queues(self, like: str | None = None, *, limit: int | None = None) -> list[QueueFigures]:
        """Lists the queues, by rising id, with how many messages wait in each.

        Args:
            like: only those whose name is like this: ``*`` stands for any characters, ``?`` for one,
                and ``%`` for itself.
            limit: at most this many.
        """
        page = partial(QueueListCall, arguments.check_like(like))
        return await all_pages(self._driver, page, lambda row: row.queue_id, limit)

    async def clients(self, like: str | None = None, *, limit: int | None = None) -> list[ClientFigures]:
        """Lists the clients of the service, by rising id.

        Args:
            like: only those whose name is like this: ``*`` stands for any characters, ``?`` for one,
                and ``%`` for itself.
            limit: at most this many.
        """
        page = partial(ClientListCall, arguments.check_like(like))
        return await all_pages(self._driver, page, lambda row: row.client_id, limit)

    async def consumers(self, queue: AsyncQueue | str | int | None = None) -> list[ConsumerFigures]:
        """Lists the consumers of a queue, or of all queues, by rising id."""
        queue_id = None if queue is None else await self._queues.of(queue)._id_now()
        page = partial(ConsumerListCall, queue_id)
        return await all_pages(self._driver, page, lambda row: row.consumer_id)

    async def middlewares(self) -> list[MiddlewareFigures]:
        """Lists the running middlewares, by rising id."""
        return await all_pages(self._driver, MiddlewareListCall, lambda row: row.middleware_id)

    # ------------------------------------------------------------------ request and response

    async def send_request_response_message(
        self,
        queue: AsyncQueue | str | int,
        body: Body,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Duration | None = shared.RESPONSE_TIMEOUT,  # noqa: ASYNC109 - the service does the waiting
    ) -> Message:
        """Puts a request into a queue and waits for the response, as ``request`` of the queue does."""
        return await self._queues.of(queue).request(
            body, priority=priority, receiver_id=receiver_id, headers=headers, timeout=timeout
        )

    async def reply(
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
        return await self._driver.run(shared.reply_call(request, body, priority, headers))
