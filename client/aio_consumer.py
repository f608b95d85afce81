"""Consuming a queue with the asyncio client."""

from __future__ import annotations

import asyncio
import inspect
import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Self

from telesto.client import arguments
from telesto.client.blocking_consumer import OnError, log_unanswered, put_back, tell_failure
from telesto.client.bookkeeping.consumers import (
    AckCall,
    ConsumerState,
    NackCall,
    SettleCall,
    TouchCall,
    elapsed,
)
from telesto.client.calls.queue_calls import DONE
from telesto.client.errors import ClientClosedError
from telesto.client.io.async_driver import AsyncDriver
from telesto.client.models import LeaseId, Message
from telesto.protocol.errors import InvalidParameterError, LeaseLostError

AsyncHandler = Callable[[Message], Awaitable[object]]


class AsyncLeasedMessage:
    """A message that was pushed to a consumer, which has to answer it before its lease ends.

    As a context manager it acknowledges the message at the end, without waiting for the answer, and gives it
    back as failed when an exception leaves the block.

    Attributes:
        message: the message.
        lease: consumer_id, lease_id and message_id, as ``telesto.ack`` in SQL takes them.
    """

    def __init__(self, driver: AsyncDriver, state: ConsumerState, message: Message, given_at: float) -> None:
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

    async def ack(self) -> None:
        """Says that the message is processed; it is done once this returns.

        Raises LeaseLostError when it is no longer this consumer's.
        """
        await self._settle(AckCall(self._state.queue_id, [self.lease]))

    async def acked_in_database(self) -> None:
        """Says that a transaction of the application which called ``telesto.ack`` is committed.

        It does not wait for an answer. Should the message not be acknowledged after all, it goes back as
        failed, which is logged.
        """
        self._answered = True
        self._driver.session.acked_in_database(self._state, self.lease)
        self._driver.flush_soon()

    async def nack(self, *, failed: bool = True, delay: float | None = None) -> None:
        """Gives the message back to its queue.

        Args:
            failed: this counts as an attempt that failed.
            delay: how long it waits before anybody gets it, in seconds. Without it after a failed attempt as
                long as the queue's backoff says, else not at all.

        Raises LeaseLostError when it is no longer this consumer's.
        """
        await self._settle(NackCall(self._state.queue_id, [self.lease], failed, delay))

    async def touch(self) -> None:
        """Begins the time of the lease anew. Raises LeaseLostError when it is over."""
        session = self._driver.session
        call = TouchCall(self._state.queue_id, [self.lease])
        try:
            await self._driver.wait_for(session.settle(self._state, call))
        except LeaseLostError:
            session.consumers.touch_failed(self._state, self.lease)
            raise

    async def can_be_begun(self) -> bool:
        """Tells whether it is the consumer's still; after a pause of the process the service is asked."""
        consumers = self._driver.session.consumers
        held = consumers.can_be_begun(self._state, self.lease, self._given_at)
        if held is None:
            with suppress(LeaseLostError):
                await self.touch()
            held = self.held
        return held

    async def begin(self) -> bool:
        """Says that a handler begins; returns False when the message is no longer the consumer's."""
        if not await self.can_be_begun():
            return False
        self._given_at = elapsed()
        tell_first = self._driver.session.consumers.begin(self._state, self.message, self._given_at)
        if not tell_first:
            self._driver.tell_begins_soon()
            return True
        await self._driver.tell_begins(self._state)
        return await self.can_be_begun()

    def give_back(self, *, failed: bool = False) -> None:
        """Gives the message back to its queue without waiting for the answer."""
        self._answered = True
        call = NackCall(self._state.queue_id, [self.lease], failed)
        self._driver.session.settle_soon(self._state, call)
        self._driver.flush_soon()

    async def _settle(self, call: SettleCall) -> None:
        self._answered = True
        await self._driver.wait_for(self._driver.session.settle(self._state, call))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answered:
            return
        self._answered = True
        if error is None and self._state.ack_in_database:
            self._driver.session.acked_in_database(self._state, self.lease)
        elif error is None:
            self._driver.session.ack_soon(self._state, self.lease)
        else:
            failed = isinstance(error, Exception)
            failed = failed or (isinstance(error, asyncio.CancelledError) and not _is_cancelled())
            self.give_back(failed=failed)
            return
        self._driver.flush_soon()


class AsyncConsumer:
    """A consumer of a queue: an asynchronous iterator over the messages that are pushed to it.

    It joins the queue when it is entered, or iterated over first, and again after every lost connection; it
    leaves when it is closed, and gives back what was not taken.
    """

    def __init__(self, driver: AsyncDriver, state: ConsumerState) -> None:
        self._driver = driver
        self._state = state
        self._joined = False
        self._joining = asyncio.Lock()

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

    def ended(self, leased: AsyncLeasedMessage) -> None:
        """A message is worked on no more."""
        if leased.message.partition_key is not None:
            self._driver.session.consumers.ended(self._state, leased.message)
            self._driver.flush_soon()

    async def get(self, timeout: float | None = None) -> AsyncLeasedMessage | None:  # noqa: ASYNC109
        """Takes the next message; None when none came within ``timeout`` seconds or the consumer is closed.

        Raises QueueNotExistingError when the queue was deleted, ConsumerInactiveError when the consumer
        failed as often in a row as the queue allows: a new one gets messages again.
        """
        await self._join()
        wait = arguments.check_timeout(timeout)
        while True:
            call = self._driver.session.next_message(self._state, wait)
            at_once = call.phase == DONE and not call.tell_first
            message = await self._driver.wait_for(call)
            if message is None:
                return None
            leased = AsyncLeasedMessage(self._driver, self._state, message, call.given_at)
            try:
                if call.tell_first:
                    await self._driver.tell_begins(self._state)
                else:
                    self._driver.tell_begins_soon()
                held = at_once or await leased.can_be_begun()
                if self._state.stopped:  # since the message was given to this call
                    self._driver.session.consumers.forget(call)
                    self._driver.flush_soon()
                    return None
                if held:
                    return leased
            except BaseException:
                self._driver.session.consumers.forget(call)
                self._driver.flush_soon()
                raise
            self.ended(leased)

    def stop(self) -> None:
        """Gives nothing more: ``get`` returns None, and what was not taken goes back to the queue, in order.

        What was taken can be answered as before, until ``close``.
        """
        self._driver.session.stop_consumer(self._state)
        self._driver.flush_soon()

    async def close(self) -> None:
        """Leaves the queue, once everything answered has been told; what was not answered goes back."""
        if not self._joined or self._state.closed:
            return
        call = self._driver.session.leave_consumer(self._state)
        if call is not None:
            try:
                await self._driver.wait_for(call)
            except BaseException:
                self._state.forgotten = True
                raise

    async def __aiter__(self) -> AsyncIterator[AsyncLeasedMessage]:
        while (lease := await self.get()) is not None:
            yield lease

    async def __aenter__(self) -> Self:
        await self._join()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _join(self) -> None:
        if self._joined:
            return
        async with self._joining:
            if not self._joined:
                await self._driver.wait_for(self._driver.session.join_consumer(self._state))
                self._joined = True


class AsyncPool:
    """Has a handler work on what a consumer is given: several messages at a time, but one of each partition.

    Attributes:
        ended: its consumer has left the queue.
    """

    def __init__(
        self,
        consumer: AsyncConsumer,
        handler: AsyncHandler,
        on_error: OnError,
        concurrency: int,
        drain: float,
    ) -> None:
        self._consumer = consumer
        self._handler = handler
        self._on_error = on_error
        self._drain = drain
        self._runner = asyncio.current_task()
        self._tasks: set[asyncio.Task[None]] = set()
        self._free = asyncio.Semaphore(concurrency)
        self._beginning = asyncio.Lock()
        self._stopping = False
        self._until = math.inf
        self._unfit: InvalidParameterError | None = None
        self._cutter: asyncio.TimerHandle | None = None
        self.ended = asyncio.Event()

    @property
    def is_mine(self) -> bool:
        """Tells whether this task runs it, or a handler of it: then it must not wait for its end."""
        task = asyncio.current_task()
        return task is not None and (task is self._runner or task in self._tasks)

    def stop(self, drain: float | None = None) -> None:
        """Has nothing more begun, and what runs ended within ``drain`` seconds, or what it was made with.

        Again with ``drain`` while handlers end, it shortens the time that they have.
        """
        self._end_within(drain)
        self._free.release()  # it may wait for a handler to end
        self._consumer.stop()

    async def run(self) -> None:
        """Works until it is stopped or cancelled, or the client is closed; then handlers may end in time.

        What has not ended in time, or when this is cancelled again, is cancelled and goes back, as does what
        was not begun. Raises InvalidParameterError when the handler turns out to return nothing to await.
        """
        self._consumer.give_to_handlers()
        try:
            while True:
                await self._free.acquire()
                if self._stopping or (leased := await self._consumer.get()) is None:
                    break
                task = asyncio.create_task(self._work(leased))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        except ClientClosedError:
            pass
        finally:
            self._end_within(None)
            try:
                self._consumer.stop()
                if self._tasks:
                    await asyncio.wait(self._tasks)
            finally:
                if self._cutter is not None:
                    self._cutter.cancel()
                self._cut()
                await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._unfit is not None:
            raise self._unfit

    def _end_within(self, drain: float | None) -> None:
        if drain is not None or not self._stopping:
            loop = asyncio.get_running_loop()
            self._until = min(self._until, loop.time() + (self._drain if drain is None else drain))
            if self._cutter is not None:
                self._cutter.cancel()
            if self._until < math.inf:
                self._cutter = loop.call_at(self._until, self._cut)
        self._stopping = True

    def _cut(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _work(self, leased: AsyncLeasedMessage) -> None:
        try:
            async with self._beginning:  # no message has begun before the handler of the one in front runs
                begun = not self._stopping and await leased.begin()
            if self._stopping:
                if leased.held:
                    leased.give_back()
            elif begun:
                async with leased:
                    working = self._handler(leased.message)
                    if inspect.isawaitable(working):
                        await working
                    else:
                        self._refuse(leased, working)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            if isinstance(error, ClientClosedError) and self._consumer.client_closed:
                log_unanswered(leased.message)
            else:
                tell_failure(self._on_error, leased.message, error)
        finally:
            self._consumer.ended(leased)
            self._free.release()

    def _refuse(self, leased: AsyncLeasedMessage, result: object) -> None:
        """Ends the pool, whose handler is no asynchronous one; the message is no failed attempt."""
        self._unfit = InvalidParameterError(
            "handler must be an async function, or return something else to await, not "
            f"{type(result).__name__}; "
            "have it await asyncio.to_thread(...) for what is plain, or use TelestoClient"
        )
        self.stop()
        leased.give_back()


def _is_cancelled() -> bool:
    """Tells whether the current task was cancelled, and not only something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


@contextmanager
def stopping_at(signals: Iterable[signal.Signals], stop: Callable[[], None]) -> Iterator[None]:
    """Has the first of these signals stop what runs meanwhile; the next one does what it did before.

    Raises InvalidParameterError outside of the main thread, which alone hears of signals.
    """
    loop = asyncio.get_running_loop()
    # Removing a loop's handler leaves the default one, so what was there before is put back by hand.
    before: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number in before:
            loop.remove_signal_handler(number)
        put_back(before)

    def arrived() -> None:
        restore()
        stop()

    try:
        for number in signals:
            previous = signal.getsignal(number)
            try:
                loop.add_signal_handler(number, arrived)
            except (ValueError, RuntimeError) as error:
                raise InvalidParameterError(f"stop_signals: no handler for {number!r}: {error}") from error
            before[number] = previous
        yield
    finally:
        restore()
