"""A session with a state: what is written before what, and what the next process makes of it."""

from copy import deepcopy
from typing import Any

import pytest

from fake_service import FakeService, Fault
from harness import Wire
from memory_state import MemoryState
from telesto.client.arguments import new_message
from telesto.client.calls.queue_calls import (
    DONE,
    Call,
    CreateQueueCall,
    DeleteClientCall,
    GetQueuesCall,
    PutCall,
    PutManyCall,
    PutSeveralCall,
    ReadCall,
)
from telesto.client.calls.readers import Reader
from telesto.client.errors import (
    ClientClosedError,
    DeadlineExceededError,
    IncarnationChangedError,
    NotDoneError,
    OutcomeUnknownError,
    StateMismatchError,
    StateWriteError,
    TriesExhaustedError,
)
from telesto.client.io.shared import told_one_by_one
from telesto.client.models import NewMessage as MessageToPut
from telesto.client.models import RecoveredPut
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import (
    ClientNotExistingError,
    ErrorCode,
    QueueFullError,
    QueueNotExistingError,
    SessionFencedError,
    TelestoError,
)
from telesto.protocol.packets import NewMessage, QueuedMessage, ReadMode


def put(queue_id: int, body: bytes = b"x") -> PutCall:
    return PutCall(queue_id, body, 5, None, None)


def read(queue_id: int, timeout: float | None = 0, most: int = 1, reader: object = None) -> ReadCall:
    call = ReadCall(queue_id, None, ReadMode.PRIORITY, timeout, most)
    if reader is not None:
        call.reader = Reader(reader, lambda: getattr(reader, "gone", False))
    return call


def bodies(messages: list[Any]) -> list[tuple[bytes, bool]]:
    return [(message.body, message.redelivered) for message in messages]


class Person:
    """A thread or task of the application."""

    gone = False


class Client:
    """The processes of one client, one after the other, with one state."""

    def __init__(self, service: FakeService, options: ClientOptions | None = None) -> None:
        self.service = service
        self.options = options
        self.state = MemoryState()
        self.wire = self.begin()

    def begin(self, **identity: Any) -> Wire:
        """The first process, or the next one after a crash; connects."""
        self.new()
        self.wire.connect(**identity)
        return self.wire

    def new(self) -> Wire:
        self.wire = Wire(self.service.clock, self.service, self.options, state=self.state)  # type: ignore[arg-type]
        return self.wire

    def crash(self) -> None:
        """The process is killed: what it has not written is gone, and so is its connection."""
        self.wire.cut()

    def restart(self) -> None:
        """The process is killed, and the next one begins."""
        self.crash()
        self.begin()

    def send_only(self, call: Call[Any]) -> Call[Any]:
        """Makes a call whose request the service executes and whose answer is lost with the process."""
        self.wire.start(call)
        self.wire.reach_service()
        return call

    def recovered(self) -> list[RecoveredPut]:
        call = self.wire.session.when_settled()
        self.wire.settle()
        self.wire.finish(call)
        found = list(told_one_by_one(self.wire.session))
        self.wire.advance(1)
        return found

    def stored(self) -> list[bytes]:
        return [body for _, body in self.service.put_bodies]


@pytest.fixture
def queue_id(service: FakeService) -> int:
    return service.add_queue("one")


@pytest.fixture
def client(service: FakeService) -> Client:
    return Client(service)


def outsider(service: FakeService, **identity: Any) -> Wire:
    """A process that becomes the same client without the state."""
    wire = Wire(service.clock, service)  # type: ignore[arg-type]
    wire.connect(existing="use", **identity)
    return wire


# --- what is written before what --------------------------------------------------------------------
def test_no_request_leaves_before_its_intent_is_written(client: Client, queue_id: int) -> None:
    wire = client.wire
    wire.writes_wait = True
    call = wire.start(put(queue_id))
    wire.settle()
    assert not client.stored()
    assert wire.begin_write()
    wire.settle()
    assert not client.stored()
    wire.end_write()
    wire.settle()
    assert client.stored() == [b"x"]
    assert wire.finish(call) > 0


def test_requests_of_one_turn_share_a_write(client: Client, queue_id: int) -> None:
    wire = client.wire
    before = client.state.writes
    waiting = [wire.start(put(queue_id)) for _ in range(50)]
    wire.settle()
    assert all(call.phase == DONE for call in waiting)
    assert client.state.writes == before + 1


def test_what_comes_during_a_write_waits_for_the_next_one(client: Client, queue_id: int) -> None:
    wire = client.wire
    wire.writes_wait = True
    wire.start(put(queue_id, b"1"))
    wire.settle()
    wire.begin_write()
    wire.start(put(queue_id, b"2"))
    wire.start(GetQueuesCall(0, 1))
    wire.settle()
    wire.end_write()
    wire.settle()
    assert client.stored() == [b"1"]
    assert not any(isinstance(packet, packets.GetQueues) for packet in client.service.received)
    wire.write()
    wire.settle()
    assert client.stored() == [b"1", b"2"]


def test_a_read_needs_no_write_before_it_is_sent_and_one_before_it_returns(
    client: Client, queue_id: int
) -> None:
    client.wire.run(put(queue_id))
    client.wire.advance(1)
    wire = client.wire
    wire.writes_wait = True
    call = wire.start(read(queue_id))
    wire.settle()
    assert client.service.deliveries
    assert call.phase != DONE
    assert wire.begin_write()
    wire.end_write()
    assert bodies(wire.finish(call)) == [(b"x", False)]
    assert len(client.state.names()) == 1


def test_an_empty_read_writes_nothing(client: Client, queue_id: int) -> None:
    client.wire.advance(1)
    before = client.state.writes
    assert client.wire.run(read(queue_id)) == []
    assert client.state.writes == before


def test_a_record_is_confirmed_only_when_the_state_has_forgotten_the_request(
    client: Client, queue_id: int
) -> None:
    wire = client.wire
    call = wire.start(put(queue_id))
    wire.settle()
    wire.writes_wait = True
    wire.finish(call)
    assert client.service.operations
    assert client.state.requests
    wire.clock.now += 1
    wire.begin_write()
    wire.advance(1)
    assert client.service.operations
    wire.end_write()
    wire.advance(1)
    assert not client.service.operations


def test_a_definite_error_is_raised_only_when_the_state_has_forgotten_the_request(
    client: Client, queue_id: int
) -> None:
    wire = client.wire
    client.service.faults.append(Fault(packets.PutMessage, ErrorCode.MESSAGE_TOO_LARGE))
    call = wire.start(put(queue_id))
    wire.collect()
    wire.writes_wait = True
    wire.settle()
    assert call.phase != DONE
    wire.begin_write()
    wire.end_write()
    with pytest.raises(TelestoError):
        wire.finish(call)
    assert not client.state.requests


def test_a_refusal_is_confirmed_by_the_next_put(client: Client, queue_id: int) -> None:
    """A middleware refuses what is put into a queue that was full until that is confirmed."""
    client.service.queues[queue_id].max_messages = 0
    for _ in range(3):
        with pytest.raises(QueueFullError):
            client.wire.run(put(queue_id))
    received = [packet for packet in client.service.received if isinstance(packet, packets.PutMessage)]
    assert [packet.confirmed for packet in received] == [[], [1], [2]]
    assert client.recovered() == []


def test_a_refusal_is_told_even_if_that_cannot_be_written(client: Client, queue_id: int) -> None:
    client.service.queues[queue_id].max_messages = 0
    call = client.wire.start(put(queue_id))
    client.wire.collect()
    client.state.broken = True
    client.wire.settle()
    with pytest.raises(QueueFullError):
        client.wire.finish(call)


def test_a_put_cancelled_after_its_answer_is_told_of(client: Client, queue_id: int) -> None:
    client.service.queues[queue_id].max_messages = 1
    for body in (b"taken", b"refused"):
        call = client.wire.start(put(queue_id, body))
        client.wire.settle()
        assert call.phase == DONE
        client.wire.session.abandon(call)
    [taken, refused] = client.recovered()
    assert (taken.message.body, taken.error) == (b"taken", None)
    assert isinstance(refused.error, QueueFullError)
    client.wire.session.begin_close()
    assert client.wire.session.finished


def test_an_idle_client_has_written_everything(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.wire.run(read(queue_id))
    client.wire.advance(1)
    assert not client.state.requests
    assert not client.state.hand_overs
    assert not client.service.operations
    assert not client.service.deliveries
    assert client.wire.session.timer > client.wire.clock.now + 5


# --- puts and a crash --------------------------------------------------------------------------------
def test_a_put_that_was_done_is_not_sent_again(client: Client, queue_id: int) -> None:
    client.send_only(put(queue_id, b"done"))
    client.restart()
    [recovered] = client.recovered()
    assert client.stored() == [b"done"]
    assert recovered.message.body == b"done"
    assert recovered.queue_id == queue_id
    assert recovered.message_id == client.service.queues[queue_id].messages[0].message_id
    assert recovered.error is None
    assert not client.service.operations
    assert not client.state.requests


def test_a_put_that_was_not_done_is_sent_again_before_new_ones(client: Client, queue_id: int) -> None:
    for body in (b"1", b"2", b"3"):
        client.wire.start(put(queue_id, body))
    client.wire.collect()
    client.crash()
    wire = client.new()
    connecting = wire.session.connect(wire.identity("alice"))
    wire.start(put(queue_id, b"4"))
    wire.settle()
    wire.finish(connecting)
    assert client.stored() == [b"1", b"2", b"3", b"4"]
    assert [put.message.body for put in client.recovered()] == [b"1", b"2", b"3"]


def test_crashes_while_it_is_sent_again_do_not_double(client: Client, queue_id: int) -> None:
    client.wire.start(put(queue_id, b"once"))
    client.wire.collect()
    client.crash()
    wire = client.new()
    wire.session.connect(wire.identity("alice"))
    while not client.service.operations:
        wire.open_link()
        wire.reach_service()
        wire.collect()
        if not client.service.operations:
            wire.deliver_to_client()
    client.restart()
    assert len(client.recovered()) == 1
    client.restart()
    assert client.recovered() == []
    assert client.stored() == [b"once"]


def test_a_put_that_was_not_written_was_not_sent(client: Client, queue_id: int) -> None:
    client.wire.writes_wait = True
    client.wire.start(put(queue_id))
    client.wire.settle()
    client.restart()
    assert client.recovered() == []
    assert client.stored() == []


def test_a_put_that_returned_right_before_the_crash_is_told_of_again(client: Client, queue_id: int) -> None:
    message_id = client.wire.run(put(queue_id))
    client.restart()
    assert [recovered.message_id for recovered in client.recovered()] == [message_id]
    assert client.stored() == [b"x"]


def test_a_put_whose_end_is_written_is_not_told_of(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.advance(1)
    client.restart()
    assert client.recovered() == []


def test_a_refused_put_stays_refused(client: Client, queue_id: int) -> None:
    with pytest.raises(QueueNotExistingError):
        client.wire.run(put(999))
    client.crash()
    client.service.queues[999] = client.service.queues[queue_id]
    client.begin()
    [recovered] = client.recovered()
    assert isinstance(recovered.error, QueueNotExistingError)
    assert client.stored() == []


def test_a_put_that_was_tried_in_vain_stays_undone(client: Client, queue_id: int) -> None:
    client.service.faults += [Fault(packets.PutMessage, ErrorCode.OVERLOADED) for _ in range(5)]
    call = client.wire.start(put(queue_id))
    client.wire.settle()
    client.wire.advance(10)
    with pytest.raises(TriesExhaustedError):
        client.wire.finish(call)
    client.restart()
    assert client.recovered() == []
    assert client.stored() == []


def test_a_put_that_waits_for_its_next_try_is_tried_by_the_next_process(
    client: Client, queue_id: int
) -> None:
    client.service.faults.append(Fault(packets.PutMessage, ErrorCode.OVERLOADED))
    client.wire.start(put(queue_id))
    client.wire.settle()
    client.restart()
    assert [recovered.error for recovered in client.recovered()] == [None]
    assert client.stored() == [b"x"]


def test_the_next_process_tries_as_often_as_it_takes(client: Client, queue_id: int) -> None:
    client.wire.start(put(queue_id))
    client.wire.collect()
    client.crash()
    client.service.faults += [Fault(packets.PutMessage, ErrorCode.OVERLOADED) for _ in range(20)]
    client.begin()
    client.wire.advance(60)
    assert [recovered.error for recovered in client.recovered()] == [None]


def test_each_message_of_a_request_is_told_of(client: Client, queue_id: int) -> None:
    other = client.service.add_queue("full", max_messages=0)
    messages = [QueuedMessage(queue_id, NewMessage(7, 9, body, 3)) for body in (b"1", b"2")]
    client.send_only(PutManyCall(queue_id, messages))
    client.send_only(PutSeveralCall([queue_id, other], b"3", 5, None, None))
    client.restart()
    found = client.recovered()
    assert [(put.queue_id, put.message.body) for put in found] == [
        (queue_id, b"1"),
        (queue_id, b"2"),
        (queue_id, b"3"),
        (other, b"3"),
    ]
    first: Any = found[0].message
    assert (first.priority, first.receiver_id, first.correlation_id) == (7, 9, 3)
    assert [type(put.error) for put in found] == [type(None), type(None), type(None), QueueFullError]
    assert found[3].message_id is None


def test_a_message_is_told_of_as_it_was_put(client: Client, queue_id: int) -> None:
    message = new_message(b"x", 7, 12, 34, "key", 1.5, 60)
    client.send_only(PutManyCall(queue_id, [QueuedMessage(queue_id, message)]))
    client.restart()
    [recovered] = client.recovered()
    assert recovered.message == MessageToPut(b"x", 7, 12, 34, "key", 1.5, 60)


def test_what_was_told_counts_as_told_when_the_next_is_asked_for(client: Client, queue_id: int) -> None:
    for body in (b"1", b"2", b"3"):
        client.send_only(put(queue_id, body))
    client.restart()
    told = told_one_by_one(client.wire.session)
    assert [next(told).message.body, next(told).message.body] == [b"1", b"2"]
    client.wire.advance(1)
    client.restart()
    assert [recovered.message.body for recovered in client.recovered()] == [b"2", b"3"]


def test_only_puts_are_noted(client: Client, queue_id: int) -> None:
    client.wire.advance(1)
    before = client.state.writes
    client.send_only(CreateQueueCall("two", {}))
    client.restart()
    assert client.recovered() == []
    assert [queue.name for queue in client.service.queues.values()] == ["one", "two"]
    client.wire.advance(1)
    assert not client.service.operations
    assert client.state.writes > before  # of the next process, which asked for a session
    assert not client.state.requests


# --- calls that ended without telling ------------------------------------------------------------------
def test_a_put_given_up_in_doubt_is_not_sent_again(client: Client, queue_id: int) -> None:
    client.wire.start(put(queue_id))
    client.wire.collect()
    call = client.wire.start(put(queue_id, b"y"))
    client.wire.collect()
    client.wire.session.abandon(call)
    client.wire.write()
    client.wire.advance(1)
    client.wire.collect()
    client.restart()
    assert client.stored() == [b"x", b"y"]
    client.crash()


def test_a_put_whose_time_ran_out_is_resolved_by_the_next_takeover(client: Client, queue_id: int) -> None:
    wire = client.wire
    wire.start(put(queue_id, b"lost"))
    wire.collect()
    wire.to_service = b""  # it never comes to the service
    [call] = wire.session.link.pending.values()
    wire.clock.now += 31
    wire.session.tick()
    wire.collect()
    with pytest.raises(DeadlineExceededError):
        wire.finish(call)
    wire.advance(1)
    [recovered] = client.recovered()
    assert isinstance(recovered.error, NotDoneError)
    assert client.stored() == []


def test_a_put_that_is_settled_before_its_caller_has_heard_of_the_deadline_is_told_of_once(
    client: Client, queue_id: int
) -> None:
    """Its caller is told that it is in doubt; what became of it is told by the recovered puts alone."""
    wire = client.wire
    lost = wire.start(put(queue_id, b"lost"))
    wire.collect()
    wire.cut()
    client.state.broken = True
    wire.advance(35)
    client.state.broken = False
    wire.advance(35)
    assert [recovered.message.body for recovered in client.recovered()] == [b"lost"]
    with pytest.raises(DeadlineExceededError):
        wire.finish(lost)
    assert client.recovered() == []


@pytest.mark.parametrize("fault", [None, ErrorCode.QUEUE_FULL])
def test_what_became_of_a_put_whose_time_ran_out_is_told_by_its_answer(
    client: Client, queue_id: int, fault: ErrorCode | None
) -> None:
    """The answer comes after the deadline, before the caller has heard of that."""
    wire = client.wire
    if fault is not None:
        client.service.faults.append(Fault(packets.PutMessage, fault))
    late = wire.start(put(queue_id, b"late"))
    wire.collect()
    wire.clock.now += 31
    wire.session.tick()
    wire.settle()
    [recovered] = client.recovered()
    assert getattr(recovered.error, "code", None) == fault
    with pytest.raises(DeadlineExceededError):
        wire.finish(late)


def test_a_cancelled_put_that_was_done_is_told_of(client: Client, queue_id: int) -> None:
    call = client.wire.start(put(queue_id, b"done"))
    client.wire.collect()
    client.wire.session.abandon(call)
    client.wire.settle()
    [recovered] = client.recovered()
    assert (recovered.message.body, recovered.error) == (b"done", None)
    assert not client.service.operations


def test_a_put_given_up_before_the_crash_is_told_of_as_not_done(client: Client, queue_id: int) -> None:
    call = client.wire.start(put(queue_id))
    client.wire.collect()
    client.wire.session.abandon(call)
    client.wire.clock.now += 1
    client.wire.write()
    client.restart()
    [recovered] = client.recovered()
    assert isinstance(recovered.error, NotDoneError)
    assert client.stored() == []


def test_a_put_cancelled_before_it_was_sent_leaves_nothing(client: Client, queue_id: int) -> None:
    client.service.faults.append(Fault(packets.PutMessage, ErrorCode.OVERLOADED))
    call = client.wire.start(put(queue_id))
    client.wire.settle()
    client.wire.session.abandon(call)
    client.wire.advance(1)
    assert not client.state.requests
    client.restart()
    assert client.recovered() == []


# --- messages --------------------------------------------------------------------------------------
def test_a_message_in_hand_comes_again_marked(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.wire.advance(20)
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]


def test_a_message_that_was_never_returned_comes_unmarked(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.send_only(read(queue_id))
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", False)]


def test_a_message_is_taken_when_its_reader_comes_back(client: Client, queue_id: int) -> None:
    for body in (b"1", b"2"):
        client.wire.run(put(queue_id, body))
    client.wire.run(read(queue_id))
    client.wire.run(read(queue_id))
    client.restart()
    assert bodies(client.wire.run(read(queue_id, most=5))) == [(b"2", True)]


def test_coming_back_to_nothing_counts_too(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    assert client.wire.run(read(queue_id)) == []
    client.restart()
    assert client.wire.run(read(queue_id)) == []
    assert not client.service.deliveries


def test_a_reader_comes_back_for_itself_only(client: Client, queue_id: int) -> None:
    one, two = Person(), Person()
    for body in (b"1", b"2", b"3"):
        client.wire.run(put(queue_id, body))
    client.wire.run(read(queue_id, reader=one))
    client.wire.run(read(queue_id, reader=two))
    client.wire.run(read(queue_id, reader=two))
    client.restart()
    assert bodies(client.wire.run(read(queue_id, most=5))) == [(b"1", True), (b"3", True)]


def test_a_reader_that_has_ended_has_come_back(client: Client, queue_id: int) -> None:
    one, two = Person(), Person()
    for body in (b"1", b"2"):
        client.wire.run(put(queue_id, body))
    client.wire.run(read(queue_id, reader=one))
    one.gone = True
    client.wire.run(read(queue_id, reader=two))
    client.restart()
    assert bodies(client.wire.run(read(queue_id, most=5))) == [(b"2", True)]


def test_reading_another_queue_is_not_coming_back(client: Client, queue_id: int) -> None:
    other = client.service.add_queue("two")
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.wire.run(read(other))
    client.wire.advance(1)
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]


def test_a_confirmation_is_durable_when_its_call_is_over(service: FakeService, queue_id: int) -> None:
    client = Client(service, ClientOptions(auto_confirm=False))
    client.wire.run(put(queue_id))
    [message] = client.wire.run(read(queue_id))
    wire = client.wire
    wire.writes_wait = True
    call = wire.session.confirm([message.hand_over])
    assert call.phase != DONE
    wire.begin_write()
    wire.end_write()
    wire.finish(call)
    client.restart()
    assert client.wire.run(read(queue_id)) == []
    client.wire.advance(1)
    assert not client.service.deliveries
    assert not client.state.hand_overs


def test_without_automatic_confirmation_coming_back_means_nothing(
    service: FakeService, queue_id: int
) -> None:
    client = Client(service, ClientOptions(auto_confirm=False))
    for body in (b"1", b"2"):
        client.wire.run(put(queue_id, body))
    client.wire.run(read(queue_id))
    client.wire.run(read(queue_id))
    client.restart()
    assert bodies(client.wire.run(read(queue_id, most=5))) == [(b"1", True), (b"2", True)]


def test_a_cancelled_read_gives_its_message_to_the_next_one_unmarked(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    wire = client.wire
    wire.writes_wait = True
    call = wire.start(read(queue_id))
    wire.settle()
    wire.begin_write()
    wire.session.abandon(call)
    wire.end_write()
    wire.writes_wait = False
    wire.advance(1)
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", False)]


def test_a_lost_connection_does_not_bring_back_what_is_in_hand(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.wire.cut()
    client.wire.settle()
    client.wire.advance(1)
    assert client.service.deliveries
    assert client.wire.run(read(queue_id)) == []
    client.wire.advance(1)
    assert not client.service.deliveries
    assert not client.state.hand_overs


def test_a_message_that_a_takeover_brought_is_known_to_be_in_hand(client: Client, queue_id: int) -> None:
    waiting = client.wire.start(read(queue_id, timeout=None))
    client.wire.settle()
    client.service.faults.append(Fault(packets.PutMessage, ErrorCode.IO_ERROR, after_execution=True))
    client.wire.run(put(queue_id))
    assert bodies(client.wire.finish(waiting)) == [(b"x", False)]
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]


def test_what_is_given_back_is_not_in_hand(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    [message] = client.wire.run(read(queue_id))
    call = client.wire.session.give_back([message.hand_over])
    client.wire.settle()
    assert client.wire.finish(call) == 1
    client.wire.advance(1)
    assert not client.state.hand_overs
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]


def test_closing_means_that_all_is_processed(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.wire.session.begin_close()
    client.wire.settle()
    assert client.wire.session.finished
    assert not client.service.deliveries
    assert not client.service.queues[queue_id].messages


def test_closing_does_not_wait_to_confirm(client: Client, queue_id: int) -> None:
    now = client.wire.clock.now
    client.wire.run(put(queue_id))
    client.wire.session.begin_close()
    client.wire.settle()
    assert client.wire.session.finished
    assert client.wire.clock.now == now
    assert not client.service.operations


def test_closing_after_a_failure_gives_back(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.wire.session.begin_close(failed=True)
    client.wire.settle()
    assert client.wire.session.finished
    assert not client.service.deliveries
    assert client.service.queues[queue_id].messages


def test_what_closing_could_not_finish_is_left_to_the_next_process(client: Client, queue_id: int) -> None:
    call = client.wire.start(put(queue_id))
    client.wire.collect()
    client.wire.cut()
    client.wire.session.begin_close()
    with pytest.raises(TelestoError):
        client.wire.finish(call)
    client.wire.session.end_close()
    client.wire.write()
    client.begin()
    [recovered] = client.recovered()
    assert isinstance(recovered.error, NotDoneError)


# --- who was the client meanwhile -------------------------------------------------------------------
def test_doubt_stays_when_another_process_was_the_client(client: Client, queue_id: int) -> None:
    client.send_only(put(queue_id, b"done"))
    client.wire.start(put(queue_id, b"not done"))
    client.wire.collect()
    client.crash()
    other = outsider(client.service)
    other.advance(1)
    other.cut()
    client.begin()
    found = client.recovered()
    assert [recovered.message.body for recovered in found] == [b"done", b"not done"]
    assert all(isinstance(recovered.error, OutcomeUnknownError) for recovered in found)
    assert client.stored() == [b"done"]
    client.wire.run(put(queue_id, b"new"))


def test_doubt_stays_over_further_crashes(client: Client, queue_id: int) -> None:
    client.send_only(put(queue_id, b"done"))
    client.crash()
    other = outsider(client.service)
    other.advance(1)
    other.cut()
    for written in (False, True):
        wire = client.new()
        wire.session.connect(wire.identity("alice"))
        wire.writes_wait = not written
        while wire.begin_write() or not wire.session.connected:
            wire.open_link()
            wire.end_write()  # of the attempt; what it brings is written by the second process only
            wire.reach_service()
            wire.collect()
            wire.deliver_to_client()
        client.crash()
    client.begin()
    [recovered] = client.recovered()
    assert isinstance(recovered.error, OutcomeUnknownError)
    assert client.stored() == [b"done"]


def test_what_the_other_process_did_not_confirm_is_known(client: Client, queue_id: int) -> None:
    client.send_only(put(queue_id, b"done"))
    client.crash()
    [client_id] = client.service.clients
    client.service.identify(client_id, "")
    client.begin()
    [recovered] = client.recovered()
    assert recovered.error is None


def test_messages_in_hand_are_the_other_process_s(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.crash()
    other = outsider(client.service)
    assert bodies(other.run(read(queue_id))) == [(b"x", True)]
    other.advance(1)
    other.cut()
    client.begin()
    assert client.wire.run(read(queue_id)) == []
    client.wire.advance(1)
    assert not client.state.hand_overs


def test_what_the_other_process_did_not_process_comes_again(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    other = outsider(client.service)
    other.run(read(queue_id))
    other.cut()
    client.restart()
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]


def test_an_open_client_is_fenced_and_takes_itself_back(client: Client, queue_id: int) -> None:
    outsider(client.service)
    with pytest.raises(SessionFencedError):
        client.wire.run(put(queue_id))
    client.wire.connect()
    client.wire.run(put(queue_id, b"again"))
    assert b"again" in client.stored()


def test_a_copy_of_an_old_state_resumes_nothing(client: Client, queue_id: int) -> None:
    client.wire.start(put(queue_id))
    client.wire.collect()
    client.crash()
    old = deepcopy(client.state.stored)
    client.begin()
    client.wire.advance(1)
    client.crash()
    client.state.stored = old
    client.begin()
    [recovered] = client.recovered()
    assert isinstance(recovered.error, OutcomeUnknownError)
    assert client.stored() == [b"x"]


def test_an_attempt_whose_answer_was_lost_does_not_stand_in_the_way(client: Client, queue_id: int) -> None:
    client.send_only(put(queue_id))
    client.crash()
    for _ in range(3):
        wire = client.new()
        wire.session.connect(wire.identity("alice"))
        for _ in range(2):
            wire.open_link()
            wire.reach_service()
            wire.collect()
            wire.deliver_to_client()
        client.crash()
    client.begin()
    assert len(client.recovered()) == 1
    assert client.stored() == [b"x"]


def test_a_registration_whose_answer_was_lost_is_repeated(service: FakeService) -> None:
    client = Client.__new__(Client)
    client.service, client.options, client.state = service, None, MemoryState()
    wire = client.new()
    wire.session.connect(wire.identity("alice"))
    for _ in range(3):
        wire.open_link()
        wire.reach_service()
        wire.collect()
        if not service.clients:
            wire.deliver_to_client()
    client.restart()
    assert len(service.clients) == 1


# --- whose state it is ---------------------------------------------------------------------------------
def test_the_name_may_be_left_out(client: Client) -> None:
    client.crash()
    client.begin(name=None)
    assert client.wire.session.name == "alice"


def test_a_state_is_for_one_client(client: Client) -> None:
    client.wire.advance(1)
    client.crash()
    with pytest.raises(StateMismatchError, match="alice"):
        client.begin(name="bob")
    with pytest.raises(StateMismatchError):
        client.begin(client_id=77)
    client.begin(client_id=client.state.stored.client.client_id)  # type: ignore[union-attr]


def test_a_state_is_for_one_database(client: Client, queue_id: int) -> None:
    client.wire.start(put(queue_id))
    client.wire.collect()
    client.crash()
    before = dict(client.state.requests)
    first = client.service.incarnation
    client.service.incarnation = "second"
    with pytest.raises(StateMismatchError, match="another database"):
        client.begin()
    assert client.state.requests == before
    assert client.stored() == []
    client.service.incarnation = first
    client.begin()
    assert len(client.recovered()) == 1


def test_another_database_ends_an_open_client(client: Client, queue_id: int) -> None:
    call = client.wire.start(put(queue_id))
    client.wire.collect()
    client.service.incarnation = "second"
    client.wire.cut()
    client.wire.settle()
    with pytest.raises(IncarnationChangedError):
        client.wire.finish(call)
    with pytest.raises(TelestoError, match="another database"):
        client.wire.run(put(queue_id))


def test_a_deleted_client_leaves_nothing(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(DeleteClientCall())
    client.wire.clock.now += 1
    client.wire.write()
    assert client.state.stored.client is None
    client.begin(name="bob")


def test_a_deletion_in_doubt_that_was_done_leaves_the_name_free(client: Client) -> None:
    client.send_only(DeleteClientCall())
    client.restart()
    assert client.recovered() == []
    assert len(client.service.clients) == 1


def test_a_deletion_that_was_not_done_is_not_repeated(client: Client) -> None:
    client.wire.start(DeleteClientCall())
    client.wire.collect()
    client.restart()
    client.wire.advance(1)
    assert len(client.service.clients) == 1
    assert not client.state.requests


def test_a_client_that_somebody_deleted_is_made_anew(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.run(read(queue_id))
    client.send_only(put(queue_id, b"doubt"))
    client.crash()
    [client_id] = client.service.clients
    client.service.delete_client(client_id)
    with pytest.raises(ClientNotExistingError):
        client.begin(client_id=client_id)
    client.begin()
    assert client.wire.session.client_id != client_id
    found = client.recovered()
    assert [recovered.message.body for recovered in found if recovered.message.body == b"doubt"]
    assert all(isinstance(recovered.error, OutcomeUnknownError) for recovered in found)
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", True)]
    client.restart()


# --- a state that cannot be written ------------------------------------------------------------------
def test_a_put_that_cannot_be_noted_is_not_sent(client: Client, queue_id: int) -> None:
    client.state.broken = True
    with pytest.raises(StateWriteError, match="disk is full"):
        client.wire.run(put(queue_id))
    client.wire.advance(10)
    assert client.stored() == []
    client.state.broken = False
    client.wire.run(put(queue_id, b"y"))
    numbers = [packet.number for packet in client.service.received if isinstance(packet, packets.PutMessage)]
    assert numbers == [1]
    client.restart()
    assert client.stored() == [b"y"]


def test_a_confirmation_that_had_to_wait_for_a_write_that_failed_is_sent_later(
    client: Client, queue_id: int
) -> None:
    """Although nothing else is asked for, and the connection stays."""
    client.wire.run(put(queue_id))
    client.wire.advance(0.06)  # it is written that the put needs no more care
    client.wire.clock.now += 0.06
    client.wire.session.tick()
    waiting = client.wire.start(put(queue_id))
    client.state.broken = True
    client.wire.settle()
    with pytest.raises(StateWriteError):
        client.wire.finish(waiting)
    assert client.service.operations
    client.state.broken = False
    client.wire.advance(5)
    assert not client.service.operations


def test_all_that_wait_for_the_same_write_fail(client: Client, queue_id: int) -> None:
    client.state.broken = True
    waiting = [client.wire.start(call) for call in (put(queue_id), GetQueuesCall(0, 1), put(queue_id))]
    client.wire.settle()
    for call in waiting:
        with pytest.raises(StateWriteError):
            client.wire.finish(call)
    assert client.stored() == []


def test_a_message_that_cannot_be_noted_is_not_returned(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.advance(1)
    client.state.broken = True
    with pytest.raises(StateWriteError):
        client.wire.run(read(queue_id))
    client.state.broken = False
    assert bodies(client.wire.run(read(queue_id))) == [(b"x", False)]


def test_a_message_that_could_not_be_noted_is_not_confirmed(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.wire.advance(1)
    client.state.broken = True
    with pytest.raises(StateWriteError):
        client.wire.run(read(queue_id))
    client.state.broken = False
    client.wire.advance(100)
    assert [message.body for message in client.service.queues[queue_id].messages] == [b"x"]


def test_a_connection_in_its_beginning_outlives_a_failed_write(client: Client, queue_id: int) -> None:
    client.wire.advance(1)
    client.wire.writes_wait = True
    call = client.wire.start(put(queue_id))
    client.wire.collect()
    client.wire.cut()
    client.wire.open_link()
    client.wire.collect()
    client.state.broken = True
    client.wire.write()
    client.wire.writes_wait = client.state.broken = False
    client.wire.advance(5)
    client.wire.finish(call)
    assert client.stored() == [b"x"]


def test_a_client_that_cannot_note_an_attempt_does_not_connect(client: Client) -> None:
    client.crash()
    client.state.broken = True
    sessions = [stored.session for stored in client.service.clients.values()]
    with pytest.raises(StateWriteError):
        client.begin()
    assert [stored.session for stored in client.service.clients.values()] == sessions
    client.state.broken = False
    client.begin()


def test_a_client_that_cannot_note_an_attempt_does_not_reconnect(client: Client, queue_id: int) -> None:
    client.wire.advance(1)
    client.state.broken = True
    client.wire.cut()
    call = client.wire.start(put(queue_id))
    client.wire.settle()
    with pytest.raises(StateWriteError):
        client.wire.finish(call)
    client.state.broken = False
    client.wire.advance(10)
    client.wire.run(put(queue_id))


def test_requests_of_an_earlier_process_wait_until_the_state_can_be_written(
    client: Client, queue_id: int
) -> None:
    client.wire.start(put(queue_id))
    client.wire.collect()
    client.crash()
    wire = client.new()
    wire.session.connect(wire.identity("alice"))
    wire.write()
    wire.writes_wait = True
    wire.settle()
    wire.write()
    wire.settle()
    client.state.broken = True
    wire.write()
    wire.writes_wait = False
    wire.advance(5)
    assert client.stored() == []
    client.state.broken = False
    wire.advance(5)
    assert client.stored() == [b"x"]
    assert len(client.recovered()) == 1


def test_closing_with_a_broken_state_ends(client: Client, queue_id: int) -> None:
    client.wire.run(put(queue_id))
    client.state.broken = True
    client.wire.session.begin_close()
    client.wire.advance(5)
    assert client.wire.session.finished
    client.wire.session.end_close()


# --- bounds ----------------------------------------------------------------------------------------
def test_a_full_state_lets_requests_wait(service: FakeService, queue_id: int) -> None:
    client = Client(service, ClientOptions(max_state_bytes=1000))
    calls = [client.wire.start(put(queue_id, b"x" * 400)) for _ in range(10)]
    client.wire.collect()
    assert len(client.state.requests) == 3
    for _ in range(10):
        client.wire.settle()
        for call in [call for call in calls if call.phase == DONE]:
            calls.remove(call)
            client.wire.finish(call)
    assert not calls
    assert len(client.stored()) == 10


def test_what_nobody_asks_for_makes_space(service: FakeService, queue_id: int) -> None:
    client = Client(service, ClientOptions(max_state_bytes=1000))
    for number in range(6):
        client.send_only(put(queue_id, b"%d" % number + b"x" * 400))
        client.restart()
        client.wire.advance(1)
    found = client.recovered()
    assert [recovered.message.body[:1] for recovered in found] == [b"4", b"5"]


def test_a_call_that_waits_for_the_outcomes_can_be_given_up(client: Client, queue_id: int) -> None:
    client.wire.start(put(queue_id))
    client.wire.collect()
    client.crash()
    client.service.faults += [Fault(packets.PutMessage, ErrorCode.OVERLOADED) for _ in range(1000)]
    client.begin()
    given_up = client.wire.session.when_settled()
    client.wire.session.abandon(given_up)
    late = client.wire.session.when_settled()
    client.wire.advance(31)
    with pytest.raises(DeadlineExceededError):
        client.wire.finish(late)
    closing = client.wire.session.when_settled()
    client.wire.session.begin_close()
    with pytest.raises(ClientClosedError):
        client.wire.finish(closing)
    with pytest.raises(ClientClosedError):
        client.wire.session.when_settled()
