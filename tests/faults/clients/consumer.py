"""Consumes: in turn, many at a time, too slowly, without waiting for answers, by handlers; puts results."""

import asyncio
import contextlib
import os
import signal
import time
from dataclasses import dataclass
from typing import Any, Protocol

from telesto.client import (
    AsyncConsumer,
    AsyncLeasedMessage,
    AsyncTelestoClient,
    Consumer,
    LeasedMessage,
    Message,
    TelestoClient,
)
from telesto.protocol.errors import LeaseLostError, TelestoError

from .bodies import make_body, read_body
from .client_process import ClientProcess
from .history import (
    DONE,
    DOUBT,
    REFUSED,
    Leased,
    PutBegan,
    PutEnded,
    Recorder,
    SettleBegan,
    SettleEnded,
    TakeBegan,
    TakeEnded,
)
from .recorded_call import AnyClient, RecordedCall, TakingCall, outcome_after

_WAIT_S = (0.2, 2.0)
_CREDIT = 32
#: So many messages at most is an application given at a time.
AT_A_TIME = 8
_LOOK_S = 0.05
_CANCELLED_SHARE = 0.02
_NACKED_SHARE = 0.05
_NACK_DELAY_S = (0.0, 0.5)
_TOUCHED_SHARE = 0.05
#: So many messages take longer than the lease, for a slow consumer.
_LATE_SHARE = 0.02
_LATE_S = (1.5, 3.0)
#: A pool of handlers has messages for longer than the lease, which it begins later.
_POOL = 4
_POOL_S = (0.2, 0.6)
#: The key of what is put because of a message: of which one, and under which lease.
RESULT = "result"
RESULT_PRIORITY = 5


class AnyLeased(Protocol):
    """What both clients give."""

    message: Message


@dataclass(frozen=True, slots=True)
class Handled:
    """What a handler gets."""

    message: Message


class Take(TakingCall):
    """One look for the next message, and its history."""

    ended = TakeEnded

    def __init__(self, recorder: Recorder, number: int, wait_s: float) -> None:
        super().__init__(recorder, number)
        self.wait_s = wait_s

    def began(self, client: AnyClient) -> None:
        """Writes that it begins."""
        self.record(client, TakeBegan, wait=self.wait_s)

    def returned(self, client: AnyClient, leased: AnyLeased | None) -> None:
        """Writes what the application has now."""
        messages = [] if leased is None else [leased_of(leased.message)]
        self._end(client, messages=messages)


class Settle(RecordedCall):
    """One answer to a message, and its history."""

    def __init__(self, recorder: Recorder, number: int, message: Message, what: str) -> None:
        assert message.lease is not None
        super().__init__(recorder, number)
        self.what = what
        self._values = {"message_id": message.message_id, "lease_id": message.lease.lease_id, "what": what}

    def began(self, client: AnyClient) -> None:
        """Writes that it begins."""
        self.record(client, SettleBegan, **self._values)

    def done(self, client: AnyClient) -> None:
        """Writes that the service has done it."""
        self._write(client, DONE)

    def raised(self, client: AnyClient, error: BaseException) -> None:
        """Writes that it failed."""
        outcome = REFUSED if isinstance(error, LeaseLostError) else outcome_after(error)
        self._write(client, outcome, type(error).__name__)

    def untold(self, client: AnyClient) -> None:
        """Writes that nobody waits for what becomes of it."""
        self._write(client, DOUBT)

    def _write(self, client: AnyClient, outcome: str, error: str = "") -> None:
        self.record(client, SettleEnded, outcome=outcome, error=error, **self._values)


def leased_of(message: Message) -> Leased:
    """Returns a message as the history has it."""
    assert message.lease is not None
    key, intact = read_body(message.body)
    return Leased(
        message.message_id,
        message.queue_id,
        message.lease.lease_id,
        key,
        message.priority,
        message.sender_id,
        message.redelivered,
        intact,
        message.partition_key or "",
        message.attempt,
    )


class ConsumerProcess(ClientProcess):
    """Consumes until it is stopped; with SIGHUP, its next message kills it."""

    def __init__(self) -> None:
        super().__init__()
        self._poisoned = False
        self._closing: TelestoClient | None = None
        signal.signal(signal.SIGHUP, self._poison)

    def run(self) -> None:
        """Works in the style of the task."""
        match self.task.style:
            case "slow":
                self.run_blocking(lambda client: self._consume_in_turn(client, late_share=_LATE_SHARE))
            case "untold":
                self.run_blocking(self._consume_untold)
            case "cancelling":
                self.run_asyncio(self._consume_at_once)
            case "handlers":
                self.run_asyncio(self._handle)
            case "pool":
                self.run_blocking(self._handle_in_threads)
            case "forwarding":
                self.run_asyncio(self._forward)
            case _:
                self.run_blocking(self._consume_in_turn)

    def _take(self, client: AnyClient) -> Take:
        take = Take(self.recorder, self.number(), self.random.uniform(*_WAIT_S))
        take.began(client)
        return take

    def _taken(self, take: Take, client: AnyClient, leased: AnyLeased | None) -> None:
        """The application has a message, or none; a message may kill it."""
        take.returned(client, leased)
        if self._poisoned and leased is not None:
            os.kill(os.getpid(), signal.SIGKILL)

    def _poison(self, _number: int, _frame: object) -> None:
        self._poisoned = True

    def _stop(self, number: int, frame: object) -> None:
        super()._stop(number, frame)
        if self._closing is not None:
            self._closing.close()

    def _settle(self, client: AnyClient, message: Message, what: str) -> Settle:
        settle = Settle(self.recorder, self.number(), message, what)
        settle.began(client)
        return settle

    def _answer(self) -> str:
        return "nack" if self.random.random() < _NACKED_SHARE else "ack"

    def _nack_values(self) -> dict[str, Any]:
        """Returns how a message is given back: as failed or not, with or without a delay of its own."""
        delay = self.random.uniform(*_NACK_DELAY_S) if self.random.random() < 0.5 else None
        return {"failed": self.random.random() < 0.5, "delay": delay}

    # --- blocking ----------------------------------------------------------------------------

    def _consume_in_turn(self, client: TelestoClient, late_share: float = 0.0) -> None:
        consumer = client.queue(self.task.queue_ids[0]).consume(credit=_CREDIT, keep_alive=not late_share)
        while not self.stopping and client.session is not None:
            leased = self._next(client, consumer)
            if leased is None:
                continue
            if self.random.random() < late_share:
                time.sleep(self.random.uniform(*_LATE_S))
            settle = self._settle(client, leased.message, self._answer())
            try:
                leased.ack() if settle.what == "ack" else leased.nack(**self._nack_values())
            except TelestoError as error:
                settle.raised(client, error)
            else:
                settle.done(client)
        with contextlib.suppress(TelestoError):
            consumer.close()

    def _consume_untold(self, client: TelestoClient) -> None:
        """Acknowledges by leaving the block, which waits for no answer."""
        consumer = client.queue(self.task.queue_ids[0]).consume(credit=_CREDIT)
        while not self.stopping and client.session is not None:
            leased = self._next(client, consumer)
            if leased is not None:
                with leased:
                    self._settle(client, leased.message, "ack").untold(client)
        with contextlib.suppress(TelestoError):
            consumer.close()

    def _next(self, client: TelestoClient, consumer: Consumer) -> LeasedMessage | None:
        take = self._take(client)
        try:
            leased = consumer.get(take.wait_s)
        except TelestoError as error:
            take.raised(client, error)
            return None
        self._taken(take, client, leased)
        return leased

    def _handle_in_threads(self, client: TelestoClient) -> None:
        """Has handlers work that take longer for what they have than a lease lasts, until it is closed."""
        self._closing = client
        while not self.stopping and client.session is not None:
            with contextlib.suppress(TelestoError):
                client.queue(self.task.queue_ids[0]).run_consumer(
                    lambda message: self._work_long(client, message),
                    concurrency=_POOL,
                    credit=_CREDIT,
                    on_error=_ignore,
                )
        self._closing = None

    def _work_long(self, client: TelestoClient, message: Message) -> None:
        self._taken(self._take(client), client, Handled(message))
        time.sleep(self.random.uniform(*_POOL_S))
        what = self._answer()
        self._settle(client, message, what).untold(client)
        if what == "nack":
            raise _GivenBackError

    # --- asyncio -----------------------------------------------------------------------------

    async def _consume_at_once(self, client: AsyncTelestoClient) -> None:
        consumer = client.queue(self.task.queue_ids[0]).consume(credit=_CREDIT)
        async with asyncio.TaskGroup() as workers:
            for _ in range(AT_A_TIME):
                workers.create_task(self._work(client, consumer))
        with contextlib.suppress(TelestoError):
            await consumer.close()

    async def _work(self, client: AsyncTelestoClient, consumer: AsyncConsumer) -> None:
        while not self.stopping and client.session is not None:
            leased = await self._next_async(client, consumer)
            if leased is None:
                continue
            await asyncio.sleep(self.pause_s())
            if self.random.random() < _TOUCHED_SHARE:
                await self._tell(client, leased, "touch")
            await self._tell(client, leased, self._answer())

    async def _next_async(
        self, client: AsyncTelestoClient, consumer: AsyncConsumer
    ) -> AsyncLeasedMessage | None:
        take = self._take(client)
        get = asyncio.ensure_future(consumer.get(take.wait_s))
        if self.random.random() < _CANCELLED_SHARE:
            asyncio.get_running_loop().call_later(self.pause_s(), get.cancel)
        try:
            leased = await get
        except (TelestoError, asyncio.CancelledError) as error:
            take.raised(client, error)
            return None
        self._taken(take, client, leased)
        return leased

    async def _forward(self, client: AsyncTelestoClient) -> None:
        """Puts a result of each message and acknowledges it, without waiting for the put in between."""
        consumer = client.queue(self.task.queue_ids[0]).consume(credit=_CREDIT)
        while not self.stopping and client.session is not None:
            leased = await self._next_async(client, consumer)
            if leased is not None:
                put = asyncio.ensure_future(self._put_result(client, leased.message))
                await asyncio.sleep(0)  # the put is called first
                await self._tell(client, leased, "ack")
                await put
        with contextlib.suppress(TelestoError):
            await consumer.close()

    async def _put_result(self, client: AsyncTelestoClient, message: Message) -> None:
        assert message.lease is not None
        queue_id = self.task.queue_ids[1]
        key = f"{RESULT}.{message.message_id}.{message.lease.lease_id}"
        put = RecordedCall(self.recorder, self.number())
        put.record(client, PutBegan, key=key, queue_id=queue_id, priority=RESULT_PRIORITY)
        values: dict[str, Any]
        try:
            message_id = await client.put_message(queue_id, make_body(key, 0), priority=RESULT_PRIORITY)
        except TelestoError as error:
            values = {"outcome": outcome_after(error), "error": type(error).__name__}
        else:
            values = {"outcome": DONE, "message_id": message_id}
        put.record(client, PutEnded, key=key, queue_id=queue_id, **values)

    async def _tell(self, client: AsyncTelestoClient, leased: AsyncLeasedMessage, what: str) -> None:
        settle = self._settle(client, leased.message, what)
        values = self._nack_values() if what == "nack" else {}
        try:
            await getattr(leased, what)(**values)
        except TelestoError as error:
            settle.raised(client, error)
        else:
            settle.done(client)

    # --- handlers ----------------------------------------------------------------------------

    async def _handle(self, client: AsyncTelestoClient) -> None:
        """Has handlers work, of a partition one at a time, until SIGTERM lets them end."""
        handling = asyncio.ensure_future(
            client.queue(self.task.queue_ids[0]).run_consumer(
                lambda message: self._handler(client, message),
                concurrency=AT_A_TIME,
                credit=_CREDIT,
                on_error=_ignore,
                stop_signals=(signal.SIGTERM,),
            )
        )
        # A signal that comes before the consumer takes signals sets self.stopping.
        while not (self.stopping or client.session is None or handling.done()):
            await asyncio.wait([handling], timeout=_LOOK_S)
        handling.cancel()
        with contextlib.suppress(TelestoError, asyncio.CancelledError):
            await handling
            self.stopping = True

    async def _handler(self, client: AsyncTelestoClient, message: Message) -> None:
        self._taken(self._take(client), client, Handled(message))
        what = "nack"
        try:
            await asyncio.sleep(self.pause_s())
            what = self._answer()
            if what == "nack":
                raise _GivenBackError
        finally:  # what a cancelled handler had goes back too
            self._settle(client, message, what).untold(client)


class _GivenBackError(Exception):
    """A handler gives a message back."""


def _ignore(message: Message, error: BaseException) -> None:
    if not isinstance(error, _GivenBackError):
        raise error


if __name__ == "__main__":
    ConsumerProcess().run()
