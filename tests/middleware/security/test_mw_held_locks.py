"""Who holds locks in the database, by SQL, holds up only those who need the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest

from conftest import Connect
from locks import until_blocked
from logged_in import add_user, logged_in
from members import Member, join
from telesto.middleware.common.failures import LOCKED_SQLSTATE, RefusedError
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import FOREVER_MS, FULL, PATIENCE_S, Wire, put, read, until

#: More than there are workers.
MANY = 16
#: What takes longer has waited for the lock, which is held until the test ends.
SHORT_S = 2.0
#: How often others do something while the lock is held.
TIMES = 5


@pytest.fixture
async def mallory(server: MiddlewareServer, connect: Connect, database: psycopg.Connection) -> list[Wire]:
    """Connections of a user who may do everything with what is called `held`."""
    everything = {right: ["held"] for right in ("configure", "put", "get", "admin")}
    add_user(database, "mallory", clients=["*"], **everything)
    add_user(database, "alice", configure=["*"], put=["*"], get=["*"], admin=["*"], clients=["*"])
    return [await (await logged_in(server, connect, "mallory")).register() for _ in range(MANY)]


@asynccontextmanager
async def holding(database_url: str, *keys: str) -> AsyncIterator[asyncpg.Connection]:
    """Holds locks; gives a connection that is no part of it."""
    holder, watcher = await asyncpg.connect(database_url), await asyncpg.connect(database_url)
    await holder.execute("BEGIN")
    for key in keys:
        await holder.execute(f"SELECT pg_advisory_xact_lock(telesto.{key})")
    try:
        yield watcher
    finally:
        await holder.close()
        await watcher.close()


async def do_all(alice: Wire, name: str) -> None:
    """Does what an application does, with a queue and a topic of its own."""
    await alice.create_queue(name)
    queue_id = (await alice.ask(packets.GetQueueId(name))).queue_id
    for _ in range(TIMES):
        await alice.put_one(queue_id)
        assert len(await alice.read_now(queue_id)) == 1
        await alice.put_one(queue_id)
        answer = await alice.ask(packets.PurgeQueue(alice.number(), [], queue_id))
        assert answer.removed == 1
    subscribed = await alice.ask(packets.Subscribe(alice.number(), [], name))
    message = packets.NewTopicMessage(b"x")
    published = await alice.ask(packets.PutToTopic(alice.number(), [], name, [message]))
    assert isinstance(published, packets.PutToTopicResponse), published
    assert isinstance(subscribed, packets.SubscribeResponse), subscribed
    member = await join(alice, queue_id)
    await alice.put_one(queue_id, body=b"x")
    assert await member.bodies(1) == [b"x"]
    assert await member.ack(b"x") == [None]


def _purge(wire: Wire, queue_id: int) -> Any:
    return packets.PurgeQueue(wire.number(), [], queue_id)


def _put(wire: Wire, queue_id: int) -> Any:
    return put(wire.number(), queue_id)


def _read(wire: Wire, queue_id: int) -> Any:
    return read(wire.number(), queue_id)


def _read_sender(wire: Wire, queue_id: int) -> Any:
    return read(wire.number(), queue_id, sender_id=wire.client_id)


def _wait(wire: Wire, queue_id: int) -> Any:
    return read(wire.number(), queue_id, wait_ms=FOREVER_MS)


def _join(_wire: Wire, queue_id: int) -> Any:
    return packets.JoinQueue(queue_id, 10, 1 << 20)


def _publish(wire: Wire, _queue_id: int) -> Any:
    return packets.PutToTopic(wire.number(), [], "held", [packets.NewTopicMessage(b"x")])


def _subscribe(wire: Wire, _queue_id: int) -> Any:
    return packets.Subscribe(wire.number(), [], "held")


def _delete(wire: Wire, queue_id: int) -> Any:
    return packets.DeleteQueue(wire.number(), [], queue_id)


@pytest.mark.parametrize(
    ("request_of", "refused"),
    [
        (_purge, []),
        (_put, []),
        (_read, []),
        (_read_sender, []),
        (_wait, []),
        (_join, []),
        (_publish, []),
        (_subscribe, [ErrorCode.ALREADY_SUBSCRIBED]),  # the first one has a subscription
        (_delete, [ErrorCode.QUEUE_NOT_EXISTING] * (MANY - 1)),
    ],
)
async def test_others_log_in_put_get_and_consume(
    server: MiddlewareServer,
    connect: Connect,
    mallory: list[Wire],
    database: psycopg.Connection,
    database_url: str,
    request_of: Callable[[Wire, int], Any],
    refused: list[ErrorCode],
) -> None:
    queue_id = await mallory[0].create_queue("held")
    await mallory[0].ask(packets.Subscribe(mallory[0].number(), [], "held"))
    topic_id = database.execute("SELECT topic_id FROM telesto.topics").fetchone()[0]  # type: ignore[index]
    keys = (f"put_lock_key({queue_id})", f"take_lock_key({queue_id})", f"topic_lock_key({topic_id})")
    async with holding(database_url, *keys) as watcher:
        answers = [wire.send(request_of(wire, queue_id)) for wire in mallory]
        await until_blocked(watcher)
        async with asyncio.timeout(SHORT_S):
            alice = await (await logged_in(server, connect, "alice")).register()
            await (await logged_in(server, connect, "alice")).identify(alice.client_id)
        alice = await (await logged_in(server, connect, "alice")).register()
        async with asyncio.timeout(SHORT_S):
            await do_all(alice, "other")
        assert not any(answer.done() for answer in answers)
    # What waited was neither lost nor done twice.
    if request_of is _wait:
        for _ in mallory:
            await alice.put_one(queue_id)
    done = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE_S)
    wrong = [answer.code for answer in done if isinstance(answer, packets.Error)]
    assert wrong == refused
    if request_of is _put:
        assert len(await alice.read_now(queue_id, max_messages=2 * MANY)) == MANY


async def test_consumers_of_other_queues_are_served(
    server: MiddlewareServer, connect: Connect, mallory: list[Wire], database_url: str
) -> None:
    queue_id = await mallory[0].create_queue("held")
    members = [await join(wire, queue_id) for wire in mallory]
    alice = await (await logged_in(server, connect, "alice")).register()
    async with holding(database_url, f"take_lock_key({queue_id})"):
        for wire in mallory:
            await wire.put_one(queue_id)
        async with asyncio.timeout(SHORT_S):
            await do_all(alice, "other")
        assert all(member.wire.unasked.empty() for member in members)
    await until(lambda: server.consumers.held == MANY)


async def test_consumers_leave_and_keep_leases_of_other_queues(
    server: MiddlewareServer, connect: Connect, mallory: list[Wire], database_url: str
) -> None:
    queue_id = await mallory[0].create_queue("held")
    members = [await join(wire, queue_id) for wire in mallory for _ in range(3)]
    alice = await (await logged_in(server, connect, "alice")).register()
    other_id = await alice.create_queue("other", lease_ms=1_000)
    # One message that waits at its consumer, whose lease has to be extended, and one that comes back.
    answer = await alice.ask(packets.JoinQueue(other_id, 1, 0))
    keeping = Member(alice, answer.consumer_id)
    await alice.put_one(other_id, body=b"kept")
    assert await keeping.bodies(1) == [b"kept"]
    async with holding(database_url, f"take_lock_key({queue_id})"):
        left = [member.wire.send(packets.LeaveQueue(member.consumer_id)) for member in members[::2]]
        for wire in mallory[len(mallory) // 2 :]:
            await wire.close()
        for _ in range(15):
            async with asyncio.timeout(SHORT_S):
                assert isinstance(await alice.ask(packets.Ping()), packets.Pong)
                answer = await alice.ask(packets.JoinQueue(other_id, 1, 0))
                await alice.put_one(other_id, body=b"back")
                assert await Member(alice, answer.consumer_id).bodies(1) == [b"back"]
                await alice.ask(packets.LeaveQueue(answer.consumer_id))
                answer = await alice.ask(packets.JoinQueue(other_id, 1, 0))
                again = Member(alice, answer.consumer_id)
                assert await again.bodies(1) == [b"back"]
                assert await again.ack(b"back") == [None]
                await alice.ask(packets.LeaveQueue(answer.consumer_id))
            await asyncio.sleep(0.1)
        assert await keeping.ack(b"kept") == [None]
    for each in left[: len(left) // 2]:
        await asyncio.wait_for(each, PATIENCE_S)
    with psycopg.connect(database_url, autocommit=True) as database:
        consumers = "SELECT count(*) FROM telesto.consumers WHERE queue_id = %s"
        remaining = len(members) // 4

        def ended() -> bool:
            return database.execute(consumers, (queue_id,)).fetchone() == (remaining,)

        await until(ended)


async def test_what_is_put_by_sql_into_other_queues_arrives(
    server: MiddlewareServer,
    connect: Connect,
    mallory: list[Wire],
    database: psycopg.Connection,
    database_url: str,
) -> None:
    queue_id = await mallory[0].create_queue("held")
    alice = await (await logged_in(server, connect, "alice")).register()
    other_id = await alice.create_queue("other")
    async with holding(database_url, f"take_lock_key({queue_id})") as watcher:
        await mallory[0].put_one(queue_id, delay_ms=1)
        await until_blocked(watcher)  # a job waits: the message is due
        waiting = alice.read(other_id, wait_ms=FOREVER_MS)
        for _ in range(TIMES):
            database.execute("SELECT telesto.put('other', %s)", (b"x",))
            answer = await asyncio.wait_for(waiting, SHORT_S)
            assert [message.body for message in answer.messages] == [b"x"]
            waiting = alice.read(other_id, wait_ms=FOREVER_MS)


async def test_a_name_that_is_being_registered_in_sql_keeps_nobody_out(
    server: MiddlewareServer, connect: Connect, mallory: list[Wire], database_url: str
) -> None:
    await mallory[0].create_queue("held")
    holder = await asyncpg.connect(database_url)
    try:
        await holder.execute("BEGIN")
        await holder.execute(
            "INSERT INTO telesto.clients (client_id, session, mode, name) VALUES (999, 1, 1, 'held')"
        )
        wires = [await logged_in(server, connect, "mallory") for _ in range(MANY)]
        answers = [wire.send(packets.RegisterClient("held", FULL, bytes(16))) for wire in wires]
        async with asyncio.timeout(SHORT_S):
            await (await logged_in(server, connect, "alice")).register()
        assert not any(answer.done() for answer in answers)
    finally:
        await holder.close()
    done = await asyncio.wait_for(asyncio.gather(*answers), PATIENCE_S)
    assert sum(isinstance(answer, packets.RegisterClientResponse) for answer in done) >= 1


@pytest.mark.parametrize("method", ["purge_queue_numbered", "settle_letters_numbered"])
@pytest.mark.settings(purge_rows=2)
async def test_a_lock_between_the_parts_of_a_request_delays_it_only(
    server: MiddlewareServer,
    wire: Wire,
    queue_id: int,
    monkeypatch: pytest.MonkeyPatch,
    database: psycopg.Connection,
    method: str,
) -> None:
    for _ in range(5):
        await wire.put_one(queue_id)
    packet: Any = packets.PurgeQueue(wire.number(), [], queue_id)
    if method == "settle_letters_numbered":
        assert len(await wire.read_now(queue_id, max_messages=5)) == 5
        database.execute("SELECT telesto.bury_deliveries(%s, clock_timestamp(), 9)", (wire.client_id,))
        packet = packets.RedriveDeadLetters(wire.number(), [], queue_id, [])
    call, met = DatabaseConnection.call, 0

    async def locked_often(connection: DatabaseConnection, sql: str, *arguments: Any) -> Any:
        nonlocal met
        if f"telesto.{method}(" in sql:
            met += 1
            if met % 3:
                raise RefusedError(LOCKED_SQLSTATE, "test")
        return await call(connection, sql, *arguments)

    monkeypatch.setattr(DatabaseConnection, "call", locked_often)
    answer = await wire.ask(packet)
    assert getattr(answer, "removed", None) or answer.redriven == 5
    assert met >= 9
    await until(lambda: server.budget.requests == 0)
    left = await wire.read_now(queue_id, max_messages=10)
    assert len(left) == (0 if method == "purge_queue_numbered" else 5)
