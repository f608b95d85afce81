"""Consumers that are slow, fail or are paused: who is told what, and who gets their work."""

import asyncio
import json
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from lost_answers import lose_answer
from members import Member, join, put_all, put_keyed
from telesto.middleware.common import logs
from telesto.middleware.consumers.behaviour import Behaviour, BehaviourLimits
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import PATIENCE_S, Wire

LATE_S = 11.0
"""More than a third of the lease of 30 seconds."""

QUICK_SWEEPS = {"due_sweep_interval_s": 0.02, "lost_leases_s": 0.02}


class Clock:
    """The clock of a middleware's behaviour monitor, which a test may put forward."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead_s


async def execute(database_url: str, sql: str, *arguments: Any) -> list[Any]:
    connection = await asyncpg.connect(database_url)
    try:
        return list(await connection.fetch(sql, *arguments))
    finally:
        await connection.close()


async def told_slow(member: Member) -> None:
    packet = await member.lost()
    assert (packet.consumer_id, packet.leases) == (member.consumer_id, [])
    assert (packet.ended, packet.code) == (False, ErrorCode.CONSUMER_SLOW)


async def answer_late(member: Member, clock: Clock, body: bytes) -> None:
    clock.ahead_s += LATE_S
    assert await member.ack(body) == [None]


async def two_partitions(slow: Member, idle: Member, queue_id: int) -> tuple[list[bytes], Sequence[bytes]]:
    """Puts five messages into each of two partitions; returns those of the slow and of the other consumer."""
    await put_keyed(slow.wire, queue_id, *(f"{key}{i}" for i in range(5) for key in "ab"))
    (first,) = await slow.bodies(1)
    (other,) = await idle.bodies(1)
    assert {first, other} == {b"a0", b"b0"}
    return ([first[:1] + str(i).encode() for i in range(5)], [other[:1] + str(i).encode() for i in range(5)])


async def test_after_the_third_late_answer_its_messages_move_in_order(
    start_middleware: StartMiddleware, connect: Connect, database_url: str
) -> None:
    clock = Clock()
    server, elsewhere = await start_middleware(consumer_clock=clock), await start_middleware()
    wire, other = await (await connect(server)).register(), await (await connect(elsewhere)).register()
    queue_id = await wire.create_queue()
    slow, idle = await join(wire, queue_id, messages=1), await join(other, queue_id, messages=1)
    of_slow, of_idle = await two_partitions(slow, idle, queue_id)
    for body in of_idle[1:]:
        await idle.ack(of_idle[of_idle.index(body) - 1])
        assert await idle.bodies(1) == [body]
    await idle.ack(of_idle[-1])

    for body, following in pairwise(of_slow[:3]):
        await answer_late(slow, clock, body)
        assert await slow.bodies(1) == [following]
    await answer_late(slow, clock, of_slow[2])
    await told_slow(slow)
    for body in of_slow[3:]:
        assert await idle.bodies(1) == [body]
        await idle.ack(body)
    assert (server.counters.late_answers_total, server.counters.slow_consumers_total) == (3, 1)

    # It is a member still, and gets new work when the window has passed.
    await execute(database_url, "UPDATE telesto.consumers SET slow_until = clock_timestamp()")
    await put_keyed(wire, queue_id, "x1", "y1")
    assert {*await slow.bodies(1), *await idle.bodies(1)} == {b"x1", b"y1"}


async def test_small_delays_move_nothing(start_middleware: StartMiddleware, connect: Connect) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue()
    slow, idle = await join(wire, queue_id, messages=1), await join(other, queue_id, messages=1)
    of_slow, _ = await two_partitions(slow, idle, queue_id)
    for body, following in pairwise(of_slow):
        clock.ahead_s += LATE_S / 2
        await slow.ack(body)
        assert await slow.bodies(1) == [following]
    assert (server.counters.late_answers_total, server.counters.slow_consumers_total) == (0, 0)


@pytest.mark.parametrize("limit", [0, 5])
async def test_late_answers_below_the_limit_are_counted(
    start_middleware: StartMiddleware, connect: Connect, limit: int
) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue(late_limit=limit)
    member = await join(wire, queue_id, messages=1)
    await put_all(wire, queue_id, b"1", b"2", b"3", b"4")
    for _ in range(4):
        (body,) = await member.bodies(1)
        await answer_late(member, clock, body)
    assert (server.counters.late_answers_total, server.counters.slow_consumers_total) == (4, 0)


async def test_touching_is_being_in_time(start_middleware: StartMiddleware, connect: Connect) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue()
    slow, idle = await join(wire, queue_id, messages=1), await join(other, queue_id, messages=1)
    of_slow, _ = await two_partitions(slow, idle, queue_id)
    for body, following in pairwise(of_slow):
        clock.ahead_s += LATE_S
        await wire.ask(packets.Touch([slow.refs[body]]))
        await slow.ack(body)
        assert await slow.bodies(1) == [following]
    assert server.counters.slow_consumers_total == 0


async def test_what_is_in_flight_moves_when_it_is_answered(
    start_middleware: StartMiddleware, connect: Connect
) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(late_limit=1)
    slow = await join(wire, queue_id, messages=2)
    await put_keyed(wire, queue_id, "a1", "a2", "a3")
    assert await slow.bodies(2) == [b"a1", b"a2"]
    idle = await join(other, queue_id)
    await answer_late(slow, clock, b"a1")
    await told_slow(slow)
    await slow.ack(b"a2")
    assert await idle.bodies(1) == [b"a3"]


async def test_the_only_consumer_is_not_told(start_middleware: StartMiddleware, connect: Connect) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue(late_limit=1)
    slow = await join(wire, queue_id, messages=1)
    await put_keyed(wire, queue_id, "a1", "a2", "a3")
    for body, following in ((b"a1", b"a2"), (b"a2", b"a3")):
        await slow.next(1)
        await answer_late(slow, clock, body)
        slow.refs.pop(following, None)
    assert await slow.bodies(1) == [b"a3"]


async def test_a_slow_consumer_whose_change_is_lost_is_told_later(
    start_middleware: StartMiddleware, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    server = await start_middleware(wake_sweep_s=0.02, consumer_clock=clock)
    lost = lose_answer(monkeypatch, "telesto.change_consumers(")
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(late_limit=1)
    slow = await join(wire, queue_id, messages=1)
    await put_keyed(wire, queue_id, "a1", "a2")
    await slow.next(1)
    idle = await join(other, queue_id)
    await answer_late(slow, clock, b"a1")
    await told_slow(slow)
    assert await idle.bodies(1) == [b"a2"]
    assert len(lost) == 1


# ---------------------------------------------------------------------------------- failing
@pytest.mark.settings(**QUICK_SWEEPS)
async def test_three_attempts_that_nobody_answered_make_it_inactive(
    server: MiddlewareServer, connect: Connect
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(lease_ms=1_000, max_attempts=1_000, fail_limit=3)
    await put_keyed(wire, queue_id, "a1", "a2")
    answer = await wire.ask(packets.JoinQueue(queue_id, 1, 0))
    attempts, lost = [], 0
    while True:
        packet = await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
        if isinstance(packet, packets.Deliver):
            assert [delivery.message.body for delivery in packet.deliveries] == [b"a1"]
            attempts.append(packet.deliveries[0].message.attempt)
            refs = [
                packets.LeaseRef(packet.consumer_id, delivery.lease_id, delivery.message.message_id)
                for delivery in packet.deliveries
            ]
            wire.write(packets.Begin(refs, True).encode(0))
        elif packet.ended:
            break
        else:
            lost += 1
    assert (packet.consumer_id, packet.code) == (answer.consumer_id, ErrorCode.CONSUMER_INACTIVE)
    assert lost >= 3
    assert attempts == list(range(1, len(attempts) + 1))
    assert server.counters.inactive_consumers_total == 1
    # It counts as often as its time was up, and not for what was taken from it at the end.
    heir = await _join_any(other, queue_id)
    (message,) = await heir.next(1)
    assert (message.body, message.attempt) == (b"a1", lost + 1)
    await heir.ack(b"a1")
    assert await heir.bodies(1) == [b"a2"]


async def _join_any(wire: Wire, queue_id: int, messages: int = 1) -> Member:
    answer = await wire.ask(packets.JoinQueue(queue_id, messages, 0))
    return Member(wire, answer.consumer_id)


async def test_three_different_messages_given_back_as_failed_make_it_inactive(
    server: MiddlewareServer, connect: Connect, database_url: str
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(fail_limit=3, backoff_ms=3_600_000, backoff_max_ms=3_600_000)
    await put_all(wire, queue_id, b"1", b"2", b"3", b"4")
    member = await join(wire, queue_id)
    await member.next(4)
    for body in (b"1", b"2", b"3"):
        assert await member.nack(body, failed=True) == [None]
    packet = await member.lost()
    assert (packet.ended, packet.code) == (True, ErrorCode.CONSUMER_INACTIVE)
    assert packet.leases == [member.refs[b"4"]]
    heir = await join(other, queue_id)
    (message,) = await heir.next(1)
    assert (message.body, message.attempt) == (b"4", 1)
    rows = await execute(database_url, "SELECT attempt FROM telesto.delayed_messages")
    assert [row["attempt"] for row in rows] == [1, 1, 1]
    # It may join again.
    again = await join(wire, queue_id)
    await put_all(wire, queue_id, b"5")
    await heir.ack(b"4")
    assert again.consumer_id != member.consumer_id


async def test_a_success_between_failures_starts_anew(wire: Wire) -> None:
    queue_id = await wire.create_queue(fail_limit=3, backoff_ms=3_600_000, backoff_max_ms=3_600_000)
    await put_all(wire, queue_id, b"1", b"2", b"3", b"4", b"5")
    member = await join(wire, queue_id)
    await member.next(5)
    for body in (b"1", b"2"):
        await member.nack(body, failed=True)
    await member.ack(b"3")
    for body in (b"4", b"5"):
        await member.nack(body, failed=True)
    await put_all(wire, queue_id, b"6")
    assert await member.bodies(1) == [b"6"]


async def test_one_bad_message_does_not_make_it_inactive(wire: Wire) -> None:
    queue_id = await wire.create_queue(fail_limit=3, backoff_ms=0, max_attempts=5)
    await put_all(wire, queue_id, b"bad")
    member = await join(wire, queue_id)
    for _ in range(5):
        await member.next(1)
        await member.nack(b"bad", failed=True)
    await put_all(wire, queue_id, b"good")
    assert await member.bodies(1) == [b"good"]


async def test_one_that_fails_everything_is_slowed_and_recovers(
    server: MiddlewareServer, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure("info", json=True)
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(backoff_ms=3_600_000, backoff_max_ms=3_600_000)
    await put_all(wire, queue_id, *(b"%d" % i for i in range(20)))
    member = await join(wire, queue_id, messages=5)
    consumer = server.consumers.get(member.consumer_id)
    assert consumer is not None
    fails = [message.body for message in await member.next(5)]
    for body in fails[:4]:
        assert await member.nack(body, failed=True) == [None]
    assert not consumer.failing
    fails = [fails[4], *(message.body for message in await member.next(4))]
    for body in fails:
        await member.nack(body, failed=True)
    assert (consumer.failing, consumer.ended) == (True, False)
    # Now it is given one at a time, and each only after a rest.
    for _ in range(2):
        assert (consumer.free, consumer.rests_until > 0) == (0, True)
        (message,) = await member.next(1)
        assert (consumer.held, consumer.free) == (1, 0)
        await member.nack(message.body, failed=True)
    assert server.counters.gauge("failing_consumers") == server.counters.failing_consumers_total == 1
    # Others get the messages meanwhile.
    another = await join(other, queue_id, messages=5)
    assert len(await another.next(5)) == 5
    (message,) = await member.next(1)
    await member.ack(message.body)
    assert len(await member.next(3)) == 3
    assert server.counters.gauge("failing_consumers") == 0
    assert (server.counters.inactive_consumers_total, server.counters.failing_consumers_total) == (0, 1)
    logged = [json.loads(line)["event"] for line in capsys.readouterr().err.splitlines()]
    assert [event for event in logged if event.startswith("consumer_")] == [
        "consumer_failing",
        "consumer_recovered",
    ]


async def test_one_that_fails_everything_loses_its_partitions(
    server: MiddlewareServer, connect: Connect
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(backoff_ms=3_600_000, backoff_max_ms=3_600_000, late_limit=0)
    failing = await join(wire, queue_id, messages=5)
    await put_all(wire, queue_id, *(b"%d" % i for i in range(5)))
    await failing.next(5)
    for i in range(4):
        await failing.nack(b"%d" % i, failed=True)
    keyed = [f"{key}{i}" for i in range(2) for key in "abc"]
    await put_keyed(wire, queue_id, *keyed)
    held = [message.body for message in await failing.next(4)]
    idle = await join(other, queue_id)
    await failing.nack(b"4", failed=True)
    await told_slow(failing)
    await failing.nack(*held)
    assert sorted(await idle.bodies(6)) == sorted(name.encode() for name in keyed)


async def test_what_the_application_acknowledged_itself_is_an_answer(
    start_middleware: StartMiddleware, connect: Connect, database_url: str
) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue(late_limit=1, fail_limit=2, backoff_ms=3_600_000)
    await put_all(wire, queue_id, b"1", b"2", b"3", b"4")
    member = await join(wire, queue_id)
    await member.next(4)
    await member.nack(b"1", failed=True)
    clock.ahead_s += LATE_S
    await execute(database_url, "DELETE FROM telesto.leases WHERE body = '2'")
    answer = await wire.ask(packets.Touch([member.refs[b"2"], member.refs[b"3"]]))
    assert [result.error for result in answer.results] == [ErrorCode.LEASE_LOST, None]
    assert server.counters.slow_consumers_total == 1
    await member.nack(b"3", failed=True)
    assert server.counters.inactive_consumers_total == 0
    await member.nack(b"4", failed=True)
    assert (await member.lost()).code == ErrorCode.CONSUMER_INACTIVE


async def test_what_is_given_back_unbegun_is_no_failure(wire: Wire) -> None:
    queue_id = await wire.create_queue(fail_limit=1)
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id)
    for _ in range(3):
        await member.next(1)
        await member.nack(b"1", failed=False)
    assert await member.bodies(1) == [b"1"]


async def test_a_queue_may_put_up_with_everything(
    start_middleware: StartMiddleware, connect: Connect
) -> None:
    clock = Clock()
    server = await start_middleware(consumer_clock=clock)
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue(late_limit=0, fail_limit=0, backoff_ms=3_600_000)
    member = await join(wire, queue_id)
    await join(other, queue_id, messages=0)
    for i in range(5):
        await put_all(wire, queue_id, f"failing {i}".encode(), f"slow {i}".encode())
        await member.next(2)
        await member.nack(f"failing {i}".encode(), failed=True)
        await answer_late(member, clock, f"slow {i}".encode())
    assert (server.counters.slow_consumers_total, server.counters.inactive_consumers_total) == (0, 0)


# ---------------------------------------------------------------------------------- without credit
async def test_a_consumer_without_credit_holds_no_partitions(
    server: MiddlewareServer, connect: Connect, database_url: str
) -> None:
    wire, other = await (await connect(server)).register(), await (await connect(server)).register()
    queue_id = await wire.create_queue()
    paused = await join(other, queue_id, messages=0)
    await put_keyed(wire, queue_id, *"abcd")
    member = await join(wire, queue_id)
    assert sorted(await member.bodies(4)) == [b"a", b"b", b"c", b"d"]
    await member.ack(b"a", b"b", b"c", b"d")

    async def is_paused() -> bool:
        sql = "SELECT paused FROM telesto.consumers WHERE consumer_id = $1"
        (row,) = await execute(database_url, sql, paused.consumer_id)
        return bool(row["paused"])

    await other.ask(packets.Credit(paused.consumer_id, 10, 0))
    while await is_paused():
        pass
    await put_keyed(wire, queue_id, *"efgh")
    assert len(await paused.bodies(4)) == 4
    await other.ask(packets.Credit(paused.consumer_id, 0, 0))
    while not await is_paused():
        pass
    await paused.ack(b"e", b"f", b"g", b"h")
    await put_keyed(wire, queue_id, "e2", "f2", "g2", "h2")
    assert sorted(await member.bodies(4)) == [b"e2", b"f2", b"g2", b"h2"]


# ---------------------------------------------------------------------------------- counting

LIMITS = BehaviourLimits(late_after_s=10, late_limit=3, late_window_s=60, fail_limit=3)


def answers(*times: float, given: float = 0.0, limits: BehaviourLimits = LIMITS) -> list[bool]:
    behaviour = Behaviour(limits)
    return [behaviour.late([given], at) and behaviour.too_often_late(at) for at in times]


@pytest.mark.parametrize(
    ("times", "slow"),
    [
        ([11, 22, 33], [False, False, True]),
        ([10, 20, 30], [False, False, False]),
        # An answer in time between them changes nothing.
        ([11, 12, 23, 24, 35], [False, False, False, False, True]),
        # The first one is out of the window.
        ([11, 40, 71.5], [False, False, False]),
        ([11, 40, 70.5], [False, False, True]),
        # After that it is counted anew.
        ([11, 22, 33, 44, 55, 66], [False, False, True, False, False, True]),
    ],
)
def test_late_answers_are_counted_within_a_window(times: list[float], slow: list[bool]) -> None:
    assert answers(*times) == slow


def test_what_stands_behind_others_is_not_late() -> None:
    # All were given at once, and each takes nine seconds.
    assert not any(answers(*(9.0 * i for i in range(1, 20))))


def test_what_ran_out_together_is_one_failure() -> None:
    behaviour = Behaviour(LIMITS)
    assert [behaviour.ran_out(0, 30), behaviour.ran_out(5, 31), behaviour.ran_out(29, 32)] == [False] * 3
    assert behaviour.failures == 1
    assert [behaviour.ran_out(40, 70), behaviour.ran_out(71, 101)] == [False, True]


def test_a_message_that_fails_again_counts_once_until_a_success() -> None:
    behaviour = Behaviour(LIMITS)
    assert [behaviour.gave_back(message) for message in (1, 1, 2, 2, 2)] == [False] * 5
    behaviour.succeeded()
    assert [behaviour.gave_back(message) for message in (2, 3, 4)] == [False, False, True]
    assert not any(Behaviour(LIMITS._replace(fail_limit=0)).gave_back(i) for i in range(1, 9))


def test_one_that_fails_everything_rests_longer_and_longer() -> None:
    behaviour = Behaviour(LIMITS._replace(fail_limit=0))
    rests = []
    for message in range(1, 13):
        behaviour.gave_back(message)
        rests.append(behaviour.rest_s)
    assert rests == pytest.approx([0, 0, 0, 0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    for message in range(1, 2_000):
        behaviour.gave_back(message)
    assert behaviour.rest_s == 5
    behaviour.succeeded()
    assert behaviour.rest_s == 0
