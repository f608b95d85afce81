"""What counts as an attempt: only what the application was given."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from conftest import Connect
from members import Member, join, put_all, put_keyed
from telesto.middleware.consumers.consumer import Consumer, LeaseKey
from telesto.middleware.scheduling.requests import Pipeline
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import PATIENCE_S, Wire, until

LEAVING = "bigint[], bigint[], boolean[], bigint[]"
QUICK_SWEEPS = {"due_sweep_interval_s": 0.02, "lost_leases_s": 0.02}


async def pair(connect: Connect, **settings: Any) -> tuple[Wire, Wire, int]:
    wire, other = await (await connect()).register(), await (await connect()).register()
    return wire, other, await wire.create_queue(**settings)


def seen(messages: list[packets.Message]) -> list[tuple[bytes, int, bool]]:
    return [(message.body, message.attempt, message.redelivered) for message in messages]


async def test_a_lost_connection_counts_for_what_was_begun(connect: Connect) -> None:
    wire, other, queue_id = await pair(connect)
    await put_all(wire, queue_id, *(b"%d" % i for i in range(6)))
    member = await join(wire, queue_id)
    await member.next(6)
    # In one write, and without a word before the connection is gone.
    member.begin(b"0")
    member.begin(b"2")
    await wire.drain()
    await wire.close()
    heir = await join(other, queue_id)
    assert seen(await heir.next(6)) == [
        (b"0", 2, True),
        (b"1", 1, True),  # it may have begun, and the connection was lost before that was told
        (b"2", 2, True),
        (b"3", 1, True),
        (b"4", 1, True),
        (b"5", 1, True),
    ]


async def test_what_kills_its_process_dies_alone(connect: Connect) -> None:
    wire, other, queue_id = await pair(connect, max_attempts=5)
    await put_all(wire, queue_id, b"poison", b"1", b"2")
    for _ in range(5):
        victim = await (await connect()).register()
        member = await join(victim, queue_id)
        await member.next(3)
        member.begin(b"poison")
        await victim.drain()
        await victim.close()
    heir = await join(other, queue_id)
    assert seen(await heir.next(2)) == [(b"1", 1, True), (b"2", 1, True)]
    letters = await wire.ask(packets.ListDeadLetters(queue_id, 0, 10))
    assert [(letter.message.body, letter.reason) for letter in letters.letters] == [(b"poison", "lost")]


async def test_leaving_counts_nothing(connect: Connect) -> None:
    wire, other, queue_id = await pair(connect)
    await put_all(wire, queue_id, b"1", b"2")
    member = await join(wire, queue_id)
    await member.next(2)
    member.begin(b"1")
    await wire.ask(packets.LeaveQueue(member.consumer_id))
    heir = await join(other, queue_id)
    assert seen(await heir.next(2)) == [(b"1", 1, True), (b"2", 1, False)]


async def test_what_was_taken_back_counts_nothing(connect: Connect) -> None:
    wire, other, queue_id = await pair(connect)
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id)
    await member.next(1)
    member.begin(b"1")
    member.begin(b"1", begun=False)
    await wire.drain()
    await wire.close()
    heir = await join(other, queue_id)
    assert seen(await heir.next(1)) == [(b"1", 1, True)]


async def test_what_is_given_back_unbegun_is_as_it_was(connect: Connect) -> None:
    wire, _, queue_id = await pair(connect)
    await put_keyed(wire, queue_id, "a1", "a2", "b1")
    member = await join(wire, queue_id)
    await member.next(3)
    member.begin(b"a1", b"b1")
    await member.nack(b"a1", failed=False)
    lost = await member.lost()
    assert lost.leases == [member.refs[b"a2"]]
    assert seen(await member.next(2)) == [(b"a1", 1, True), (b"a2", 1, False)]


@pytest.mark.settings(due_sweep_interval_s=3_600, wake_sweep_s=3_600)
@pytest.mark.parametrize("taken_over", [True, False], ids=["by its next session", "after it left"])
async def test_what_is_given_back_by_who_is_no_consumer_any_more_is_marked(
    server: MiddlewareServer, connect: Connect, database_url: str, taken_over: bool
) -> None:
    """The database cannot end the consumer yet, so its leases are there, and nobody knows what was begun."""
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue()
    await put_keyed(wire, queue_id, "a1", "a2")
    member = await join(wire, queue_id)
    await member.next(2)
    member.begin(b"a1")
    connection = await asyncpg.connect(database_url)
    await connection.execute(f"ALTER FUNCTION telesto.leave_queues({LEAVING}) RENAME TO leave_later")
    if taken_over:
        assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
        await wire.close()
        member.wire = await connect(server)
        await member.wire.identify(wire.client_id)
    else:
        assert isinstance(await wire.ask(packets.LeaveQueue(member.consumer_id)), packets.Error)
    assert await member.nack(b"a1") == [None]
    await connection.execute(f"ALTER FUNCTION telesto.leave_later({LEAVING}) RENAME TO leave_queues")
    await connection.close()
    heir = await join(other, queue_id)
    assert seen(await heir.next(2)) == [(b"a1", 1, True), (b"a2", 1, True)]


async def test_others_cannot_begin_what_is_not_theirs(connect: Connect) -> None:
    wire, other, queue_id = await pair(connect)
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id)
    await member.next(1)
    other.write(packets.Begin([member.refs[b"1"]], True).encode(0))
    assert isinstance(await other.ask(packets.Ping()), packets.Pong)
    await wire.close()
    heir = await join(other, queue_id)
    assert seen(await heir.next(1)) == [(b"1", 1, True)]


async def test_begin_is_answered_only_when_it_is_wrong(connect: Connect) -> None:
    wire, _, queue_id = await pair(connect)
    member = await join(wire, queue_id)
    member.refs[b"unknown"] = packets.LeaseRef(member.consumer_id, 1, 1)
    member.begin(b"unknown")
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    assert wire.unasked.empty()
    wire.write(packets.Begin([], True).encode(0))
    error = await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
    assert error.code == ErrorCode.INVALID_PARAMETER


# ---------------------------------------------------------------------------------- time


#: How often a client is heard, far below the leases.
TALKS_EVERY_S = 0.02


@contextlib.asynccontextmanager
async def heard(wire: Wire) -> AsyncIterator[None]:
    """The client says something all the time."""

    async def talk() -> None:
        while True:
            await wire.ask(packets.Ping())
            await asyncio.sleep(TALKS_EVERY_S)

    talking = asyncio.create_task(talk())
    try:
        yield
    finally:
        talking.cancel()
        await asyncio.gather(talking, return_exceptions=True)


async def deliveries(wire: Wire, lease_ms: int, queue_id: int) -> Member:
    answer = await wire.ask(packets.JoinQueue(queue_id, 10, 0))
    assert answer.lease_ms == lease_ms
    return Member(wire, answer.consumer_id)


@pytest.mark.settings(**QUICK_SWEEPS)
async def test_what_waits_is_kept_as_long_as_the_client_is_heard(wire: Wire, database_url: str) -> None:
    queue_id = await wire.create_queue(lease_ms=3_000)
    await put_all(wire, queue_id, b"1", b"2")
    member = await deliveries(wire, 3_000, queue_id)
    await member.next(2)
    connection = await asyncpg.connect(database_url)
    kept = "SELECT min(deadline) > $1::timestamptz + interval '3 s' FROM telesto.leases"
    first = await connection.fetchval("SELECT max(deadline) FROM telesto.leases")
    async with heard(wire):
        await until(lambda: connection.fetchval(kept, first))
    await connection.close()
    assert wire.unasked.empty()
    assert await member.ack(b"1", b"2") == [None, None]


@pytest.mark.settings(**QUICK_SWEEPS)
async def test_what_waits_at_a_silent_client_comes_back_uncounted(
    server: MiddlewareServer, connect: Connect
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(lease_ms=1_500)
    await put_keyed(wire, queue_id, "a1", "a2", "b1")
    member = await deliveries(wire, 1_500, queue_id)
    await member.next(3)
    heir = await deliveries(other, 1_500, queue_id)
    async with heard(other):
        messages = await heir.next(3)
    assert sorted(seen(messages)) == [(b"a1", 1, True), (b"a2", 1, True), (b"b1", 1, True)]
    lost: list[packets.LeaseRef] = []
    while len(lost) < 3:
        lost += (await member.lost()).leases
    assert sorted(lost, key=str) == sorted(member.refs.values(), key=str)
    # What it begins now it has no more.
    member.begin(b"a1")
    assert await member.ack(b"a1") == [ErrorCode.LEASE_LOST]


@pytest.mark.settings(**QUICK_SWEEPS)
async def test_what_was_begun_and_not_answered_in_time_counts(
    server: MiddlewareServer, connect: Connect
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(lease_ms=1_500)
    await put_all(wire, queue_id, b"1", b"2")
    member = await deliveries(wire, 1_500, queue_id)
    await member.next(2)
    member.begin(b"1")
    heir = await deliveries(other, 1_500, queue_id)
    async with heard(other):
        messages = await heir.next(2)
    assert sorted(seen(messages)) == [(b"1", 2, True), (b"2", 1, True)]


# ---------------------------------------------------------------------------------- in memory
def consumer(lease_s: float = 30.0) -> Consumer:
    pipeline = Pipeline(
        lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None
    )
    return Consumer(1, 1, pipeline, 10, 0, lease_s=lease_s)


def given(member: Consumer, at: float, *ids: int) -> list[LeaseKey]:
    keys = [LeaseKey(7, message_id) for message_id in ids]
    for key in keys:
        member.add(key, 1, 7, at)
    return keys


def test_leases_of_what_waits_are_kept_after_a_third() -> None:
    member = consumer()
    first, second = given(member, 0.0, 1, 2)
    (third,) = given(member, 5.0, 3)
    member.pipeline.heard_at = 6.0
    assert member.to_keep(9.9) == []
    assert member.to_keep(10.0) == [first, second]
    member.kept(first, 10.0)
    member.kept(second, 10.0)
    member.pipeline.heard_at = 11.0
    assert member.to_keep(15.0) == [third]
    member.begin(third, 16.0)
    assert member.to_keep(20.0) == [first, second]


def test_the_silent_lose_what_waits_but_not_what_they_have_begun() -> None:
    member = consumer()
    first, second = given(member, 1.0, 1, 2)
    member.begin(first, 1.0)
    member.pipeline.heard_at = 0.5
    assert member.to_keep(29.0) == []
    assert member.to_return(29.0) == []  # silence is found once
    assert member.to_return(29.5) == [second]
    member.pipeline.heard_at = 29.6
    assert member.to_return(29.7) == []
    assert member.to_keep(29.7) == [second]


def test_silence_of_less_than_three_quarters_returns_nothing() -> None:
    member = consumer()
    given(member, 1.0, 1)
    assert [member.to_return(at) for at in (12.0, 15.0, 23.0, 23.4)] == [[]] * 4
    assert len(member.to_return(23.5)) == 1


@pytest.mark.parametrize(("lease_s", "after"), [(30.0, 1.0), (2.0, 0.5)])
def test_a_begin_is_noted_after_a_while(lease_s: float, after: float) -> None:
    member = consumer(lease_s)
    (key,) = given(member, 0.0, 1)
    member.begin(key, 0.1)
    assert member.to_note(0.1 + after - 0.01) == []
    assert member.to_note(0.1 + after) == [(key, pytest.approx(after))]
    member.noted(key)
    assert member.to_note(9.0) == []
    assert member.begun_ids == [1]


def test_a_begin_late_in_the_lease_is_noted_at_once() -> None:
    member = consumer()
    (key,) = given(member, 0.0, 1)
    member.begin(key, 15.1)
    assert member.to_note(15.1) == [(key, 0.0)]


def test_what_is_dropped_is_gone_everywhere() -> None:
    member = consumer()
    first, second = given(member, 0.0, 1, 2)
    member.begin(first, 0.0)
    assert member.drop(first)
    assert member.drop(second)
    member.pipeline.heard_at = 1.0
    assert (member.to_keep(99.0), member.to_note(99.0), member.to_return(99.0)) == ([], [], [])
    assert member.begun_ids == []
    member.begin(second, 1.0)
    member.take_back(second)
    assert member.held == 0


def test_what_was_taken_back_is_kept_like_what_waits() -> None:
    member = consumer()
    first, second = given(member, 0.0, 1, 2)
    member.begin(second, 1.0)
    member.take_back(second)
    member.pipeline.heard_at = 2.0
    assert (member.begun_ids, member.to_note(9.0)) == ([], [])
    assert sorted(member.to_keep(10.0)) == [first, second]
