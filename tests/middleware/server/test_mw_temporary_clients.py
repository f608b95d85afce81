"""Temporary clients, and what a client is told that another process has taken over."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from faults.waiting import until
from telesto.client import (
    AsyncTelestoClient,
    ClientMode,
    ClientNotExistingError,
    ConnectionLostError,
    NotConnectedError,
    SessionFencedError,
)
from telesto.middleware.scheduling.requests import for_people
from telesto.protocol import packets
from wire import Wire

#: A temporary client is deleted when its connection was gone for so long, in seconds.
KEPT_S = 0.5


@pytest.fixture
def names(database_url: str) -> Callable[[], list[str]]:
    """Tells the names of the clients that the database knows."""

    def read() -> list[str]:
        with psycopg.connect(database_url) as connection:
            return [name for (name,) in connection.execute("SELECT name FROM telesto.clients")]

    return read


def url_of(server: Any) -> str:
    host, port = server.address
    return f"telesto://{host}:{port}"


async def dying(connect: Any, server: Any) -> Wire:
    """Returns the connection of a temporary client "dead", whose process ends when it is closed."""
    wire: Wire = await connect(server)
    await wire.hello()
    answer = await wire.ask(packets.RegisterClient("dead", ClientMode.FULL, os.urandom(16), temporary=True))
    assert isinstance(answer, packets.RegisterClientResponse), answer
    return wire


async def test_what_a_dead_temporary_client_had_comes_back(
    start_middleware: Any, connect: Any, names: Callable[[], list[str]]
) -> None:
    server = await start_middleware(temporary_client_s=KEPT_S)
    async with AsyncTelestoClient(url_of(server), name="owner") as owner:
        queue = await owner.create_queue("orders")
        await queue.put(b"x")
        alive = AsyncTelestoClient(url_of(server))
        await alive.connect()
        dead = await dying(connect, server)
        assert len(await dead.read_now(queue.queue_id)) == 1
        await dead.close()
        await until(lambda: "dead" not in names())
        back = await queue.get(timeout=20)
        assert back is not None
        assert (back.body, back.redelivered) == (b"x", True)
        # Connected ones stay, with a name and without.
        assert sorted(names()) == sorted(["owner", str(alive.name)])
        await alive.close()
        assert names() == ["owner"]


async def test_a_connected_temporary_client_is_seen_by_its_middleware(
    start_middleware: Any, connect: Any, names: Callable[[], list[str]], database_url: str
) -> None:
    """Another middleware may delete what is not seen, and this client sends nothing."""
    first = await start_middleware(temporary_client_s=KEPT_S)
    await start_middleware(temporary_client_s=KEPT_S)
    async with AsyncTelestoClient(url_of(first)) as client:
        await client.connect()
        dead = await dying(connect, first)
        await dead.close()
        await until(lambda: "dead" not in names())
        assert names() == [client.name]
        with psycopg.connect(database_url) as connection:
            row = connection.execute("SELECT seen_at > session_at FROM telesto.clients").fetchone()
        assert row == (True,)


async def test_a_connected_temporary_client_stays_while_a_long_job_runs(
    start_middleware: Any, connect: Any, names: Callable[[], list[str]], database_url: str
) -> None:
    first = await start_middleware(temporary_client_s=KEPT_S)
    await start_middleware(temporary_client_s=KEPT_S)
    async with AsyncTelestoClient(url_of(first)) as client:
        await client.connect()
        with psycopg.connect(database_url, autocommit=True) as connection:
            procedure = "SELECT pg_get_functiondef('telesto.sweep'::regproc)"
            ((text,),) = connection.execute(procedure).fetchall()
            slow = f"PERFORM pg_sleep(2) WHERE sweep.middleware_id = {first.peers.middleware_id};"
            assert "\nBEGIN\n" in text
            connection.execute(text.replace("\nBEGIN\n", f"\nBEGIN\n{slow}\n", 1).encode())
            running = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
            await until(lambda: connection.execute(running).fetchall())
            dead = await dying(connect, first)
            await dead.close()
            await until(lambda: "dead" not in names())
            connection.execute(text.encode())
        assert names() == [client.name]


@pytest.mark.parametrize("connected", [False, True])
async def test_a_temporary_client_that_was_taken_for_gone_begins_anew(
    start_middleware: Any, database_url: str, connected: bool
) -> None:
    """Such as that of a machine that slept."""
    server = await start_middleware()
    async with AsyncTelestoClient(url_of(server)) as client:
        queue = await client.create_queue("orders")
        before = client.client_id
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("SELECT telesto.delete_client(%s)", (before,))
        for connection in [] if connected else server.connections.snapshot():
            connection.abort()
        # A call may find that out; a later one is that of the new client.
        async with asyncio.timeout(60):
            while True:
                try:
                    await queue.put(b"x")
                except (ClientNotExistingError, ConnectionLostError, NotConnectedError):
                    continue
                break
        assert client.client_id != before
        assert (await client.connect()).temporary


@pytest.mark.parametrize(
    "call",
    [
        lambda queue: queue.put(b"x"),
        lambda queue: queue.get(timeout=0),
        lambda queue: queue.update(max_attempts=2),
    ],
)
@pytest.mark.parametrize("reconnects", [False, True])
async def test_a_fenced_client_is_told_by_whom(start_middleware: Any, reconnects: bool, call: Any) -> None:
    server = await start_middleware()
    url = url_of(server)
    async with AsyncTelestoClient(url, name="alice") as first:
        queue = await first.create_queue("orders")
        before = server.connections.snapshot()
        async with AsyncTelestoClient(url, name="alice", existing="take_over") as second:
            await second.connect()
            if reconnects:  # and then identifies itself over a new connection
                for connection in before:
                    connection.abort()
            process = f"{re.escape(socket.gethostname()[:100])}:{os.getpid()}"
            told = rf"another process .*{process} at 127\.0\.0\.1, with telesto-python .*, since 20.* UTC"
            for _ in range(2):
                with pytest.raises(SessionFencedError, match=told):
                    await call(queue)


def test_what_a_client_says_of_itself_is_bounded_and_printable() -> None:
    assert for_people("a\x00b\nc\x1b[31md\u202e") == "abc[31md"
    assert len(for_people("x" * 10_000)) == 255
