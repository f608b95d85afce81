"""Waiting reads on live middlewares: within one, and across two."""

import asyncio
import json
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from locks import locked, until_blocked
from telesto.middleware.common import logs
from telesto.middleware.database.connections import DatabaseConnections
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import FOREVER_MS, PATIENCE_S, Wire, read, until

LONG_MS = 60_000
LISTENERS = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE application_name = 'telesto listen' AND datname = current_database()"
)


async def until_waiting(server: MiddlewareServer, count: int) -> None:
    """Returns when so many reads are parked, and others would tell of puts."""
    await until(lambda: server.room.parked == count and not server.room.unregistered)


async def until_know_each_other(*servers: MiddlewareServer) -> None:
    """Returns when all middlewares know that the others are there."""

    def known() -> bool:
        for server in servers:
            server.registry.poke()
        return all(len(server.peers.others) == len(servers) - 1 for server in servers)

    await until(known)


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_waiting_read_gets_what_comes(connect: Connect, server: MiddlewareServer) -> None:
    reader, writer = await connect(server), await connect(server)
    await reader.register()
    await writer.register()
    queue_id = await writer.create_queue()
    for wait_ms in (LONG_MS, FOREVER_MS):
        answer = reader.read(queue_id, wait_ms=wait_ms)
        await until_waiting(server, 1)
        await writer.put_one(queue_id, body=b"late")
        assert [message.body for message in (await answer).messages] == [b"late"]


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_waiting_read_does_not_hold_up_its_connection(wire: Wire) -> None:
    queue_id, other_queue = await wire.create_queue(), await wire.create_queue()
    answer = wire.read(queue_id, wait_ms=LONG_MS)
    assert await wire.put_one(other_queue)
    assert len(await wire.read_now(other_queue)) == 1
    assert await wire.put_one(queue_id, body=b"own")
    assert [message.body for message in (await answer).messages] == [b"own"]


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_first_come_first_served(connect: Connect, server: MiddlewareServer) -> None:
    writer = await (await connect(server)).register()
    queue_id = await writer.create_queue()
    answers = []
    for count in range(1, 6):
        reader = await (await connect(server)).register()
        answers.append(reader.read(queue_id, wait_ms=LONG_MS))
        await until_waiting(server, count)
    for number in range(5):
        await writer.put_one(queue_id, body=b"%d" % number)
        assert (await answers[number]).messages[0].body == b"%d" % number


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_response_wakes_who_asked(connect: Connect, server: MiddlewareServer) -> None:
    asker, other, responder = [await (await connect(server)).register() for _ in range(3)]
    queue_id = await responder.create_queue()
    response = asker.send(packets.ReadResponse(asker.number(), [], queue_id, 7, LONG_MS))
    plain = other.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 2)
    await responder.put_one(queue_id, receiver_id=asker.client_id, context=6)
    await responder.put_one(queue_id, receiver_id=asker.client_id, context=7, body=b"yes")
    assert [message.body for message in (await response).messages] == [b"yes"]
    assert not plain.done()
    await responder.put_one(queue_id, body=b"for anyone")
    assert [message.body for message in (await plain).messages] == [b"for anyone"]


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_reader_with_conditions_leaves_the_message_to_others(
    connect: Connect, server: MiddlewareServer
) -> None:
    choosy, by_time, writer = [await (await connect(server)).register() for _ in range(3)]
    queue_id = await writer.create_queue()
    never = choosy.read(queue_id, wait_ms=LONG_MS, sender_id=choosy.client_id)
    await until_waiting(server, 1)
    answer = by_time.read(queue_id, wait_ms=LONG_MS, mode=packets.ReadMode.TIME)
    await until_waiting(server, 2)
    await writer.put_one(queue_id, body=b"x")
    assert [message.body for message in (await answer).messages] == [b"x"]
    assert not never.done()


async def test_time_runs_out(wire: Wire, queue_id: int) -> None:
    assert await wire.read_now(queue_id, wait_ms=20) == []


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_cancelled_read_takes_nothing(server: MiddlewareServer, wire: Wire, queue_id: int) -> None:
    answer = wire.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 1)
    cancel = packets.CancelRequest(answer.packet_id)  # type: ignore[attr-defined]
    assert (await wire.ask(cancel)).cancelled
    assert (await answer).messages == []
    assert not (await wire.ask(cancel)).cancelled
    assert not (await wire.ask(packets.CancelRequest(4_711))).cancelled
    await wire.put_one(queue_id)
    assert len(await wire.read_now(queue_id)) == 1


async def test_a_read_is_cancelled_before_its_turn(wire: Wire, queue_id: int) -> None:
    first = wire.put(queue_id)
    answer = wire.read(queue_id, wait_ms=LONG_MS)
    cancelled = wire.send(packets.CancelRequest(answer.packet_id))  # type: ignore[attr-defined]
    # All three come in one piece, so the read has not had its turn when it is cancelled.
    assert (await cancelled).cancelled
    assert (await answer).messages == []
    assert (await first).results[0].error is None
    assert len(await wire.read_now(queue_id)) == 1


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_read_that_is_being_executed_is_not_cancelled_and_does_not_park(
    server: MiddlewareServer, wire: Wire, queue_id: int, database_url: str
) -> None:
    async with locked(database_url, queue_id, "take_lock_key") as watcher:
        answer = wire.read(queue_id, wait_ms=LONG_MS)
        await until_blocked(watcher)
        assert not (await wire.ask(packets.CancelRequest(answer.packet_id))).cancelled  # type: ignore[attr-defined]
    assert (await answer).messages == []
    assert server.room.parked == 0


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_packet_id_waits_once(server: MiddlewareServer, wire: Wire, queue_id: int) -> None:
    answer = wire.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 1)
    wire.write(read(wire.number(), queue_id, wait_ms=LONG_MS).encode(answer.packet_id))  # type: ignore[attr-defined]
    assert (await answer).code == ErrorCode.UNEXPECTED_PACKET
    assert server.room.parked == 1


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_the_reads_of_a_lost_connection_take_nothing(
    connect: Connect, server: MiddlewareServer
) -> None:
    gone, reader, writer = [await (await connect(server)).register() for _ in range(3)]
    queue_id = await writer.create_queue()
    for _ in range(3):
        gone.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 3)
    answer = reader.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 4)
    await gone.close()
    await until_waiting(server, 1)
    await writer.put_one(queue_id)
    assert len((await answer).messages) == 1


async def test_readers_learn_that_their_queue_is_deleted(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    here, there = await start_middleware(), await start_middleware()
    wire, far = await connect(here), await connect(there)
    await wire.register()
    await far.register()
    queue_id = await wire.create_queue()
    answers = [wire.read(queue_id, wait_ms=LONG_MS), far.read(queue_id, wait_ms=LONG_MS)]
    await until_waiting(here, 1)
    await until_waiting(there, 1)
    assert isinstance(await wire.ask(packets.DeleteQueue(wire.number(), [], queue_id)), packets.Success)
    for answer in answers:
        assert (await answer).code == ErrorCode.QUEUE_NOT_EXISTING


@pytest.mark.settings(max_waiting_reads=1)
async def test_waiting_is_bounded(server: MiddlewareServer, wire: Wire, queue_id: int) -> None:
    wire.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 1)
    assert (await wire.read(queue_id, wait_ms=LONG_MS)).code == ErrorCode.OVERLOADED


async def test_a_put_through_another_middleware_wakes(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    here, there = [await start_middleware(wake_sweep_s=3_600) for _ in range(2)]
    await until_know_each_other(here, there)
    reader, writer = await connect(here), await connect(there)
    await reader.register()
    await writer.register()
    queue_id = await writer.create_queue()
    answer = reader.read(queue_id, wait_ms=LONG_MS)
    response = reader.send(packets.ReadResponse(reader.number(), [], queue_id, 7, LONG_MS))
    await until_waiting(here, 2)
    await writer.put_one(queue_id, body=b"far")
    assert [message.body for message in (await answer).messages] == [b"far"]
    await writer.put_one(queue_id, receiver_id=reader.client_id, context=7, body=b"response")
    assert [message.body for message in (await response).messages] == [b"response"]


@pytest.mark.settings(wake_sweep_s=0.05)
async def test_what_nobody_told_of_is_found(
    connect: Connect, server: MiddlewareServer, database_url: str
) -> None:
    reader = await (await connect(server)).register()
    queue_id = await reader.create_queue()
    answer = reader.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 1)
    await put_past_the_middleware(database_url, reader, queue_id)
    assert len((await answer).messages) == 1


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_what_came_while_nobody_listened_is_found(
    connect: Connect, server: MiddlewareServer, database_url: str
) -> None:
    reader = await (await connect(server)).register()
    queue_id = await reader.create_queue()
    answer = reader.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(server, 1)
    await put_past_the_middleware(database_url, reader, queue_id)
    connection = await asyncpg.connect(database_url)
    await connection.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = 'telesto listen' AND datname = current_database()"
    )
    await connection.close()
    assert len((await answer).messages) == 1


async def put_past_the_middleware(database_url: str, wire: Wire, queue_id: int) -> None:
    connection = await asyncpg.connect(database_url)
    rows = await connection.fetch(
        "SELECT * FROM telesto.put_batch(ARRAY[$1::bigint], ARRAY[$2::bigint], ARRAY[0::bigint], "
        "ARRAY[49::smallint], ARRAY[1], ARRAY[$3::bigint], ARRAY[0::bigint], ARRAY[5::smallint], "
        "ARRAY[NULL::bigint], ARRAY[''::bytea], '{}', '{}', '{}')",
        wire.client_id,
        wire.session,
        queue_id,
    )
    assert rows[0]["errors"] is None
    await connection.close()


async def test_many_readers_and_writers_lose_nothing(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    servers = [await start_middleware() for _ in range(2)]
    await until_know_each_other(*servers)
    wires = [await (await connect(servers[number % 2])).register() for number in range(8)]
    queue_id = await wires[0].create_queue()
    readers, writers = wires[:5], wires[5:]
    expected = {b"%d-%d" % (writer.client_id, number) for writer in writers for number in range(40)}
    taken: list[bytes] = []
    complete = asyncio.Event()

    async def consume(wire: Wire) -> None:
        while True:
            for message in (await wire.read(queue_id, wait_ms=LONG_MS, max_messages=3)).messages:
                taken.append(message.body)
            if len(taken) >= len(expected):
                complete.set()

    async def produce(wire: Wire) -> None:
        for number in range(40):
            await wire.put_one(queue_id, body=b"%d-%d" % (wire.client_id, number))

    tasks = [asyncio.create_task(consume(reader)) for reader in readers]
    await asyncio.gather(*(produce(writer) for writer in writers))
    async with asyncio.timeout(PATIENCE_S):
        await complete.wait()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert sorted(taken) == sorted(expected)


class EndedConnection:
    """A connection that its server ended before anything could be asked of it."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def add_termination_listener(self, _callback: object) -> None:
        pass

    async def add_listener(self, _channel: str, _callback: object) -> None:
        raise self._error

    def terminate(self) -> None:
        pass


LISTENING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'telesto listen' AND query LIKE 'LISTEN%'"
)


@pytest.mark.parametrize(
    "error",
    [
        OSError("reset"),
        TimeoutError(),
        asyncpg.AdminShutdownError("terminating connection"),
        asyncpg.InterfaceError("connection is closed"),
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
    ],
)
async def test_a_listener_whose_new_connection_is_ended_makes_another(
    start_middleware: StartMiddleware,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    database_url: str,
    error: Exception,
) -> None:
    logs.configure("warning", json=True)
    connections = [EndedConnection(error)]
    connect = DatabaseConnections.connect_listener

    async def connect_or_end(links: DatabaseConnections, name: str) -> Any:
        return connections.pop() if connections else await connect(links, name)

    monkeypatch.setattr(DatabaseConnections, "connect_listener", connect_or_end)
    await start_middleware(wake_sweep_s=0.05)
    watcher = await asyncpg.connect(database_url)
    await until(lambda: watcher.fetchval(LISTENING))
    await watcher.close()
    log = capsys.readouterr().err
    assert "background_work_failed" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("channel", ["telesto_wake", "telesto_users"])
@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_flood_of_notifications_holds_nobody_up(
    start_middleware: StartMiddleware,
    connect: Connect,
    database_url: str,
    capsys: pytest.CaptureFixture[str],
    channel: str,
) -> None:
    """Whoever may log in to the database can send them."""
    logs.configure("warning", json=True)
    one, other = await start_middleware(), await start_middleware()
    await until_know_each_other(one, other)
    reader, writer = await connect(one), await connect(other)
    await reader.register()
    await writer.register()
    queue_id = await writer.create_queue()
    flooder = await asyncpg.connect(database_url)
    flood = "SELECT pg_notify($1, 'what ' || i) FROM generate_series(1, 100000) AS i"
    for _ in range(3):
        await flooder.execute(flood, channel)
        await writer.put_one(queue_id)
        assert len(await reader.read_now(queue_id)) == 1
    await asyncio.sleep(1.2)
    told = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert "too_many_notifications" in told
    assert len(told) < 20

    async def both_listen() -> bool:
        return await flooder.fetchval(LISTENERS) == 2

    await until(both_listen)
    await flooder.close()
    answer = reader.read(queue_id, wait_ms=LONG_MS)
    await until_waiting(one, 1)
    await writer.put_one(queue_id, body=b"late")
    assert [message.body for message in (await answer).messages] == [b"late"]
