"""Refusals keep order: for every numbered request, in every state of a connection.

What was refused for now is sent again, so that nothing of the connection may overtake it. What a full queue
refused, no put may follow that was sent by a client that did not know.
"""

from collections.abc import Callable
from typing import Any

import pytest

from conftest import Connect, StartMiddleware
from requests_of_all import NUMBERED, numbered_requests
from telesto.middleware.common.failures import RefusedError, UnavailableError, standby_unavailable
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import REQUESTS, ClientMode, ConnectionState
from test_mw_gathering import first_call, workbench
from wire import FULL, READ_ONLY, Wire, frame, put, read
from workbench import put_all

_INFO = {info.packet.__name__: info for info in REQUESTS.values()}
#: What is answered also after GoAway.
_DRAINING = [name for name in NUMBERED if ConnectionState.DRAINING in _INFO[name].allowed]


# --- for now ---------------------------------------------------------------------------------
def drain(server: MiddlewareServer) -> None:
    for connection in server.connections.snapshot():
        connection.go_away(packets.GoAway("test", []))


def overload(server: MiddlewareServer) -> None:
    server.budget.enter(1 << 40, 0)


def relieve(server: MiddlewareServer) -> None:
    server.budget.leave(1 << 40, 0)


def shut(server: MiddlewareServer) -> None:
    def check(*, writes: bool) -> None:
        if writes:
            raise UnavailableError("shut", standby_unavailable(10))

    server.database.gate.check = check  # type: ignore[method-assign]


def reopen(server: MiddlewareServer) -> None:
    del server.database.gate.check


def nothing(_server: MiddlewareServer) -> None:
    pass


#: How a request comes to be refused for now, how that ends, and the error.
CAUSES: dict[
    str, tuple[Callable[[MiddlewareServer], None], Callable[[MiddlewareServer], None], ErrorCode]
] = {
    "draining": (drain, nothing, ErrorCode.SHUTTING_DOWN),
    "overloaded": (overload, relieve, ErrorCode.OVERLOADED),
    "no standby": (shut, reopen, ErrorCode.STANDBY_UNAVAILABLE),
}
REFUSALS = [
    (cause, name) for cause in CAUSES for name in NUMBERED if cause != "draining" or name not in _DRAINING
]


async def _identified(
    connect: Connect, server: MiddlewareServer, mode: ClientMode = FULL
) -> tuple[Wire, int]:
    """A connection, and a queue of its own with a message for every read of the test."""
    owner = await (await connect(server)).register()
    queue_id = await owner.create_queue()
    for _ in range(20):
        await owner.put_one(queue_id)
    wire = await (await connect(server)).register(mode=mode)
    return wire, queue_id


async def _executed(connect: Connect, server: MiddlewareServer, client_id: int) -> set[int]:
    """The numbers of which something took effect."""
    takeover = await (await connect(server)).identify(client_id)
    return {entry.number for entry in (*takeover.operations, *takeover.hand_overs)}


@pytest.mark.parametrize(("cause", "first"), REFUSALS)
async def test_no_request_overtakes_one_that_was_refused_for_now(
    connect: Connect, start_middleware: StartMiddleware, cause: str, first: str
) -> None:
    begin, end, code = CAUSES[cause]
    server = await start_middleware()
    wire, queue_id = await _identified(connect, server)
    requests = numbered_requests(queue_id)
    begin(server)
    refused = await wire.ask(requests[first](wire.number()))
    end(server)
    assert (refused.code, refused.error_class) == (code, ErrorClass.RETRYABLE)
    for name in NUMBERED:
        answer = await wire.ask(requests[name](wire.number()))
        assert isinstance(answer, packets.Error), name
        assert answer.error_class is ErrorClass.RETRYABLE, name
    wire.resume()
    number = wire.number()
    assert isinstance(await wire.ask(requests["Ack"](number)), packets.AckResponse)
    assert await _executed(connect, server, wire.client_id) == {number}


def _malformed(name: str, number: int) -> tuple[int, bytes]:
    return _INFO[name].packet.METHOD_ID, number.to_bytes(8, "big") + b"\xff\xff\xff\xff"


def _cut(name: str, _number: int) -> tuple[int, bytes]:
    return _INFO[name].packet.METHOD_ID, b"\x00"


def _confirming_too_much(name: str, number: int) -> Any:
    packet = numbered_requests(1)[name](number)
    packet.confirmed = [1 << 63]
    return packet


#: What is refused for good and never reaches the database.
REJECTED: dict[str, Callable[[str, int], Any]] = {
    "malformed": _malformed,
    "cut short": _cut,
    "confirming what cannot be": _confirming_too_much,
}


@pytest.mark.parametrize("rejected", REJECTED)
@pytest.mark.parametrize("cause", CAUSES)
async def test_what_is_rejected_in_between_lets_nothing_overtake(
    connect: Connect, start_middleware: StartMiddleware, cause: str, rejected: str
) -> None:
    begin, end, code = CAUSES[cause]
    server = await start_middleware()
    wire, queue_id = await _identified(connect, server)
    begin(server)
    assert (await wire.ask(put(wire.number(), queue_id))).code == code
    end(server)
    for name in NUMBERED:
        packet = REJECTED[rejected](name, wire.number())
        if isinstance(packet, tuple):
            packet_id, answer = wire.expect()
            wire.write(frame(packet[0], packet_id, packet[1]))
            assert isinstance(await answer, packets.Error)
        else:
            assert isinstance(await wire.ask(packet), packets.Error)
        behind = await wire.ask(numbered_requests(queue_id)["Ack"](wire.number()))
        assert behind.error_class is ErrorClass.RETRYABLE, name
    wire.resume()
    assert isinstance(await wire.ask(numbered_requests(queue_id)["Ack"](wire.number())), packets.AckResponse)


@pytest.mark.parametrize("name", [name for name in NUMBERED if _INFO[name].mode is ClientMode.FULL])
async def test_a_request_without_permission_lets_nothing_overtake(
    connect: Connect, server: MiddlewareServer, name: str
) -> None:
    wire, queue_id = await _identified(connect, server, READ_ONLY)
    requests = numbered_requests(queue_id)
    overload(server)
    assert (await wire.ask(read(wire.number(), queue_id))).code == ErrorCode.OVERLOADED
    relieve(server)
    refused = await wire.ask(requests[name](wire.number()))
    assert refused.code == ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION
    assert (await wire.ask(requests["Ack"](wire.number()))).error_class is ErrorClass.RETRYABLE
    wire.resume()
    assert len(await wire.read_now(queue_id)) == 1


async def test_a_number_left_out_counts_also_when_its_request_is_rejected(
    connect: Connect, server: MiddlewareServer
) -> None:
    wire, queue_id = await _identified(connect, server)
    shut(server)
    assert (await wire.put(queue_id)).code == ErrorCode.STANDBY_UNAVAILABLE
    reopen(server)
    wire.resume()
    assert (await wire.put(queue_id, -1)).code == ErrorCode.INVALID_PARAMETER
    assert await wire.put_one(queue_id)


async def test_what_only_reads_is_done_also_while_no_commit_is_confirmed(
    connect: Connect, server: MiddlewareServer
) -> None:
    wire, queue_id = await _identified(connect, server)
    shut(server)
    listed = await wire.ask(packets.GetQueues(0, 10))
    assert [queue.queue_id for queue in listed.queues] == [queue_id]
    statistics = await wire.ask(packets.GetQueueStatistics(queue_id))
    assert isinstance(statistics, packets.GetQueueStatisticsResponse)
    subscribed = await wire.ask(packets.Subscribe(wire.number(), [], "topic"))
    assert subscribed.code == ErrorCode.STANDBY_UNAVAILABLE


async def test_what_is_not_recorded_has_no_order(connect: Connect, server: MiddlewareServer) -> None:
    wire, queue_id = await _identified(connect, server)
    overload(server)
    assert (await wire.ask(put(0, queue_id))).code == ErrorCode.OVERLOADED
    relieve(server)
    assert await wire.put_one(queue_id)
    drain(server)
    assert (await wire.ask(put(0, queue_id))).code == ErrorCode.SHUTTING_DOWN
    assert isinstance(await wire.ask(numbered_requests(queue_id)["Ack"](wire.number())), packets.AckResponse)


# --- a full queue ----------------------------------------------------------------------------
def _error_of(answer: Any) -> int | None:
    return answer.code if isinstance(answer, packets.Error) else answer.results[0].error


async def _full_queue(wire: Wire, **settings: Any) -> tuple[int, int]:
    """A queue that has refused a put, which the client has not confirmed, and was emptied; the number."""
    queue_id = await wire.create_queue(max_messages=1, **settings)
    await wire.put_one(queue_id, dedup_key="first")
    number = wire.number()
    assert _error_of(await wire.ask(put(number, queue_id))) == ErrorCode.QUEUE_FULL
    other = await wire.ask(read(0, queue_id))
    assert len(other.messages) == 1
    return queue_id, number


async def test_a_refusal_ends_with_the_confirmation_of_the_put_that_the_queue_refused(wire: Wire) -> None:
    queue_id, refused = await _full_queue(wire)
    # These were under way.
    for _ in range(3):
        assert _error_of(await wire.put(queue_id)) == ErrorCode.QUEUE_FULL
    # Those behind the first need not be confirmed: it is known that they are refused.
    answer = await wire.ask(put(wire.number(), queue_id, confirmed=[refused]))
    assert answer.results[0].error is None


@pytest.mark.parametrize("name", ["Confirm", *[name for name in NUMBERED if name != "DeleteClient"]])
async def test_any_request_may_confirm_the_refusal(wire: Wire, name: str) -> None:
    queue_id, refused = await _full_queue(wire)
    if name == "Confirm":
        packet: Any = packets.Confirm([refused], [], [])
    else:
        packet = numbered_requests(await wire.create_queue())[name](wire.number())
        packet.confirmed = [refused]
    assert not isinstance(await wire.ask(packet), packets.Error) or name in ("Unsubscribe", "DeleteTopic")
    assert await wire.put_one(queue_id)


async def test_a_number_left_out_ends_the_refusal(wire: Wire) -> None:
    queue_id, _ = await _full_queue(wire)
    assert _error_of(await wire.put(queue_id)) == ErrorCode.QUEUE_FULL
    wire.resume()
    assert await wire.put_one(queue_id)


async def test_a_producer_that_always_has_puts_under_way_gets_through(wire: Wire) -> None:
    """Each put is sent before the answer to the one before it, and confirms the one before that."""
    queue_id, refused = await _full_queue(wire)
    outcomes = []
    numbers = [refused]
    for _ in range(6):
        numbers.append(wire.number())
        confirmed = numbers[-3:-2]
        outcomes.append(_error_of(await wire.ask(put(numbers[-1], queue_id, confirmed=confirmed))))
    full = ErrorCode.QUEUE_FULL
    assert outcomes == [full, None, full, full, full, full]  # the queue has space for one


async def test_a_repetition_is_told_of_the_first_put(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_messages=1)
    first = await wire.put_one(queue_id, dedup_key="key")
    assert _error_of(await wire.put(queue_id, dedup_key="other")) == ErrorCode.QUEUE_FULL
    for _ in range(2):
        (result,) = (await wire.put(queue_id, dedup_key="key")).results
        assert (result.message_id, result.duplicate, result.error) == (first, True, None)
    # Nothing else goes behind the one that was refused.
    await wire.ask(read(0, queue_id))
    assert _error_of(await wire.put(queue_id, dedup_key="other")) == ErrorCode.QUEUE_FULL


async def test_a_queue_that_is_gone_refuses_nothing_for_being_full(connect: Connect) -> None:
    wire, other = await connect(), await connect()
    await wire.register()
    await other.register()
    queue_id, _ = await _full_queue(wire)
    second = await wire.create_queue()
    assert isinstance(await other.ask(packets.DeleteQueue(1, [], queue_id)), packets.Success)
    assert (await wire.put(second)).results[0].error is None


async def test_a_full_queue_holds_also_when_the_batch_is_split() -> None:
    """The first part of a batch finds the queue full, and the second meets it with space."""
    room = [0]  # once the sender's first put has been refused

    def procedure(*arguments: Any) -> list[Any]:
        requests = arguments[0]
        if len(requests) > 1:
            raise RefusedError("53200", "out of memory")
        errors: list[int | None] = []
        for queue_id in arguments[5]:
            errors.append(None if queue_id > 0 and room[0] > 0 else int(ErrorCode.QUEUE_FULL))
        room[0] += requests == [1]
        return [(errors, [0 if error else 1 for error in errors])]

    async with workbench(procedure) as bench:
        blocker, sender = bench.sender(3), bench.sender(1)
        blocker.put(2)
        await first_call(bench)
        for _ in range(3):
            sender.put(1)
        bench.go()
        await bench.until(lambda: len(sender.order) == 3)
        errors = [sender.answers[packet_id].results[0].error for packet_id in (1, 2, 3)]
        assert errors == [ErrorCode.QUEUE_FULL] * 3


async def test_a_put_refused_behind_another_stays_so_when_it_is_busy() -> None:
    """It is tried again, and what confirms the refusal stands behind it."""
    state = {"full": True, "busy": True}

    def procedure(*arguments: Any) -> list[Any]:
        if state.pop("full", False):
            return [([int(ErrorCode.QUEUE_FULL)], [0])]
        if state.pop("busy", False):
            return [([-1] * len(arguments[0]), [0] * len(arguments[0]))]
        errors = [None if queue_id > 0 else int(ErrorCode.QUEUE_FULL) for queue_id in arguments[5]]
        return [(errors, [0 if error else 1 for error in errors])]

    async with workbench(procedure, busy_backoff_max_ms=1) as bench:
        sender = bench.sender(1)
        refused = sender.put(1)
        bench.go(1)
        await bench.until(lambda: sender.answers)
        sender.put(1)
        sender.put(1, confirmed=[refused])
        bench.go()
        await bench.until(lambda: len(sender.order) == 3)
        errors = [sender.answers[packet_id].results[0].error for packet_id in (1, 2, 3)]
        assert errors == [ErrorCode.QUEUE_FULL, ErrorCode.QUEUE_FULL, None]


async def test_what_was_refused_behind_another_begins_no_rule_of_its_own() -> None:
    """A request in the same batch confirms the first refusal; what is refused after it is the first again."""
    room = [0]

    def procedure(*arguments: Any) -> list[Any]:
        errors: list[int | None] = []
        for queue_id in arguments[5]:
            full = queue_id < 0 or (queue_id == 1 and not room[0])
            errors.append(int(ErrorCode.QUEUE_FULL) if full else None)
        return [(errors, [0 if error else 1 for error in errors])]

    async with workbench(procedure) as bench:
        sender = bench.sender(1)
        first = sender.put(1)
        bench.go(1)
        await bench.until(lambda: len(sender.order) == 1)
        behind = sender.put(1)
        sender.put(2, confirmed=[first])
        bench.go(1)
        await bench.until(lambda: len(sender.order) == 3)
        sender.put(1)  # refused by the queue
        bench.go(1)
        await bench.until(lambda: len(sender.order) == 4)
        room[0] = 1
        sender.put(1, confirmed=[behind])  # sent before that was known
        bench.go(1)
        await bench.until(lambda: len(sender.order) == 5)
        errors = [sender.answers[packet_id].results[0].error for packet_id in (1, 2, 3, 4, 5)]
        full = ErrorCode.QUEUE_FULL
        assert errors == [full, full, None, full, full]


async def test_a_plain_put_is_not_slowed_by_an_old_refusal() -> None:
    """The rule of a series that is over is forgotten."""
    async with workbench(put_all) as bench:
        sender = bench.sender(1)
        sender.pipeline.refused = {1: 1}
        sender.put(1, resumes=True)
        bench.go()
        await bench.until(lambda: sender.answers)
        assert sender.pipeline.refused == {}
