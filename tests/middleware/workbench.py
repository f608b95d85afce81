"""Parts of a middleware without connections or database, for tests of how requests are gathered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from telesto.middleware.common.audit import AuditLog
from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.behaviour_monitor import BehaviourMonitor
from telesto.middleware.consumers.consumer_changes import ConsumerChanges
from telesto.middleware.consumers.leaving_consumers import LeavingConsumers
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.database.disk import Disk
from telesto.middleware.execution.batch_worker import BatchEffects, BatchWorker, BisectingExecutor
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.procedures.put import PutGroup
from telesto.middleware.procedures.reads import answer_read
from telesto.middleware.procedures.table import queue_of
from telesto.middleware.procedures.take import TakeGroup
from telesto.middleware.scheduling.dispatcher import Budget, CallPacing, Dispatcher
from telesto.middleware.scheduling.expected_size import ExpectedSizes
from telesto.middleware.scheduling.requests import Client, Kind, Pipeline, Read, Request, Wait
from telesto.middleware.security.rights import RightsCheck
from telesto.middleware.waiting.room import Announcer, WaitingRoom
from telesto.protocol import packets
from telesto.protocol.framing import FrameDecoder
from wire import FULL, put, read

#: Bodies up to this are light, in bytes.
LIGHT_BYTES = 100

Procedure = Callable[..., list[Any]]


async def no_call(*_arguments: Any) -> list[Any]:
    """Stands for a call that is not made."""
    raise AssertionError


def empty_room() -> WaitingRoom:
    """A waiting room for tests in which no read waits."""
    return WaitingRoom(
        asyncio.get_running_loop(),
        readmit=no_read,
        answer=no_read,
        whose_read_yields=lambda _pipeline, _parked, _at_address: None,
    )


def no_read(*_arguments: Any) -> None:
    """Stands for what is done with a read, where there is none."""
    raise AssertionError


def without_database(
    room: WaitingRoom, announcer: Announcer, settings: ServerSettings
) -> tuple[ConsumerRegistry, ConsumerChanges]:
    """Consumers, and what changes about them; the database is told nothing."""
    changes = ConsumerChanges(no_call, announcer, settings)
    return ConsumerRegistry(room, LeavingConsumers(no_call, announcer, settings), changes, settings), changes


class FakeConnection:
    """Stands for a connection to the database: each call waits, then asks the test's procedure."""

    def __init__(self, procedure: Procedure) -> None:
        self.procedure = procedure
        self.calls: list[tuple[Any, ...]] = []
        self.large_calls = 0
        self._may_end = 0
        self._let_go = asyncio.Event()
        self.called = asyncio.Queue[tuple[Any, ...]]()

    async def call(self, sql: str, *arguments: Any) -> list[Any]:
        self.calls.append(arguments)
        self.called.put_nowait(arguments)
        while not self._may_end:
            self._let_go.clear()
            await self._let_go.wait()
        self._may_end -= 1
        return self.procedure(*arguments)

    def go(self, calls: int) -> None:
        """Lets calls come to their end."""
        self._may_end += calls
        self._let_go.set()

    async def read(self, _sql: str, *_arguments: Any) -> list[Any]:
        return []  # nothing is known of other processes

    async def call_for_much(self, sql: str, *arguments: Any) -> list[Any]:
        self.large_calls += 1
        return await self.call(sql, *arguments)


class Sender:
    """Stands for a connection: a pipeline, and the answers that it was given."""

    def __init__(self, bench: Workbench, client_id: int) -> None:
        self._bench = bench
        self._decoder = FrameDecoder(1 << 30)
        self.answers: dict[int, Any] = {}
        self.order: list[int] = []
        self.finished = False
        self.pipeline = Pipeline(
            self._answer, self._finish, lambda client: None, lambda packet_id, outcome: None
        )
        self.pipeline.client = Client(client_id, 1, FULL)
        self.pipeline.frame_bytes = 1 << 20
        self.sent = 0
        self._series = 0

    def put(self, *queue_ids: int, resumes: bool = False, **fields: Any) -> int:
        packet_id = self._next_id()
        request = Request(self.pipeline, put(packet_id, *queue_ids, **fields), packet_id, Kind.PUT, 100)
        self._series += resumes
        request.series = self._series
        self._admit(request)
        return packet_id

    def read(self, queue_id: int, wait_s: float | None = None, **fields: Any) -> Read:
        packet_id = self._next_id()
        wait = None
        packet = read(packet_id, queue_id, wait_ms=0 if wait_s is None else round(wait_s * 1000), **fields)
        if wait_s is not None:
            deadline = asyncio.get_running_loop().time() + wait_s
            wait = Wait((queue_id,), deadline, by_context=False, selective=packet.sender_id != 0)
        request = Read(self.pipeline, packet, packet_id, Kind.TAKE, 50, wait)
        request.weight = max(50, self._bench.expected_sizes.of(queue_id))
        if wait is not None:
            self.pipeline.waiting[packet_id] = request
        self._admit(request)
        return request

    def _next_id(self) -> int:
        self.sent += 1
        return self.sent

    def _admit(self, request: Request) -> None:
        self.pipeline.requests.append(request)
        self.pipeline.size += request.size
        if getattr(request.packet, "number", 0):
            self.pipeline.unconfirmed[request.packet.number] = 1
        self._bench.budget.enter(1, request.size)
        self._bench.dispatcher.stand(self.pipeline)

    def _answer(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self.order.append(frame.packet_id)
            self.answers[frame.packet_id] = packets.PACKETS[frame.method_id].decode(frame.payload)
        self._bench.answered.set()

    def _finish(self) -> None:
        self.finished = True


MIDDLEWARE_ID = 7


class Workbench:
    """A dispatcher, its workers for puts and reads, and a waiting room."""

    def __init__(self, put_procedure: Procedure, take_procedure: Procedure, **settings: Any) -> None:
        self.settings = ServerSettings.load(**settings)
        loop = asyncio.get_running_loop()
        self.budget = Budget()
        self.dispatcher = Dispatcher(self.settings, loop, self.budget, queue_of)
        self.room = WaitingRoom(
            loop,
            readmit=self.dispatcher.readmit,
            answer=answer_read,
            whose_read_yields=lambda pipeline, parked, _at_address: (
                pipeline if parked >= self.settings.max_waiting_reads else None
            ),
        )
        self.told: list[dict[tuple[int, int], int]] = []
        self.expected_sizes = ExpectedSizes(loop.time, 60.0, 100)
        self.counters = Counters()
        announcer = Announcer(self.room, self.told.append)
        consumers, changes = without_database(self.room, announcer, self.settings)
        monitor = BehaviourMonitor(consumers, changes, self.counters, Deadlines(loop), loop.time)
        self.effects = BatchEffects(
            self.room,
            announcer,
            consumers,
            monitor,
            self.budget,
            self.expected_sizes,
            RightsCheck({}),
            AuditLog(None, loop.time, Deadlines(loop)),
            self.settings.overload_retry_ms,
        )
        self.tracer = Tracer(loop, self.settings.phase_every)
        self.pace = CallPacing(
            loop.time,
            lambda: self.budget.requests,
            self.settings.crowd,
            self.settings.many_messages,
            self.settings.quick_call_ms / 1000,
            self.settings.call_wait_ms / 1000,
        )
        self.answered = asyncio.Event()
        self.connections: dict[str, FakeConnection] = {}
        disk = Disk(FakeConnection(put_procedure).call, self.counters, self.settings, loop.time)
        self._tasks = []
        answers = self.settings.max_answer_bytes, self.settings.locked_answer_bytes
        take_group = TakeGroup(100, *answers, LIGHT_BYTES, Peers("1", MIDDLEWARE_ID))
        for kind, group, procedure in (
            (Kind.PUT, PutGroup(Peers("1", MIDDLEWARE_ID)), put_procedure),
            (Kind.TAKE, take_group, take_procedure),
        ):
            for name, queue in (
                (kind.name, self.dispatcher.fair_queues[kind]),
                (kind.name + " apart", self.dispatcher.busy_queues[kind]),
            ):
                link = self.connections[name] = FakeConnection(procedure)
                executor = BisectingExecutor(group, link, disk, self.dispatcher.quarantine, 100)  # type: ignore[arg-type]
                worker = BatchWorker(
                    queue,
                    self.dispatcher,
                    executor,
                    self.effects,
                    self.counters,
                    self.tracer,
                    self.pace,
                    self.settings.busy_limit_s,
                    100,
                )
                self._tasks.append(asyncio.create_task(worker.run()))

    async def close(self) -> None:
        self.dispatcher.close()
        self.go()
        await asyncio.gather(*self._tasks)

    def sender(self, client_id: int) -> Sender:
        return Sender(self, client_id)

    def go(self, calls: int = 1_000_000) -> None:
        """Lets calls go through."""
        for link in self.connections.values():
            link.go(calls)

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns when a condition holds; answers are what makes it hold."""
        async with asyncio.timeout(20):
            while not condition():
                self.answered.clear()
                await self.answered.wait()


def put_all(*arguments: Any) -> list[Any]:
    """A put procedure that takes everything."""
    return [(None, list(range(1, len(arguments[4]) + 1)))]


def take_nothing(*_arguments: Any) -> list[Any]:
    """A take procedure of empty queues."""
    return []


def message_row(
    request: int, message_id: int = 1, receiver_id: int = 0, body: bytes = b""
) -> tuple[Any, ...]:
    """A row of take_batch with a message."""
    return (request, None, None, message_id, 1, 1, receiver_id, 5, 0, 1, False, None, body, None, None, None)


def error_row(request: int, error: int, related_id: int | None = None) -> tuple[Any, ...]:
    """A row of take_batch with an error."""
    return (request, error, related_id, *[None] * 12)


def bodies(arguments: Sequence[Any]) -> list[bytes]:
    """The bodies of a call of put_batch."""
    return list(arguments[9])
