"""Who holds locks in the database, by SQL, holds up only those who need the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import psycopg
import pytest

from conftest import Connect
from locks import locked, until_blocked
from logged_in import add_user, logged_in
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from wire import Wire

#: More than there are workers.
MANY = 16
#: What takes longer has waited for the lock, which is held until the test ends.
SHORT_S = 2.0


@pytest.fixture
def database(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def mallory(server: MiddlewareServer, connect: Connect, database: psycopg.Connection) -> list[Wire]:
    """Connections of a user who may do everything with one queue, `held`."""
    everything = {right: ["held"] for right in ("configure", "put", "get", "admin")}
    add_user(database, "mallory", clients=["*"], **everything)
    add_user(database, "alice", configure=["*"], put=["*"], get=["*"], clients=["*"])
    return [await (await logged_in(server, connect, "mallory")).register() for _ in range(MANY)]


async def test_nobody_is_kept_from_logging_in(
    server: MiddlewareServer, connect: Connect, mallory: list[Wire], database_url: str
) -> None:
    queue_id = await mallory[0].create_queue("held")
    async with locked(database_url, queue_id, "take_lock_key") as watcher:
        purges = [wire.send(packets.PurgeQueue(wire.number(), [], queue_id)) for wire in mallory]
        await until_blocked(watcher)
        async with asyncio.timeout(SHORT_S):
            alice = await (await logged_in(server, connect, "alice")).register()
            again = await logged_in(server, connect, "alice")
            await again.identify(alice.client_id)
        assert not any(purge.done() for purge in purges)
