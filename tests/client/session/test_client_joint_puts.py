"""Puts that stand in line next to each other travel as one request, and nobody notices."""

from typing import Any

import pytest

from fake_service import FakeService, Fault
from harness import Clock, Wire
from memory_state import MemoryState
from telesto.client.calls.queue_calls import DONE, PutCall, ReadCall
from telesto.client.errors import ClientClosedError, DeadlineExceededError
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery
from telesto.protocol import packets
from telesto.protocol.errors import (
    ConnectionLostError,
    ErrorCode,
    InvalidParameterError,
    MessageTooLargeError,
    QueueFullError,
    TelestoError,
)
from telesto.protocol.packets import ReadMode


def put(queue_id: int, body: bytes, **attributes: Any) -> PutCall:
    return PutCall(
        queue_id, body, 5, attributes.pop("receiver_id", None), attributes.pop("context", None), **attributes
    )


@pytest.fixture
def queue_id(service: FakeService) -> int:
    return service.add_queue("orders")


@pytest.fixture
def wire(clock: Clock, service: FakeService) -> Wire:
    return connected(clock, service)


def connected(
    clock: Clock, service: FakeService, options: ClientOptions | None = None, delivery: Delivery = "once"
) -> Wire:
    wire = Wire(clock, service, options, delivery)
    wire.connect()
    return wire


def start(wire: Wire, queue_id: int, count: int) -> list[PutCall]:
    return [wire.start(put(queue_id, b"%d" % number)) for number in range(count)]  # type: ignore[misc]


def requests(service: FakeService) -> list[packets.Packet]:
    return [
        packet for packet in service.received if isinstance(packet, (packets.PutMessage, packets.PutMessages))
    ]


def stored(service: FakeService) -> list[bytes]:
    return [body for _, body in service.put_bodies]


@pytest.mark.parametrize("delivery", ["once", "fast"])
def test_puts_in_line_are_one_request(
    clock: Clock, service: FakeService, queue_id: int, delivery: Delivery
) -> None:
    wire = connected(clock, service, delivery=delivery)
    calls = start(wire, queue_id, 5)
    wire.settle()
    ids = [wire.finish(call) for call in calls]
    assert ids == sorted(set(ids))
    assert [len(packet.messages) for packet in requests(service)] == [5]  # type: ignore[attr-defined]
    assert stored(service) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_put_by_itself_is_a_put(wire: Wire, service: FakeService, queue_id: int) -> None:
    wire.run(put(queue_id, b"x"))
    assert [type(packet) for packet in requests(service)] == [packets.PutMessage]


def test_it_is_confirmed_when_the_last_caller_has_its_result(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    calls = start(wire, queue_id, 3)
    wire.settle()
    for call in calls:
        wire.advance(1)
        assert service.operations
        wire.finish(call)
    wire.advance(1)
    assert not service.operations


def test_nothing_is_overtaken(wire: Wire, service: FakeService, queue_id: int) -> None:
    """Only neighbours of one queue go together; what stands between them stays between them."""
    other = service.add_queue("other")
    order = [queue_id, queue_id, other, queue_id, queue_id]
    calls = [wire.start(put(queue, b"%d" % number)) for number, queue in enumerate(order)]
    calls.insert(4, wire.start(ReadCall(other, None, ReadMode.TIME, 0)))
    calls.append(wire.start(put(queue_id, b"5")))
    wire.settle()
    for call in calls:
        wire.finish(call)
    assert stored(service) == [b"0", b"1", b"2", b"3", b"4", b"5"]
    # In the line: two, one, two, the read, one.
    assert [type(packet) for packet in requests(service)] == [
        packets.PutMessages,
        packets.PutMessage,
        packets.PutMessages,
        packets.PutMessage,
    ]


def test_each_has_an_outcome_of_its_own(wire: Wire, service: FakeService) -> None:
    full = service.add_queue("full", max_messages=2)
    calls = start(wire, full, 4)
    wire.settle()
    assert len(requests(service)) == 1
    for call in calls[:2]:
        wire.finish(call)
    for call in calls[2:]:
        with pytest.raises(QueueFullError):
            wire.finish(call)
    assert stored(service) == [b"0", b"1"]


def test_a_full_queue_decides_anew_once_one_of_them_is_told(wire: Wire, service: FakeService) -> None:
    full = service.add_queue("full", max_messages=1)
    calls = start(wire, full, 3)
    wire.settle()
    wire.finish(calls[0])
    wire.run(ReadCall(full, None, ReadMode.TIME, 0))
    # Who was told that his own is stored knows nothing of the others.
    with pytest.raises(QueueFullError):
        wire.run(put(full, b"behind"))
    with pytest.raises(QueueFullError):
        wire.finish(calls[1])
    assert wire.run(put(full, b"again"))
    with pytest.raises(QueueFullError):
        wire.finish(calls[2])
    wire.advance(1)
    assert not service.operations
    assert service.confirmed_unknown == 0


def test_bounds_in_messages_and_bytes(clock: Clock, service: FakeService, queue_id: int) -> None:
    service.max_put_elements = 4
    wire = connected(clock, service)
    calls = start(wire, queue_id, 10)
    wire.settle()
    assert [len(packet.messages) for packet in requests(service)] == [4, 4, 2]  # type: ignore[attr-defined]
    service.received.clear()
    calls += [wire.start(put(queue_id, bytes(60_000))) for _ in range(4)]
    wire.settle()
    assert [len(packet.messages) for packet in requests(service)] == [2, 2]  # type: ignore[attr-defined]
    for call in calls:
        wire.finish(call)


@pytest.mark.parametrize("max_body", [None, 1 << 20])
def test_a_middleware_that_does_not_name_its_bounds_gets_each_alone(
    clock: Clock, service: FakeService, queue_id: int, max_body: int | None
) -> None:
    service.max_body, service.max_put_elements = max_body, None if max_body else 1000
    wire = connected(clock, service)
    calls = start(wire, queue_id, 3)
    wire.settle()
    assert [type(packet) for packet in requests(service)] == [packets.PutMessage] * 3
    for call in calls:
        wire.finish(call)


def test_headers_count_as_bytes_of_the_body(clock: Clock, service: FakeService, queue_id: int) -> None:
    service.max_body = 30
    wire = connected(clock, service)
    headers = ({"n": "v"}, {"n": "v" * 10}, None, {"n": "v"})
    calls = [wire.start(put(queue_id, b"12345", headers=given)) for given in headers]
    wire.settle()
    # The second has 36 bytes, and goes alone.
    assert [len(getattr(packet, "messages", [0])) for packet in requests(service)] == [1, 1, 2]
    for call in calls:
        wire.finish(call)


def test_a_body_that_is_too_large_concerns_no_other(
    clock: Clock, service: FakeService, queue_id: int
) -> None:
    service.max_body = 10
    service.faults.append(Fault(packets.PutMessage, ErrorCode.MESSAGE_TOO_LARGE))
    wire = connected(clock, service)
    calls = [wire.start(put(queue_id, body)) for body in (b"1", b"2", bytes(11), b"3", b"4")]
    wire.settle()
    with pytest.raises(MessageTooLargeError):
        wire.finish(calls.pop(2))
    for call in calls:
        wire.finish(call)
    assert stored(service) == [b"1", b"2", b"3", b"4"]


def test_a_value_that_no_field_holds_concerns_no_other(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    """Arguments are checked when a call is made; an application may change its message after that."""
    calls = [put(queue_id, b"%d" % number) for number in range(4)]
    calls[1].message.context = 1 << 70
    for call in calls:
        wire.start(call)
    wire.settle()
    with pytest.raises(InvalidParameterError):
        wire.finish(calls.pop(1))
    for call in calls:
        wire.finish(call)
    assert stored(service) == [b"0", b"2", b"3"]


def test_a_refusal_of_all_is_found_to_be_of_one(wire: Wire, service: FakeService, queue_id: int) -> None:
    service.faults += [
        Fault(packets.PutMessages, ErrorCode.INVALID_PARAMETER),
        Fault(packets.PutMessage, ErrorCode.INVALID_PARAMETER),
    ]
    calls = start(wire, queue_id, 3)
    wire.settle()
    with pytest.raises(InvalidParameterError):
        wire.finish(calls.pop(0))
    for call in calls:
        wire.finish(call)
    assert stored(service) == [b"1", b"2"]


def test_after_a_failure_that_nobody_understands_each_is_tried_alone(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    """So what spoils a request again and again spoils no other."""
    service.faults.append(Fault(packets.PutMessages, ErrorCode.INTERNAL_ERROR))
    calls = start(wire, queue_id, 3)
    wire.settle()
    wire.advance(5)
    for call in calls:
        wire.finish(call)
    assert stored(service) == [b"0", b"1", b"2"]
    assert [type(packet) for packet in requests(service)] == [packets.PutMessages, *[packets.PutMessage] * 3]


@pytest.mark.parametrize("executed", [False, True])
def test_a_cut_connection_leaves_no_doubt(
    wire: Wire, service: FakeService, queue_id: int, executed: bool
) -> None:
    calls = start(wire, queue_id, 4)
    wire.collect()
    if executed:
        wire.deliver_to_service()
    wire.cut()
    wire.session.abandon(calls.pop(1))
    wire.advance(5)
    for call in calls:
        wire.finish(call)
    # What nobody waited for any more may have been done, and is not done again.
    assert stored(service) == ([b"0", b"1", b"2", b"3"] if executed else [b"0", b"2", b"3"])
    wire.advance(1)
    assert not service.operations


def test_refused_for_now_all_keep_their_places(wire: Wire, service: FakeService, queue_id: int) -> None:
    service.faults.append(Fault(packets.PutMessages, ErrorCode.OVERLOADED, retry_after_ms=500))
    calls = start(wire, queue_id, 3)
    wire.settle()
    calls += start(wire, queue_id, 2)
    wire.advance(0.4)
    assert not stored(service)
    wire.advance(0.2)
    assert stored(service) == [b"0", b"1", b"2", b"0", b"1"]
    for call in calls:
        wire.finish(call)


def test_each_has_a_deadline_of_its_own(clock: Clock, service: FakeService, queue_id: int) -> None:
    wire = connected(clock, service, ClientOptions(call_timeout=5))
    first = wire.start(put(queue_id, b"1"))
    wire.clock.now += 2
    second = wire.start(put(queue_id, b"2"))
    wire.collect()
    wire.clock.now += 3
    wire.session.tick()
    assert first.phase == DONE
    assert second.phase != DONE
    with pytest.raises(DeadlineExceededError, match="may have been done"):
        wire.finish(first)
    wire.settle()
    wire.finish(second)
    wire.advance(1)
    assert not service.operations


def test_abandoned_ones_do_not_hold_the_record(wire: Wire, service: FakeService, queue_id: int) -> None:
    before, after, taken = start(wire, queue_id, 3)
    wire.collect()
    wire.session.abandon(before)
    wire.settle()
    wire.session.abandon(after)
    wire.finish(taken)
    wire.advance(1)
    assert not service.operations
    calls = start(wire, queue_id, 2)
    wire.collect()
    for call in calls:
        wire.session.abandon(call)
    wire.settle()
    wire.advance(1)
    assert not service.operations


def test_closing_waits_for_what_is_under_way(wire: Wire, service: FakeService, queue_id: int) -> None:
    calls = start(wire, queue_id, 3)
    wire.collect()
    waiting = wire.start(put(queue_id, b"late"))
    wire.session.begin_close()
    with pytest.raises(ClientClosedError):
        wire.finish(waiting)
    wire.settle()
    for call in calls:
        wire.finish(call)
    wire.advance(1)
    assert wire.session.finished


def test_closing_for_good_tells_each(wire: Wire, queue_id: int) -> None:
    calls = start(wire, queue_id, 3)
    wire.collect()
    wire.session.begin_close()
    wire.session.end_close()
    errors: list[TelestoError] = []
    for call in calls:
        with pytest.raises(ConnectionLostError, match="may have been done") as caught:
            wire.finish(call)
        errors.append(caught.value)
    assert len({id(error) for error in errors}) == 3


def test_with_a_state_each_is_a_request(clock: Clock, service: FakeService, queue_id: int) -> None:
    wire = Wire(clock, service, state=MemoryState())
    wire.connect()
    calls = start(wire, queue_id, 3)
    wire.settle()
    assert [type(packet) for packet in requests(service)] == [packets.PutMessage] * 3
    for call in calls:
        wire.finish(call)


@pytest.mark.parametrize("together", [1, 2])
def test_a_put_that_waits_in_line_when_its_caller_learns_of_a_refusal_is_refused_behind_it(
    wire: Wire, service: FakeService, together: int
) -> None:
    """Its caller did not know of the refusal, so it may not fill the place of what was refused."""
    full = service.add_queue("full", max_messages=1)
    wire.run(put(full, b"first"))
    refused = [wire.start(put(full, b"refused")) for _ in range(together)]
    wire.settle()
    wire.run(ReadCall(full, None, ReadMode.TIME, 0))
    in_line = wire.start(put(full, b"in line"))
    with pytest.raises(QueueFullError):
        wire.finish(refused[0])
    wire.settle()
    with pytest.raises(QueueFullError):
        wire.finish(in_line)
    assert wire.run(put(full, b"again"))
    for call in refused[1:]:
        with pytest.raises(QueueFullError):
            wire.finish(call)
    wire.advance(1)
    assert not service.operations
    assert stored(service) == [b"first", b"again"]


def test_a_refusal_that_no_request_can_confirm_is_confirmed_when_the_line_is_empty(
    wire: Wire, service: FakeService
) -> None:
    full = service.add_queue("full", max_messages=1)
    wire.run(put(full, b"first"))
    refused = wire.start(put(full, b"refused"))
    wire.settle()
    in_line = wire.start(put(full, b"in line"))
    with pytest.raises(QueueFullError):
        wire.finish(refused)
    wire.session.abandon(in_line)
    wire.settle()
    wire.advance(1)
    assert not service.operations
