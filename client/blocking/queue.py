# Generated from client/aio/queue.py by "python -m tools.codegen"; do not edit.
"""A queue of the blocking client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from signal import Signals
from typing import Any, TypeVar, Unpack, overload

from telesto.client import arguments
from telesto.client.blocking.consumer import Consumer
from telesto.client.blocking.lists import in_batches
from telesto.client.blocking.pool import (
    DRAIN,
    Handler,
    OnError,
    Pools,
    RequestHandler,
    answering,
    log_failure,
)
from telesto.client.bookkeeping.consumer_state import ConsumerState
from telesto.client.calls import queue_calls
from telesto.client.durable.durable_session import DurableSession
from telesto.client.io import shared
from telesto.client.io.driver import Driver
from telesto.client.models import (
    Body,
    DeadLetter,
    Duration,
    Message,
    NewMessage,
    PutResult,
    QueueHandle,
    QueueStatistics,
)
from telesto.client.queue_settings import QueueSettingChanges, QueueSettings, given_settings
from telesto.protocol.errors import QueueNotExistingError
from telesto.protocol.packets import ReadMode

ResultT = TypeVar("ResultT")

#: How many queues a client knows by name or id at a time.
_KNOWN_MAX = 10_000


class Queue(QueueHandle):
    """A queue as one client uses it. ``client.queue(name)`` makes it, and asks the service nothing.

    It finds the queue's id when it is first used, and finds it again when the queue was deleted and made anew
    under its name. Handles of one client are equal when they have the same name, or no name and the same
    id. One by name and one by id never are, since a name may go to another queue.

    Attributes:
        name: its unique name; empty when it is known by its id only.
        queue_id: its id; 0 before it was first used, and while it is found again.
    """

    __slots__ = ("_driver", "_finding", "_found", "_queues", "_seekers")

    def __init__(self, queues: Queues, name: str = "", queue_id: int = 0) -> None:
        self._queues = queues
        self._driver = queues.driver
        self.name = name
        self.queue_id = self._found = queue_id
        self._finding = threading.Lock()
        self._seekers: set[object] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._key()[1]!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Queue) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Driver, str | int]:
        return self._driver, self.name or self.queue_id

    def _belongs_to(self, driver: Driver) -> bool:
        """Tells whether it is a queue of the client that this driver serves."""
        return self._driver is driver

    def _find(self, instead_of: int = 0) -> int:
        """Returns the queue's id, which the service is asked for when it is not known.

        Args:
            instead_of: an id that the queue had; the service is asked for the one that it has now.

        Raises QueueNotExistingError.
        """
        queue_id = self.queue_id
        if queue_id and (queue_id != instead_of or not self.name):
            return queue_id
        # One caller asks for all. ``queue_id`` stays 0 until the last of them has the id. Later callers wait
        # behind them, so calls of one handle take effect in their order.
        self._driver.attach()
        if queue_id:
            self._found = queue_id
        seeker = object()
        self._seekers.add(seeker)
        self.queue_id = 0
        try:
            with self._finding:
                if not self._found or self._found == instead_of:
                    self._found = self._driver.run(queue_calls.GetQueueIdCall(self.name))
                return self._found
        finally:
            self._seekers.discard(seeker)
            if not self._seekers:
                self.queue_id = self._found

    def _with_id(self, act: Callable[[int], ResultT]) -> ResultT:
        """Does something with the queue's id; again when the queue was deleted and there is a new one."""
        while True:
            queue_id = self.queue_id or self._find()
            try:
                return act(queue_id)
            except QueueNotExistingError as gone:
                self._find_anew(queue_id, gone)

    def _once(self, act: Callable[[int], ResultT]) -> ResultT:
        """Does something with the queue's id, but not to a queue made anew, which the caller never saw."""
        queue_id = self.queue_id or self._find()
        try:
            return act(queue_id)
        except QueueNotExistingError:
            self._forget()
            raise

    def _id_now(self) -> int:
        """Returns the id that the queue of this name has now. Raises QueueNotExistingError."""
        return self._find(instead_of=self.queue_id)

    def _find_anew(self, before: int, gone: QueueNotExistingError) -> None:
        """Finds the queue that bears the name now.

        Raises the error when there is none, or when it is about another queue, such as that for dead letters.
        """
        if gone.related_id not in (None, before) or self._find(instead_of=before) == before:
            raise gone

    # ------------------------------------------------------------------ putting

    def put(
        self,
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
        """Puts a message into the queue; returns its id once it is durable.

        Args:
            body: bytes; or a str, which is put as UTF-8 with the header ``content-type: text/plain;
                charset=utf-8``; or a dict, list, number or bool, which is put as JSON with ``content-type:
                application/json``, unless the headers have a ``content-type``. It may be empty.
            priority: 1 (lowest) to 10 (highest).
            receiver_id: the only client that may read it; it need not exist yet.
            correlation_id: connects a request and its response.
            partition_key: 1 to 255 characters: only consumers get it, and of all that this client puts under
                one key one consumer at a time, in order. Not together with a receiver.
            dedup_key: 1 to 255 characters. Within the queue's window (``dedup_window``) one message is
                stored under one key: a repeated put returns the id of the first one.
            delay: how long nobody can read it, in seconds.
            at: instead of a delay: the moment from which it can be read, with a time zone, by this machine's
                clock.
            expires: after how long it expires, in seconds, unless its queue has it expire sooner
                (``expires``). What has expired is never handed over. With 0, as for a response whose asker
                waits no longer, it is not stored, and this returns 0.
            headers: short texts by their names, such as ``{"tenant": "north"}``: up to 64, names of up to 128
                bytes, values of up to 1,024, 8,192 bytes in all.

        Raises QueueNotExistingError, QueueFullError and MessageTooLargeError. With a ``state_dir`` also
        QueueNotExistingError when the queue was made anew; the next put goes to the new one.
        """
        if at is not None:
            delay = arguments.delay_until(at, delay)
        # Here and in get not by _with_id: a closure and a coroutine more are felt in every message.
        while True:
            queue_id = self.queue_id or self._find()
            call = queue_calls.PutCall(
                queue_id,
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
            call.destination = self.name
            try:
                return self._driver.run(call)
            except QueueNotExistingError as gone:
                self._find_anew(queue_id, gone)
                if self._queues.durable:  # the state has to tell of one put: the application makes it anew
                    raise

    def put_many(self, messages: Iterable[NewMessage | Body]) -> list[PutResult]:
        """Puts many messages into the queue; returns a result for each, in order.

        They are sent in batches, several of them under way at a time, and taken from the iterable as they are
        sent. Each batch is one transaction; order is kept. A message that was not put is reported in its
        result, also when none was put, and is not put again by itself when the queue was made anew: the next
        call finds the new one. An argument that is none ends it with an error, after what came before was
        sent. Raises NotConnectedError when nothing can be sent to begin with, and QueueNotExistingError when
        no queue has the name.
        """
        queue_id = self.queue_id or self._find()
        batches = shared.put_batches(queue_id, messages, self._driver.options, self.name)
        results = in_batches(self._driver, batches, shared.failed_batch)
        if any(isinstance(result.error, QueueNotExistingError) for result in results):
            self._forget()
        return results

    def _forget(self) -> None:
        """Has the queue's id found anew when the handle is used again, if its name is known."""
        if self.name:
            self.queue_id = self._found = 0

    # ------------------------------------------------------------------ reading

    @overload
    def get(
        self,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: None = None,
    ) -> Message: ...

    @overload
    def get(
        self,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None,
    ) -> Message | None: ...

    def get(
        self,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None = None,
    ) -> Message | None:
        """Takes a message from the queue; None when none came in time.

        Args:
            sender_id: only messages of this client.
            mode: PRIORITY for the highest priority first, TIME for the oldest first.
            timeout: seconds to wait for a message; None without limit, 0 not at all.

        Raises QueueNotExistingError, also when the queue is deleted meanwhile.
        """
        while True:
            queue_id = self.queue_id or self._find()
            call = queue_calls.ReadCall(queue_id, sender_id, mode, timeout)
            try:
                messages = self._driver.run(call)
            except QueueNotExistingError as gone:
                self._find_anew(queue_id, gone)
                timeout = arguments.time_left(call.wait_until)
            else:
                return messages[0] if messages else None

    def get_many(
        self,
        max_messages: int,
        *,
        max_bytes: int | None = None,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: Duration | None = None,
    ) -> list[Message]:
        """Takes up to ``max_messages`` messages from the queue; none when none came in time.

        It waits for the first message only. ``max_bytes`` bounds the bodies together; a first message beyond
        it is not taken and raises MessageTooLargeError, whose related_id names it. For the rest see ``get``.
        """
        while True:
            queue_id = self.queue_id or self._find()
            call = queue_calls.ReadCall(queue_id, sender_id, mode, timeout, max_messages, max_bytes)
            try:
                return self._driver.run(call)
            except QueueNotExistingError as gone:
                self._find_anew(queue_id, gone)
                timeout = arguments.time_left(call.wait_until)

    def browse(self, *, limit: int | None = None) -> Iterator[Message]:
        """Yields the messages that this client may read, by rising id, without taking them.

        Args:
            limit: at most this many.
        """
        left = arguments.check_limit(limit)
        after, more = 0, True

        def page(queue_id: int) -> tuple[list[Message], bool]:
            size = min(left, self._driver.options.page_size)
            return self._driver.run(queue_calls.BrowseCall(queue_id, after, size))

        while more and left:
            messages, more = self._with_id(page)
            left -= len(messages)
            for message in messages:
                after = message.message_id
                yield message

    # ------------------------------------------------------------------ consuming

    def consume(
        self,
        *,
        credit: int | None = None,
        credit_bytes: int = 16 * 1024 * 1024,
        keep_alive: bool = False,
        ack_in_database: bool = False,
    ) -> Consumer:
        """Consumes the queue: messages are pushed, each to one consumer, and have to be answered.

        Use the consumer in a ``with`` block, and each message that it yields in one, which acknowledges it.

        Args:
            credit: how many messages the consumer may have at a time, those that wait for the loop included.
                Without it about as many as are begun in a second, between 2 and 256.
            credit_bytes: how many bytes of bodies, 0 for any number; a larger message comes alone.
            keep_alive: extend the leases of what the consumer has for as long as this process lives. Without
                it a message that is not answered in the queue's lease time goes to another consumer.
            ack_in_database: the application acknowledges each message in a transaction of its own, by
                ``telesto.ack``; leaving the message's block says that this is committed.
        """
        state = ConsumerState(credit, credit_bytes, keep_alive, ack_in_database)
        return Consumer(self._driver, self, state)

    def run_consumer(
        self,
        handler: Handler,
        *,
        concurrency: int = 1,
        credit: int | None = None,
        keep_alive: bool = True,
        ack_in_database: bool = False,
        on_error: OnError = log_failure,
        drain: Duration = DRAIN,
        stop_signals: Iterable[Signals] = (),
    ) -> None:
        """Has a handler work on the messages of the queue, each acknowledged when it returns.

        Args:
            handler: takes a ``Message``; an async function for the asyncio client, a plain one for the
                blocking client. When it raises, the message goes back as failed, to come again.
            concurrency: how many messages are worked on at a time, of a partition one, in order; by the
                blocking client each in a thread of a pool.
            credit: how many messages the consumer may have at a time; without it that follows the pace, as in
                ``consume``.
            keep_alive: extend the leases of what the consumer has for as long as this process lives.
            ack_in_database: the handler acknowledges its message in a transaction of its own, by
                ``telesto.ack(*message.lease)`` in SQL, and has committed it when it returns.
            on_error: takes a message and what its handler raised; without it that is logged, as is what it
                raises itself.
            drain: how long handlers under way may take when it ends, in seconds. Nothing more is begun then.
                What has not ended in time goes back, as does what was not begun, which counts as no attempt;
                a handler of the asyncio client is cancelled then.
            stop_signals: signals that end it, such as ``(signal.SIGTERM, signal.SIGINT)``; a second one does
                what it does without this. In the main thread only.

        It runs until one of these signals arrives or the client is closed; in the asyncio client also until
        it is cancelled (cancelled again while handlers are ending, it cancels them at once), in the blocking
        one until a signal's handler raises here.
        Raises QueueNotExistingError when the queue was deleted and not made anew, PermissionDeniedError when
        the user may not get from it (any more), AuthenticationFailedError when the user may not log in again
        after the connection has ended, as one that was disabled, and InvalidParameterError for a handler of
        the other client's kind; what that was given counts as no attempt.
        """
        consumer = self.consume(credit=credit, keep_alive=keep_alive, ack_in_database=ack_in_database)
        self._queues.pools.run(consumer, handler, concurrency, on_error, drain, stop_signals)

    # ------------------------------------------------------------------ request and response

    def request(
        self,
        body: Body,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: Duration | None = shared.RESPONSE_TIMEOUT,
    ) -> Message:
        """Puts a request into the queue, waits for the response and returns it.

        The response is a message in the same queue that only this client can read; ``reply`` makes it. The
        arguments are those of ``put`` and ``get``. The request expires when the ``timeout`` is over: what has
        not been handed over by then is not handled any more.

        Raises RequestTimeoutError when no response came in time (by default 30 seconds; None waits for
        ever), RemoteRefusalError when the handler of ``serve_requests`` refused it, and RemoteError when
        that failed.
        """
        while True:
            queue_id = self.queue_id or self._find()
            put, read = shared.request_calls(queue_id, body, priority, receiver_id, headers, timeout)
            put.destination = self.name
            self._driver.start_connecting()
            asked, response = self._driver.start(put), self._driver.start(read)
            try:
                self._driver.wait_for(asked)
            except QueueNotExistingError as gone:
                self._driver.abandon([response])
                self._find_anew(queue_id, gone)
                if self._queues.durable:
                    raise
                timeout = arguments.time_left(read.wait_until)
            except BaseException:
                self._driver.abandon([response])
                raise
            else:
                return shared.response_of(self._driver.wait_for(response), put)

    def serve_requests(
        self,
        handler: RequestHandler,
        *,
        concurrency: int = 1,
        keep_alive: bool = True,
        on_error: OnError = log_failure,
        drain: Duration = DRAIN,
        stop_signals: Iterable[Signals] = (),
    ) -> None:
        """Has a handler answer the requests of the queue, as one of its consumers.

        Args:
            handler: takes a request, a ``Message``, and returns the body of the response, see ``put``; an
                async function for the asyncio client, a plain one for the blocking client. None, or a
                message without a correlation id, means no response. When it raises, the asker gets
                RemoteError; a message without a correlation id goes back as failed, to come again.
                RequestRefusedError is for what the asker is to be told, and is no failure.
            concurrency: how many requests are worked on at a time.
            keep_alive: extend the leases of requests for as long as this process lives.
            on_error: takes a request and what its handler raised, unless that is a RequestRefusedError;
                without it that is logged, as is what it raises itself.
            drain, stop_signals: as for ``run_consumer``.

        A request is acknowledged after its response was put. If that fails it comes again,
        and its handler runs again, but within the queue's ``dedup_window`` no second response is stored.
        A response expires as one that ``reply`` puts, so none stays for a client that is gone.
        It runs as long as ``run_consumer`` does, and raises the same.
        """
        consumer = self.consume(keep_alive=keep_alive)
        serve = answering(self._driver, handler, on_error)
        self._queues.pools.run(consumer, serve, concurrency, on_error, drain, stop_signals)

    # ------------------------------------------------------------------ the queue itself

    def update(self, settings: QueueSettings | None = None, **changes: Unpack[QueueSettingChanges]) -> None:
        """Changes settings of the queue.

        Args:
            settings: all settings that it is to have, those that are as usual included.
            changes: single settings by their names, such as ``lease=60``, instead of those in ``settings``.
                Without ``settings``, those that are not given stay as they are. ``help(QueueSettings)``
                explains each.

        Raises QueueNotExistingError.
        """
        wanted = self._queues.with_ids(given_settings(settings, changes))
        self._with_id(lambda id_: self._driver.run(queue_calls.UpdateQueueCall(id_, wanted)))

    def settings(self) -> QueueSettings:
        """Tells the settings of the queue; its dead letter queue by its name, by its id if that is deleted.

        Raises QueueNotExistingError.
        """
        found = self._with_id(lambda id_: self._driver.run(queue_calls.QueueSettingsCall(id_)))
        if not isinstance(found.dead_letter_queue, int):
            return found
        try:
            name = self._driver.run(queue_calls.GetQueueNameCall(found.dead_letter_queue))
        except QueueNotExistingError:
            return found
        return replace(found, dead_letter_queue=name)

    def statistics(self) -> QueueStatistics:
        """Counts what the queue holds."""
        return self._with_id(lambda id_: self._driver.run(queue_calls.StatisticsCall(id_)))

    def cancel(self, message_id: int) -> bool:
        """Removes a message that waits in the queue, at once or for its time, so that nobody gets it.

        Args:
            message_id: what ``put`` returned.

        Returns:
            Whether it was cancelled. False when a client has it, when it is over, and when it never was in
            this queue.

        Raises QueueNotExistingError, also when the queue was made anew since the handle was used last.
        """
        return self._once(lambda id_: self._driver.run(queue_calls.CancelMessageCall(id_, message_id)))

    def purge(self) -> int:
        """Removes the messages that wait in the queue, whoever they are for; returns how many.

        Raises QueueNotExistingError, also when the queue was made anew since the handle was used last: the
        next call finds the new one.
        """
        return self._once(lambda id_: self._driver.run(queue_calls.PurgeQueueCall(id_)))

    def delete(self) -> None:
        """Deletes the queue and its messages; reads that wait there get QueueNotExistingError.

        Raises QueueNotExistingError, also when the queue was made anew since the handle was used last: the
        next call finds the new one.
        """
        self._once(lambda id_: self._driver.run(queue_calls.DeleteQueueCall(id_)))
        self._forget()

    def dead_letters(self, *, after_message_id: int = 0, limit: int | None = None) -> Iterator[DeadLetter]:
        """Yields the dead letters of the queue by rising message id.

        Args:
            after_message_id: only those whose id is above this one.
            limit: at most this many.

        Those of a queue that is gone can be had by its id: ``client.queue(7).dead_letters()``.
        Raises QueueNotExistingError when there is neither the queue nor a dead letter of it.
        """
        left = arguments.check_limit(limit)
        after, more = after_message_id, True
        queue_id = self._id_now()
        while more and left:
            size = min(left, self._driver.options.page_size)
            letters, more = self._driver.run(queue_calls.DeadLettersCall(queue_id, after, size))
            left -= len(letters)
            for letter in letters:
                after = letter.message.message_id
                yield letter

    def redrive(self, message_ids: Collection[int] | None = None) -> int:
        """Sends dead letters back to the queue, under their old ids, their attempts forgotten.

        Args:
            message_ids: which ones, None for all; one that is not there is passed over.

        Returns how many were sent back. The queue's bound does not hold for them, and what has expired does
        not expire again.
        """
        return self._driver.run(queue_calls.RedriveCall(self._id_now(), message_ids))

    def delete_dead_letters(self, message_ids: Collection[int] | None = None) -> int:
        """Deletes dead letters for good; the queue may be gone, as for ``dead_letters``.

        Args:
            message_ids: which ones, None for all; one that is not there is passed over.

        Returns how many were deleted.
        """
        return self._driver.run(queue_calls.DeleteLettersCall(self._id_now(), message_ids))


class Queues:
    """The queues of one client.

    Attributes:
        driver: makes the client's calls.
        pools: what works for the client on what its consumers are given.
        durable: the client has a state.
    """

    def __init__(self, driver: Driver, pools: Pools) -> None:
        self.driver = driver
        self.pools = pools
        self.durable = isinstance(driver.session, DurableSession)
        self._known: dict[object, Queue] = {}

    def of(self, queue: Queue | str | int, what: str = "queue") -> Queue:
        """Returns the queue of a name or an id, or the one that another client uses.

        Raises TypeError and InvalidParameterError, which say ``what`` is wrong.
        """
        found = self._known.get(queue) if type(queue) is str or type(queue) is int else None
        if found is not None:
            return found
        if isinstance(queue, Queue):
            return queue if queue._belongs_to(self.driver) else self.of(queue.name or queue.queue_id, what)
        if isinstance(queue, str) and type(queue) is not str:  # such as a StrEnum
            return self.of(str.__str__(queue), what)
        if isinstance(queue, str):
            found = Queue(self, arguments.check_name(what, queue))
        else:
            queue = arguments.check_queue(what, queue)
            found = self._known.get(queue) or Queue(self, queue_id=queue)
        if len(self._known) >= _KNOWN_MAX:
            self._known.clear()
        self._known[queue] = found
        return found

    def with_ids(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        """Returns settings of a queue with the dead letter queue by its id. Raises QueueNotExistingError."""
        found = dict(settings)
        dead_letters = found.get("dead_letter_queue")
        if dead_letters is not None:
            found["dead_letter_queue"] = self.of(dead_letters, "dead_letter_queue")._id_now()
        return found

    def named(self, queue_id: int, name: str) -> Queue:
        """Returns the queue of which the service has told both."""
        queue = self.of(name)
        queue.queue_id = queue_id
        return queue
