"""Stopping: what is under way is answered, new requests are refused, clients are told where to go."""

import asyncio

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from locks import locked, until_blocked
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from test_mw_wake_ups import until_know_each_other, until_waiting
from wire import PATIENCE_S, Wire, put, until


#: A call has reached the database and waits for a lock there.
async def test_a_stop_answers_what_waits_and_says_goodbye(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    server, other = await start_middleware(goaway_grace_s=PATIENCE_S), await start_middleware()
    await until_know_each_other(server, other)
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    waiting = wire.read(queue_id, wait_ms=60_000)
    await until_waiting(server, 1)
    server.request_stop()
    server.request_stop()
    goodbye = await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
    assert isinstance(goodbye, packets.GoAway)
    assert goodbye.addresses == ["{}:{}".format(*other.address)]
    answer = await waiting
    assert (answer.code, answer.error_class) == (ErrorCode.SHUTTING_DOWN, ErrorClass.RETRYABLE)
    refused = await wire.put(queue_id)
    assert (refused.code, refused.error_class) == (ErrorCode.SHUTTING_DOWN, ErrorClass.RETRYABLE)
    assert isinstance(await wire.ask(packets.Confirm([1], [], [])), packets.Success)
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    await wire.close()
    await asyncio.wait_for(server.wait_closed(), PATIENCE_S)
    survivor = await connect(other)
    takeover = await survivor.identify(wire.client_id)
    assert takeover.operations == []


async def test_requests_under_way_are_answered(connect: Connect, start_middleware: StartMiddleware) -> None:
    server, other = await start_middleware(max_batch=5), await start_middleware()
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    answers = [wire.put(queue_id) for _ in range(100)]
    await answers[0]
    server.request_stop()
    outcomes = [await answer for answer in answers]
    assert {type(outcome) for outcome in outcomes} == {packets.PutMessageResponse}
    await server.wait_closed()
    await wire.closed()
    heir = await (await connect(other)).register()
    assert len(await heir.read_now(queue_id, max_messages=200)) == 100


@pytest.mark.settings(shutdown_limit_s=0.1, lock_wait_ms=600_000)
async def test_what_takes_too_long_is_cut_off(
    server: MiddlewareServer, wire: Wire, queue_id: int, database_url: str
) -> None:
    async with locked(database_url, queue_id) as watcher:
        answer = wire.put(queue_id)
        await until_blocked(watcher)
        later = wire.put(queue_id)
        await until(lambda: server.budget.requests == 2)
        server.request_stop()
        await asyncio.wait_for(server.wait_closed(), PATIENCE_S)
    assert (await answer).error_class is ErrorClass.IN_DOUBT
    assert isinstance(await asyncio.wait_for(settled(later), PATIENCE_S), packets.Error | ConnectionError)


async def settled(answer: asyncio.Future[object]) -> object:
    try:
        return await answer
    except ConnectionError as error:
        return error


async def test_a_stopped_middleware_is_not_listed(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    server, other = await start_middleware(), await start_middleware()
    await until_know_each_other(server, other)
    wire = await connect(other)
    assert (await wire.hello()).addresses == ["{}:{}".format(*server.address)]
    server.request_stop()
    await server.wait_closed()

    def alone() -> bool:
        other.registry.poke()
        return not other.peers.others

    await until(alone)
    assert (await (await connect(other)).hello()).addresses == []


async def test_a_stopped_middleware_leaves_no_backend(server: MiddlewareServer, database_url: str) -> None:
    server.request_stop()
    await server.wait_closed()
    connection = await asyncpg.connect(database_url)
    query = (
        "SELECT count(*) FROM pg_stat_activity "
        "WHERE application_name LIKE 'telesto %' AND datname = current_database()"
    )

    async def gone() -> bool:
        return not await connection.fetchval(query)

    await until(gone)
    await connection.close()


@pytest.mark.settings(goaway_grace_s=PATIENCE_S)
async def test_nobody_is_served_after_the_stop_began(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    server.request_stop()
    await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
    assert (await wire.ask(put(wire.number(), queue_id))).code == ErrorCode.SHUTTING_DOWN

    async def refused() -> bool:
        try:
            late = await connect(server)
        except OSError:
            return True
        await late.close()
        return False

    await until(refused)
    await wire.close()
