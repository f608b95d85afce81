"""What runs beside the requests: the admin port, the registry, the jobs, the start."""

import asyncio
import dataclasses
import platform
import socket
from ipaddress import ip_address

import asyncpg
import psycopg
import pytest

from admin_port import fetch, health
from conftest import QUICK, Connect, StartMiddleware
from members import join
from telesto.db.schema import SchemaTooOldError
from telesto.middleware.common import listening, logs
from telesto.middleware.common.settings import FRAME_OVERHEAD_BYTES, ServerSettings
from telesto.middleware.execution.batch_worker import BatchEffects
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.version import VERSION
from test_mw_wake_ups import until_know_each_other, until_waiting
from wire import PATIENCE_S, Wire, until


@pytest.mark.parametrize(("bound", "warnings"), [(65_536, 0), (65_537, 1)])
async def test_the_start_tells_of_sql_bodies_that_no_frame_holds(
    database_url: str,
    start_middleware: StartMiddleware,
    capsys: pytest.CaptureFixture[str],
    bound: int,
    warnings: int,
) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE telesto.installation SET max_body_bytes = %s", (bound,))
    logs.configure("warning", json=True)
    await start_middleware(max_frame=65_536 + FRAME_OVERHEAD_BYTES, max_body_bytes=0)
    assert capsys.readouterr().err.count("sql_bodies_too_long") == warnings


@pytest.mark.settings(admin_port=0)
async def test_metrics_and_health_are_served(server: MiddlewareServer, wire: Wire, queue_id: int) -> None:
    for _ in range(3):
        await wire.put_one(queue_id)
    wire.read(await wire.create_queue(), wait_ms=60_000)
    await until_waiting(server, 1)
    await wire.ask(packets.GetQueueName(0))
    status, body = await fetch(server.admin_address, b"GET /metrics HTTP/1.1\r\n\r\n")
    lines = body.decode().splitlines()
    assert status == 200
    for line in (
        'telesto_requests_total{kind="put"} 3.0',
        'telesto_refused_total{code="12"} 1.0',
        "telesto_waiting_reads 1.0",
        "telesto_connections 1.0",
        "telesto_requests_under_way 0.0",
        "telesto_database_up 1.0",
        "telesto_standby_confirms 1.0",
        f'telesto_build_info{{python="{platform.python_version()}",version="{VERSION}"}} 1.0',
    ):
        assert line in lines
    assert any(line.startswith("process_resident_memory_bytes ") for line in lines)
    assert await fetch(server.admin_address, b"GET /readyz HTTP/1.1\r\n\r\n") == (200, b"ready\n")


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /other HTTP/1.1\r\n\r\n", 404),
        (b"POST /metrics HTTP/1.1\r\n\r\n", 405),
        (b"nonsense\r\n\r\n", 405),
        (b"x" * 20_000, 0),
    ],
)
@pytest.mark.settings(admin_port=0)
async def test_the_admin_port_refuses_all_else(
    server: MiddlewareServer, request_: bytes, status: int
) -> None:
    try:
        assert (await fetch(server.admin_address, request_))[0] == status
    except ConnectionError:
        assert status == 0
    assert (await fetch(server.admin_address, b"GET /livez HTTP/1.1\r\n\r\n"))[0] == 200


@pytest.mark.settings(admin_port=0)
async def test_a_middleware_that_stops_is_alive_but_not_ready(server: MiddlewareServer) -> None:
    # What is under way holds up the stop.
    server.budget.enter(1, 0)
    server.request_stop()
    assert await health(server, "/readyz") == (503, ["not ready: it stops"])
    assert await health(server, "/livez") == (200, ["alive"])
    server.budget.leave(1, 0)


@pytest.mark.settings(admin_port=0, max_consumers=2)
async def test_a_middleware_is_not_ready_while_a_budget_is_used_up(
    server: MiddlewareServer, connect: Connect
) -> None:
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    await join(wire, queue_id)
    assert await health(server, "/readyz") == (200, ["ready"])
    await join(wire, queue_id)
    assert await health(server, "/readyz") == (
        503,
        ["not ready: used up: consumers, 2 of 2", "nearly used up: consumers, 2 of 2"],
    )
    assert (await health(server, "/livez"))[0] == 200


async def test_the_backends_of_a_silent_middleware_are_ended(
    connect: Connect, start_middleware: StartMiddleware, database_url: str
) -> None:
    silent = await start_middleware(heartbeat_interval_s=3_600, heartbeat_timeout_s=7_200)
    wire = await (await connect(silent)).register()
    queue_id = await wire.create_queue()
    answer = wire.read(queue_id, wait_ms=60_000)
    await until_waiting(silent, 1)
    was, pids = silent.peers.middleware_id, set(silent.database.pids())
    connection = await asyncpg.connect(database_url)
    known = "SELECT pids @> $1::int[] FROM telesto.middlewares WHERE middleware_id = $2"
    await until(lambda: connection.fetchval(known, list(pids), was))

    other = await start_middleware()
    await connection.execute("SELECT * FROM telesto.heartbeat($1, '{}', 0)", other.peers.middleware_id)
    await until(lambda: not pids.intersection(silent.database.pids()))

    # It goes on: registers anew, with what its reads wait for, and serves.
    silent.registry.poke()
    await until(lambda: silent.peers.middleware_id != was)
    await until_know_each_other(silent, other)
    await until_waiting(silent, 1)
    writer = await (await connect(other)).register()
    await writer.put_one(queue_id)
    assert len((await answer).messages) == 1
    await connection.close()


@pytest.mark.settings(wake_sweep_s=3_600, staged_interval_s=0.02)
async def test_staged_messages_are_placed_and_wake_readers(
    server: MiddlewareServer, wire: Wire, queue_id: int, database_url: str
) -> None:
    answer = wire.read(queue_id, wait_ms=60_000)
    await until_waiting(server, 1)
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO telesto.staged_messages (queue_id, sender_id, receiver_id, priority, body) "
            "VALUES ($1, $2, 0, 5, 'staged')",
            queue_id,
            wire.client_id,
        )
    await connection.close()
    assert [message.body for message in (await answer).messages] == [b"staged"]


@pytest.mark.settings(sweep_interval_s=0.02, sweep_rows=3)
async def test_the_messages_of_deleted_queues_are_removed(
    wire: Wire, queue_id: int, database_url: str
) -> None:
    for answer in [wire.put(queue_id) for _ in range(10)]:
        await answer
    await wire.ask(packets.DeleteQueue(wire.number(), [], queue_id))
    connection = await asyncpg.connect(database_url)
    await until(lambda: connection.fetchval("SELECT count(*) = 0 FROM telesto.messages"))
    await connection.close()


@pytest.mark.settings(sweep_interval_s=0.02, retention_s=0.05)
async def test_what_stays_unconfirmed_too_long_is_dead(wire: Wire, queue_id: int, database_url: str) -> None:
    await wire.put_one(queue_id, body=b"dead")
    assert len(await wire.read_now(queue_id)) == 1
    connection = await asyncpg.connect(database_url)
    await until(lambda: connection.fetchval("SELECT count(*) = 1 FROM telesto.dead_letters"))
    assert await connection.fetchval("SELECT body FROM telesto.dead_letters") == b"dead"
    await connection.close()


async def test_a_start_without_a_database_gives_up_in_time() -> None:
    values = QUICK | {"database_url": "postgresql://127.0.0.1:1/none", "database_start_s": 0.2}
    server = MiddlewareServer(ServerSettings.load(**values))
    with pytest.raises(psycopg.OperationalError):
        await server.start()


async def test_a_start_without_a_schema_names_the_command(empty_database_url: str) -> None:
    server = MiddlewareServer(ServerSettings.load(**QUICK | {"database_url": empty_database_url}))
    with pytest.raises(SchemaTooOldError, match="telesto db upgrade"):
        await server.start()


async def test_an_address_in_use_is_named(
    start_middleware: StartMiddleware, server: MiddlewareServer
) -> None:
    host, port = server.address
    with pytest.raises(OSError, match=f"{host}:{port}"):
        await start_middleware(port=port)


async def test_peers_are_told_in_hello(connect: Connect, start_middleware: StartMiddleware) -> None:
    one = await start_middleware(advertised_address="one.example:7001")
    two = await start_middleware(advertised_address="two.example:7001")
    await until_know_each_other(one, two)
    assert (await (await connect(one)).hello()).addresses == ["two.example:7001"]
    assert dataclasses.asdict(one.peers)["others"] == {two.peers.middleware_id: "two.example:7001"}


@pytest.mark.parametrize(
    ("settings", "address", "told"),
    [
        ({}, ("127.0.0.1", 7001), "127.0.0.1:7001"),
        ({}, ("::1", 7001), "[::1]:7001"),
        ({}, ("0.0.0.0", 7001), "10.1.2.3:7001"),
        ({}, ("::", 7001), "10.1.2.3:7001"),
        ({"advertised_address": "mq.example:80"}, ("0.0.0.0", 7001), "mq.example:80"),
    ],
)
def test_others_are_told_an_address_they_can_use(
    settings: dict[str, str], address: tuple[str, int], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listening, "outbound_host", lambda **_: "10.1.2.3")
    assert listening.advertised(ServerSettings.load(**settings), address) == told


@pytest.mark.settings(host="0.0.0.0", insecure=True)
async def test_one_that_listens_everywhere_tells_an_address_of_its_own(
    server: MiddlewareServer, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    told = await connection.fetchval("SELECT address FROM telesto.middlewares")
    await connection.close()
    host, _, port = told.rpartition(":")
    assert int(port) == server.address[1]
    if listening.outbound_host(with_ipv6=False) is not None:
        assert not ip_address(host).is_loopback
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    await writer.wait_closed()


def test_without_a_way_out_the_name_is_told_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("warning", json=True)
    monkeypatch.setattr(listening, "outbound_host", lambda **_: None)
    told = listening.advertised(ServerSettings(), ("0.0.0.0", 7001))
    assert told == f"{socket.gethostname()}:7001"
    assert "set advertised_address" in "".join(capsys.readouterr())


@pytest.mark.settings(shutdown_limit_s=0.05)
async def test_a_middleware_whose_worker_fails_ends(
    server: MiddlewareServer, wire: Wire, queue_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:

    def fail(*_arguments: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(BatchEffects, "after", fail)
    wire.put(queue_id)
    await asyncio.wait_for(server.wait_closed(), PATIENCE_S)
    await wire.closed()
