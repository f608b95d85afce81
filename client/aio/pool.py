"""Has the handlers of the asyncio client work on what a consumer is given."""

from __future__ import annotations

import asyncio
import inspect
import math
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from telesto.client import arguments
from telesto.client.aio.consumer import AsyncConsumer, AsyncLeasedMessage
from telesto.client.blocking.pool import (
    OnError,
    log_refusal,
    log_unanswered,
    put_back,
    tell_failure,
    unanswered_warning,
)
from telesto.client.calls import failures, tracing
from telesto.client.errors import ClientClosedError, RequestRefusedError
from telesto.client.io import shared
from telesto.client.io.async_driver import AsyncDriver, is_cancelled
from telesto.client.models import Body, Duration, Message
from telesto.protocol.errors import InvalidParameterError, RejectedError

AsyncHandler = Callable[[Message], Awaitable[object]]
AsyncRequestHandler = Callable[[Message], Awaitable[Body | None]]


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
        self._consumer._give_to_handlers()
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
                begun = not self._stopping and await leased._begin()
            if self._stopping:
                if leased.held:
                    leased._give_back()
            elif begun:
                async with leased:
                    with tracing.processing(leased.message, self._consumer._queue.name):
                        working = self._handler(leased.message)
                        if inspect.isawaitable(working):
                            await working
                        else:
                            self._refuse(leased, working)
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            if isinstance(error, ClientClosedError) and self._consumer._client_closed:
                log_unanswered(leased.message)
            else:
                tell_failure(self._on_error, leased.message, error)
        finally:
            self._consumer._ended(leased)
            self._free.release()

    def _refuse(self, leased: AsyncLeasedMessage, result: object) -> None:
        """Ends the pool, whose handler is no asynchronous one; the message is no failed attempt."""
        self._unfit = InvalidParameterError(
            "handler must be an async function, or return something else to await, not "
            f"{type(result).__name__}; "
            "have it await asyncio.to_thread(...) for what is plain, or use TelestoClient"
        )
        self.stop()
        leased._give_back()


class AsyncPools:
    """All that works for one client on what its consumers are given.

    Attributes:
        running: those that work now.
    """

    def __init__(self) -> None:
        self.running: set[AsyncPool] = set()
        self._ending = False
        self._closer: asyncio.Task[None] | None = None

    async def run(
        self,
        consumer: AsyncConsumer,
        handler: AsyncHandler,
        concurrency: int,
        on_error: OnError,
        drain: Duration,
        stop_signals: Iterable[signal.Signals],
    ) -> None:
        """Has a handler work on what a consumer is given, until a signal arrives or the client is closed."""
        arguments.check_count("concurrency", concurrency)
        arguments.check_awaited("handler", handler)
        arguments.check_plain("on_error", on_error)
        drain_s = arguments.check_timeout(drain, "drain")
        signals = arguments.check_signals("stop_signals", stop_signals)
        pool = AsyncPool(consumer, handler, on_error, concurrency, drain_s)
        self.running.add(pool)
        try:
            if self._ending:
                raise failures.closed_error()
            with stopping_at(signals, pool.stop):
                async with consumer:
                    await pool.run()
        finally:
            pool.ended.set()
            self.running.discard(pool)
        if self._closer is not None:  # a handler has closed the client and could not wait for it
            await asyncio.shield(self._closer)

    async def close(self, closing: Coroutine[Any, Any, None]) -> None:
        """Lets the client close; when a handler asks for that, it is not waited for, since it waits for the
        handler."""
        self._ending = True
        if any(pool.is_mine for pool in self.running):
            self._closer = asyncio.create_task(closing)
        else:
            await closing

    async def end(self, drain: float | None) -> None:
        """Has all end within ``drain`` seconds, or what each was made with, and waits until they have."""
        pools = list(self.running)
        for pool in pools:
            pool.stop(drain)
        for pool in pools:
            await pool.ended.wait()


def answering(driver: AsyncDriver, handler: AsyncRequestHandler, on_error: OnError) -> AsyncHandler:
    """Returns the handler of messages that puts what a handler of requests returns or raises."""
    arguments.check_awaited("handler", handler)

    warn_once = unanswered_warning(handler)

    async def answer(request: Message, response: Awaitable[Body | None]) -> None:
        try:
            body = await response
            if body is None or request.correlation_id is None:
                warn_once(request, body)
                return
            reply = shared.reply_call(request, body, once=True)
        except Exception as error:
            if request.correlation_id is None or isinstance(error, ClientClosedError):
                raise
            if isinstance(error, RequestRefusedError):
                log_refusal(request, error)
            else:
                tell_failure(on_error, request, error)
            reply = shared.failure_reply(request, error)
        try:
            await driver.run(reply)
        except RejectedError as error:  # such as one that is too large
            tell_failure(on_error, request, error)
            await driver.run(shared.failure_reply(request, error))

    def serve(request: Message) -> Awaitable[object]:
        response = handler(request)
        return answer(request, response) if inspect.isawaitable(response) else response

    return serve


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
