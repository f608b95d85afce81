"""The session core against the service in memory: calls, confirmations, takeovers."""

from __future__ import annotations

import pytest
from fake_service import FakeService, Fault
from harness import Clock, Wire
from telesto.client.calls import DONE, PutCall, ReadCall
from telesto.protocol import packets
from telesto.protocol.packets import ReadMode


def put(queue_id: int, body: bytes = b"x", priority: int = 5) -> PutCall:
    return PutCall(queue_id, body, priority, None, None)


def read(queue_id: int, timeout: float | None = 0, most: int = 1) -> ReadCall:
    return ReadCall(queue_id, None, ReadMode.PRIORITY, timeout, most)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(clock: Clock) -> FakeService:
    return FakeService(clock)


@pytest.fixture
def wire(clock: Clock, service: FakeService) -> Wire:
    wire = Wire(clock, service)
    wire.connect()
    return wire


def test_put_returns_the_message_id(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    message_id = wire.run(put(queue_id, b"hello"))
    assert service.queues[queue_id].messages[0].message_id == message_id


def test_the_next_request_confirms_the_answer_taken(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    wire.run(put(queue_id))
    wire.run(put(queue_id))
    assert len(service.operations) == 1
    assert not any(isinstance(packet, packets.Confirm) for packet in service.received)


def test_an_idle_session_confirms_by_itself(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    wire.run(put(queue_id))
    wire.advance(0.06)
    assert not service.operations
    assert service.confirmed_unknown == 0


def test_lost_answer_of_a_put_is_found_by_the_takeover(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    call = wire.start(put(queue_id))
    wire.collect()
    wire.deliver_to_service()
    wire.cut()
    wire.settle()
    assert wire.finish(call) == service.queues[queue_id].messages[0].message_id
    assert len(service.put_bodies) == 1
    wire.advance(0.06)
    assert not service.operations


def test_a_put_that_never_arrived_is_sent_again(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    calls = [wire.start(put(queue_id, body)) for body in (b"1", b"2", b"3")]
    wire.collect()
    wire.cut()
    calls.append(wire.start(put(queue_id, b"4")))
    wire.settle()
    assert all(call.phase == DONE for call in calls)
    assert [body for _, body in service.put_bodies] == [b"1", b"2", b"3", b"4"]


def test_in_doubt_error_is_resolved_by_a_takeover(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    service.faults.append(Fault(packets.PutMessage, packets_error("IO_ERROR"), after_execution=True))
    wire.run(put(queue_id))
    assert len(service.put_bodies) == 1


def packets_error(name: str):  # type: ignore[no-untyped-def]
    from telesto.protocol.errors import ErrorCode

    return ErrorCode[name]


def test_lost_message_of_a_read_is_found_by_the_takeover(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("orders")
    wire.run(put(queue_id, b"m"))
    call = wire.start(read(queue_id))
    wire.collect()
    wire.deliver_to_service()
    wire.cut()
    wire.settle()
    messages = wire.finish(call)
    assert [(message.body, message.redelivered) for message in messages] == [(b"m", False)]
    wire.advance(1)
    assert not service.deliveries
