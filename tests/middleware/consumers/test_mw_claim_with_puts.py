"""Puts that bring a claim along: what is asked, what follows from what comes, and from each way to fail."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from conftest import Connect, StartMiddleware
from locks import locked
from lost_answers import lose_answer
from members import Member, join, put_all, put_keyed
from telesto.middleware.common.failures import LostError, RefusedError, UnavailableError
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_tracker import ClaimTracker
from telesto.middleware.database.disk import Disk
from telesto.middleware.execution.batch_worker import PUT_AND_CLAIM, PutAndClaimExecutor
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.procedures.put import PutGroup
from telesto.middleware.scheduling.dispatcher import Quarantine
from telesto.middleware.scheduling.requests import Client, Kind, Pipeline, Request, Results
from telesto.middleware.server import MiddlewareServer
from telesto.middleware.waiting.room import Announcer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass
from wire import FULL, PATIENCE_S, Wire, put, until
from workbench import empty_room, without_database

#: How many arguments puts have, and puts with a claim.
PUT, JOINT = 19, 30
#: Where the slots of a claim stand among the latter, and whether it waits for locks.
SLOTS, WAITS = 27, 29
BUSY = -1
#: Ends the server process that waits for a lock of a queue.
END_WAITING = """
SELECT pg_terminate_backend(pid) FROM pg_locks
WHERE NOT granted AND locktype = 'advisory'
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""

Answer = Callable[[tuple[Any, ...]], list[Any]]


#: The columns of a claim, as the type telesto.claimed_message has them.
CLAIM_COLUMNS = (
    "kind", "request", "error", "consumer_id", "lease_id", "message_id", "queue_id", "sender_id",
    "receiver_id", "priority", "time_of_arrival", "attempt", "redelivered", "context", "body", "headers",
    "claim_id", "partition_key", "origin", "expires_ms",
)  # fmt: skip


class Row(tuple[Any, ...]):
    """Stands for asyncpg's records: values by place and by name."""

    names = ("errors", "message_ids", *CLAIM_COLUMNS)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(self.names.index(key) if isinstance(key, str) else key)


def put_row(*message_ids: int) -> Row:
    return Row((None, list(message_ids), *[None] * len(CLAIM_COLUMNS)))


def claim_row(request: int = 1, queue_id: int = 1, error: int | None = None, **values: Any) -> Row:
    found = dict.fromkeys(CLAIM_COLUMNS) | {
        "kind": "message" if error is None else "refused",
        "request": request, "queue_id": queue_id, "error": error, "lease_id": 1, "message_id": 1,
        "sender_id": 1, "receiver_id": 0, "priority": 5, "time_of_arrival": 0, "attempt": 1,
        "redelivered": False, "body": b"1", "claim_id": 1,
    }  # fmt: skip
    return Row((None, None, *(found | values).values()))


class Bench:
    """An executor of puts whose database is played by the test, and two queues with a consumer each."""

    def __init__(self, **settings: Any) -> None:
        self.settings = ServerSettings.load(**settings)
        room = empty_room()
        announcer = Announcer(room, lambda arrivals: None)
        self.consumers, _ = without_database(room, announcer, self.settings)
        self.claims = ClaimTracker(self.consumers, announcer, Counters(), self.settings)
        self.sent: list[bytes] = []
        self.pipeline = Pipeline(
            self.sent.append, lambda: None, lambda client: None, lambda packet_id, outcome: None
        )
        self.pipeline.client = Client(1, 1, FULL)
        self.pipeline.frame_bytes = 1 << 20
        group = PutGroup(Peers("1", 7))
        quarantine = Quarantine(asyncio.get_running_loop().time, 1.0, 1, 10)
        disk = Disk(self.call, Counters(), self.settings, asyncio.get_running_loop().time)
        self.executor = PutAndClaimExecutor(group, self, disk, quarantine, self.claims, self.settings)  # type: ignore[arg-type]
        self.calls: list[tuple[Any, ...]] = []
        self.answers: list[Answer] = []

    def join(self, *queue_ids: int, credit: int = 10) -> None:
        """A consumer joins each queue, and finds it empty."""
        for queue_id in queue_ids:
            self.consumers.join(queue_id, queue_id, self.pipeline, credit, 0)
        claim = self.claims.begin()
        self.claims.settle(claim, [])
        self.claims.over(claim)
        assert not self.consumers.due

    async def call(self, _sql: str, *arguments: Any) -> list[Any]:
        self.calls.append(arguments)
        return self.answers.pop(0)(arguments)

    async def put(self, *answers: Answer | list[Any], messages: Sequence[packets.PutMessage]) -> Results:
        self.answers = [answer if callable(answer) else lambda _, rows=answer: rows for answer in answers]  # type: ignore[misc]
        requests = [
            Request(self.pipeline, packet, number, Kind.PUT, 100) for number, packet in enumerate(messages)
        ]
        results = await self.executor.run(requests)
        assert len(results.outcomes) == len(requests)
        assert not self.answers
        return results

    def consumer(self, queue_id: int) -> Any:
        return self.consumers.get(queue_id)


def failing(error: Exception) -> Answer:
    def answer(_arguments: tuple[Any, ...]) -> list[Any]:
        raise error

    return answer


async def test_nobody_who_consumes_costs_a_put_nothing() -> None:
    bench = Bench()
    results = await bench.put([(None, [5])], messages=[put(1, 1)])
    assert [len(call) for call in bench.calls] == [PUT]
    assert results.arrivals == {(1, 0): 1}


async def test_what_is_put_comes_with_the_put_and_is_no_arrival() -> None:
    bench = Bench()
    bench.join(1, 2)
    rows = [put_row(5, 6), claim_row(message_id=5)]
    results = await bench.put(rows, messages=[put(1, 1), put(2, 3)])
    (call,) = bench.calls
    assert len(call) == JOINT
    assert call[PUT] == [1]
    # One more than was put, so that what else is there is noticed.
    assert call[SLOTS] == [1, 1]
    assert call[WAITS] is False
    assert len(bench.sent) == 1
    assert bench.consumer(1).held == 1
    assert results.arrivals == {(3, 0): 1}
    assert not bench.consumers.due


async def test_what_the_claim_left_is_an_arrival() -> None:
    bench = Bench()
    bench.join(1)
    results = await bench.put([put_row(5, 6), claim_row()], messages=[put(1, 1), put(2, 1)])
    assert results.arrivals == {(1, 0): 1}


async def test_more_than_was_put_is_claimed_on() -> None:
    bench = Bench()
    bench.join(1)
    rows = [put_row(5), claim_row(message_id=4), claim_row(message_id=5)]
    results = await bench.put(rows, messages=[put(1, 1)])
    assert results.arrivals == {}
    assert bench.consumers.due


async def test_a_consumer_without_credit_is_not_claimed_for() -> None:
    bench = Bench()
    bench.join(1, credit=0)
    await bench.put([(None, [5])], messages=[put(1, 1)])
    assert [len(call) for call in bench.calls] == [PUT]


@pytest.mark.parametrize(
    "fields",
    [{"delay_ms": 1_000}, {"receiver_id": 9}, {"body": b"x" * 70_000}],
    ids=["later", "own", "large"],
)
async def test_what_nobody_gets_now_or_is_large_is_put_alone(fields: dict[str, Any]) -> None:
    bench = Bench()
    bench.join(1)
    await bench.put([(None, [5])], messages=[put(1, 1, **fields)])
    assert [len(call) for call in bench.calls] == [PUT]


async def test_puts_of_many_are_calls_of_their_own() -> None:
    bench = Bench(many_messages=4)
    bench.join(1)
    await bench.put([(None, [1, 2, 3, 4])], messages=[put(number, 1, 1) for number in (1, 2)])
    await bench.put([(None, [1, 2, 3, 4])], messages=[put(number, 1) for number in range(1, 5)])
    assert [len(call) for call in bench.calls] == [PUT, PUT]


async def test_a_queue_that_is_claimed_from_is_not_claimed_from_twice() -> None:
    bench = Bench()
    bench.join(1)
    bench.consumers.look(1)
    claim = bench.claims.begin()
    await bench.put([(None, [5])], messages=[put(1, 1)])
    bench.claims.settle(claim, [])
    bench.claims.over(claim)
    await bench.put([put_row(6)], messages=[put(2, 1)])
    assert [len(call) for call in bench.calls] == [PUT, JOINT]


async def test_a_locked_queue_is_claimed_from_alone() -> None:
    bench = Bench()
    bench.join(1)
    results = await bench.put([put_row(5), claim_row(error=BUSY)], messages=[put(1, 1)])
    assert results.arrivals == {(1, 0): 1}
    (queue,) = bench.consumers.take_due()
    assert queue.alone


async def test_a_refused_call_is_made_again_without_the_claim() -> None:
    bench = Bench()
    bench.join(1)
    refused = failing(RefusedError("40P01", "deadlock detected"))
    results = await bench.put(refused, [(None, [5])], messages=[put(1, 1)])
    assert [len(call) for call in bench.calls] == [JOINT, PUT]
    assert not results.failed
    assert bench.consumers.due
    assert not bench.claims.doubtful


@pytest.mark.parametrize(
    ("error", "doubtful"),
    [(LostError("gone"), True), (UnavailableError("away"), False), (RuntimeError("defect"), False)],
)
async def test_a_call_that_failed_leaves_nothing_claimed_for_ever(error: Exception, doubtful: bool) -> None:
    bench = Bench()
    bench.join(1, 2)
    results = await bench.put(failing(error), messages=[put(1, 1)])
    assert len(results.failed) == 1
    assert bench.consumers.due
    assert bench.consumer(1).epoch == (1 if doubtful else 0)
    assert list(bench.claims.doubtful) == ([bench.consumer(1)] if doubtful else [])


async def test_nothing_is_claimed_beside_doubt() -> None:
    bench = Bench()
    bench.join(1, 2)
    await bench.put(failing(LostError("gone")), messages=[put(1, 1)])
    await bench.put([(None, [5])], messages=[put(2, 2)])
    assert [len(call) for call in bench.calls] == [JOINT, PUT]


# --- with the database -----------------------------------------------------------------------
@pytest.fixture
async def producer(server: MiddlewareServer, connect: Connect) -> Wire:
    """A client of its own, so that doubt about its puts stands before nobody else's."""
    return await (await connect(server)).register()


@pytest.fixture
async def member(server: MiddlewareServer, wire: Wire, queue_id: int) -> Member:
    """A consumer whose claims have found nothing, also since puts elsewhere are told of."""
    member = await join(wire, queue_id)
    queue = server.consumers.queues[queue_id]
    await until(lambda: not (server.room.unregistered or queue.awake or queue.standing))
    return member


async def test_messages_reach_a_consumer_by_the_call_that_puts_them(
    server: MiddlewareServer, wire: Wire, queue_id: int, member: Member
) -> None:
    before = server.counters.claims_total
    await put_all(wire, queue_id, b"1")
    await put_all(wire, queue_id, b"2", b"3")
    assert await member.bodies(3) == [b"1", b"2", b"3"]
    assert await member.ack(b"1", b"2", b"3") == [None, None, None]
    assert server.counters.claims_total == before + 2


async def test_partitions_keep_their_order(wire: Wire, queue_id: int, member: Member) -> None:
    for number in range(3):
        await put_keyed(wire, queue_id, f"a{number}", f"b{number}")
    bodies = await member.bodies(6)
    for key in (b"a", b"b"):
        assert [body for body in bodies if body[:1] == key] == [key + b"0", key + b"1", key + b"2"]


async def test_what_consumers_have_no_credit_for_is_left_to_others(
    start_middleware: StartMiddleware, connect: Connect
) -> None:
    """A read at another middleware waits, and is told of what the consumer's claim did not take."""
    servers = [await start_middleware() for _ in range(2)]
    wires = [await (await connect(server)).register() for server in servers]
    queue_id = await wires[0].create_queue()
    member = await join(wires[0], queue_id, messages=1)
    await until(lambda: servers[0].counters.claims_total)
    waiting = wires[1].read(queue_id, wait_ms=5_000)
    await until(lambda: servers[1].room.parked)
    await put_all(wires[0], queue_id, b"1", b"2")
    answer = await asyncio.wait_for(waiting, PATIENCE_S)
    assert {*await member.bodies(1), answer.messages[0].body} == {b"1", b"2"}


async def test_a_lock_that_a_reader_holds_holds_up_no_put(
    wire: Wire, queue_id: int, member: Member, database_url: str
) -> None:
    async with locked(database_url, queue_id, "take_lock_key"):
        await put_all(wire, queue_id, b"1")
        await put_all(wire, queue_id, b"2")
    assert await member.bodies(2) == [b"1", b"2"]


async def test_a_connection_that_dies_in_the_call_loses_no_message(
    wire: Wire, producer: Wire, queue_id: int, member: Member, database_url: str
) -> None:
    """The call waits for a lock that the test holds, so that it is under way when it is cut off."""
    async with locked(database_url, queue_id) as watcher:
        doubtful = producer.put(queue_id, body=b"lost")
        await until(lambda: watcher.fetchval(END_WAITING))
        assert isinstance(await doubtful, packets.Error)
    await wire.put_one(queue_id, body=b"next")
    assert await member.bodies(1) == [b"next"]


async def test_what_was_claimed_by_a_call_whose_answer_is_lost_is_found(
    server: MiddlewareServer,
    wire: Wire,
    producer: Wire,
    queue_id: int,
    member: Member,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lose_answer(monkeypatch, PUT_AND_CLAIM)
    answer = await asyncio.wait_for(producer.put(queue_id, body=b"1"), PATIENCE_S)
    assert answer.error_class is ErrorClass.IN_DOUBT
    assert await member.bodies(1) == [b"1"]
    assert await member.ack(b"1") == [None]
    await wire.put_one(queue_id, body=b"2")
    assert await member.bodies(1) == [b"2"]
    assert server.counters.recovered_total == 1
