"""The start of a middleware whose database goes away between the steps, and in the middle of one."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import psycopg
import pytest

from conftest import Connect, StartMiddleware
from telesto.db import schema
from telesto.middleware.common import logs
from telesto.middleware.database.dsn import Connection
from wire import until


@pytest.fixture
async def admin(postgres_url: str) -> AsyncIterator[Connection]:
    """A connection to another database of the server."""
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


@pytest.fixture
def close_after_check(monkeypatch: pytest.MonkeyPatch, postgres_url: str, database_name: str) -> None:
    """The database takes no connections from the moment on at which its schema has been found to fit."""
    check = schema.require_current

    def check_and_close(url: str) -> Any:
        status = check(url)
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"ALTER DATABASE {database_name} ALLOW_CONNECTIONS false")
        return status

    monkeypatch.setattr(schema, "require_current", check_and_close)


@pytest.fixture
def database_name(database_url: str) -> str:
    """The name of the test's database."""
    return database_url.rpartition("/")[2].partition("?")[0]


@pytest.mark.usefixtures("close_after_check")
async def test_a_database_lost_between_two_steps_is_waited_for(
    admin: Connection,
    connect: Connect,
    start_middleware: StartMiddleware,
    database_name: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("warning", json=True)
    start = asyncio.create_task(start_middleware(database_backoff_s=0.05))
    await until(lambda: "no_database" in capsys.readouterr().err)
    assert not start.done()
    await admin.execute(f"ALTER DATABASE {database_name} ALLOW_CONNECTIONS true")
    await (await connect(await start)).register()


@pytest.mark.usefixtures("close_after_check")
async def test_a_database_that_does_not_come_back_ends_the_start(
    admin: Connection, start_middleware: StartMiddleware, database_name: str
) -> None:
    with pytest.raises(psycopg.OperationalError, match="not currently accepting connections"):
        await start_middleware(database_backoff_s=0.05, database_start_s=0.5)
    await admin.execute(f"ALTER DATABASE {database_name} ALLOW_CONNECTIONS true")


async def test_a_database_lost_in_the_middle_of_a_step_is_waited_for(
    admin: Connection,
    connect: Connect,
    start_middleware: StartMiddleware,
    database_url: str,
    database_name: str,
) -> None:
    blocker = await asyncpg.connect(database_url)
    await blocker.execute("BEGIN; LOCK TABLE telesto.middlewares")
    start = asyncio.create_task(start_middleware(database_backoff_s=0.05))
    terminate = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE datname = $1 AND wait_event_type = 'Lock'"
    )
    await until(lambda: admin.fetchval(terminate, database_name))
    assert not start.done()
    await blocker.close()
    await (await connect(await start)).register()
