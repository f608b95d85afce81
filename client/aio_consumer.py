"""Consuming a queue with the asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Protocol, Self

from telesto.client import arguments
from telesto.client.blocking_consumer import OnError
from telesto.client.calls import Call
from telesto.client.consuming import AckCall, ConsumerState, NackCall, SettleCall, TouchCall
from telesto.client.errors import ClientClosedError
from telesto.client.lanes import Lanes
from telesto.client.models import LeaseId, Message
from telesto.client.session import Session

AsyncHandler = Callable[[Message], Awaitable[object]]


class AsyncShell(Protocol):
    """What a consumer needs of the client that it belongs to."""

    session: Session
    answer: Callable[[Call[Any]], Coroutine[Any, Any, Any]]
    flush: Callable[[], None]


class AsyncLeasedMessage:
    """A message that was pushed to a consumer, which has to answer it before its lease ends.

    As a context manager it acknowledges the message at the end, without waiting for the answer, and gives it
    back as failed when an exception leaves the block.

    Attributes:
        message: the message.
        lease: consumer_id, lease_id and message_id, as ``telesto.ack`` in SQL takes them.
    """

    def __init__(self, shell: AsyncShell, state: ConsumerState, message: Message) -> None:
        assert message.lease is not None
        self._shell = shell
        self._state = state
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

        Raises LeaseLostError when it belongs to somebody else by now.
        """
        await self._settle(AckCall(self._state.queue_id, [self.lease]))

    async def acked_in_database(self) -> None:
        """Says that a transaction of the application which called ``telesto.ack`` is committed.

        It does not wait for an answer. Should the message not be acknowledged after all, it goes back as
        failed, which is logged.
        """
        self._answered = True
        self._shell.session.consumers.acked_in_database(self._state, self.lease)
        self._shell.flush()

    async def nack(self, *, failed: bool = True, delay: float | None = None) -> None:
        """Gives the message back to its queue.

        Args:
            failed: this counts as an attempt that failed.
            delay: how long it waits before anybody gets it, in seconds. Without it after a failed attempt as
                long as the queue's backoff says, else not at all.

        Raises LeaseLostError when it belongs to somebody else by now.
        """
        await self._settle(NackCall(self._state.queue_id, [self.lease], failed, delay))

    async def touch(self) -> None:
        """Begins the time of the lease anew. Raises LeaseLostError when it is over."""
        consumers = self._shell.session.consumers
        await self._shell.answer(consumers.settle(self._state, TouchCall(self._state.queue_id, [self.lease])))

    async def _settle(self, call: SettleCall) -> None:
        self._answered = True
        await self._shell.answer(self._shell.session.consumers.settle(self._state, call))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._answered:
            return
        self._answered = True
        if error is None and self._state.ack_in_database:
            self._shell.session.consumers.acked_in_database(self._state, self.lease)
        elif error is None:
            self._shell.session.consumers.ack_soon(self._state, self.lease)
        else:
            failed = isinstance(error, Exception)
            call = NackCall(self._state.queue_id, [self.lease], failed)
            self._shell.session.consumers.settle_soon(self._state, call)
        self._shell.flush()


class AsyncConsumer:
    """A consumer of a queue: an asynchronous iterator over the messages that are pushed to it.

    It joins the queue when it is entered, or iterated over first, and again after every lost connection; it
    leaves when it is closed, and gives back what was not taken.
    """

    def __init__(self, shell: AsyncShell, state: ConsumerState) -> None:
        self._shell = shell
        self._state = state
        self._joined = False
        self._joining = asyncio.Lock()

    @property
    def joins(self) -> int:
        """How often it has joined; more than once after lost connections."""
        return self._state.joins

    @property
    def lost(self) -> int:
        """How many messages belonged to somebody else before they were answered; they come again."""
        return self._state.lost

    @property
    def slowed(self) -> int:
        """How often the service took it for slow and gave its partitions to others."""
        return self._state.slowed

    def on_slowed(self, withdraw: Callable[[], list[LeaseId]]) -> None:
        """Has what was taken and will not be begun given back when others get the partitions."""
        self._state.withdraw = withdraw

    async def get(self, timeout: float | None = None) -> AsyncLeasedMessage | None:  # noqa: ASYNC109
        """Takes the next message; None when none came within ``timeout`` seconds or the consumer is closed.

        Raises QueueNotExistingError when the queue was deleted, ConsumerInactiveError when the consumer
        failed as often in a row as the queue allows: a new one gets messages again.
        """
        await self._join()
        wait = arguments.check_timeout(timeout)
        call = self._shell.session.consumers.next_message(self._state, wait)
        message = await self._shell.answer(call)
        return None if message is None else AsyncLeasedMessage(self._shell, self._state, message)

    async def close(self) -> None:
        """Leaves the queue, once everything answered has been told."""
        if not self._joined or self._state.closed:
            return
        call = self._shell.session.consumers.leave(self._state)
        if call is not None:
            await self._shell.answer(call)

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
                await self._shell.answer(self._shell.session.consumers.join(self._state))
                self._joined = True


class AsyncPool:
    """Has a handler work on what a consumer is given, several messages at a time, of a partition one."""

    def __init__(self, consumer: AsyncConsumer, handler: AsyncHandler, on_error: OnError) -> None:
        self._consumer = consumer
        self._handler = handler
        self._on_error = on_error
        self._lanes: Lanes[AsyncLeasedMessage] = Lanes()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, concurrency: int) -> None:
        """Works until the client or the consumer is closed; what was begun is cancelled and goes back."""
        slots = asyncio.Semaphore(concurrency)
        self._consumer.on_slowed(self._withdraw)
        try:
            async for leased in self._consumer:
                if self._lanes.arrived(leased):
                    await slots.acquire()
                    task = asyncio.create_task(self._work(leased, slots))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
        except ClientClosedError:
            return
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _withdraw(self) -> list[LeaseId]:
        return [leased.lease for leased in self._lanes.withdraw()]

    async def _work(self, begun: AsyncLeasedMessage, slots: asyncio.Semaphore) -> None:
        leased: AsyncLeasedMessage | None = begun
        try:
            while leased is not None:
                try:
                    if leased.held:  # it may have been lost while it waited for its turn
                        async with leased:
                            await self._handler(leased.message)
                except Exception as error:  # noqa: BLE001 - a handler may fail in any way
                    self._on_error(leased.message, error)
                finally:
                    leased = self._lanes.ended(leased)
        finally:
            slots.release()
