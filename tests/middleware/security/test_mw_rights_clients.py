"""What the Python clients say when their user may not do something, or may no longer."""

import asyncio

import psycopg
import pytest

from conftest import Connect
from logged_in import add_user, change_user, logged_in
from logins import PASSWORD
from telesto.client import AsyncTelestoClient, TelestoClient
from telesto.middleware.server import MiddlewareServer
from telesto.protocol.errors import (
    ClientModePermissionError,
    ErrorClass,
    PermissionDeniedError,
    QueueNotExistingError,
)
from wire import PATIENCE_S, until

QUOTED = PASSWORD.replace(" ", "%20").replace(",", "%2C")


@pytest.fixture
async def url(server: MiddlewareServer, database: psycopg.Connection, connect: Connect) -> str:
    """The service for alice, who may read from orders, which root has made."""
    add_user(database, "root", administrator=True)
    add_user(database, "alice", get=["orders"])
    root = await (await logged_in(server, connect, "root")).register()
    await root.create_queue("orders")
    await root.create_queue("hidden")
    host, port = server.address
    return f"telesto://alice:{QUOTED}@{host}:{port}"


async def test_what_is_not_allowed_raises_an_error_of_its_own(url: str) -> None:
    async with AsyncTelestoClient(url) as client, asyncio.timeout(PATIENCE_S):
        queue = client.queue("orders")
        for attempt in (
            queue.put(b"one"),
            queue.purge(),
            queue.delete(),
            client.queue("hidden").put(b"one"),
            client.queue("hidden").get(),
            client.declare_queue("mine"),
            client.topic("prices").put(b"one"),
        ):
            with pytest.raises(PermissionDeniedError, match="user 'alice' has no right to") as raised:
                await attempt
            assert raised.value.error_class is ErrorClass.REJECTED
            assert not isinstance(raised.value, ClientModePermissionError)
        with pytest.raises(QueueNotExistingError):
            await client.queue(2).get()
        assert [found.name for found in await client.queues()] == ["orders"]
        assert await queue.get(timeout=0) is None


async def test_a_blocking_client_says_the_same(url: str) -> None:
    def use() -> None:
        with TelestoClient(url) as client:
            with pytest.raises(PermissionDeniedError, match="put into queue 'orders'"):
                client.queue("orders").put(b"one")
            with pytest.raises(PermissionDeniedError), client.queue("hidden").consume() as consumer:
                consumer.get(timeout=PATIENCE_S)

    await asyncio.to_thread(use)


async def test_what_waits_ends_when_the_right_is_taken_away(
    url: str, server: MiddlewareServer, database: psycopg.Connection
) -> None:
    async with AsyncTelestoClient(url) as client, asyncio.timeout(PATIENCE_S):
        queue = client.queue("orders")
        waiting = asyncio.create_task(queue.get(timeout=PATIENCE_S))
        async with queue.consume() as consumer:
            given = asyncio.create_task(consumer.get(timeout=PATIENCE_S))
            await until(lambda: server.room.parked and len(server.consumers))
            await change_user(server, database, "alice", get=[], put=["orders"])
            for task in (waiting, given):
                with pytest.raises(PermissionDeniedError):
                    await task
            with pytest.raises(PermissionDeniedError):
                await consumer.get(timeout=PATIENCE_S)
        await queue.put(b"one")


async def test_the_name_of_another_users_client_is_refused_at_once(
    url: str, server: MiddlewareServer, database: psycopg.Connection, connect: Connect
) -> None:
    await change_user(server, database, "alice", clients=["worker"])
    await (await logged_in(server, connect, "root")).register("worker")
    async with AsyncTelestoClient(url, name="worker") as client, asyncio.timeout(PATIENCE_S):
        with pytest.raises(Exception, match="'worker' belongs to another user"):
            await client.connect()
    async with AsyncTelestoClient(url, name="boss") as client, asyncio.timeout(PATIENCE_S):
        with pytest.raises(PermissionDeniedError, match="may have no client named 'boss'"):
            await client.connect()
