"""Quotas of users: what a middleware refuses, for how long, and whom it does not concern."""

import asyncio

import psycopg
import pytest

from conftest import Connect
from logged_in import SOON_S, add_user, logged_in
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packet import Packet
from wire import Wire, until

ALL = {"configure": ["*"], "put": ["*"], "get": ["*"], "clients": ["*"]}


async def _registered(server: MiddlewareServer, connect: Connect, name: str) -> Wire:
    return await (await logged_in(server, connect, name)).register()


async def _register(wire: Wire) -> Packet:
    await wire.hello()
    answer: Packet = await wire.ask(packets.RegisterClient("third", packets.ClientMode.FULL, b"x" * 16))
    return answer


def _is_overloaded(answer: Packet) -> bool:
    if not isinstance(answer, packets.Error):
        return False
    assert (answer.code, answer.error_class) == (ErrorCode.OVERLOADED, ErrorClass.RETRYABLE)
    # When a connection, a consumer or a read of the user ends, nobody knows.
    assert bool(answer.retry_after_ms) is (
        "messages in a second" in answer.details and " 0 " not in answer.details
    )
    assert "(quota " in answer.details
    return True


async def test_puts_beyond_the_rate_wait_and_those_of_others_do_not(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_puts_per_s=5, **ALL)
    add_user(database, "free", **ALL)
    limited = await _registered(server, connect, "limited")
    free = await _registered(server, connect, "free")
    queue_id = await limited.create_queue()
    answers = await asyncio.gather(*(limited.put(queue_id) for _ in range(30)))
    refused = [_is_overloaded(answer) for answer in answers]
    # One second's worth goes at once; behind a refused put nothing of this client goes.
    assert refused == [False] * 5 + [True] * 25
    assert not any(
        _is_overloaded(answer) for answer in await asyncio.gather(*(free.put(queue_id) for _ in range(30)))
    )
    assert server.counters.gauge("user_quotas_nearly_used_up") == 1

    async def taken() -> bool:
        limited.resume()
        return not _is_overloaded(await limited.put(queue_id))

    await until(taken)


async def test_several_connections_of_a_user_have_one_rate(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_puts_per_s=1, **ALL)
    one, two = [await _registered(server, connect, "limited") for _ in range(2)]
    queue_id = await one.create_queue()
    assert not _is_overloaded(await one.put(queue_id))
    assert _is_overloaded(await two.put(queue_id))


async def test_a_quota_is_lifted_while_the_user_is_connected(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_puts_per_s=0, **ALL)
    wire = await _registered(server, connect, "limited")
    queue_id = await wire.create_queue()
    assert _is_overloaded(await wire.put(queue_id))
    user = await server.users.find("limited")
    assert user is not None
    database.execute("UPDATE telesto.users SET max_puts_per_s = NULL")
    await until(lambda: not user.limited, SOON_S)
    wire.resume()
    assert not _is_overloaded(await wire.put(queue_id))


async def test_waiting_reads_beyond_the_quota_are_refused(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_waiting_reads=3, **ALL)
    one, two = [await _registered(server, connect, "limited") for _ in range(2)]
    queue_id = await one.create_queue()
    waiting = [one.read(queue_id, wait_ms=60_000), two.read(queue_id, wait_ms=60_000)]
    waiting.append(one.read(queue_id, wait_ms=60_000))
    await until(lambda: server.room.parked == 3)
    assert _is_overloaded(await two.read(queue_id, wait_ms=60_000))
    assert await one.read_now(queue_id) == []
    assert not any(answer.done() for answer in waiting)


async def test_connections_and_consumers_beyond_the_quota_are_refused(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_connections=2, max_consumers=1, **ALL)
    one = await _registered(server, connect, "limited")
    two = await _registered(server, connect, "limited")
    third = await logged_in(server, connect, "limited")
    assert _is_overloaded(await _register(third))
    queue_id = await one.create_queue()
    assert not _is_overloaded(await one.ask(packets.JoinQueue(queue_id, 1, 1000)))
    assert _is_overloaded(await two.ask(packets.JoinQueue(queue_id, 1, 1000)))


async def test_consumers_that_join_slowly_are_counted(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection, database_url: str
) -> None:
    """However long that takes, so that a burst does not exceed the quota."""
    add_user(database, "limited", max_consumers=1, **ALL)
    one = await _registered(server, connect, "limited")
    two = await _registered(server, connect, "limited")
    queue_id = await one.create_queue()
    waits = "SELECT count(*) FROM pg_locks WHERE relation = 'telesto.consumers'::regclass AND NOT granted"
    with psycopg.connect(database_url) as blocker:
        blocker.execute("LOCK TABLE telesto.consumers")
        first = one.send(packets.JoinQueue(queue_id, 1, 1000))
        await until(lambda: database.execute(waits).fetchone() == (1,))
        begun_at = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() > begun_at + 0.1)
        second = two.send(packets.JoinQueue(queue_id, 1, 1000))
        await two.ask(packets.Ping())
    answers = await asyncio.gather(first, second)
    assert sorted(_is_overloaded(answer) for answer in answers) == [False, True]
    assert len(server.consumers) == 1


async def test_a_connection_that_asks_for_a_client_and_then_makes_it_counts_once(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_connections=1, **ALL)
    wire = await logged_in(server, connect, "limited")
    answer = await wire.ask(packets.IdentifyClient(0, "a new one"))
    assert answer.code == ErrorCode.CLIENT_NOT_EXISTING
    assert not _is_overloaded(await _register(wire))


async def test_a_put_into_several_queues_counts_for_each(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_puts_per_s=2, **ALL)
    wire = await _registered(server, connect, "limited")
    queue_ids = [await wire.create_queue() for _ in range(4)]
    assert not _is_overloaded(await wire.put(*queue_ids))
    assert _is_overloaded(await wire.put(queue_ids[0]))


@pytest.mark.parametrize("quota", ["max_clients", "max_queues"])
async def test_what_a_user_has_in_the_database_is_limited_for_all_middlewares(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection, quota: str
) -> None:
    add_user(database, "limited", **ALL, **{quota: 2})
    add_user(database, "free", **ALL)
    if quota == "max_clients":
        for _ in range(2):
            await _registered(server, connect, "limited")
        third = await logged_in(server, connect, "limited")
        answer = await _register(third)
    else:
        wire = await _registered(server, connect, "limited")
        for _ in range(2):
            await wire.create_queue()
        answer = await wire.ask(packets.CreateQueue(wire.number(), [], "third", packets.QueueSettings()))
    assert isinstance(answer, packets.Error)
    assert (answer.code, answer.error_class) == (ErrorCode.QUOTA_EXCEEDED, ErrorClass.REJECTED)
    what = quota.removeprefix("max_")
    assert f"user 'limited' has 2 {what} and may have no more than 2" in answer.details
    assert f"telesto user quota 'limited' --{what} N" in answer.details
    await (await _registered(server, connect, "free")).create_queue()
