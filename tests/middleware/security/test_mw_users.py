"""What a middleware knows of users, and how soon it knows of changes."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable, Iterator

import psycopg
import pytest

from conftest import Connect, StartMiddleware
from logged_in import SOON_S, add_user, logged_in
from logins import ScramLogin
from telesto.middleware.security.users import Right, User
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import Wire, until


async def known(server: MiddlewareServer, name: str) -> User:
    user = await server.users.find(name)
    assert user is not None
    return user


async def test_a_user_is_found_with_its_rights(
    server: MiddlewareServer, database: psycopg.Connection
) -> None:
    add_user(database, "alice", put=["orders-*"], get=["orders-?", "x"], clients=["alice*"])
    assert await server.users.find("bob") is None
    alice = await known(server, "alice")
    assert alice.rights_on("orders-1") == Right.PUT | Right.GET | Right.SEE
    assert alice.rights_on("orders-12") == Right.PUT | Right.SEE
    assert alice.rights_on("x") == Right.GET | Right.SEE
    assert alice.rights_on("y") == Right.NONE
    assert alice.may_be_client("alice-2")
    assert not alice.may_be_client("bob")


async def test_one_object_is_one_user_and_lives_while_it_is_in_use(
    server: MiddlewareServer, database: psycopg.Connection
) -> None:
    add_user(database, "alice")
    alice = await known(server, "alice")
    assert await known(server, "alice") is alice
    first = alice.user_id, id(alice)
    alice.decide(1, "orders")
    del alice
    gc.collect()
    assert not (await known(server, "alice")).decisions, first


async def test_a_change_of_rights_is_known_soon(
    server: MiddlewareServer, database: psycopg.Connection
) -> None:
    add_user(database, "alice", put=["a"])
    alice = await known(server, "alice")
    assert alice.decide(1, "a") == Right.PUT | Right.SEE
    database.execute("UPDATE telesto.users SET put = '{b}', monitor = true")
    await until(lambda: alice.monitor, SOON_S)
    assert not alice.decisions
    assert alice.rights_on("a") == Right.SEE
    assert alice.rights_on("b") == Right.PUT | Right.SEE


async def test_another_password_changes_no_rights(
    server: MiddlewareServer, database: psycopg.Connection
) -> None:
    add_user(database, "alice", put=["a"])
    alice = await known(server, "alice")
    # When a change is noticed the middleware listens; decisions are forgotten when that begins.
    database.execute("UPDATE telesto.users SET get = '{b}'")
    await until(lambda: alice.rights_on("b") == Right.GET | Right.SEE, SOON_S)
    alice.decide(1, "a")
    database.execute("UPDATE telesto.users SET verifier = 'another'")
    await until(lambda: alice.verifier == "another", SOON_S)
    assert alice.decisions == {1: Right.PUT | Right.SEE}


@pytest.mark.parametrize("change", ["DELETE FROM telesto.users", "UPDATE telesto.users SET enabled = false"])
async def test_connections_of_a_user_that_is_gone_end(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection, change: str
) -> None:
    add_user(database, "alice", clients=["*"])
    add_user(database, "bob", clients=["*"])
    wires = []
    for name in ("alice", "alice", "bob"):
        wires.append(await (await logged_in(server, connect, name)).register(f"{name}-{len(wires)}"))
    database.execute(f"{change} WHERE name = 'alice'".encode())
    first, second, others = wires
    await asyncio.wait_for(first.closed(), SOON_S)
    await asyncio.wait_for(second.closed(), SOON_S)
    assert isinstance(await others.ask(packets.Ping()), packets.Pong)


async def test_the_first_user_ends_all_connections_that_are_not_logged_in(
    server: MiddlewareServer, wire: Wire, database: psycopg.Connection
) -> None:
    assert not server.users.required
    assert len(server.users.secret) == 32
    add_user(database, "alice")
    await asyncio.wait_for(wire.closed(), SOON_S)
    assert server.users.required


async def test_a_login_is_required_from_the_start_when_there_are_users(
    database: psycopg.Connection, start_middleware: StartMiddleware
) -> None:
    add_user(database, "alice")
    server = await start_middleware()
    assert server.users.required
    database.execute("DELETE FROM telesto.users")
    await until(lambda: not server.users.required, SOON_S)


async def test_changes_are_read_again_after_notifications_were_lost(
    server: MiddlewareServer, database: psycopg.Connection
) -> None:
    add_user(database, "alice", put=["a"])
    alice = await known(server, "alice")
    with database.transaction():
        database.execute("ALTER TABLE telesto.users DISABLE TRIGGER users_changed")
        database.execute("UPDATE telesto.users SET put = '{b}'")
        database.execute("ALTER TABLE telesto.users ENABLE TRIGGER users_changed")
    assert alice.rights_on("a") & Right.PUT
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'telesto listen'"
        " AND datname = current_database()"
    )
    await until(lambda: alice.rights_on("b") & Right.PUT, SOON_S)


@pytest.fixture
def frozen() -> Iterator[Callable[[psycopg.Connection], None]]:
    """Gives a function that stops the backend by which users are read, so that it answers nothing."""
    pids: list[int] = []

    def freeze(database: psycopg.Connection) -> None:
        rows = database.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'telesto users' "
            "AND datname = current_database()"
        ).fetchall()
        (pid,) = (pid for (pid,) in rows if pid not in pids)
        pids.append(pid)
        os.kill(pid, signal.SIGSTOP)

    yield freeze
    for pid in pids:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.settings(database_silent_ms=300)
async def test_logins_while_users_cannot_be_read_are_to_be_repeated_and_then_succeed(
    server: MiddlewareServer,
    connect: Connect,
    database: psycopg.Connection,
    frozen: Callable[[psycopg.Connection], None],
) -> None:
    add_user(database, "alice", clients=["*"])
    await logged_in(server, connect, "alice")
    frozen(database)
    wires = [await connect(server) for _ in range(5)]
    for wire in wires:
        await wire.hello()
    answers = await asyncio.gather(*(ScramLogin(wire, "alice").begin() for wire in wires))
    refused = [answer for answer in answers if isinstance(answer, packets.Error)]
    assert refused
    assert {(answer.code, answer.error_class) for answer in refused} == {
        (ErrorCode.DATABASE_UNAVAILABLE, ErrorClass.RETRYABLE)
    }
    await (await logged_in(server, connect, "alice")).register()


@pytest.mark.settings(database_silent_ms=300)
async def test_changes_are_known_although_the_connection_for_it_hangs(
    server: MiddlewareServer, database: psycopg.Connection, frozen: Callable[[psycopg.Connection], None]
) -> None:
    add_user(database, "alice", put=["a"])
    alice = await known(server, "alice")
    for enabled in (False, True):
        frozen(database)
        database.execute("UPDATE telesto.users SET enabled = %s", (enabled,))
        await until(lambda enabled=enabled: alice.enabled is enabled, SOON_S)  # type: ignore[misc]


async def test_many_users_are_read_again_in_parts(
    server: MiddlewareServer, database: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("telesto.middleware.security.users._USERS_MAX", 3)
    users = []
    for count in range(8):
        add_user(database, f"user-{count}")
        users.append(await known(server, f"user-{count}"))
    database.execute("UPDATE telesto.users SET monitor = true")
    await until(lambda: all(user.monitor for user in users), SOON_S)


async def test_a_failed_read_is_tried_again(server: MiddlewareServer, database: psycopg.Connection) -> None:
    add_user(database, "alice")
    alice = await known(server, "alice")
    database.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'telesto users'"
        " AND datname = current_database()"
    )
    database.execute("UPDATE telesto.users SET monitor = true")
    await until(lambda: alice.monitor, SOON_S)
