# Generated from client/aio/consumer.py by "python -m tools.codegen"; do not edit.
"""The consumer of the blocking client."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from telesto.client import arguments
from telesto.client.bookkeeping.consumer_calls import AckCall, NackCall, SettleCall, TouchCall
from telesto.client.bookkeeping.consumer_state import ConsumerState, elapsed
from telesto.client.errors import MessageRejectedError
from telesto.client.io.driver import Driver
from telesto.client.models import Duration, LeaseId, Message
from telesto.client.showing import shown
from telesto.protocol.errors import LeaseLostError, QueueNotExistingError

if TYPE_CHECKING:
    from telesto.client.blocking.queue import Queue

#: For how long a consumer looks for the new queue when its queue was deleted, in seconds: a script that
#: deletes a queue and creates it again takes about one.
REMADE_S = 5.0
#: The first and the longest pause between two looks, in seconds.
PAUSE_LEAST_S, PAUSE_MOST_S = 0.05, 0.5


class LeasedMessage:
    """A message that was pushed to a consumer, which has to answer it before its lease ends.

    As a context manager it acknowledges the message at the end, without waiting for the answer, and gives it
    back as failed when an exception leaves the block.

    Attributes:
        message: the message.
        lease: consumer_id, lease_id and message_id, as ``telesto.ack`` in SQL takes them.
    """

    def __init__(self, driver: Driver, state: ConsumerState, message: Message, given_at: float) -> None:
        assert message.lease is not None
        self._driver = driver
        self._state = state
        self._given_at = given_at
        self.lease: LeaseId = message.lease
        self._answered = False
        self.message = message

    def __repr__(self) -> str:
        held = "" if self.held else ", no longer held"
        return f"<{type(self).__name__} {self.message.message_id}{held}: {shown(self.message.body)}>"

    @property
    def body(self) -> bytes:
        """The message's content."""
        return self.message.body

    @property
    def held(self) -> bool:
        """Tells whether the consumer has it still, as far as the client knows."""
        return self.lease in self._state.open

    def ack(self) -> None:
        """Says that the message is processed; it is done once this returns.

        Raises LeaseLostError when it is no longer this consumer's.
        """
        self._settle(AckCall(self._state.queue_id, [self.lease]))

    def acked_in_database(self) -> None:
        """Says that a transaction of the application which called ``telesto.ack`` is committed.

        It does not wait for an answer. Should the message not be acknowledged after all, it goes back as
        failed, which is logged.
        """
        self._answered = True
        self._driver.tell(self._driver.session.acked_in_database, self._state, self.lease)

    def nack(self, *, failed: bool = True, delay: Duration | None = None, reason: str | None = None) -> None:
        """Gives the message back to its queue.

        Args:
            failed: this counts as an attempt that failed.
            reason: why it failed, for people; the history, and the dead letter that it may become, tell it
                behind ``failed:``. Beyond 1,000 characters it is cut.
            delay: how long it waits before anybody gets it, in seconds. Without it after a failed attempt as
                long as the queue's backoff says, else not at all.

        Raises LeaseLostError when it is no longer this consumer's.
        """
        reason = None if reason is None else arguments.check_reason(reason)
        self._settle(NackCall(self._state.queue_id, [self.lease], failed, delay, reason))

    def reject(self, reason: str) -> None:
        """Sends the message to the dead letters at once: nobody can process it.

        Args:
            reason: why, for people; the dead letter tells it behind ``rejected:``. Beyond 1,000 characters it
                is cut.

        Raises LeaseLostError when it is no longer this consumer's.
        """
        reason = arguments.check_reason(reason)
        self._settle(NackCall(self._state.queue_id, [self.lease], True, None, reason, rejected=True))

    def touch(self) -> None:
        """Begins the time of the lease anew. Raises LeaseLostError when it is over."""
        session = self._driver.session
        call = TouchCall(self._state.queue_id, [self.lease])
        try:
            self._driver.ask(session.settle, self._state, call)
        except LeaseLostError:
            self._driver.tell(session.consumers.touch_failed, self._state, self.lease)
            raise

    def _can_be_begun(self) -> bool:
        """Tells whether it is the consumer's still; after a pause of the process the service is asked."""
        held = self._state.can_be_begun(self.lease, self._given_at)
        if held is None:
            with suppress(LeaseLostError):
                self.touch()
            held = self.held
        return held

    def _begin(self) -> bool:
        """Says that a handler begins; returns False when the message is no longer the consumer's."""
        if not self._can_be_begun():
            return False
        self._given_at = elapsed()
        self._driver.begin(self._state, self.message, self._given_at)
        return self._can_be_begun()

    def _give_back(self, reason: str | None = None, *, rejected: bool = False) -> None:
        """Gives the message back to its queue, as failed with a reason, without waiting for the answer."""
        self._answered = True
        call = NackCall(
            self._state.queue_id, [self.lease], reason is not None, None, reason, rejected=rejected
        )
        self._driver.tell(self._driver.session.settle_soon, self._state, call)

    def _settle(self, call: SettleCall) -> None:
        self._answered = True
        self._driver.ask(self._driver.session.settle, self._state, call)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answered:
            return
        session = self._driver.session
        if error is None:
            self._answered = True
            act = session.acked_in_database if self._state.ack_in_database else session.ack_soon
            self._driver.tell(act, self._state, self.lease)
        elif isinstance(error, MessageRejectedError):
            self._give_back(arguments.check_reason(str(error)), rejected=True)
        else:
            self._give_back(arguments.reason_of(error) if self._driver.is_failure(error) else None)


class Consumer:
    """A consumer of a queue: an iterator over the messages that are pushed to it, for any number of callers.

    It joins the queue when it is entered, or iterated over first, and again after every lost connection; it
    leaves when it is closed, and gives back what was not taken.
    """

    def __init__(self, driver: Driver, queue: Queue, state: ConsumerState) -> None:
        self._driver = driver
        self._queue = queue
        self._state = state
        self._joined = False
        self._joining = threading.Lock()
        self._stopping = False

    def __del__(self) -> None:
        # What waits would be kept for ever. What was taken may still be answered.
        self._state.forgotten = True

    def __repr__(self) -> str:
        state, queue = self._state, self._queue.name or self._queue.queue_id
        how = (", closed" if state.closed else ", stopped") if state.closed or state.stopped else ""
        has = f"{len(state.open)} in work, {len(state.buffer)} waiting"
        return f"<{type(self).__name__} of {queue!r}{how}: {has}>"

    @property
    def joins(self) -> int:
        """How often it has joined; more than once after lost connections."""
        return self._state.joins

    @property
    def lost(self) -> int:
        """How many messages the consumer lost before they were answered; they come again."""
        return self._state.lost

    @property
    def slowed(self) -> int:
        """How often the service took it for slow and gave its partitions to others."""
        return self._state.slowed

    @property
    def _client_closed(self) -> bool:
        """Tells whether the client was closed, or is being closed."""
        return self._driver.session.closed

    def _give_to_handlers(self) -> None:
        """Has messages begin with ``_begin``, and gives one of each partition at a time, until ``_ended``."""
        self._state.buffer.by_partition = True

    def _ended(self, leased: LeasedMessage) -> None:
        """A message is worked on no more."""
        if leased.message.partition_key is not None:
            self._driver.tell(self._driver.session.consumers.ended, leased._state, leased.message)

    def get(self, timeout: Duration | None = None) -> LeasedMessage | None:
        """Takes the next message; None when none came within ``timeout`` seconds or the consumer is closed.

        When the queue is deleted and made anew under its name within five seconds, or ``timeout``, it goes on
        with the new one.
        Raises QueueNotExistingError when the queue was deleted, ConsumerInactiveError when the consumer
        failed as often in a row as the queue allows: a new one gets messages again. PermissionDeniedError
        when the user may not read from the queue (any more).
        """
        until = time.monotonic() + arguments.check_timeout(timeout)
        self._join()
        while True:
            state = self._state
            try:
                call = self._driver.next_message(state, max(0.0, until - time.monotonic()))
            except QueueNotExistingError:
                if self._join_anew(state, min(until, time.monotonic() + REMADE_S)):
                    continue
                if self._stopping:
                    return None
                raise
            if call.message is None:
                return None
            leased = LeasedMessage(self._driver, state, call.message, call.given_at)
            try:
                held = leased._can_be_begun()
            except BaseException:
                self._driver.tell(self._driver.session.consumers.forget, call)
                raise
            if state.stopped:  # since the message was given to this call
                self._driver.tell(self._driver.session.consumers.forget, call)
                return None
            if held:
                return leased
            self._ended(leased)

    def stop(self) -> None:
        """Gives nothing more: ``get`` returns None, and what was not taken goes back to the queue, in order.

        What was taken can be answered as before, until ``close``. May be called in a signal's handler.
        """
        self._stopping = True  # first: whoever joins anew meanwhile looks for it afterwards
        self._driver.tell_in_signal(self._driver.session.stop_consumer, self._state)

    def close(self) -> None:
        """Leaves the queue, once everything answered has been told; what was not answered goes back."""
        if not self._joined or self._state.closed:
            return
        call = self._driver.tell(self._driver.session.leave_consumer, self._state)
        if call is not None:
            try:
                self._driver.wait_for(call)
            except BaseException:
                self._state.forgotten = True
                raise

    def __iter__(self) -> Iterator[LeasedMessage]:
        while (lease := self.get()) is not None:
            yield lease

    def __enter__(self) -> Self:
        self._join()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _join(self) -> None:
        if self._joined:
            return
        self._driver.start_connecting()
        with self._joining:
            if not self._joined:
                self._join_queue(self._state, gone=0)
                self._joined = True

    def _join_queue(self, state: ConsumerState, gone: int) -> None:
        """Joins the queue that bears the name now, unless it is the one that is ``gone``."""
        while True:
            state.queue_id = self._find(gone)
            if not state.queue_id:  # stopped
                return
            try:
                self._driver.ask(self._driver.session.join_consumer, state)
            except QueueNotExistingError:
                if gone == state.queue_id:
                    raise
                gone = state.queue_id
            else:
                return

    def _find(self, gone: int) -> int:
        """Finds the queue that bears the name now; returns 0 when the consumer is stopped meanwhile.

        It does not ask by the handle, because ``stop`` would then end the question for other callers too.
        """
        known = self._queue.queue_id
        if known and (known != gone or not self._queue.name):
            return known
        session = self._driver.session
        return self._driver.ask(session.find_to_join, self._state, self._queue.name)

    def _join_anew(self, before: ConsumerState, until: float) -> bool:
        """Joins the queue that is made anew under the name of a deleted one; returns False if none is."""
        with self._joining:
            if self._state is not before:  # another caller did
                return True
            if self._stopping or before.closed:
                return False
            state, pause = before.anew(), PAUSE_LEAST_S
            while True:
                try:
                    self._join_queue(state, gone=before.queue_id)
                except QueueNotExistingError:
                    if self._stopping or not self._queue.name or time.monotonic() >= until:
                        return False
                    self._driver.pause(pause)
                    pause = min(2 * pause, PAUSE_MOST_S)
                else:
                    break
            self._state = state
            if before.closed:  # meanwhile, as below
                self.close()
            elif self._stopping:
                self.stop()
            return True
