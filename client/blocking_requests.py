# Generated from client/aio_requests.py by "python -m tools.codegen"; do not edit.
"""The requests of the blocking client."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from telesto.client.blocking_consumer import Consumer
from telesto.client.bookkeeping.consumer_state import ConsumerState
from telesto.client.calls import queue_calls
from telesto.client.calls.queue_calls import Call
from telesto.client.calls.topic_calls import (
    DeleteTopicCall,
    GetCall,
    PutOneToTopicCall,
    SubscribeCall,
    SubscriptionsCall,
    TopicsCall,
    UnsubscribeCall,
)
from telesto.client.durable.durable_session import DurableSession
from telesto.client.errors import ClientClosedError
from telesto.client.io import shared
from telesto.client.io.driver import Driver
from telesto.client.io.shared import OutcomeT
from telesto.client.models import (
    UNCHANGED,
    DeadLetter,
    Message,
    MessageHistory,
    NewMessage,
    NewTopicMessage,
    PutResult,
    Queue,
    QueueStatistics,
    RecoveredPut,
    Subscription,
    Topic,
    TopicMessage,
    TopicPutResult,
    Unchanged,
)
from telesto.client.options import ClientOptions
from telesto.client.queue_settings import QueueSettings
from telesto.client.session.session import Session
from telesto.protocol.errors import TelestoError
from telesto.protocol.packets import ClientMode, HistoryMode, ReadMode

CallT = TypeVar("CallT", bound=Call[Any])
RowT = TypeVar("RowT")


class Requests:
    """What a client asks the service for, each by a call that the session makes."""

    _options: ClientOptions
    _session: Session
    _driver: Driver

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

    def ping(self) -> float:
        """Asks the middleware for a sign of life; returns the seconds that it took. Needs no ``connect``."""
        self._driver.attach()
        return self._driver.ask(self._session.ping)

    def delete_client(self) -> None:
        """Deletes this client. Messages that it took and did not confirm go back to their queues."""
        self._driver.run(queue_calls.DeleteClientCall())

    # ------------------------------------------------------------------ queues

    # --- queue settings: begin, generated from protocol/spec/telesto.toml
    def create_queue(
        self,
        name: str,
        max_messages: int | None = None,
        *,
        dedup_window_ms: int | None = None,
        lease_ms: int | None = None,
        max_attempts: int | None = None,
        backoff_ms: int | None = None,
        backoff_max_ms: int | None = None,
        expires_ms: int | None = None,
        bury_expired: bool | None = None,
        dead_letter_queue: int | None = None,
        late_after_ms: int | None = None,
        late_limit: int | None = None,
        late_window_ms: int | None = None,
        fail_limit: int | None = None,
        history: HistoryMode | None = None,
        history_days: int | None = None,
    ) -> Queue:
        """Creates a queue.

        Args:
            name: 1 to 255 characters, unique.
            max_messages: a put that would exceed this number of messages is refused with QueueFullError.
                It may be set below what the queue holds: then puts are refused until there is space. 1 or
                more; unless it is given: no limit.
            dedup_window_ms: how long a dedup_key stands for the message that was put first under it.
                Milliseconds, 1,000 to 604,800,000; unless it is given: 300,000.
            lease_ms: how long a consumer may take for a message before that goes to another one.
                Milliseconds, 100 to 86,400,000; unless it is given: 30,000.
            max_attempts: a message whose attempts by consumers failed so often goes to the dead letters.
                1 to 1,000,000; unless it is given: 5.
            backoff_ms: how long a message waits after its first failed attempt; twice as long after each
                further one. It is shortened at random by up to a half. Milliseconds, 0 to 86,400,000; unless
                it is given: 1,000.
            backoff_max_ms: the longest wait after a failed attempt. Milliseconds, 0 to 86,400,000; unless
                it is given: 60,000.
            expires_ms: how long a message may wait before it expires; what has expired is never handed
                over. A change holds for what is put from then on. Milliseconds, 1 to 315,360,000,000; unless
                it is given: never.
            bury_expired: what has expired goes to the dead letters; otherwise it is removed. Unless it is
                given: no.
            dead_letter_queue: the queue to which dead letters go on, as messages. What does not fit
                there, or whose dead letter queue is gone, stays too. One that does not exist is refused with
                QueueNotExistingError, whose related_id names it. Queues that would send dead letters round in
                a ring are refused. A change holds for what is dead already, too. The id of a queue; unless it
                is given: dead letters stay in their queue.
            late_after_ms: an answer of a consumer is late when it takes longer than this. It is counted
                from when the message was pushed or touched, or from the consumer's answer before, whatever
                was last. A change holds for consumers that join from then on. Milliseconds, 1 to 86,400,000;
                unless it is given: a third of lease_ms.
            late_limit: a consumer with this many late answers within late_window_ms is slow, and its
                partitions go to others for that long; 0: never. A change holds for consumers that join from
                then on. 0 to 1,000; unless it is given: 3.
            late_window_ms: the window of late_limit, and for how long others have the partitions of a
                slow consumer. A change holds for consumers that join from then on. Milliseconds, 100 to
                86,400,000; unless it is given: 60,000.
            fail_limit: a consumer that fails so often in a row, by leases that run out or by different
                messages that it gives back as failed, is ended with ConsumerInactiveError; 0: never. A change
                holds for consumers that join from then on. 0 to 1,000; unless it is given: 0.
            history: what is kept of messages once they are over. A change holds for what is put from then
                on. Unless it is given: METADATA.
            history_days: for how many days that is kept. A change holds for what is put from then on.
                Days, 1 to 366; unless it is given: 7.

        Raises QueueNameNotUniqueError.
        """
        return self._driver.run(
            queue_calls.CreateQueueCall(
                name,
                max_messages=max_messages,
                dedup_window_ms=dedup_window_ms,
                lease_ms=lease_ms,
                max_attempts=max_attempts,
                backoff_ms=backoff_ms,
                backoff_max_ms=backoff_max_ms,
                expires_ms=expires_ms,
                bury_expired=bury_expired,
                dead_letter_queue=dead_letter_queue,
                late_after_ms=late_after_ms,
                late_limit=late_limit,
                late_window_ms=late_window_ms,
                fail_limit=fail_limit,
                history=history,
                history_days=history_days,
            )
        )

    def update_queue(
        self,
        queue_id: int,
        *,
        max_messages: int | Unchanged | None = UNCHANGED,
        dedup_window_ms: int | Unchanged = UNCHANGED,
        lease_ms: int | Unchanged = UNCHANGED,
        max_attempts: int | Unchanged = UNCHANGED,
        backoff_ms: int | Unchanged = UNCHANGED,
        backoff_max_ms: int | Unchanged = UNCHANGED,
        expires_ms: int | Unchanged | None = UNCHANGED,
        bury_expired: bool | Unchanged = UNCHANGED,
        dead_letter_queue: int | Unchanged | None = UNCHANGED,
        late_after_ms: int | Unchanged | None = UNCHANGED,
        late_limit: int | Unchanged = UNCHANGED,
        late_window_ms: int | Unchanged = UNCHANGED,
        fail_limit: int | Unchanged = UNCHANGED,
        history: HistoryMode | Unchanged = UNCHANGED,
        history_days: int | Unchanged = UNCHANGED,
    ) -> None:
        """Changes settings of a queue; those that are not given stay.

        Args:
            queue_id: the queue.
            max_messages, expires_ms, dead_letter_queue, late_after_ms: as for ``create_queue``; None for
                a queue that is without it.
            dedup_window_ms, lease_ms, max_attempts, backoff_ms, backoff_max_ms, bury_expired, late_limit,
                late_window_ms, fail_limit, history, history_days: as for ``create_queue``.

        Raises QueueNotExistingError.
        """
        self._driver.run(
            queue_calls.UpdateQueueCall(
                queue_id,
                max_messages=max_messages,
                dedup_window_ms=dedup_window_ms,
                lease_ms=lease_ms,
                max_attempts=max_attempts,
                backoff_ms=backoff_ms,
                backoff_max_ms=backoff_max_ms,
                expires_ms=expires_ms,
                bury_expired=bury_expired,
                dead_letter_queue=dead_letter_queue,
                late_after_ms=late_after_ms,
                late_limit=late_limit,
                late_window_ms=late_window_ms,
                fail_limit=fail_limit,
                history=history,
                history_days=history_days,
            )
        )

    # --- queue settings: end

    def queue_settings(self, queue_id: int) -> QueueSettings:
        """Tells the settings of a queue. Raises QueueNotExistingError."""
        return self._driver.run(queue_calls.QueueSettingsCall(queue_id))

    def delete_queue(self, queue_id: int) -> None:
        """Deletes a queue and its messages; reads that wait there get QueueNotExistingError."""
        self._driver.run(queue_calls.DeleteQueueCall(queue_id))

    def get_queue_by_name(self, name: str) -> Queue:
        """Finds a queue. Raises QueueNotExistingError."""
        return self._driver.run(queue_calls.GetQueueIdCall(name))

    def get_queue_by_id(self, queue_id: int) -> Queue:
        """Finds a queue. Raises QueueNotExistingError."""
        return self._driver.run(queue_calls.GetQueueNameCall(queue_id))

    def get_queues(self) -> list[Queue]:
        """Lists all queues, by rising id."""
        return self._pages(queue_calls.GetQueuesCall, lambda queue: queue.queue_id)

    def get_active_queues(self) -> list[Queue]:
        """Lists the queues that hold a message which this client may read, by rising id."""
        return self._pages(queue_calls.GetActiveQueuesCall, lambda queue: queue.queue_id)

    def purge_queue(self, queue_id: int) -> int:
        """Removes the messages that wait in a queue, whoever they are for; returns how many."""
        return self._driver.run(queue_calls.PurgeQueueCall(queue_id))

    def queue_statistics(self, queue_id: int) -> QueueStatistics:
        """Counts what a queue holds."""
        return self._driver.run(queue_calls.StatisticsCall(queue_id))

    def message_history(self, message_id: int, queue_id: int | None = None) -> MessageHistory:
        """Tells what is known of a message: how it and its hand-overs ended, and where it is now.

        Args:
            message_id: the message.
            queue_id: its queue; None looks in all. How it ended is known as far as the queue keeps a history.

        Raises MessageNotExistingError when nothing is known.
        """
        return self._driver.run(queue_calls.MessageHistoryCall(message_id, queue_id))

    def read_messages(self, queue_id: int) -> Iterator[Message]:
        """Browses: yields the messages that this client may read, by rising id, without taking them."""
        after, more = 0, True
        while more:
            messages, more = self._driver.run(
                queue_calls.BrowseCall(queue_id, after, self._options.page_size)
            )
            for message in messages:
                after = message.message_id
                yield message

    def dead_letters(self, queue_id: int, *, after_message_id: int = 0) -> Iterator[DeadLetter]:
        """Yields the dead letters of a queue by rising message id, those above one; the queue may be gone.

        Raises QueueNotExistingError when there is neither the queue nor a dead letter of it.
        """
        after, more = after_message_id, True
        while more:
            letters, more = self._driver.run(
                queue_calls.DeadLettersCall(queue_id, after, self._options.page_size)
            )
            for letter in letters:
                after = letter.message.message_id
                yield letter

    def redrive(self, queue_id: int, message_ids: Collection[int] | None = None) -> int:
        """Sends dead letters back to their queue, under their old ids, their attempts forgotten.

        Args:
            queue_id: the queue.
            message_ids: which ones, None for all; one that is not there is passed over.

        Returns how many were sent back. The queue's bound does not hold for them, and what has expired does
        not expire again.
        """
        return self._driver.run(queue_calls.RedriveCall(queue_id, message_ids))

    def delete_dead_letters(self, queue_id: int, message_ids: Collection[int] | None = None) -> int:
        """Deletes dead letters for good; the queue may be gone, as for ``dead_letters``.

        Args:
            queue_id: the queue.
            message_ids: which ones, None for all; one that is not there is passed over.

        Returns how many were deleted.
        """
        return self._driver.run(queue_calls.DeleteLettersCall(queue_id, message_ids))

    # ------------------------------------------------------------------ messages

    def put_message(
        self,
        queue_id: int,
        body: bytes,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        context: int | None = None,
        partition_key: str | None = None,
        dedup_key: str | None = None,
        delay: float | None = None,
        expires: float | None = None,
    ) -> int:
        """Puts a message into a queue; returns its id once it is durable.

        Args:
            queue_id: the queue.
            body: the content; may be empty.
            priority: 1 (lowest) to 10 (highest).
            receiver_id: the only client that may read it; it need not exist yet.
            context: connects a request and its response.
            partition_key: 1 to 255 characters: only consumers get it, and of all that this client puts under
                one key one consumer at a time, in order. Not together with a receiver.
            dedup_key: 1 to 255 characters. Within the queue's window (``dedup_window_ms``) one message is
                stored under one key: a repeated put returns the id of the first one.
            delay: how long nobody can read it, in seconds.
            expires: after how long it expires, in seconds, unless its queue has it expire sooner
                (``expires_ms``). What has expired is never handed over.

        Raises QueueNotExistingError, QueueFullError and MessageTooLargeError.
        """
        return self._driver.run(
            queue_calls.PutCall(
                queue_id, body, priority, receiver_id, context, dedup_key, delay, expires, partition_key
            )
        )

    def put_messages(
        self,
        queue_ids: Sequence[int],
        body: bytes,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        context: int | None = None,
        partition_key: str | None = None,
        dedup_key: str | None = None,
        delay: float | None = None,
        expires: float | None = None,
    ) -> list[PutResult]:
        """Puts one message into several queues, in one transaction; returns a result for each, in order.

        A queue that does not exist or is full is reported in its result, the others take the message. Only
        when none took it is the first error raised.
        """
        call = queue_calls.PutSeveralCall(
            queue_ids, body, priority, receiver_id, context, dedup_key, delay, expires, partition_key
        )
        return shared.raise_if_all_failed(self._driver.run(call))

    def put_many(self, queue_id: int, messages: Iterable[NewMessage | bytes]) -> list[PutResult]:
        """Puts many messages into a queue; returns a result for each, in order.

        They are sent in batches, several of them under way at a time, and taken from the iterable as they are
        sent. Each batch is one transaction; order is kept. A message that was not put is reported in its
        result, also when none was put. An argument that is none ends it with an error, after what came before
        was sent. Raises NotConnectedError when nothing can be sent to begin with.
        """
        return self._in_batches(shared.put_batches(queue_id, messages, self._options), shared.failed_batch)

    def retrieve_message(
        self,
        queue_id: int,
        *,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: float | None = None,
    ) -> Message | None:
        """Takes a message from a queue; None when none came in time.

        Args:
            queue_id: the queue.
            sender_id: only messages of this client.
            mode: PRIORITY for the highest priority first, TIME for the oldest first.
            timeout: seconds to wait for a message; None without limit, 0 not at all.

        Raises QueueNotExistingError, also when the queue is deleted meanwhile.
        """
        messages = self._driver.run(queue_calls.ReadCall(queue_id, sender_id, mode, timeout))
        return messages[0] if messages else None

    def retrieve_messages(
        self,
        queue_id: int,
        *,
        max_messages: int,
        max_bytes: int | None = None,
        sender_id: int | None = None,
        mode: ReadMode = ReadMode.PRIORITY,
        timeout: float | None = None,
    ) -> list[Message]:
        """Takes up to ``max_messages`` messages from a queue; none when none came in time.

        It waits for the first message only. ``max_bytes`` bounds the bodies together; a first message beyond
        it is not taken and raises MessageTooLargeError, whose related_id names it. For the rest see
        ``retrieve_message``.
        """
        return self._driver.run(
            queue_calls.ReadCall(queue_id, sender_id, mode, timeout, max_messages, max_bytes)
        )

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
        self._driver.attach()
        self._driver.ask(session.when_settled)
        recovered = shared.told_one_by_one(session)
        while (put := self._driver.tell(lambda: next(recovered, None))) is not None:
            yield put

    def confirm(self, messages: Iterable[Message | TopicMessage]) -> None:
        """Says that these messages are processed, when ``auto_confirm`` is off; in topics, with all before.

        The confirmation travels with the next request or a little later; ``close`` sends it at the latest.
        With a state_dir it is durable on return.
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

    def subscribe(
        self, topic: str, *, max_behind: int | None = None, max_age: float | None = None, drop: bool = False
    ) -> int:
        """Subscribes to a topic, for good: to every message put from now on; returns the subscription's id.

        The subscription lives until ``unsubscribe``, whether the client is connected or not.

        Args:
            topic: its name, 1 to 1,024 characters; the topic is created on its first use.
            max_behind: behind by more messages, the subscription is lagging.
            max_age: when its next message is older, in seconds, the subscription is lagging.
            drop: lagging, it is dropped: its messages go, and the next ``get`` raises
                SubscriptionDroppedError. Without, it is only shown as lagging.

        Raises AlreadySubscribedError, whose related_id is the subscription that there is.
        """
        return self._driver.run(SubscribeCall(topic, max_behind, max_age, drop))

    def unsubscribe(self, topic: str) -> None:
        """Ends the subscription of a topic; not even what was put before comes any more.

        Raises NotSubscribedError.
        """
        self._driver.run(UnsubscribeCall(topic))

    def delete_topic(self, topic: str) -> None:
        """Deletes a topic that has no subscriptions, and the sequences of its publishers.

        A topic of this name that is created later begins at number 1.
        Raises TopicInUseError while somebody subscribes, and TopicNotExistingError.
        """
        self._driver.run(DeleteTopicCall(topic))

    def put(self, topic: str, body: bytes, *, sequence: int | None = None) -> int:
        """Puts a message to a topic, for all who subscribe to it; returns its number once it is durable.

        Args:
            topic: its name; the topic is created on its first use.
            body: the content; may be empty.
            sequence: this client's own number in the topic, 1, 2, 3, ...: one that was put before is
                acknowledged again and stored once, and returns 0 when its number is no longer known.

        Raises SequenceGapError, whose related_id is the sequence expected next, and MessageTooLargeError.
        """
        results = self._driver.run(PutOneToTopicCall(topic, body, sequence))
        return results[0].number or 0

    def put_to_topic(self, topic: str, messages: Iterable[NewTopicMessage | bytes]) -> list[TopicPutResult]:
        """Puts many messages to a topic; returns a result for each, in order.

        They are sent in batches, as by ``put_many``.
        """
        return self._in_batches(shared.topic_batches(topic, messages, self._options), shared.refused_batch)

    def get(
        self,
        topic: str | None = None,
        *,
        timeout: float | None = None,
    ) -> TopicMessage | None:
        """Gets the next message of a topic, or of all topics of this client; None when none came in time.

        Of several topics the message that arrived first comes first; those of one topic come in the order of
        their numbers. Each comes once. Gets of one topic at the same time have their turns one by one.

        Args:
            topic: a topic that the client subscribes to; None for all of them.
            timeout: seconds to wait for a message; None without limit, 0 not at all.

        Raises NotSubscribedError and SubscriptionDroppedError.
        """
        messages = self._get(GetCall(topic, timeout))
        return messages[0] if messages else None

    def get_messages(
        self,
        topic: str | None = None,
        *,
        max_messages: int,
        max_bytes: int | None = None,
        timeout: float | None = None,
    ) -> list[TopicMessage]:
        """Gets up to ``max_messages`` messages; none when none came in time.

        It waits for the first message only. ``max_bytes`` bounds the bodies together; a first message beyond
        it raises MessageTooLargeError, whose related_id is its number. For the rest see ``get``.
        """
        return self._get(GetCall(topic, timeout, max_messages, max_bytes))

    def subscription(
        self,
        topic: str | None = None,
        *,
        timeout: float | None = None,
    ) -> Iterator[TopicMessage]:
        """Yields the messages of a topic, or of all topics of this client, one by one as they come.

        It ends when the client is closed, and when none came for ``timeout`` seconds. Several are fetched at
        a time (``fetch_ahead``); what was fetched and not yielded comes to the next ``get``.
        """
        while True:
            try:
                messages = self._get(GetCall(topic, timeout, ahead=self._options.fetch_ahead))
            except ClientClosedError:
                return
            if not messages:
                return
            yield messages[0]

    def topics(self) -> list[Topic]:
        """Lists all topics, by rising id."""
        return self._pages(TopicsCall, lambda topic: topic.topic_id)

    def subscriptions(self) -> list[Subscription]:
        """Lists this client's subscriptions, by rising id, with how far each is."""
        return self._pages(SubscriptionsCall, lambda subscription: subscription.subscription_id)

    # ------------------------------------------------------------------ consuming

    def consume(
        self,
        queue_id: int,
        *,
        credit: int | None = None,
        credit_bytes: int = 16 * 1024 * 1024,
        keep_alive: bool = False,
        ack_in_database: bool = False,
    ) -> Consumer:
        """Consumes a queue: messages are pushed, each to one consumer, and have to be answered.

        Use the consumer in a ``with`` block, and each message that it yields in one, which acknowledges it.

        Args:
            queue_id: the queue.
            credit: how many messages the consumer may have at a time, those that wait for the loop included.
                Without it about as many as are begun in a second, between 2 and 256.
            credit_bytes: how many bytes of bodies, 0 for any number; a larger message comes alone.
            keep_alive: extend the leases of what the consumer has for as long as this process lives. Without
                it a message that is not answered in the queue's lease time goes to another consumer.
            ack_in_database: the application acknowledges each message in a transaction of its own, by
                ``telesto.ack``; leaving the message's block says that this is committed.
        """
        return Consumer(
            self._driver, ConsumerState(queue_id, credit, credit_bytes, keep_alive, ack_in_database)
        )

    # ------------------------------------------------------------------ request and response

    def send_request_response_message(
        self,
        queue_id: int,
        body: bytes,
        *,
        priority: int = 5,
        receiver_id: int | None = None,
        timeout: float | None = None,
    ) -> Message | None:
        """Puts a request into a queue and waits for the response; None when none came in time.

        The response is a message in the same queue that only this client can read; ``reply`` makes it. The
        arguments are those of ``put_message`` and ``retrieve_message``. The request expires when the
        ``timeout`` is over: what has not been handed over by then is not handled any more.
        """
        put, read = shared.request_calls(queue_id, body, priority, receiver_id, timeout)
        request, response = self._driver.start(put), self._driver.start(read)
        try:
            self._driver.wait_for(request)
        except BaseException:
            self._driver.abandon([response])
            raise
        messages = self._driver.wait_for(response)
        return messages[0] if messages else None

    def reply(self, request: Message, body: bytes, *, priority: int | None = None) -> int:
        """Puts the response to a request, by default with the request's priority; returns its id.

        It expires after the time that the request had left when it was handed over, and a minute more; after
        7 days if the request had no limit.
        """
        return self._driver.run(shared.reply_call(request, body, priority))

    # ------------------------------------------------------------------ calls

    def _get(self, call: GetCall) -> list[TopicMessage]:
        """Makes a get; the next one of its topic begins when it is over."""
        try:
            return self._driver.run(call)
        finally:
            self._driver.flush_soon()

    def _in_batches(
        self, batches: Iterable[CallT], failed: Callable[[CallT, TelestoError], list[OutcomeT]]
    ) -> list[OutcomeT]:
        """Makes the calls, so many at a time; ``failed`` gives the results of one that failed as a whole."""
        results: list[OutcomeT] = []
        under_way: deque[CallT] = deque()

        def finish_first() -> list[OutcomeT]:
            call = under_way.popleft()
            try:
                outcomes: list[OutcomeT] = self._driver.wait_for(call)
            except TelestoError as error:
                return failed(call, error)
            return outcomes

        try:
            for call in batches:
                try:
                    under_way.append(self._driver.start(call))
                except TelestoError as error:
                    if not under_way and not results:
                        raise
                    while under_way:
                        results += finish_first()
                    results += failed(call, error)
                if len(under_way) >= self._options.put_batches_in_flight:
                    results += finish_first()
            while under_way:
                results += finish_first()
        finally:
            self._driver.abandon(under_way)
        return results

    def _pages(
        self, page: Callable[[int, int], Call[tuple[list[RowT], bool]]], id_of: Callable[[RowT], int]
    ) -> list[RowT]:
        """Collects the pages of a list that is ordered by an id."""
        found: list[RowT] = []
        after, more = 0, True
        while more:
            rows, more = self._driver.run(page(after, self._options.page_size))
            found += rows
            after = id_of(found[-1]) if found else 0
        return found
