"""Consuming a queue with the blocking client."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Any, Self

from telesto.client import arguments
from telesto.client.bookkeeping.consumers import (
    AckCall,
    ConsumerState,
    NackCall,
    SettleCall,
    TouchCall,
    elapsed,
)
from telesto.client.calls.queue_calls import Call
from telesto.client.errors import ClientClosedError
from telesto.client.io.driver import SIGNAL_UNHEARD_MAX, Driver
from telesto.client.models import LeaseId, Message
from telesto.protocol.errors import InvalidParameterError, LeaseLostError

#: How long handlers under way may take when a consumer ends, in seconds, unless the application decides.
#: Less than the 30 seconds that platforms for containers give between SIGTERM and SIGKILL.
DRAIN = 20.0

Handler = Callable[[Message], object]
OnError = Callable[[Message, BaseException], object]


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
        with self._driver.lock:
            self._driver.session.acked_in_database(self._state, self.lease)
            self._driver.push()
            self._driver.hand_on()

    def nack(self, *, failed: bool = True, delay: float | None = None) -> None:
        """Gives the message back to its queue.

        Args:
            failed: this counts as an attempt that failed.
            delay: how long it waits before anybody gets it, in seconds. Without it after a failed attempt as
                long as the queue's backoff says, else not at all.

        Raises LeaseLostError when it is no longer this consumer's.
        """
        self._settle(NackCall(self._state.queue_id, [self.lease], failed, delay))

    def touch(self) -> None:
        """Begins the time of the lease anew. Raises LeaseLostError when it is over."""
        with self._driver.lock:
            session = self._driver.session
            call = TouchCall(self._state.queue_id, [self.lease])
            try:
                answer(self._driver, session.settle(self._state, call))
            except LeaseLostError:
                session.consumers.touch_failed(self._state, self.lease)
                raise

    def can_be_begun(self) -> bool:
        """Tells whether it is the consumer's still; after a pause of the process the service is asked."""
        consumers = self._driver.session.consumers
        held = consumers.can_be_begun(self._state, self.lease, self._given_at)
        if held is None:
            with suppress(LeaseLostError):
                self.touch()
            held = self.held
        return held

    def begin(self) -> bool:
        """Says that a handler begins; returns False when the message is no longer the consumer's."""
        if not self.can_be_begun():
            return False
        with self._driver.lock:
            self._driver.session.consumers.begin(self._state, self.message, elapsed())
            self._driver.push()
            self._driver.hand_on()
        return True

    def give_back(self, *, failed: bool = False) -> None:
        """Gives the message back to its queue without waiting for the answer."""
        self._answered = True
        with self._driver.lock:
            call = NackCall(self._state.queue_id, [self.lease], failed)
            self._driver.session.settle_soon(self._state, call)
            self._driver.push()
            self._driver.hand_on()

    def _settle(self, call: SettleCall) -> None:
        self._answered = True
        with self._driver.lock:
            answer(self._driver, self._driver.session.settle(self._state, call))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answered:
            return
        if error is not None:
            self.give_back(failed=isinstance(error, Exception))
            return
        self._answered = True
        with self._driver.lock:
            session = self._driver.session
            if self._state.ack_in_database:
                session.acked_in_database(self._state, self.lease)
            else:
                session.ack_soon(self._state, self.lease)
            self._driver.push()
            self._driver.hand_on()


class Consumer:
    """A consumer of a queue: an iterator over the messages that are pushed to it, for any number of threads.

    It joins the queue when it is entered, or iterated over first, and again after every lost connection; it
    leaves when it is closed, and gives back what was not taken.
    """

    def __init__(self, driver: Driver, state: ConsumerState) -> None:
        self._driver = driver
        self._state = state
        self._joined = False
        self._joining = threading.Lock()

    def __del__(self) -> None:
        # What waits would be kept for ever. What was taken may still be answered.
        self._state.forgotten = True

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
    def client_closed(self) -> bool:
        """Tells whether the client was closed, or is being closed."""
        return self._driver.session.closed

    def give_to_handlers(self) -> None:
        """Has messages begin with ``begin``, and gives one of each partition at a time, until ``ended``."""
        self._state.buffer.by_partition = True

    def ended(self, leased: LeasedMessage) -> None:
        """A message is worked on no more."""
        if leased.message.partition_key is not None:
            with self._driver.lock:
                self._driver.session.consumers.ended(self._state, leased.message)
                self._driver.push()
                self._driver.hand_on()

    def get(self, timeout: float | None = None) -> LeasedMessage | None:
        """Takes the next message; None when none came within ``timeout`` seconds or the consumer is closed.

        Raises QueueNotExistingError when the queue was deleted, ConsumerInactiveError when the consumer
        failed as often in a row as the queue allows: a new one gets messages again.
        """
        wait = arguments.check_timeout(timeout)
        self._join()
        while True:
            with self._driver.lock:
                call = self._driver.session.next_message(self._state, wait)
                message = answer(self._driver, call)
            if message is None:
                return None
            leased = LeasedMessage(self._driver, self._state, message, call.given_at)
            try:
                if leased.can_be_begun():
                    return leased
            except BaseException:
                with self._driver.lock:
                    self._driver.session.consumers.forget(call)
                    self._driver.push()
                    self._driver.hand_on()
                raise
            self.ended(leased)

    def stop(self) -> None:
        """Gives nothing more: ``get`` returns None, and what was not taken goes back to the queue, in order.

        What was taken can be answered as before, until ``close``. May be called in a signal's handler.
        """

        def stop() -> None:
            with self._driver.lock:
                self._driver.session.stop_consumer(self._state)
                self._driver.push()
                self._driver.hand_on()

        if self._driver.in_call:
            beside(stop)
        else:
            stop()

    def close(self) -> None:
        """Leaves the queue, once everything answered has been told; what was not answered goes back."""
        with self._driver.lock:
            if not self._joined or self._state.closed:
                return
            call = self._driver.session.leave_consumer(self._state)
            if call is None:
                self._driver.push()
                self._driver.hand_on()
            else:
                try:
                    answer(self._driver, call)
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
        lock = self._driver.lock  # asked for first, as it refuses a signal's handler that would wait for ever
        with self._joining, lock:
            if not self._joined:
                answer(self._driver, self._driver.session.join_consumer(self._state))
                self._joined = True


class Pool:
    """Has a handler work on what a consumer is given: several messages at a time, but one of each partition.

    Attributes:
        ended: its consumer has left the queue.
    """

    def __init__(
        self, consumer: Consumer, handler: Handler, on_error: OnError, concurrency: int, drain: float
    ) -> None:
        self._consumer = consumer
        self._handler = handler
        self._on_error = on_error
        self._concurrency = concurrency
        self._drain = drain
        self._runner = threading.get_ident()
        self._workers: set[int] = set()
        self._until = math.inf
        self._unfit: InvalidParameterError | None = None
        self._free = threading.Semaphore(concurrency)
        self._stopping = False
        self.ended = threading.Event()

    @property
    def is_mine(self) -> bool:
        """Tells whether this thread runs it, or a handler of it: then it must not wait for its end."""
        thread = threading.get_ident()
        return thread == self._runner or thread in self._workers

    def stop(self, drain: float | None = None) -> None:
        """Has nothing more begun, and what runs ended within ``drain`` seconds, or what it was made with.

        Again with ``drain`` while handlers end, it shortens the time that they have.
        """
        self._end_within(drain)

        def stop() -> None:
            self._free.release()  # the thread that runs it may wait for handlers to end
            self._consumer.stop()

        if self.is_mine:  # in a signal's handler, which may have interrupted a use of the semaphore
            beside(stop)
        else:
            stop()

    def run(self) -> None:
        """Works until it is stopped, or the client or the consumer is closed; then handlers may end in time.

        What has not ended in time goes back, as does what was not begun. When all handlers ended in time,
        their threads have ended too. Raises InvalidParameterError when the handler turns out not to do its
        work when it is called.
        """
        from concurrent.futures import ThreadPoolExecutor

        threads = ThreadPoolExecutor(self._concurrency, "telesto consumer")
        self._consumer.give_to_handlers()

        def work(leased: LeasedMessage) -> None:
            try:
                self._work(leased)
            finally:
                self._free.release()

        try:
            while True:
                while not self._free.acquire(timeout=SIGNAL_UNHEARD_MAX):
                    pass
                if self._stopping or (leased := self._consumer.get()) is None:
                    break
                threads.submit(work, leased)
        except ClientClosedError:
            pass
        finally:
            try:
                self._end_within(None)
                self._consumer.stop()
                # One that is not among the workers yet will see that nothing more is to be begun.
                while self._workers and (left := self._until - time.monotonic()) > 0:
                    self._free.acquire(timeout=min(left, SIGNAL_UNHEARD_MAX))
            finally:
                # What ended in time leaves no thread behind; what did not is not waited for.
                threads.shutdown(wait=not self._workers, cancel_futures=True)
        if self._unfit is not None:
            raise self._unfit

    def _end_within(self, drain: float | None) -> None:
        if drain is not None or not self._stopping:
            until = time.monotonic() + (self._drain if drain is None else drain)
            self._until = min(self._until, until)
        self._stopping = True

    def _work(self, leased: LeasedMessage) -> None:
        thread = threading.get_ident()
        self._workers.add(thread)
        try:
            self._handle(leased)
        finally:
            self._workers.discard(thread)
            self._consumer.ended(leased)

    def _handle(self, leased: LeasedMessage) -> None:
        """Has the handler work on a message, and answers it; that the client is closed is not its failure."""
        try:
            if self._stopping:
                if leased.held:
                    leased.give_back()
            elif leased.begin():
                with leased:
                    result = self._handler(leased.message)
                    if result is not None:
                        self._check(leased, result)
        except BaseException as error:  # noqa: BLE001 - a thread of a pool has no caller
            if isinstance(error, ClientClosedError) and self._consumer.client_closed:
                log_unanswered(leased.message)
            else:
                tell_failure(self._on_error, leased.message, error)

    def _check(self, leased: LeasedMessage, result: object) -> None:
        """Ends the pool when nothing was done for a message, which goes back and is no failed attempt."""
        try:
            arguments.check_has_run("handler", result)
        except InvalidParameterError as error:
            self._unfit = error
            self.stop()
            leased.give_back()


def tell_failure(on_error: OnError, message: Message, failure: BaseException) -> None:
    """Tells the application that its handler has failed; if it fails on that too, this is logged."""
    try:
        arguments.check_has_run("on_error", on_error(message, failure))
    except Exception as error:  # noqa: BLE001 - other messages do not wait for it, whatever it is
        log_failure(message, error)


def log_failure(message: Message, error: BaseException) -> None:
    """Says that a handler has failed."""
    import logging

    logging.getLogger("telesto.client").error(
        "the handler failed on message %s of queue %s", message.message_id, message.queue_id, exc_info=error
    )


def log_unanswered(message: Message) -> None:
    """Says that the client was closed before a message that was begun was answered."""
    import logging

    logging.getLogger("telesto.client").warning(
        "the client was closed before message %s of queue %s was acknowledged: it comes again",
        message.message_id,
        message.queue_id,
    )


@contextmanager
def stopping_at(signals: Iterable[signal.Signals], stop: Callable[[], None]) -> Iterator[None]:
    """Has the first of these signals stop what runs meanwhile; the next one does what it did before.

    Raises InvalidParameterError outside of the main thread, which alone hears of signals.
    """
    before: dict[signal.Signals, Any] = {}

    def arrived(number: int, frame: FrameType | None) -> None:
        put_back(before)
        stop()

    try:
        for number in signals:
            try:
                before[number] = signal.signal(number, arrived)
            except (ValueError, OSError) as error:
                raise InvalidParameterError(f"stop_signals: no handler for {number!r}: {error}") from error
        yield
    finally:
        put_back(before)


def put_back(handlers: dict[signal.Signals, Any]) -> None:
    """Has signals do what they did before, those that still do something else."""
    while handlers:
        number, handler = handlers.popitem()
        signal.signal(number, handler if handler is not None else signal.SIG_DFL)


def beside(act: Callable[[], None]) -> None:
    """Does something in another thread, for a signal's handler whose own thread is in a call of the client.

    The thread is started by another one, since the handler may have interrupted the start of a thread.
    """
    import _thread

    _thread.start_new_thread(lambda: threading.Thread(target=act, name="telesto-stop").start(), ())


def answer(driver: Driver, call: Call[Any]) -> Any:
    """Waits for the end of a call; the driver's lock is held."""
    driver.answer(call)
    try:
        return driver.session.take(call)
    finally:
        driver.hand_on()
