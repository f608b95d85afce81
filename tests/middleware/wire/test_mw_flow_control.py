"""Bounds: slow peers, full pipelines, a full middleware, silent and nameless connections."""

import asyncio
import os

import pytest

from conftest import Connect, StartMiddleware
from locks import locked
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import FULL, PATIENCE_S, Wire, put, read, until


async def test_a_peer_that_does_not_read_is_closed(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    server = await start_middleware(
        write_high_bytes=1 << 16, write_low_bytes=1 << 14, write_hard_bytes=4 << 20, write_stalled_s=0.3
    )
    writer, slow = await connect(server), await connect(server)
    await writer.register()
    await slow.register()
    queue_id = await writer.create_queue()
    body = bytes(1 << 18)
    for answer in [writer.send(put(0, queue_id, body=body)) for _ in range(100)]:
        await answer
    slow.pause_reading()
    for _ in range(100):
        slow.send(read(0, queue_id, max_messages=5))
    peak = await until_one_connection_less(server)
    assert peak < 8 << 20
    assert await writer.put_one(queue_id)


async def until_one_connection_less(server: MiddlewareServer) -> int:
    """Returns the most that was unsent until the server has ended a connection."""
    connections = server.connections.snapshot()
    peak = 0

    def gone() -> bool:
        nonlocal peak
        peak = max(peak, *(connection.unsent_now() for connection in connections))
        return len(server.connections) < len(connections)

    await until(gone)
    return peak


@pytest.mark.settings(write_high_bytes=1 << 16, write_low_bytes=1 << 14)
async def test_a_slow_peer_goes_on_where_it_was(server: MiddlewareServer, wire: Wire, queue_id: int) -> None:
    for answer in [wire.send(put(0, queue_id, body=bytes(1 << 18))) for _ in range(60)]:
        await answer
    wire.pause_reading()
    answers = [wire.send(read(0, queue_id)) for _ in range(60)]
    await until(lambda: any(connection.flow.slow for connection in server.connections.snapshot()))
    wire.resume_reading()
    assert [len((await answer).messages) for answer in answers] == [1] * 60


@pytest.mark.settings(pipeline_requests=4, max_batch=2)
async def test_a_full_line_stops_reading_and_loses_nothing(wire: Wire, queue_id: int) -> None:
    answers = [wire.put(queue_id) for _ in range(500)]
    for answer in answers:
        assert (await answer).results[0].error is None
    taken = 0
    while messages := await wire.read_now(queue_id, max_messages=200):
        taken += len(messages)
    assert taken == 500


@pytest.mark.settings(pipeline_requests=4, max_batch=2)
async def test_a_peer_is_told_that_the_middleware_lives_while_nothing_is_read(
    server: MiddlewareServer, wire: Wire, queue_id: int, database_url: str
) -> None:
    async with locked(database_url, queue_id):
        answers = [wire.put(queue_id) for _ in range(20)]
        await until(lambda: any(each.flow.pipeline_full for each in server.connections.snapshot()))
        ping = wire.send(packets.Ping())
        for _ in range(3):
            assert isinstance(await asyncio.wait_for(wire.unasked.get(), PATIENCE_S), packets.Alive)
        assert not ping.done()
    for answer in answers:
        assert (await asyncio.wait_for(answer, PATIENCE_S)).results[0].error is None
    assert isinstance(await asyncio.wait_for(ping, PATIENCE_S), packets.Pong)
    # Afterwards nothing is said any more, and nothing waits to be said.
    await until(lambda: not any(each.flow.says_alive for each in server.connections.snapshot()))


@pytest.mark.settings(budget_requests=1, overload_retry_ms=70)
async def test_too_much_under_way_is_refused(connect: Connect, server: MiddlewareServer) -> None:
    wire, other = await connect(server), await connect(server)
    await wire.register()
    await other.register()
    queue_id = await wire.create_queue()
    server.budget.enter(1, 0)
    for packet in (put(wire.number(), queue_id), read(wire.number(), queue_id), packets.GetQueueId("x")):
        answer = await wire.ask(packet)
        assert (answer.code, answer.error_class) == (ErrorCode.OVERLOADED, ErrorClass.RETRYABLE)
        assert answer.retry_after_ms == 70
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    server.budget.leave(1, 0)
    # What was sent before the client saw the refusal must not overtake what was refused.
    assert (await wire.put(queue_id)).code == ErrorCode.OVERLOADED
    wire.resume()
    assert await wire.put_one(queue_id)


@pytest.mark.settings(budget_bytes=1 << 18)
async def test_a_large_frame_needs_space(wire: Wire, queue_id: int) -> None:
    wire.write(put(wire.number(), queue_id, body=bytes(1 << 20)).encode(99)[: 1 << 19])
    await wire.closed()
    error = wire.unasked.get_nowait()
    assert (error.code, error.error_class) == (ErrorCode.OVERLOADED, ErrorClass.FATAL)


@pytest.mark.settings(max_connections=2)
async def test_connections_are_bounded(connect: Connect, server: MiddlewareServer) -> None:
    wires = [await (await connect(server)).register() for _ in range(2)]
    third = await connect(server)
    await third.closed()
    assert third.unasked.get_nowait().code == ErrorCode.TOO_MANY_CONNECTIONS
    await wires[0].close()
    await until(lambda: len(server.connections) == 1)
    await (await connect(server)).register()


@pytest.mark.settings(idle_limit_s=2)
async def test_a_silent_connection_is_closed(wire: Wire) -> None:
    await wire.closed()


@pytest.mark.settings(identify_limit_s=2)
async def test_a_connection_must_identify_itself(connect: Connect, server: MiddlewareServer) -> None:
    known, nameless = await connect(server), await connect(server)
    await known.register()
    await nameless.hello()
    await nameless.closed()
    assert isinstance(await known.ask(packets.Ping()), packets.Pong)


async def test_many_connections_share_the_calls(connect: Connect, server: MiddlewareServer) -> None:
    wires = [await (await connect(server)).register() for _ in range(30)]
    queue_id = await wires[0].create_queue()
    answers = [wire.put(queue_id) for wire in wires for _ in range(20)]
    message_ids = {(await answer).results[0].message_id for answer in answers}
    assert len(message_ids) == 600
    taken: list[int] = []
    while messages := await wires[0].read_now(queue_id, max_messages=200):
        taken += [message.sender_id for message in messages]
    assert sorted(set(taken)) == sorted(wire.client_id for wire in wires)
    assert server.budget.requests == server.budget.bytes == 0


async def test_a_connection_that_leaves_takes_its_requests_along(
    connect: Connect, server: MiddlewareServer
) -> None:
    stays = await (await connect(server)).register()
    queue_id = await stays.create_queue()
    for _ in range(5):
        wire: Wire = await connect(server)
        await wire.hello()
        await wire.ask(packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16)))
        for _ in range(50):
            wire.put(queue_id)
        await wire.close()
    assert await stays.put_one(queue_id)
    async with asyncio.timeout(PATIENCE_S):
        await server.budget.wait_idle()
    assert server.budget.bytes == 0
