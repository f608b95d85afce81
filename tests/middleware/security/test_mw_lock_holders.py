"""Applications that hold a queue's lock for too long, whatever limits they set themselves, are ended."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from telesto.middleware.common import logs
from telesto.middleware.server import MiddlewareServer
from wire import PATIENCE_S, Wire, until

LIMIT_MS = 400
NO_LIMITS = "SET LOCAL idle_in_transaction_session_timeout = 0"
NO_LIMITS_17 = "SET LOCAL transaction_timeout = 0"


@pytest.fixture
def database(database: psycopg.Connection) -> psycopg.Connection:
    database.execute("UPDATE telesto.installation SET sql_lock_limit_ms = %s", (LIMIT_MS,))
    return database


@pytest.fixture
def role(database: psycopg.Connection) -> Iterator[str]:
    """A role for an application."""
    name = f"telesto_test_{uuid.uuid4().hex}"
    database.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'hunter2' IN ROLE telesto_application".encode())
    yield name
    database.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


@pytest.fixture
def application(database_url: str, role: str) -> Iterator[psycopg.Connection]:
    parts = urlsplit(database_url)
    url = parts._replace(netloc=f"{role}:hunter2@{parts.netloc.rpartition('@')[2]}").geturl()
    connection = psycopg.connect(url, autocommit=True)
    yield connection
    connection.close()


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    """What was logged of locks since the last time."""
    entries = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    return [entry for entry in entries if entry["event"].startswith("lock_h")]


def _in_a_transaction(application: psycopg.Connection, client_id: int, queue_id: int) -> None:
    """It reads by the procedure for it, and takes the limits away that this has set."""
    application.execute("BEGIN")
    application.execute("SELECT FROM telesto.read_message_by_priority(%s, %s)", (client_id, queue_id))
    application.execute(NO_LIMITS)
    if application.info.server_version >= 170000:
        application.execute(NO_LIMITS_17)


def _by_hand(application: psycopg.Connection, _client_id: int, queue_id: int) -> None:
    """It takes the queue's lock without a procedure of Telesto."""
    application.execute("BEGIN")
    application.execute("SELECT pg_advisory_xact_lock(3::bigint << 56 | %s)", (queue_id,))


def _for_its_session(application: psycopg.Connection, _client_id: int, queue_id: int) -> None:
    """It needs no transaction to hold a lock."""
    application.execute("SELECT pg_advisory_lock(3::bigint << 56 | %s)", (queue_id,))


def _shared(application: psycopg.Connection, _client_id: int, queue_id: int) -> None:
    """It shares the lock with others who do so; whoever wants it alone waits."""
    application.execute("SELECT pg_advisory_lock_shared(3::bigint << 56 | %s)", (queue_id,))


def _of_the_history(application: psycopg.Connection, _client_id: int, _queue_id: int) -> None:
    """While it has this lock no queue is created, and the history gets no new days."""
    application.execute("SELECT pg_advisory_lock(7::bigint << 56)")


@pytest.mark.parametrize("hold", [_in_a_transaction, _by_hand, _for_its_session, _shared, _of_the_history])
async def test_it_is_ended_and_the_log_names_it(
    wire: Wire,
    queue_id: int,
    application: psycopg.Connection,
    role: str,
    capsys: pytest.CaptureFixture[str],
    hold: Callable[[psycopg.Connection, int, int], None],
) -> None:
    logs.configure("warning", json=True)
    await wire.put_one(queue_id)
    pid = application.info.backend_pid
    hold(application, wire.client_id, queue_id)
    assert len(await wire.read_now(queue_id)) == 1

    logged: list[dict[str, Any]] = []

    def told() -> bool:
        logged.extend(lines(capsys))
        return bool(logged)

    await until(told)
    with pytest.raises(psycopg.OperationalError):
        application.execute("SELECT 1")
    (line,) = logged
    assert (line["event"], line["role"]) == ("lock_holder_ended", role)
    assert line["backend"] == pid


async def test_short_transactions_are_not_ended_however_many(
    wire: Wire, queue_id: int, application: psycopg.Connection
) -> None:
    until_s = time.monotonic() + 10 * LIMIT_MS / 1000

    def work() -> None:
        while time.monotonic() < until_s:
            with application.transaction():
                application.execute(
                    "SELECT FROM telesto.read_message_by_priority(%s, %s)", (wire.client_id, queue_id)
                )
                time.sleep(LIMIT_MS / 4000)

    await asyncio.to_thread(work)


async def test_administrators_are_told_of_and_spared(
    server: MiddlewareServer,
    wire: Wire,
    queue_id: int,
    database: psycopg.Connection,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("warning", json=True)
    _by_hand(database, wire.client_id, queue_id)
    logged: list[dict[str, Any]] = []

    def told() -> bool:
        logged.extend(lines(capsys))
        return bool(logged)

    await until(told)
    assert [line["event"] for line in logged] == ["lock_held"]
    await asyncio.sleep(2.5)  # it is told once
    assert lines(capsys) == []
    database.execute("ROLLBACK")


async def test_where_the_owner_may_not_end_it_the_log_says_what_is_missing(
    server: MiddlewareServer,
    wire: Wire,
    queue_id: int,
    database: psycopg.Connection,
    application: psycopg.Connection,
    role: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logs.configure("warning", json=True)
    owner = f"telesto_test_{uuid.uuid4().hex}"
    rights = "ALL ON {} IN SCHEMA telesto"
    database.execute(
        f"CREATE ROLE {owner}; GRANT USAGE, CREATE ON SCHEMA telesto TO {owner};"
        f"GRANT {rights.format('ALL TABLES')} TO {owner}; GRANT {rights.format('ALL FUNCTIONS')} TO {owner};"
        f"ALTER FUNCTION telesto.end_lock_holders OWNER TO {owner}".encode()
    )
    try:
        _in_a_transaction(application, wire.client_id, queue_id)
        logged: list[dict[str, Any]] = []

        def told() -> bool:
            logged.extend(lines(capsys))
            return bool(logged)

        await until(told)
        assert [(line["event"], line["role"]) for line in logged] == [("lock_holder_not_ended", role)]
        assert "pg_signal_backend" in logged[0]["why"]
        application.execute("SELECT 1")
        database.execute(f"GRANT pg_signal_backend TO {owner}".encode())

        def ended() -> bool:
            held = database.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE pid = %s", (application.info.backend_pid,)
            ).fetchone()
            return held == (0,)

        async with asyncio.timeout(PATIENCE_S):
            await until(ended)
    finally:
        database.execute(
            f"ALTER FUNCTION telesto.end_lock_holders OWNER TO CURRENT_USER;"
            f"DROP OWNED BY {owner}; DROP ROLE {owner}".encode()
        )
