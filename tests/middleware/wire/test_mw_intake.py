"""Connections that send much, and others that ask for little beside them."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

import asyncpg
import pytest

from conftest import Connect
from locks import locked
from telesto.middleware.server import MiddlewareServer
from telesto.middleware.wire.connection import (
    AT_ONCE_BYTES,
    LITTLE_BYTES,
    PORTION_BYTES,
    TURN_BYTES,
    Connection,
    Intake,
)
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from telesto.protocol.framing import FRAME_COST
from wire import PATIENCE_S, Wire, put, until

PORTION = PORTION_BYTES // FRAME_COST
AT_ONCE = AT_ONCE_BYTES // FRAME_COST
LITTLE = LITTLE_BYTES // FRAME_COST
TURN = TURN_BYTES // FRAME_COST


class Loop:
    """Stands for a loop: what is to be called in its next turn."""

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def call_soon(self, call: Callable[[], None]) -> None:
        self._calls.append(call)

    def turn(self) -> bool:
        """Makes one turn; returns whether there is another one."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        return bool(self._calls)


class Sender:
    """Notes in a log each frame that is taken of it."""

    def __init__(self, name: str, log: list[str]) -> None:
        self._name = name
        self._log = log
        self.left = 0
        self.waits = False

    def take(self, data: bytes, room: int) -> int:
        self.left += len(data)
        count = min(self.left, max(1, room // FRAME_COST))
        self.left -= count
        self.waits = self.left > 0
        self._log += [self._name] * count
        return count * FRAME_COST


class Bench:
    """An intake, and senders of frames: one for each byte that comes."""

    def __init__(self) -> None:
        self.loop = Loop()
        loop: Any = self.loop
        self.intake = Intake(loop)
        self.log: list[str] = []

    def sender(self, name: str) -> Sender:
        return Sender(name, self.log)

    def send(self, sender: Sender, count: int) -> None:
        self.intake.came(sender, bytes(count))


def test_what_little_comes_in_a_turn_is_handled_at_once() -> None:
    bench = Bench()
    for turn in range(1, 4):
        for number in range(TURN // AT_ONCE):
            bench.send(bench.sender(str(number)), AT_ONCE)
        assert len(bench.log) == turn * TURN
        assert not bench.loop.turn()
    for number in range(2 * TURN):
        bench.send(bench.sender(str(number)), 1)
        bench.loop.turn()
    bench.send(bench.sender("again"), AT_ONCE)
    assert bench.log[-AT_ONCE:] == ["again"] * AT_ONCE


def test_a_greedy_sender_holds_up_a_modest_one_by_one_portion() -> None:
    bench = Bench()
    greedy = bench.sender("greedy")
    bench.send(greedy, 10_000)
    bench.loop.turn()
    for number in range(100):
        before = len(bench.log)
        modest = bench.sender(f"modest {number}")
        bench.send(modest, 1)
        assert bench.log[before:] == [f"modest {number}"]
        bench.loop.turn()
        assert len(bench.log) - before <= 1 + PORTION
    while bench.loop.turn():
        pass
    assert bench.log.count("greedy") == 10_000
    assert len(bench.intake) == 0


def test_many_greedy_senders_do_not_make_a_turn_longer() -> None:
    bench = Bench()
    senders = [bench.sender(str(number)) for number in range(105)]
    for sender in senders:
        bench.send(sender, 1_400)
    assert len(bench.log) <= TURN + len(senders) * LITTLE
    before = len(bench.log)
    while bench.loop.turn():
        assert len(bench.log) - before <= PORTION
        before = len(bench.log)
    assert len(bench.log) == 105 * 1_400
    # They had their portions one after the other, so they ended together.
    ends = [len(bench.log) - bench.log[::-1].index(str(number)) for number in range(105)]
    assert min(ends) > len(bench.log) - 105 * (AT_ONCE + 2 * PORTION)


def test_one_that_comes_with_much_stands_ahead_of_those_that_wait_on() -> None:
    bench = Bench()
    for number in range(105):
        bench.send(bench.sender(f"greedy {number}"), 1_400)
    for _ in range(200):
        bench.loop.turn()
    before = len(bench.log)
    bench.send(bench.sender("other"), LITTLE + PORTION)
    for _ in range(2):
        bench.loop.turn()
    assert bench.log[before:].count("other") == LITTLE + PORTION


def test_those_that_wait_on_have_every_other_portion() -> None:
    bench = Bench()
    bench.send(bench.sender("old"), 1_000 * PORTION)
    bench.loop.turn()
    waiting = deque(range(100))
    for number in waiting:
        bench.send(bench.sender(f"new {number}"), LITTLE + 1)
    before = len(bench.log)
    for _ in range(50):
        bench.loop.turn()
    assert bench.log[before:].count("old") >= 20 * PORTION


# --- connections ------------------------------------------------------------------------------
def connection_of(server: MiddlewareServer, wire: Wire) -> Connection:
    """The middleware's side of a client's connection."""
    (found,) = (
        connection
        for connection in server.connections.snapshot()
        if connection.pipeline.client.client_id == wire.client_id
    )
    return found


async def test_frames_of_a_greedy_connection_and_a_modest_one_interleave(
    connect: Connect, server: MiddlewareServer
) -> None:
    greedy, modest = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await modest.create_queue()
    sent = [greedy.expect() for _ in range(1_000)]
    frames = b"".join(put(greedy.number(), queue_id).encode(packet_id) for packet_id, _ in sent)
    theirs, ours = connection_of(server, greedy), connection_of(server, modest)
    # Both came in one turn of the loop, the greedy one's first.
    theirs.data_received(frames)
    assert 0 < len(theirs.pipeline.requests) <= AT_ONCE
    packet_id, answer = modest.expect()
    ours.data_received(put(modest.number(), queue_id).encode(packet_id))
    assert len(ours.pipeline.requests) == 1
    assert theirs.waits
    assert theirs.flow.rests
    answered = await asyncio.wait_for(answer, PATIENCE_S)
    message_id = answered.results[0].message_id
    earlier = 0
    for _, each in sent:
        result = (await asyncio.wait_for(each, PATIENCE_S)).results[0]
        assert result.error is None
        earlier += result.message_id < message_id
    assert earlier <= AT_ONCE + PORTION
    # All has been read, and reading goes on.
    assert not theirs.flow.rests
    assert server.budget.bytes == 0
    assert isinstance(await greedy.ask(packets.Ping()), packets.Pong)


@pytest.mark.settings(pipeline_requests=200, max_unconfirmed=2_000)
async def test_frames_wait_while_the_pipeline_is_full(
    connect: Connect, server: MiddlewareServer, database_url: str
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue("some")
    connection = connection_of(server, wire)
    async with locked(database_url, queue_id):
        sent = [wire.expect() for _ in range(1_000)]
        data = b"".join(put(wire.number(), queue_id).encode(packet_id) for packet_id, _ in sent)
        connection.data_received(data)
        await until(lambda: connection.flow.pipeline_full and not server.counters.gauge("senders_waiting"))
        # What stands in the pipeline and what its next call has taken of it.
        assert server.budget.requests <= 200 + 2 * AT_ONCE
        assert connection.buffered > len(data) // 2
        assert (await other.ask(packets.GetQueueId("some"))).queue_id == queue_id
    for _, answer in sent:
        assert (await asyncio.wait_for(answer, PATIENCE_S)).results[0].error is None
    assert not connection.flow.rests
    await until(lambda: server.budget.bytes == 0)


@pytest.mark.settings(write_high_bytes=1 << 16, write_low_bytes=1 << 14)
async def test_frames_wait_while_the_peer_does_not_read(
    server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    await wire.put_one(queue_id, body=bytes(1 << 20))
    connection = connection_of(server, wire)
    sent = [wire.expect() for _ in range(1_000)]
    wire.pause_reading()
    connection.data_received(
        b"".join(packets.GetMessages(queue_id, 0, 1).encode(packet_id) for packet_id, _ in sent[:30])
    )
    await until(lambda: connection.flow.slow)
    before = len(connection.pipeline.requests)
    connection.data_received(
        b"".join(packets.GetQueueId("none").encode(packet_id) for packet_id, _ in sent[30:])
    )
    await until(lambda: not server.counters.gauge("senders_waiting"))
    assert len(connection.pipeline.requests) <= before + AT_ONCE
    wire.resume_reading()
    for _, answer in sent[:30]:
        assert len((await asyncio.wait_for(answer, PATIENCE_S)).messages) == 1
    for _, answer in sent[30:]:
        assert (await asyncio.wait_for(answer, PATIENCE_S)).code == ErrorCode.QUEUE_NOT_EXISTING
    assert not connection.flow.rests


async def test_what_waits_goes_with_its_connection(
    connect: Connect, server: MiddlewareServer, wire: Wire
) -> None:
    other = await (await connect(server)).register()
    connection = connection_of(server, wire)
    connection.data_received(b"".join(packets.GetQueueId("x").encode(number) for number in range(1, 9_000)))
    assert connection.waits
    assert server.budget.bytes >= connection.buffered > 100_000
    connection.abort()
    await until(lambda: len(server.connections) == 1)
    assert not connection.waits
    await until(lambda: server.budget.bytes == 0 and server.counters.gauge("senders_waiting") == 0)
    assert isinstance(await other.ask(packets.Ping()), packets.Pong)


async def test_a_broken_frame_among_those_that_wait_ends_the_connection(wire: Wire) -> None:
    pings = [wire.expect() for _ in range(500)]
    wire.write(b"".join(packets.Ping().encode(packet_id) for packet_id, _ in pings) + b"\xff" * 10)
    await wire.closed()
    assert all(isinstance(answer.result(), packets.Pong) for _, answer in pings)
    assert wire.unasked.get_nowait().code == ErrorCode.FRAME_TOO_LARGE


@pytest.mark.settings(budget_bytes=1 << 18)
async def test_frames_for_which_there_is_no_space_do_not_wait(server: MiddlewareServer, wire: Wire) -> None:
    connection = connection_of(server, wire)
    server.budget.enter(0, 1 << 18)
    sent = [wire.expect() for _ in range(500)]
    connection.data_received(b"".join(packets.GetQueueId("x").encode(packet_id) for packet_id, _ in sent))
    assert not connection.waits
    for _, answer in sent:
        assert (await asyncio.wait_for(answer, PATIENCE_S)).code == ErrorCode.OVERLOADED
    server.budget.leave(0, 1 << 18)
    assert server.budget.bytes == 0


@pytest.mark.settings(single_workers=1)
async def test_pages_of_messages_hold_up_nothing_else(
    connect: Connect, server: MiddlewareServer, database_url: str
) -> None:
    browsing, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await other.create_queue("some")
    holder = await asyncpg.connect(database_url)
    try:
        await holder.execute("BEGIN; LOCK telesto.take_states")
        pages = [browsing.send(packets.GetMessages(queue_id, 0, 10)) for _ in range(5)]
        await until(lambda: connection_of(server, browsing).pipeline.in_flight)
        answer = await other.ask(packets.GetQueueId("some"))
        assert answer.queue_id == queue_id
        assert not any(page.done() for page in pages)
    finally:
        await holder.close()
    for page in pages:
        assert (await asyncio.wait_for(page, PATIENCE_S)).messages == []


@pytest.mark.settings(max_page_bytes=10_000)
async def test_pages_of_messages_are_bounded_by_their_bytes(wire: Wire, queue_id: int) -> None:
    sizes = [4_000, 4_000, 4_000, 20_000, 9_000, 1_000, 1]
    for size in sizes:
        await wire.put_one(queue_id, body=bytes(size))
    pages: list[list[int]] = []
    after = 0
    while messages := (await wire.ask(packets.GetMessages(queue_id, after, 100))).messages:
        pages.append([len(message.body) for message in messages])
        after = messages[-1].message_id
    assert pages == [[4_000, 4_000], [4_000], [20_000], [9_000, 1_000], [1]]
