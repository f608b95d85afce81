"""Small parts: deadlines, background work, quarantine, expected sizes, notifications, failures, routes."""

import asyncio
from typing import Any
from unittest.mock import Mock

import pytest

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.failures import (
    BUSY,
    BusyError,
    FailedError,
    LostError,
    RefusedError,
    UnavailableError,
    check_error,
    failure_by_sqlstate,
    loses_connection,
)
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.procedures.table import single_handlers
from telesto.middleware.scheduling.dispatcher import Quarantine
from telesto.middleware.scheduling.expected_size import ExpectedSizes
from telesto.middleware.scheduling.requests import SINGLY, weight_of_put
from telesto.middleware.waiting.room import Notifier
from telesto.middleware.wire.connection import Flusher
from telesto.middleware.wire.routes import open_routes
from telesto.protocol import packets
from telesto.protocol.errors import ERRORS, ErrorClass, ErrorCode
from telesto.protocol.packets import REQUESTS, ClientMode, ConnectionState
from wire import PATIENCE_S


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


# --- deadlines -------------------------------------------------------------------------------
async def test_deadlines_come_in_their_order() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    came: list[int] = []
    last = asyncio.Event()
    now = loop.time()
    deadlines.add(now + 0.03, last.set)
    deadlines.add(now + 0.02, lambda: came.append(2))
    cancelled = deadlines.add(now + 0.015, lambda: came.append(0))
    deadlines.add(now + 0.01, lambda: came.append(1))
    deadlines.cancel(cancelled)
    deadlines.cancel(cancelled)
    await asyncio.wait_for(last.wait(), PATIENCE_S)
    assert came == [1, 2]
    assert len(deadlines) == 0


async def test_many_deadlines_at_once_are_all_kept() -> None:
    loop = asyncio.get_running_loop()
    deadlines = Deadlines(loop)
    came: list[int] = []
    done = asyncio.Event()
    for number in range(2_000):
        deadlines.add(loop.time(), lambda number=number: came.append(number))  # type: ignore[misc]
    deadlines.add(loop.time() + 0.001, done.set)
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    assert came == list(range(2_000))


async def test_cancelled_deadlines_do_not_pile_up() -> None:
    deadlines = Deadlines(asyncio.get_running_loop())
    for _ in range(10_000):
        deadlines.cancel(deadlines.add(1e12, lambda: None))
    assert deadlines.kept <= 2_048
    deadlines.close()


async def test_a_deadline_that_fails_does_not_stop_the_others() -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda loop, context: None)
    deadlines = Deadlines(loop)
    done = asyncio.Event()

    def fail() -> None:
        raise RuntimeError

    deadlines.add(loop.time(), fail)
    deadlines.add(loop.time() + 0.001, done.set)
    await asyncio.wait_for(done.wait(), PATIENCE_S)


# --- background work -------------------------------------------------------------------------
async def test_background_work_goes_on_after_failures() -> None:
    errors: list[Exception] = [UnavailableError("x"), LostError("x"), RefusedError("", "x"), KeyError("x")]
    done = asyncio.Event()

    async def act() -> None:
        if errors:
            raise errors.pop()
        done.set()

    work = Periodic("test", act, period_s=0.001)
    task = asyncio.create_task(work.run())
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    work.stop()
    await asyncio.wait_for(task, PATIENCE_S)


async def test_background_work_is_done_when_poked_and_never_twice_at_once() -> None:
    running = most = count = 0
    done = asyncio.Event()

    async def act() -> None:
        nonlocal running, most, count
        running += 1
        most = max(most, running)
        work.poke()
        await asyncio.sleep(0)
        running -= 1
        count += 1
        if count == 5:
            done.set()

    work = Periodic("test", act, period_s=None)
    task = asyncio.create_task(work.run())
    work.poke()
    await asyncio.wait_for(done.wait(), PATIENCE_S)
    work.stop()
    await asyncio.wait_for(task, PATIENCE_S)
    assert most == 1


async def test_what_is_under_way_ends_before_the_stop() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()
    ended: list[bool] = []

    async def act() -> None:
        begun.set()
        await may_end.wait()
        ended.append(True)

    work = Periodic("test", act, period_s=0.001)
    task = asyncio.create_task(work.run())
    await asyncio.wait_for(begun.wait(), PATIENCE_S)
    work.stop()
    may_end.set()
    await asyncio.wait_for(task, PATIENCE_S)
    assert ended == [True]


# --- weights of puts -------------------------------------------------------------------------
def test_a_put_of_many_small_messages_is_heavy() -> None:
    """A call is bounded in bytes, and 512 requests of 256 messages each would hold a queue for long."""
    message = packets.NewMessage(5, 0, b"x", None)
    several = [packets.QueuedMessage(1, message) for _ in range(256)]
    assert weight_of_put(packets.PutMessage(1, [], message, [1]), 60) == 60
    assert weight_of_put(packets.PutMessages(1, [], several), 9_000) > 256 * 1024
    to_topic = packets.PutToTopic(1, [], "t", [packets.NewTopicMessage(b"x")] * 256)
    assert weight_of_put(to_topic, 9_000) > 256 * 1024


# --- quarantine and expected sizes -----------------------------------------------------------
def test_clients_in_quarantine_are_kept_apart_for_a_while() -> None:
    clock = Clock()
    quarantine = Quarantine(clock, 10.0, 8, 2)
    assert quarantine.batch(1) == 0
    quarantine.add([1, 2])
    assert (quarantine.batch(1), quarantine.batch(3)) == (8, 0)
    clock.now += 11
    assert quarantine.batch(1) == 0
    assert len(quarantine) == 0  # although 2 sends nothing any more
    quarantine.add([3, 4, 5])
    assert len(quarantine) == 2
    assert (quarantine.batch(3), quarantine.batch(5)) == (0, 8)


def test_weights_are_remembered_for_a_while() -> None:
    clock = Clock()
    expected_sizes = ExpectedSizes(clock, 10.0, 2)
    assert expected_sizes.of(1) == 0
    expected_sizes.note(1, 500)
    expected_sizes.note(1, 300)
    assert expected_sizes.of(1) == 500
    clock.now += 11
    assert expected_sizes.of(1) == 0
    for queue_id in (1, 2, 3):
        expected_sizes.note(queue_id, queue_id * 1_000)
    assert [expected_sizes.of(queue_id) for queue_id in (1, 2, 3)] == [0, 2_000, 3_000]


# --- notifications ---------------------------------------------------------------------------
async def notifier(
    calls: list[tuple[Any, ...]], entries_max: int = 10, counters: Counters | None = None
) -> tuple[Notifier, Peers]:
    async def call(_sql: str, *arguments: Any) -> list[Any]:
        calls.append(arguments)
        return []

    peers = Peers("1", middleware_id=7)
    return Notifier(call, peers, counters or Counters(), 1, entries_max), peers


async def test_nobody_is_told_when_nobody_is_there() -> None:
    calls: list[tuple[Any, ...]] = []
    told, _ = await notifier(calls)
    told.tell({(1, 0): 1})
    await told.send()
    assert calls == []


async def test_what_came_is_told_together() -> None:
    calls: list[tuple[Any, ...]] = []
    counters = Counters()
    told, peers = await notifier(calls, entries_max=2, counters=counters)
    peers.others = {8: "there:1"}
    told.tell({(1, 0): 1})
    told.tell({(1, 0): 2, (2, 9): 1, (3, 0): 1})
    await told.send()
    assert calls == [(7, [1, 2], [0, 9], [3, 1])]
    assert counters.dropped_wake_ups_total == 1


# --- failures --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("sqlstate", "code", "error_class"),
    [
        ("TL025", ErrorCode.QUEUE_FULL, ErrorClass.REJECTED),
        ("53200", ErrorCode.OVERLOADED, ErrorClass.RETRYABLE),
        ("53100", ErrorCode.DISK_FULL, ErrorClass.RETRYABLE),
        ("40001", ErrorCode.OVERLOADED, ErrorClass.RETRYABLE),
        ("40P01", ErrorCode.OVERLOADED, ErrorClass.RETRYABLE),
        ("55P03", ErrorCode.OVERLOADED, ErrorClass.RETRYABLE),
        ("57014", ErrorCode.CALL_CANCELED, ErrorClass.RETRYABLE),
        ("25P03", ErrorCode.CALL_CANCELED, ErrorClass.RETRYABLE),
        ("25P04", ErrorCode.CALL_CANCELED, ErrorClass.RETRYABLE),
        ("22003", ErrorCode.INTERNAL_ERROR, ErrorClass.REJECTED),
        ("42883", ErrorCode.INTERNAL_ERROR, ErrorClass.REJECTED),
        ("", ErrorCode.INTERNAL_ERROR, ErrorClass.REJECTED),
    ],
)
def test_definite_errors_are_mapped(sqlstate: str, code: ErrorCode, error_class: ErrorClass) -> None:
    failure = failure_by_sqlstate(RefusedError(sqlstate, "why"), 100)
    assert (failure.code, failure.error_class) == (code, error_class)
    assert (failure.retry_after_ms is None) == (error_class is not ErrorClass.RETRYABLE)


def test_every_code_of_the_procedures_keeps_its_class() -> None:
    for info in ERRORS.values():
        failure = failure_by_sqlstate(RefusedError(info.sqlstate, "why"), 100)
        assert (failure.code, failure.error_class, failure.details) == (info.code, info.error_class, "why")


@pytest.mark.parametrize("sqlstate", ["08003", "08006", "57P01", "57P02", "57P03", "57P05"])
def test_some_errors_lose_the_connection(sqlstate: str) -> None:
    assert loses_connection(sqlstate)


@pytest.mark.parametrize("sqlstate", ["", "57014", "40001", "TL001"])
def test_others_do_not(sqlstate: str) -> None:
    assert not loses_connection(sqlstate)


def test_error_columns_are_read() -> None:
    check_error(None, "fine")
    with pytest.raises(BusyError):
        check_error(BUSY, "busy")
    with pytest.raises(FailedError) as failed:
        check_error(ErrorCode.QUEUE_NOT_EXISTING, "gone", 5)
    assert failed.value.failure.related_id == 5


# --- routes ----------------------------------------------------------------------------------
def test_every_request_has_a_route_and_somebody_to_execute_it() -> None:
    routes = {
        method_id: route
        for state in ConnectionState
        for method_id, route in open_routes(state, ClientMode.FULL).items()
    }
    assert routes.keys() == REQUESTS.keys()
    handlers = single_handlers(Mock(), Mock(), Mock(), Mock(), Mock(), Mock())
    for method_id, route in routes.items():
        if route.kind in SINGLY:
            assert method_id in handlers
        else:
            assert method_id not in handlers


@pytest.mark.parametrize("state", ConnectionState)
@pytest.mark.parametrize("mode", ClientMode)
def test_routes_follow_the_specification(state: ConnectionState, mode: ClientMode) -> None:
    expected = {
        method_id
        for method_id, info in REQUESTS.items()
        if state in info.allowed and not (info.mode is ClientMode.FULL and mode is ClientMode.READ_ONLY)
    }
    assert open_routes(state, mode).keys() == expected


# --- flushing --------------------------------------------------------------------------------
async def test_everybody_is_flushed_once_a_turn() -> None:
    flushed: list[int] = []
    flusher = Flusher(asyncio.get_running_loop())

    class Sender:
        def __init__(self, number: int) -> None:
            self.number = number

        def flush(self) -> None:
            flushed.append(self.number)

    for number in range(3):
        flusher.add(Sender(number))
    assert flushed == []
    await asyncio.sleep(0)
    assert flushed == [0, 1, 2]
    flusher.add(Sender(3))
    await asyncio.sleep(0)
    assert flushed == [0, 1, 2, 3]
