"""PostgreSQL's limits for a middleware's sessions, and what a client is told of a call that met one."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from locks import locked
from telesto.db import schema
from telesto.db.embedded.server import EmbeddedServer
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.dsn import session_limits
from telesto.middleware.database.primary import Epoch, Primary
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import PATIENCE_S, Wire, until

WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
CANCEL = (
    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
    "WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
#: Without a limit nothing but the test ends a wait.
NO_LIMITS = {
    "statement_timeout_s": 0,
    "lock_timeout_s": 0,
    "transaction_timeout_s": 0,
    "lock_wait_ms": 600_000,
}


@pytest.fixture
async def admin(database_url: str) -> AsyncIterator[asyncpg.Connection[Any]]:
    """A connection that is no part of the middleware."""
    connection = await asyncpg.connect(database_url)
    yield connection
    await connection.close()


async def answered(answers: list[asyncio.Future[Any]]) -> list[packets.Packet]:
    return await asyncio.wait_for(asyncio.gather(*answers), PATIENCE_S)


async def put_again(wire: Wire, queue_id: int) -> None:
    """The client has seen the refusal and goes on."""
    wire.resume()
    await wire.put_one(queue_id)


@pytest.mark.parametrize(("lock_wait_ms", "lock_timeout"), [(None, "500"), (100, "100"), (900, "500")])
async def test_every_session_has_its_limits(
    database_url: str, lock_wait_ms: int | None, lock_timeout: str
) -> None:
    settings = ServerSettings(statement_timeout_s=2, lock_timeout_s=0.5, transaction_timeout_s=0)
    primary = Primary(database_url, PATIENCE_S, 5_000, Epoch())
    connection = await primary.connect("telesto test", session_limits(settings, lock_wait_ms))
    try:
        rows = await connection.fetch("SELECT name, setting FROM pg_settings WHERE name LIKE '%\\_timeout'")
        version = connection.get_server_version().major
    finally:
        await connection.close()
    found = {row["name"]: row["setting"] for row in rows}
    assert (found["statement_timeout"], found["lock_timeout"]) == ("2000", lock_timeout)
    assert found["idle_in_transaction_session_timeout"] == "60000"
    assert found.get("transaction_timeout") == ("0" if version >= 17 else None)


async def test_a_call_that_an_operator_cancels_was_not_done(
    connect: Connect, start_middleware: StartMiddleware, database_url: str, admin: asyncpg.Connection[Any]
) -> None:
    wire = await (await connect(await start_middleware(**NO_LIMITS))).register()
    queue_id = await wire.create_queue()
    async with locked(database_url, queue_id):
        answers = [wire.put(queue_id) for _ in range(5)]
        await until(lambda: admin.fetchval(WAITING))
        await admin.execute(CANCEL)
        # Parts of the call would wait as the whole did.
        for answer in await answered(answers):
            assert isinstance(answer, packets.Error)
            assert (answer.code, answer.error_class) == (ErrorCode.CALL_CANCELED, ErrorClass.RETRYABLE)
            assert answer.retry_after_ms is not None
    await put_again(wire, queue_id)
    assert len(await wire.read_now(queue_id, max_messages=10)) == 1


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"statement_timeout_s": 1.5}, ErrorCode.CALL_CANCELED),
        ({"transaction_timeout_s": 1.5}, ErrorCode.CALL_CANCELED),
        ({"lock_wait_ms": 100, "busy_limit_s": 1.5}, ErrorCode.OVERLOADED),
    ],
)
async def test_a_call_that_takes_too_long_is_ended_once_for_all_its_requests(
    connect: Connect,
    start_middleware: StartMiddleware,
    database_url: str,
    admin: asyncpg.Connection[Any],
    limits: dict[str, Any],
    code: ErrorCode,
) -> None:
    if "transaction_timeout_s" in limits and admin.get_server_version().major < 17:
        pytest.skip("transaction_timeout is of PostgreSQL 17")
    server = await start_middleware(**(NO_LIMITS | limits))
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    async with locked(database_url, queue_id):
        answers = [wire.put(queue_id) for _ in range(5)]
        assert [answer.code for answer in await answered(answers)] == [code] * 5
    assert server.database.lost_count == 0
    await put_again(wire, queue_id)
    assert len(await wire.read_now(queue_id, max_messages=10)) == 1


async def test_without_a_connection_left_it_is_told(
    connect: Connect, start_middleware: StartMiddleware, database_url: str, admin: asyncpg.Connection[Any]
) -> None:
    user = f"telesto_test_{uuid.uuid4().hex}"
    await admin.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'hunter2' IN ROLE telesto_middleware")
    parts = urlsplit(database_url)
    url = parts._replace(netloc=f"{user}:hunter2@{parts.netloc.rpartition('@')[2]}").geturl()
    try:
        wire = await (await connect(await start_middleware(database_url=url))).register()
        queue_id = await wire.create_queue()
        await admin.execute(f"ALTER ROLE {user} CONNECTION LIMIT 0")
        # The first put of the middleware, for which it has no connection yet.
        answer = await asyncio.wait_for(wire.put(queue_id), PATIENCE_S)
        assert (answer.code, answer.error_class) == (ErrorCode.CONNECTIONS_EXHAUSTED, ErrorClass.RETRYABLE)
        assert answer.retry_after_ms
        await admin.execute(f"ALTER ROLE {user} CONNECTION LIMIT -1")

        async def taken() -> bool:
            wire.resume()
            return not isinstance(await wire.put(queue_id), packets.Error)

        await until(taken)
    finally:
        await admin.execute(f"DROP ROLE {user}")


async def test_no_limit_cuts_the_wait_for_a_standby(
    connect: Connect, start_middleware: StartMiddleware, data_dir: Path
) -> None:
    """It takes as long as the standby is away, and the call was done already."""
    limits = {"statement_timeout_s": 1, "transaction_timeout_s": 2, "lock_timeout_s": 1}
    embedded = EmbeddedServer(data_dir)
    await asyncio.to_thread(embedded.start)
    try:
        await asyncio.to_thread(schema.upgrade, embedded.url)
        server = await start_middleware(database_url=embedded.url, standby_wait_s=0, **limits)
        wire = await (await connect(server)).register()
        queue_id = await wire.create_queue()
        operator = await asyncpg.connect(embedded.url, server_settings={"synchronous_commit": "local"})
        await operator.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        await operator.execute("SELECT pg_reload_conf()")
        await until(lambda: operator.fetchval("SELECT current_setting('synchronous_standby_names') <> ''"))
        answer = wire.put(queue_id)
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' "
            "AND application_name LIKE 'telesto put%' AND clock_timestamp() - xact_start > interval '3 s'"
        )
        await until(lambda: operator.fetchval(waiting))
        assert not answer.done()
        await operator.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await operator.execute("SELECT pg_reload_conf()")
        assert isinstance((await answered([answer]))[0], packets.PutMessageResponse)
        assert server.database.lost_count == 0
        await operator.close()
        server.request_stop()
        await server.wait_closed()
    finally:
        await asyncio.to_thread(embedded.stop)
