"""The database goes away: what was under way is in doubt, nothing is tried twice, and it goes on after."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import pytest
from asyncpg.prepared_stmt import PreparedStatement

from admin_port import health
from conftest import Connect
from locks import locked, until_blocked
from telesto.middleware.common.failures import STALE_SQLSTATE, LostError, RefusedError, UnavailableError
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.database.primary import Epoch, Primary
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import PATIENCE_S, Wire, until


async def end_backends(watcher: asyncpg.Connection, name: str) -> None:
    await watcher.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name LIKE $1 AND datname = current_database()",
        f"telesto {name}",
    )


async def test_a_lost_call_is_in_doubt_and_the_next_one_works(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int, database_url: str
) -> None:
    async with locked(database_url, queue_id) as watcher:
        answers = [wire.put(queue_id) for _ in range(3)]
        await until_blocked(watcher)
        await end_backends(watcher, "put%")
        first = await answers[0]
        assert (first.code, first.error_class) == (ErrorCode.IO_ERROR, ErrorClass.IN_DOUBT)
    # What was sent behind it must not overtake it, should it have to be sent again.
    refused = [await answer for answer in answers[1:]]
    assert {answer.error_class for answer in refused} <= {ErrorClass.IN_DOUBT, ErrorClass.RETRYABLE}
    wire.resume()
    assert await wire.put_one(queue_id)
    await wire.close()
    takeover = await (await connect(server)).identify(wire.client_id)
    listed = {operation.number for operation in takeover.operations}
    assert 2 not in listed
    assert server.database.lost_count == 1


async def test_reads_and_lookups_in_flight_are_in_doubt_too(
    wire: Wire, queue_id: int, database_url: str
) -> None:
    await wire.put_one(queue_id)
    async with locked(database_url, queue_id, "take_lock_key") as watcher:
        answer = wire.read(queue_id, wait_ms=60_000)
        await until_blocked(watcher)
        await end_backends(watcher, "take%")
        assert (await answer).error_class is ErrorClass.IN_DOUBT
    wire.resume()
    assert len(await wire.read_now(queue_id)) == 1


async def test_every_connection_is_made_again(wire: Wire, queue_id: int, database_url: str) -> None:
    await wire.put_one(queue_id)
    watcher = await asyncpg.connect(database_url)
    await end_backends(watcher, "%")
    await watcher.close()
    await until_done(wire, packets.GetQueueName(queue_id))
    await until_taken(wire, queue_id)

    async def read_something() -> bool:
        return bool(getattr(await wire.read(queue_id), "messages", None))

    await until(read_something)


async def until_done(wire: Wire, packet: packets.Packet) -> None:
    async def done() -> bool:
        return not isinstance(await wire.ask(packet), packets.Error)

    await until(done)


async def until_taken(wire: Wire, queue_id: int) -> None:
    async def taken() -> bool:
        wire.resume()
        return not isinstance(await wire.put(queue_id), packets.Error)

    await until(taken)


async def test_without_a_database_requests_are_refused_at_once(
    wire: Wire, queue_id: int, postgres_url: str, database_url: str
) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    codes = [(await wire.put(queue_id)).code for _ in range(3)]
    assert codes[1:] == [ErrorCode.DATABASE_UNAVAILABLE] * 2
    lookup = await wire.ask(packets.GetQueueName(queue_id))
    assert lookup.code in (ErrorCode.DATABASE_UNAVAILABLE, ErrorCode.IO_ERROR)
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await admin.close()
    await until_done(wire, packets.GetQueueName(queue_id))
    await until_taken(wire, queue_id)


@pytest.mark.settings(admin_port=0, heartbeat_interval_s=0.2, heartbeat_timeout_s=1.0)
async def test_without_a_database_a_middleware_is_alive_but_not_ready(
    server: MiddlewareServer, postgres_url: str, database_url: str
) -> None:
    async def unready() -> bool:
        return await health(server, "/readyz") == (503, ["not ready: the database cannot be reached"])

    async def ready() -> bool:
        return await health(server, "/readyz") == (200, ["ready"])

    await until(ready)
    name = database_url.rpartition("/")[2].partition("?")[0]
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    await until(unready)
    assert await health(server, "/livez") == (200, ["alive"])
    assert server.counters.gauge("database_up") == 0
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await admin.close()
    await until(ready)
    assert server.counters.gauge("database_up") == 1


@asynccontextmanager
async def link_to(database_url: str) -> AsyncIterator[DatabaseConnection]:
    link = DatabaseConnection("test", Primary(database_url, 5.0, 5_000, Epoch()).connect, 0.01)
    try:
        yield link
    finally:
        await link.close()


@pytest.mark.parametrize("at", ["before", "after"])
async def test_nothing_was_sent_on_a_connection_that_is_dropped_while_a_statement_is_prepared(
    database_url: str, at: str
) -> None:
    """What asyncpg asks for the types of a statement is a call of its own, and it does not look between."""
    drops = ["dropped"]

    class DroppedBeside(asyncpg.Connection):
        async def _introspect_types(self, *arguments: Any) -> Any:
            dropping = drops.copy()
            drops.clear()
            if dropping and at == "before":
                link.drop("dropped")
            found = await super()._introspect_types(*arguments)
            if dropping:
                link.drop("dropped")
            return found

    async def connect(_name: str) -> asyncpg.Connection:
        return await asyncpg.connect(database_url, connection_class=DroppedBeside)

    sql = "SELECT message FROM telesto.messages AS message"
    link = DatabaseConnection("test", connect, 0.01)
    with pytest.raises(UnavailableError):
        await link.call(sql)
    assert await link.call(sql) == []
    await link.close()


async def test_a_link_tells_what_became_of_a_call(database_url: str) -> None:
    async with link_to(database_url) as link:
        assert (await link.call("SELECT $1::int + 1", 1))[0][0] == 2
        for sql, arguments, sqlstate in (
            ("SELECT 1 / $1::int", (0,), "22012"),
            ("SELECT no_such_function()", (), "42883"),
            ("SELECT $1::int", ("text",), "22000"),
            ("SELECT $1::bigint", (1 << 63,), "22000"),
        ):
            with pytest.raises(RefusedError) as refused:
                await link.call(sql, *arguments)
            assert refused.value.sqlstate == sqlstate
        assert link.lost_count == 0
        with pytest.raises(LostError) as lost:
            await link.call("SELECT pg_terminate_backend(pg_backend_pid())")
        assert not lost.value.suspicious
        assert link.pid is None
        assert (await link.call("SELECT 1"))[0][0] == 1


LOCKING = "SELECT pg_try_advisory_xact_lock(4711), n FROM generate_series(1, $1) AS n"
FREE = "SELECT pg_try_advisory_xact_lock(4711)"


async def test_a_call_for_much_ends_its_transaction_before_it_answers(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await asyncpg.connect(database_url)
    async with link_to(database_url) as link:
        free: list[bool] = []
        fetch = PreparedStatement.fetch

        async def watched(statement: Any, *arguments: Any) -> Any:
            rows = await fetch(statement, *arguments)
            free.append(await other.fetchval(FREE))
            return rows

        monkeypatch.setattr(PreparedStatement, "fetch", watched)
        for _ in range(2):
            rows = await link.call_for_much(LOCKING, 1_000)
            assert [row["n"] for row in rows] == list(range(1, 1_001))
        assert free == [True] * 6  # also right after the statement itself, with nothing sent yet
    await other.close()


async def test_a_call_for_much_that_fails_has_done_nothing(database_url: str) -> None:
    async with link_to(database_url) as link:
        await link.call("CREATE TABLE t (a int)")
        body = "INSERT INTO t VALUES (1 / a); SELECT 1"
        await link.call(f"CREATE FUNCTION f(a int) RETURNS int LANGUAGE sql AS '{body}'")
        with pytest.raises(RefusedError) as refused:
            await link.call_for_much("SELECT f($1)", 0)
        assert refused.value.sqlstate == "22012"
        assert [tuple(row) for row in await link.call_for_much("SELECT f($1)", 1)] == [(1,)]
        assert await link.call("SELECT count(*) FROM t") == [(1,)]


async def test_a_call_for_much_whose_answer_is_lost_is_in_doubt(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was done; a cursor that is not there says nothing else."""
    connections = []

    async def connect(_name: str) -> asyncpg.Connection:
        connections.append(await asyncpg.connect(database_url))
        return connections[0]

    fetch = PreparedStatement.fetch

    async def lose(statement: Any, *arguments: Any) -> Any:
        if statement.get_query().startswith("FETCH"):
            await connections[0].execute("CLOSE telesto_answer")
        return await fetch(statement, *arguments)

    monkeypatch.setattr(PreparedStatement, "fetch", lose)
    link = DatabaseConnection("test", connect, 0.01)
    with pytest.raises(LostError):
        await link.call_for_much("SELECT 1")
    assert link.pid is None


async def test_an_error_does_not_tell_the_row(database_url: str) -> None:
    async with link_to(database_url) as link:
        await link.call("CREATE TEMP TABLE t (body text CHECK (body <> 'secret'))")
        with pytest.raises(RefusedError) as refused:
            await link.call("INSERT INTO t VALUES ('secret')")
        assert refused.value.sqlstate == "23514"
        assert "secret" not in str(refused.value)


async def test_a_warning_about_the_commit_leaves_doubt(database_url: str) -> None:
    async with link_to(database_url) as link:
        await link.call("SELECT 1")
        with pytest.raises(LostError):
            await link.call("DO $$ BEGIN RAISE WARNING 'canceling wait for synchronous replication'; END $$")
        await link.call("DO $$ BEGIN RAISE NOTICE 'all is well'; END $$")


async def test_a_warning_that_something_is_locked_is_not_about_the_commit(database_url: str) -> None:
    """VACUUM passes over a table that another middleware vacuums, and says so."""
    async with link_to(database_url) as link, link_to(database_url) as other:
        await link.call("CREATE TABLE vacuumed AS SELECT 1 AS one")
        await other.call("BEGIN")
        await other.call("LOCK TABLE vacuumed IN SHARE UPDATE EXCLUSIVE MODE")
        await link.call("VACUUM (SKIP_LOCKED) vacuumed")
        await other.call("ROLLBACK")


async def test_a_link_has_fixed_settings_and_reads_times_as_microseconds(database_url: str) -> None:
    async with link_to(database_url) as link:
        rows = await link.call(
            "SELECT '1970-01-01 00:00:01.000002Z'::timestamptz, '2000-01-02Z'::timestamptz"
        )
        assert tuple(rows[0]) == (1_000_002, 946_771_200_000_000)
        for setting, value in (
            ("application_name", "test"),
            ("client_min_messages", "warning"),
            ("tcp_user_timeout", "5000"),
            ("transaction_isolation", "read committed"),
        ):
            assert (await link.call("SELECT current_setting($1)", setting))[0][0] == value


async def test_a_replaced_procedure_is_prepared_anew(database_url: str) -> None:
    async with link_to(database_url) as link:
        admin = await asyncpg.connect(database_url)
        await admin.execute("CREATE TABLE t (a int)")
        assert await link.call("SELECT * FROM t") == []
        await admin.execute("ALTER TABLE t ADD b int")
        with pytest.raises(RefusedError) as refused:
            await link.call("SELECT * FROM t")
        assert refused.value.sqlstate == STALE_SQLSTATE
        assert await link.call("SELECT * FROM t") == []
        await admin.close()


async def test_a_link_does_not_hammer_a_database_that_is_gone() -> None:
    attempts = 0

    async def refuse(_name: str) -> None:
        nonlocal attempts
        attempts += 1
        raise OSError("connection refused")

    link = DatabaseConnection("test", refuse, 60.0)
    for _ in range(5):
        with pytest.raises(UnavailableError, match="connection refused"):
            await link.call("SELECT 1")
    assert attempts == 1


@pytest.mark.settings(heartbeat_interval_s=0.1, heartbeat_timeout_s=3)
async def test_a_middleware_that_is_cut_off_sends_its_clients_away(
    connect: Connect,
    server: MiddlewareServer,
    wire: Wire,
    queue_id: int,
    postgres_url: str,
    database_url: str,
) -> None:
    name = database_url.rpartition("/")[2].partition("?")[0]
    admin = await asyncpg.connect(postgres_url)
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
    await admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name)
    goodbye = await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
    assert isinstance(goodbye, packets.GoAway)
    await admin.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    await admin.close()
    assert (await wire.put(queue_id)).code == ErrorCode.SHUTTING_DOWN
    # Whoever comes once the database is back is served, from the next sign of life on.
    await until(lambda: server.database.gate.is_open)
    again = await (await connect(server)).register()
    await until_taken(again, queue_id)
