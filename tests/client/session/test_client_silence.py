"""A middleware that stands still is left soon; one that is slow is not."""

import struct

import pytest

from fake_service import FakeConnection, FakeService
from harness import Clock, Wire
from memory_state import MemoryState
from telesto.client.calls.queue_calls import DONE, SENT, Call, PutCall, ReadCall
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import ReadMode

#: Nothing here ends because a request is given up.
OPTIONS = ClientOptions(try_timeout=1000, call_timeout=1000)


def put(queue_id: int, body: bytes = b"x") -> PutCall:
    return PutCall(queue_id, body, 5, None, None)


def read(queue_id: int, timeout: float | None = None) -> ReadCall:
    return ReadCall(queue_id, None, ReadMode.PRIORITY, timeout, 1)


@pytest.fixture
def wire(clock: Clock, service: FakeService) -> Wire:
    wire = Wire(clock, service, OPTIONS)
    wire.connect()
    return wire


def remote_of(wire: Wire) -> FakeConnection:
    assert wire.remote is not None
    return wire.remote


def freeze(wire: Wire) -> None:
    """The middleware stands still: what comes is not read."""
    remote_of(wire).receive = lambda data: None  # type: ignore[method-assign]


class Slow:
    """A middleware that answers Pings at once and all else when it is told to."""

    def __init__(self, wire: Wire) -> None:
        self._remote = remote_of(wire)
        self._receive = self._remote.receive
        self._held = b""
        self._decoder = FrameDecoder(1 << 24)
        self._remote.receive = self._hold  # type: ignore[method-assign]

    def _hold(self, data: bytes) -> None:
        for method_id, packet_id, payload in self._decoder.feed(data):
            length = 6 + len(payload)
            whole = struct.pack(">IHI", length, method_id, packet_id) + payload
            if method_id == packets.Ping.METHOD_ID:
                self._receive(whole)
            else:
                self._held += whole

    def go_on(self) -> None:
        self._receive(self._held)


def pings(service: FakeService) -> int:
    return sum(isinstance(packet, packets.Ping) for packet in service.received)


def left(wire: Wire, seconds: float) -> bool:
    """Lets time pass; tells whether the client has left its connection."""
    link = wire.session.link
    wire.advance(seconds)
    return wire.session.link is not link


def test_a_put_moves_within_two_seconds(wire: Wire, service: FakeService) -> None:
    queue = service.add_queue("q")
    freeze(wire)
    call = wire.start(put(queue))
    wire.settle()
    assert not left(wire, 1.9)
    assert left(wire, 0.2)
    assert wire.session.address == "b:2"
    wire.finish(call)
    assert len(service.queues[queue].messages) == 1


def test_a_read_that_waits_moves(wire: Wire, service: FakeService) -> None:
    queue = service.add_queue("q")
    call = wire.start(read(queue))
    wire.settle()
    assert not left(wire, 60)
    freeze(wire)
    assert left(wire, 4.1)
    wire.run(put(queue, b"for the reader"))
    [message] = wire.finish(call)
    assert message.body == b"for the reader"


def test_a_put_moves_although_a_read_has_waited_long(wire: Wire, service: FakeService) -> None:
    queue, other = service.add_queue("q"), service.add_queue("other")
    wire.start(read(queue))
    wire.settle()
    assert not left(wire, 61)
    freeze(wire)
    wire.start(put(other))
    wire.settle()
    assert left(wire, 2.1)


def test_a_connection_without_requests_is_asked_when_it_is_to_be_kept_alive(
    wire: Wire, service: FakeService
) -> None:
    assert not left(wire, 14.9)
    assert pings(service) == 0
    freeze(wire)
    assert left(wire, 2.2)


def test_questions_become_rarer_while_nothing_happens(wire: Wire, service: FakeService) -> None:
    wire.start(read(service.add_queue("q")))
    wire.settle()
    assert not left(wire, 600)
    assert 195 <= pings(service) <= 205


def test_hello_is_answered_soon_or_another_middleware_is_tried(clock: Clock, service: FakeService) -> None:
    wire = Wire(clock, service, OPTIONS)
    call = wire.session.connect(wire.identity("alice"))
    wire.open_link()
    freeze(wire)
    wire.settle()
    assert not left(wire, 1.9)
    assert wire.session.address == "a:1"
    wire.advance(1)
    wire.finish(call)
    assert wire.session.address == "b:2"


@pytest.mark.parametrize("kind", ["put", "read"])
def test_a_slow_middleware_that_answers_pings_is_not_left(
    wire: Wire, service: FakeService, kind: str
) -> None:
    queue = service.add_queue("q")
    slow = Slow(wire)
    call: Call[object] = wire.start(put(queue) if kind == "put" else read(queue, 0))
    wire.settle()
    assert not left(wire, 300)
    assert call.phase == SENT
    slow.go_on()
    wire.settle()
    wire.finish(call)


def test_a_middleware_that_reads_nothing_but_says_that_it_lives_is_not_left(
    wire: Wire, service: FakeService
) -> None:
    freeze(wire)
    wire.start(put(service.add_queue("q")))
    wire.settle()
    for _ in range(100):
        remote_of(wire).output.append(packets.Alive().encode(0))
        assert not left(wire, 0.9)
    assert left(wire, 3)


def test_an_answer_that_comes_slowly_is_a_sign_of_life(wire: Wire, service: FakeService) -> None:
    queue = service.add_queue("q")
    wire.run(put(queue, bytes(100_000)))
    call = wire.start(read(queue, 0))
    wire.reach_service()
    freeze(wire)
    wire.collect()
    link = wire.session.link
    while call.phase != DONE:
        wire.clock.now += 1.9
        wire.session.tick()
        wire.collect()
        wire.deliver_to_client(1_000)
        assert wire.session.link is link
    [message] = wire.finish(call)
    assert len(message.body) == 100_000


def test_what_is_still_being_sent_takes_its_time(wire: Wire, service: FakeService) -> None:
    freeze(wire)
    wire.start(put(service.add_queue("q"), bytes(4 << 20)))
    wire.settle()
    assert not left(wire, 5.9)
    assert left(wire, 0.3)


def test_a_middleware_that_becomes_slower_and_slower_is_not_left(wire: Wire, service: FakeService) -> None:
    """As it does when its load grows: an answer may take several times longer than the one before."""
    wire.start(read(service.add_queue("q")))
    wire.settle()
    link, delay = wire.session.link, 0.3
    while delay < 30:
        before = pings(service)
        while pings(service) == before:
            wire.clock.now = max(wire.clock.now, wire.session.timer)
            wire.session.tick()
            wire.reach_service()
        wire.clock.now += delay
        wire.session.tick()
        assert wire.session.link is link
        wire.settle()
        delay *= 2


def test_a_client_that_stood_still_itself_reads_first(wire: Wire, service: FakeService) -> None:
    queue = service.add_queue("q")
    call = wire.start(read(queue))
    wire.settle()
    link = wire.session.link
    while not pings(service):
        wire.clock.now = max(wire.clock.now, wire.session.timer)
        wire.session.tick()
        wire.reach_service()
    # Now it stands still; the Pong is there when it goes on, but a loop may tell the time before it reads.
    wire.clock.now += 100
    wire.session.tick()
    wire.settle()
    assert not left(wire, 60)
    assert wire.session.link is link
    assert call.phase == SENT


def test_an_answer_that_came_while_the_client_stood_still_is_read_first(
    clock: Clock, service: FakeService
) -> None:
    wire = Wire(clock, service)
    wire.connect()
    call = wire.start(put(service.add_queue("q")))
    wire.reach_service()
    link = wire.session.link
    wire.clock.now += ClientOptions().try_timeout + 5
    wire.session.tick()
    wire.settle()
    assert wire.session.link is link
    wire.finish(call)


def test_a_question_that_waits_for_a_flush_is_not_asked_yet(clock: Clock, service: FakeService) -> None:
    wire = Wire(clock, service, OPTIONS, state=MemoryState())
    wire.connect()
    queue = service.add_queue("q")
    call = wire.start(put(queue))
    wire.writes_wait = True
    wire.collect()
    assert wire.begin_write()
    wire.start(read(queue))
    assert not left(wire, 60)
    wire.writes_wait = False
    wire.settle()
    wire.finish(call)
