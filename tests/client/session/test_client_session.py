"""The session core against the service in memory: calls, confirmations, doubt, takeovers, time."""

import math
from typing import Any

import pytest

from fake_service import FakeService, Fault
from harness import Clock, Wire
from telesto.client.bookkeeping.identity import WantedClient, choose_identity
from telesto.client.calls.queue_calls import (
    DONE,
    SENT,
    CreateQueueCall,
    DeleteClientCall,
    DeleteQueueCall,
    GetQueuesCall,
    PurgeQueueCall,
    PutCall,
    PutManyCall,
    PutSeveralCall,
    ReadCall,
    ReadResponseCall,
)
from telesto.client.errors import (
    ClientClosedError,
    DeadlineExceededError,
    ForkedError,
    IncarnationChangedError,
    NotConnectedError,
    ProtocolViolationError,
    TooManyCallsError,
    TriesExhaustedError,
)
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import (
    ClientNotExistingError,
    ConnectionLostError,
    ErrorClass,
    ErrorCode,
    InternalError,
    MessageTooLargeError,
    PermissionDeniedError,
    QueueFullError,
    QueueNameNotUniqueError,
    QueueNotExistingError,
    QuotaExceededError,
    SessionFencedError,
    StandbyUnavailableError,
    TooManyUnconfirmedError,
)
from telesto.protocol.packets import NewMessage, QueuedMessage, ReadMode


def put(queue_id: int, body: bytes = b"x", priority: int = 5, **attributes: int) -> PutCall:
    return PutCall(queue_id, body, priority, attributes.get("receiver_id"), attributes.get("context"))


def read(queue_id: int, timeout: float | None = 0, most: int = 1, sender_id: int | None = None) -> ReadCall:
    return ReadCall(queue_id, sender_id, ReadMode.PRIORITY, timeout, most)


def bodies(messages: list[Any]) -> list[bytes]:
    return [message.body for message in messages]


def connected_to_puts_alone(clock: Clock, service: FakeService) -> Wire:
    """Connects to a middleware that does not say what a request may hold, so that each put is one."""
    service.max_put_elements = None
    wire = Wire(clock, service)
    wire.connect()
    return wire


@pytest.fixture
def wire(clock: Clock, service: FakeService) -> Wire:
    wire = Wire(clock, service)
    wire.connect()
    return wire


@pytest.fixture
def queue_id(service: FakeService) -> int:
    return service.add_queue("orders")


def sent(service: FakeService, kind: type[Any]) -> list[Any]:
    return [packet for packet in service.received if isinstance(packet, kind)]


def lose_answers(wire: Wire) -> None:
    """Lets the service execute what was sent, and cuts the connection before the answers come."""
    wire.reach_service()
    wire.cut()


def lose_requests(wire: Wire) -> None:
    """Cuts the connection before the service sees what was sent."""
    wire.collect()
    wire.cut()


# ---------------------------------------------------------------------------------- confirmations
def test_put_returns_the_message_id(wire: Wire, service: FakeService, queue_id: int) -> None:
    message_id = wire.run(put(queue_id, b"hello"))
    assert service.queues[queue_id].messages[0].message_id == message_id


def test_the_next_request_confirms_the_answer_taken(wire: Wire, service: FakeService, queue_id: int) -> None:
    wire.run(put(queue_id))
    wire.run(put(queue_id))
    assert [packet.confirmed for packet in sent(service, packets.PutMessage)] == [[], [1]]
    assert not sent(service, packets.Confirm)


def test_an_answer_not_taken_is_not_confirmed(wire: Wire, service: FakeService, queue_id: int) -> None:
    first = wire.start(put(queue_id))
    wire.settle()
    wire.run(put(queue_id))
    assert [packet.confirmed for packet in sent(service, packets.PutMessage)] == [[], []]
    wire.finish(first)
    wire.run(put(queue_id))
    assert sent(service, packets.PutMessage)[-1].confirmed == [2, 1]


def test_an_idle_session_confirms_by_itself(wire: Wire, service: FakeService, queue_id: int) -> None:
    wire.run(put(queue_id))
    wire.advance(0.04)
    assert service.operations
    wire.advance(0.02)
    assert not service.operations
    assert service.confirmed_unknown == 0


def test_what_a_refused_request_carried_is_carried_again(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id))
    service.faults.append(Fault(packets.PutMessage, ErrorCode.MALFORMED_PACKET))
    with pytest.raises(Exception, match="MALFORMED"):
        wire.run(put(queue_id))
    wire.run(put(queue_id))
    assert [packet.confirmed for packet in sent(service, packets.PutMessage)] == [[], [1], [1, 2]]


def test_a_refused_confirm_is_sent_again_later(wire: Wire, service: FakeService, queue_id: int) -> None:
    wire.run(put(queue_id))
    service.faults += [Fault(packets.Confirm, ErrorCode.DATABASE_UNAVAILABLE) for _ in range(2)]
    wire.advance(0.06)
    assert len(sent(service, packets.Confirm)) == 1
    assert service.operations
    wire.advance(0.2)
    assert not service.operations
    assert len(sent(service, packets.Confirm)) == 3


def test_a_refused_confirm_waits_as_long_as_it_is_told(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id))
    service.faults.append(Fault(packets.Confirm, ErrorCode.OVERLOADED, retry_after_ms=500))
    wire.advance(0.5)
    assert service.operations
    wire.advance(0.1)
    assert not service.operations


def test_what_an_earlier_session_owes_goes_ahead_of_the_next_request(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    """Also when it was refused before: each request takes it along, until it is confirmed."""
    wire.run(put(queue_id, b"1"))
    wire.run(put(queue_id, b"2"))
    [message] = wire.run(read(queue_id))
    wire.cut()
    service.faults += [Fault(packets.Confirm, ErrorCode.DATABASE_UNAVAILABLE) for _ in range(3)]
    wire.settle()
    name = message.hand_over
    assert name[:2] in [key[1:] for key in service.deliveries]
    del service.received[:]
    for number in range(2):
        wire.run(put(queue_id))
        assert [type(packet) for packet in service.received[-2:]] == [packets.Confirm, packets.PutMessage]
        assert service.deliveries, number
    wire.run(put(queue_id))
    assert not service.deliveries
    wire.run(put(queue_id))
    assert len(sent(service, packets.Confirm)) == 3
    assert service.confirmed_unknown == 0


def test_an_answer_of_an_earlier_session_is_confirmed_ahead_of_the_next_request(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    call = wire.start(put(queue_id))
    lose_answers(wire)
    wire.settle()
    wire.finish(call)
    assert service.operations
    wire.run(put(queue_id))
    assert [type(packet) for packet in service.received[-2:]] == [packets.Confirm, packets.PutMessage]
    assert [operation.number for operation in service.operations.values()] == [1]
    assert next(iter(service.operations))[1] == wire.session.session


def test_many_owed_of_an_earlier_session_all_go_ahead(
    clock: Clock, service: FakeService, queue_id: int
) -> None:
    wire = connected_to_puts_alone(clock, service)
    calls = [wire.start(put(queue_id)) for _ in range(600)]
    lose_answers(wire)
    wire.settle()
    for call in calls:
        wire.finish(call)
    wire.run(put(queue_id))
    assert [len(packet.earlier) for packet in sent(service, packets.Confirm)] == [512, 88]
    assert len(service.operations) == 1


def test_closing_waits_for_a_confirm_that_was_refused(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id))
    service.faults.append(Fault(packets.Confirm, ErrorCode.DATABASE_UNAVAILABLE))
    wire.session.begin_close()
    wire.settle()
    assert not wire.session.finished
    wire.advance(0.1)
    assert wire.session.finished
    assert not service.operations


def test_what_was_on_its_way_is_confirmed_after_the_takeover(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id))
    call = wire.start(put(queue_id))
    lose_requests(wire)
    wire.settle()
    wire.finish(call)
    wire.advance(0.1)
    assert sent(service, packets.Confirm)[0].earlier == [packets.OperationRef(100, 1)]
    assert not service.operations


def test_what_the_takeover_does_not_list_is_confirmed_already(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id))
    wire.clock.now += 0.06
    wire.session.tick()
    lose_answers(wire)
    wire.settle()
    wire.advance(1)
    assert len(sent(service, packets.Confirm)) == 1
    assert service.confirmed_unknown == 0


def test_a_read_without_messages_is_not_confirmed(wire: Wire, service: FakeService, queue_id: int) -> None:
    assert wire.run(read(queue_id)) == []
    wire.advance(1)
    assert not sent(service, packets.Confirm)


def test_nothing_is_numbered_in_fast_delivery(clock: Clock, service: FakeService, queue_id: int) -> None:
    wire = Wire(clock, service, delivery="fast")
    wire.connect()
    wire.run(put(queue_id, b"1"))
    assert bodies(wire.run(read(queue_id))) == [b"1"]
    wire.advance(1)
    assert {packet.number for packet in sent(service, packets.PutMessage)} == {0}
    assert not sent(service, packets.Confirm)
    assert not service.operations
    assert not service.deliveries
    call = wire.start(put(queue_id, b"2"))
    lose_requests(wire)
    wire.settle()
    assert wire.finish(call) > 0


# ---------------------------------------------------------------------------------- flow control
def test_no_more_is_unconfirmed_than_allowed(clock: Clock, service: FakeService, queue_id: int) -> None:
    service.max_unconfirmed = 4
    wire = connected_to_puts_alone(clock, service)
    calls = [wire.start(put(queue_id, str(number).encode())) for number in range(10)]
    wire.settle()
    assert [call.phase for call in calls].count(DONE) == 4
    for call in calls:
        wire.finish(call)
        wire.settle()
    assert [body for _, body in service.put_bodies] == [str(number).encode() for number in range(10)]


@pytest.mark.parametrize("reads_wait", [True, False])
def test_what_cannot_be_sent_yet_says_so(
    clock: Clock, service: FakeService, queue_id: int, reads_wait: bool
) -> None:
    """Whether the limit is reached by reads that wait or by messages that are not confirmed."""
    service.max_unconfirmed = 4
    wire = Wire(clock, service, ClientOptions(auto_confirm=False, call_timeout=3, keep_alive=60))
    wire.connect()
    if reads_wait:
        held = [wire.start(read(queue_id, 100)) for _ in range(4)]
        told = "4 of them reads that wait"
    else:
        for _ in range(4):
            wire.run(put(queue_id))
        held = [wire.run(read(queue_id)) for _ in range(4)]
        told = "confirm messages"
    calls = [wire.start(put(queue_id)), wire.start(GetQueuesCall(0, 1))]
    wire.settle()
    wire.advance(3)
    assert len(held) == 4
    for call in calls:
        with pytest.raises(DeadlineExceededError, match="for lack of space: 4 requests") as raised:
            wire.finish(call)
        assert told in raised.value.details
        assert raised.value.error_class is ErrorClass.RETRYABLE
        assert isinstance(raised.value.__cause__, TooManyUnconfirmedError)


def test_the_line_is_bounded(clock: Clock, service: FakeService, queue_id: int) -> None:
    wire = Wire(clock, service, ClientOptions(max_waiting_calls=3))
    wire.connect()
    wire.cut()
    calls = [wire.start(put(queue_id)) for _ in range(3)]
    with pytest.raises(TooManyCallsError, match="3 calls wait"):
        wire.start(put(queue_id))
    wire.session.abandon(calls[0])
    wire.start(put(queue_id))


def test_nothing_is_encoded_while_the_connection_is_stuffed(wire: Wire, queue_id: int) -> None:
    wire.session.writable = False
    call = wire.start(put(queue_id))
    wire.collect()
    assert call.phase != SENT
    wire.session.writable = True
    wire.settle()
    assert wire.finish(call)


def test_large_bodies_are_encoded_bit_by_bit(wire: Wire, queue_id: int) -> None:
    for _ in range(10):
        wire.start(put(queue_id, bytes(100_000)))
    wire.session.pump()
    assert len(wire.session.take_output()) < 500_000


def test_a_request_that_no_frame_holds_fails_alone(clock: Clock, service: FakeService, queue_id: int) -> None:
    service.max_frame = 70_000
    wire = Wire(clock, service)
    wire.connect()
    wire.run(put(queue_id))
    large = wire.start(put(queue_id, bytes(80_000)))
    small = wire.start(put(queue_id))
    wire.settle()
    with pytest.raises(MessageTooLargeError, match="70000"):
        wire.finish(large)
    wire.finish(small)
    assert [packet.number for packet in sent(service, packets.PutMessage)] == [1, 2]
    assert sent(service, packets.PutMessage)[1].confirmed == [1]


def test_packet_ids_go_round_without_meeting(wire: Wire, queue_id: int) -> None:
    waiting = wire.start(read(queue_id, None))
    wire.settle()
    assert wire.link is not None
    wire.link.packet_id = 0xFFFFFFFE
    for _ in range(2 * waiting.packet_id):
        wire.run(GetQueuesCall(0, 10))
    assert waiting.phase == SENT


# ---------------------------------------------------------------------------------- doubt
def test_lost_answer_of_a_put_is_found(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    lose_answers(wire)
    wire.settle()
    assert wire.finish(call) == service.queues[queue_id].messages[0].message_id
    assert len(service.put_bodies) == 1
    wire.advance(0.06)
    assert not service.operations


def test_lost_answers_of_every_kind_are_rebuilt(wire: Wire, service: FakeService) -> None:
    queue_id = service.add_queue("q", max_messages=2)
    service.add_queue("taken")
    messages = [QueuedMessage(queue_id, NewMessage(5, 0, body, None)) for body in (b"1", b"2", b"3")]
    created = wire.start(CreateQueueCall("new", {"max_messages": 7}))
    refused = wire.start(CreateQueueCall("taken", {}))
    many = wire.start(PutManyCall(queue_id, messages))
    full = wire.start(put(queue_id))
    purged = wire.start(PurgeQueueCall(queue_id))
    deleted = wire.start(DeleteQueueCall(queue_id))
    missing = wire.start(DeleteQueueCall(queue_id))
    lose_answers(wire)
    wire.settle()
    assert wire.finish(created).name == "new"
    with pytest.raises(QueueNameNotUniqueError):
        wire.finish(refused)
    results = wire.finish(many)
    assert [type(result.error) for result in results] == [type(None), type(None), QueueFullError]
    assert results[0].message_id < results[1].message_id
    with pytest.raises(QueueFullError):
        wire.finish(full)
    assert wire.finish(purged) == 2
    wire.finish(deleted)
    with pytest.raises(QueueNotExistingError):
        wire.finish(missing)
    wire.advance(0.1)
    assert not service.operations


def test_a_record_that_does_not_fit_is_an_error(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    wire.reach_service()
    next(iter(service.operations.values())).results.clear()
    wire.cut()
    wire.settle()
    with pytest.raises(ProtocolViolationError, match="0 results"):
        wire.finish(call)


def test_a_put_that_never_arrived_is_sent_again(wire: Wire, service: FakeService, queue_id: int) -> None:
    calls = [wire.start(put(queue_id, body)) for body in (b"1", b"2", b"3")]
    lose_requests(wire)
    calls.append(wire.start(put(queue_id, b"4")))
    wire.settle()
    assert all(call.phase == DONE for call in calls)
    assert [body for _, body in service.put_bodies] == [b"1", b"2", b"3", b"4"]


def test_a_takeover_may_be_interrupted_by_another(wire: Wire, service: FakeService, queue_id: int) -> None:
    service.page_rows = 1
    calls = [wire.start(put(queue_id, body)) for body in (b"1", b"2", b"3")]
    lose_answers(wire)
    for _ in range(3):
        wire.open_link()
        for _ in range(3):
            wire.reach_service()
            wire.collect()
            wire.deliver_to_client()
        wire.cut()
        wire.clock.now += 3
    wire.settle()
    assert [wire.finish(call) for call in calls] == [
        message.message_id for message in service.queues[queue_id].messages
    ]


def test_an_error_in_doubt_is_resolved_by_a_takeover(wire: Wire, service: FakeService, queue_id: int) -> None:
    for after in (True, False):
        service.faults.append(Fault(packets.PutMessage, ErrorCode.IO_ERROR, after_execution=after))
        wire.run(put(queue_id))
    assert len(service.put_bodies) == 2
    assert wire.session.session == service.clients[wire.session.client_id or 0].session


def test_a_request_that_always_fails_ends_with_its_error(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    service.faults += [Fault(packets.PutMessage, ErrorCode.INTERNAL_ERROR) for _ in range(5)]
    call = wire.start(put(queue_id))
    wire.advance(20)
    with pytest.raises(TriesExhaustedError, match="5 times and not done") as raised:
        wire.finish(call)
    assert isinstance(raised.value.__cause__, InternalError)
    assert not service.put_bodies
    assert wire.run(put(queue_id))


def test_an_internal_error_of_a_question_is_the_answer(wire: Wire, service: FakeService) -> None:
    service.faults.append(Fault(packets.GetQueues, ErrorCode.INTERNAL_ERROR))
    with pytest.raises(InternalError):
        wire.run(GetQueuesCall(0, 10))
    assert wire.session.connected


def test_what_is_refused_for_a_while_keeps_its_place(
    clock: Clock, service: FakeService, queue_id: int
) -> None:
    wire = connected_to_puts_alone(clock, service)
    service.faults += [
        Fault(packets.PutMessage, ErrorCode.OVERLOADED, retry_after_ms=500),
        Fault(packets.PutMessage, ErrorCode.OVERLOADED),
    ]
    calls = [wire.start(put(queue_id, body)) for body in (b"1", b"2")]
    wire.settle()
    calls.append(wire.start(put(queue_id, b"3")))
    wire.advance(0.4)
    assert not service.put_bodies
    wire.advance(0.2)
    assert [body for _, body in service.put_bodies] == [b"1", b"2", b"3"]
    for call in calls:
        wire.finish(call)


def test_a_time_to_wait_that_the_service_names_is_no_failed_try(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    """Such as that of a quota of puts: only the time of the call limits how often it is tried."""
    service.faults += [
        Fault(packets.PutMessage, ErrorCode.OVERLOADED, retry_after_ms=1_000) for _ in range(20)
    ]
    call = wire.start(put(queue_id))
    wire.settle()
    wire.advance(19.5)
    assert not service.put_bodies
    wire.advance(1.0)
    wire.finish(call)
    service.faults.append(Fault(packets.PutMessage, ErrorCode.OVERLOADED, retry_after_ms=3_600_000))
    call = wire.start(put(queue_id))
    wire.settle()
    wire.advance(31)
    with pytest.raises(DeadlineExceededError):
        wire.finish(call)
    assert wire.run(put(queue_id))  # an hour would be too long for what others call


def test_a_refusal_without_a_time_to_wait_is_tried_a_few_times_only(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    service.faults += [Fault(packets.PutMessage, ErrorCode.OVERLOADED) for _ in range(5)]
    call = wire.start(put(queue_id))
    wire.advance(20)
    with pytest.raises(TriesExhaustedError, match="5 times and not done"):
        wire.finish(call)


def test_a_quota_that_does_not_free_by_itself_is_told_at_once(wire: Wire, service: FakeService) -> None:
    service.faults.append(Fault(packets.CreateQueue, ErrorCode.QUOTA_EXCEEDED))
    with pytest.raises(QuotaExceededError):
        wire.run(CreateQueueCall("third", {}))
    assert len(sent(service, packets.CreateQueue)) == 1


def test_a_number_is_left_out_once_a_refusal_for_now_was_seen(
    clock: Clock, service: FakeService, queue_id: int
) -> None:
    wire = connected_to_puts_alone(clock, service)
    service.faults.append(Fault(packets.PutMessage, ErrorCode.OVERLOADED, retry_after_ms=1))
    calls = [wire.start(put(queue_id, body)) for body in (b"1", b"2")]
    wire.settle()
    wire.advance(1)
    numbers = [wire.finish(call) and call.number for call in calls]
    # 1 and 2 were refused, 3 is left out.
    assert numbers == [4, 5]
    assert [body for _, body in service.put_bodies] == [b"1", b"2"]


@pytest.mark.parametrize("code", [ErrorCode.DATABASE_UNAVAILABLE, ErrorCode.CONNECTIONS_EXHAUSTED])
def test_a_middleware_without_a_database_is_left(
    wire: Wire, service: FakeService, queue_id: int, code: ErrorCode
) -> None:
    link = wire.session.link
    service.faults += [Fault(packets.PutMessage, code)] * 8
    call = wire.start(put(queue_id, b"1"))
    wire.settle()
    wire.advance(1)
    wire.finish(call)
    assert wire.session.link is not link
    assert [body for _, body in service.put_bodies] == [b"1"]


@pytest.mark.parametrize("code", [ErrorCode.STANDBY_UNAVAILABLE, ErrorCode.DISK_FULL])
def test_a_database_that_cannot_store_is_waited_for_on_the_spot(
    wire: Wire, service: FakeService, queue_id: int, code: ErrorCode
) -> None:
    """No other middleware could do better, so that it is no failed try."""
    link, tries = wire.session.link, 50
    service.faults += [Fault(packets.PutMessage, code, retry_after_ms=10)] * tries
    call = wire.start(put(queue_id, b"1"))
    wire.settle()
    for _ in range(tries):
        wire.advance(0.02)
    wire.finish(call)
    assert wire.session.link is link
    assert [body for _, body in service.put_bodies] == [b"1"]


def test_a_standby_that_stays_away_is_named_when_the_time_is_over(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    service.faults += [Fault(packets.PutMessage, ErrorCode.STANDBY_UNAVAILABLE, retry_after_ms=1_000)] * 100
    call = wire.start(put(queue_id, b"1"))
    wire.settle()
    wire.advance(60)
    with pytest.raises(DeadlineExceededError, match="STANDBY_UNAVAILABLE") as raised:
        wire.finish(call)
    assert raised.value.error_class is ErrorClass.RETRYABLE
    assert isinstance(raised.value.__cause__, StandbyUnavailableError)


def test_another_incarnation_of_the_database(wire: Wire, service: FakeService, queue_id: int) -> None:
    wire.run(put(queue_id, b"0"))
    doubtful = wire.start(put(queue_id))
    question = wire.start(GetQueuesCall(0, 10))
    lose_answers(wire)
    before, service.incarnation = service.incarnation, "second"
    service.operations.clear()
    waiting = wire.start(put(queue_id, b"2"))
    wire.settle()
    with pytest.raises(IncarnationChangedError, match=f"second instead of {before}"):
        wire.finish(doubtful)
    assert wire.finish(question)[0][0].name == "orders"
    assert wire.finish(waiting)
    wire.advance(1)
    assert not service.operations


def test_a_temporary_client_is_deleted_once_what_it_was_given_is_taken(
    clock: Clock, service: FakeService
) -> None:
    """Closed by one thread while another is about to get its message."""
    queue_id = service.add_queue("orders")
    wire = Wire(clock, service)
    connecting = wire.session.connect(choose_identity(WantedClient(), None, None))
    wire.settle()
    wire.finish(connecting)
    wire.run(put(queue_id))
    reading = wire.start(read(queue_id))
    wire.settle()
    wire.session.begin_close()
    wire.settle()
    assert not wire.session.finished
    assert len(service.clients) == 1
    assert [message.body for message in wire.finish(reading)] == [b"x"]
    wire.advance(1.0)
    assert wire.session.finished
    assert not service.clients
    assert not service.queues[queue_id].messages


def test_a_deletion_in_doubt(wire: Wire, service: FakeService) -> None:
    call = wire.start(DeleteClientCall())
    lose_answers(wire)
    wire.settle()
    wire.finish(call)
    assert not service.clients
    with pytest.raises(NotConnectedError, match="not connected"):
        wire.start(GetQueuesCall(0, 1))
    wire.connect("alice again")


def test_a_deletion_that_never_arrived(wire: Wire, service: FakeService) -> None:
    call = wire.start(DeleteClientCall())
    lose_requests(wire)
    wire.settle()
    wire.finish(call)
    assert not service.clients


def test_nothing_overtakes_a_deletion(wire: Wire, service: FakeService, queue_id: int) -> None:
    wire.run(put(queue_id))
    deletion = wire.start(DeleteClientCall())
    late = wire.start(put(queue_id))
    wire.settle()
    wire.finish(deletion)
    with pytest.raises(NotConnectedError, match="deleted"):
        wire.finish(late)
    assert len(service.put_bodies) == 1


def test_a_client_that_others_deleted(wire: Wire, service: FakeService, queue_id: int) -> None:
    sent_put = wire.start(put(queue_id))
    lose_requests(wire)
    waiting = wire.start(put(queue_id))
    service.clients.clear()
    wire.settle()
    with pytest.raises(ConnectionLostError, match="may have been done") as raised:
        wire.finish(sent_put)
    assert isinstance(raised.value.__cause__, ClientNotExistingError)
    with pytest.raises(NotConnectedError):
        wire.finish(waiting)


def test_the_later_session_wins(wire: Wire, clock: Clock, service: FakeService, queue_id: int) -> None:
    other = Wire(clock, service)
    other.connect(existing="use")
    calls = [wire.start(put(queue_id)) for _ in range(2)]
    wire.settle()
    for call in calls:
        with pytest.raises(SessionFencedError, match="another process"):
            wire.finish(call)
    wire.advance(100)
    assert wire.link is None
    assert other.run(put(queue_id))


def test_an_earlier_process_does_not_come_back(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    done = wire.start(put(queue_id))
    lose_answers(wire)
    waiting = wire.start(put(queue_id))
    other = Wire(clock, service)
    other.connect(existing="use")  # is told of the put and confirms it
    other.advance(1)
    wire.settle()
    with pytest.raises(SessionFencedError, match="may have been done"):
        wire.finish(done)
    with pytest.raises(SessionFencedError, match="another process") as raised:
        wire.finish(waiting)
    assert "may have been done" not in str(raised.value)
    assert other.run(put(queue_id))
    assert len(service.queues[queue_id].messages) == 2


@pytest.mark.parametrize("resume", [True, False], ids=["resuming", "connecting"])
def test_an_attempt_that_comes_late_does_not_undo_a_later_one(
    clock: Clock, service: FakeService, resume: bool
) -> None:
    from telesto.client.bookkeeping.identity import Identity

    wire = Wire(clock, service)
    if resume:
        wire.connect()
        wire.cut()
        clock.now = wire.session.next_attempt[1]  # type: ignore[index]
    else:
        connecting = wire.session.connect(Identity(None, "alice", None, "error"))
    wire.open_link()
    wire.reach_service()
    wire.collect()
    wire.deliver_to_client()
    wire.collect()
    slow, late = wire.remote, wire.to_service  # a middleware that stands still with the attempt
    wire.remote = None
    wire.cut()
    wire.advance(10)
    if not resume:
        wire.finish(connecting)
    queue_id = wire.run(CreateQueueCall("orders", {})).queue_id
    assert slow is not None
    slow.receive(late)
    assert wire.run(put(queue_id))


def test_what_was_taken_does_not_come_back_after_another_process(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id, b"taken"))
    assert wire.run(read(queue_id))  # the confirmation is owed when the other process comes
    service.identify(0, "alice", b"other", False, 1)
    call = wire.start(put(queue_id, b"next"))
    wire.settle()
    with pytest.raises(SessionFencedError):
        wire.finish(call)
    wire.connect(existing="use")
    assert wire.run(read(queue_id)) == []
    wire.advance(1)
    assert not service.deliveries


def test_the_lost_answer_of_a_repeated_put_is_found(wire: Wire, service: FakeService, queue_id: int) -> None:
    def several() -> PutSeveralCall:
        return PutSeveralCall([queue_id], b"m", 5, None, None, "key")

    (first,) = wire.run(several())
    call = wire.start(several())
    lose_answers(wire)
    wire.settle()
    (result,) = wire.finish(call)
    assert (result.message_id, result.duplicate) == (first.message_id, True)
    assert len(service.queues[queue_id].messages) == 1


def test_a_registration_whose_answer_was_lost(clock: Clock, service: FakeService) -> None:
    from telesto.client.bookkeeping.identity import Identity

    wire = Wire(clock, service)
    call = wire.session.connect(Identity(None, "alice", None, "error"))
    wire.open_link()
    wire.reach_service()
    wire.collect()
    wire.deliver_to_client()
    lose_answers(wire)
    wire.settle()
    wire.finish(call)
    assert len(service.clients) == 1


# ---------------------------------------------------------------------------------- recovered messages
def test_lost_message_of_a_read_is_found_by_the_takeover(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id, b"m"))
    call = wire.start(read(queue_id))
    lose_answers(wire)
    wire.settle()
    assert [(message.body, message.redelivered) for message in wire.finish(call)] == [(b"m", False)]
    wire.advance(1)
    assert not service.deliveries


def test_a_new_process_gets_what_the_old_one_had(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    other_queue = service.add_queue("other")
    for number in range(4):
        wire.run(put(queue_id, b"%d" % number, priority=number + 1))
    wire.run(read(queue_id, most=3))
    wire.cut()
    after = Wire(clock, service)
    after.connect(existing="use")
    assert after.run(read(other_queue)) == []
    assert after.run(read(queue_id, sender_id=999)) == []
    first = after.run(read(queue_id))
    assert [(message.body, message.redelivered) for message in first] == [(b"3", True)]
    oldest = after.run(ReadCall(queue_id, None, ReadMode.TIME, 0))
    assert bodies(oldest) == [b"1"]
    assert bodies(after.run(read(queue_id, most=5))) == [b"2"]
    assert bodies(after.run(read(queue_id, most=5))) == [b"0"]
    after.advance(1)
    assert not service.deliveries


def test_what_no_frame_holds_stays_with_the_service_and_the_rest_goes_on(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that accepts less than the one before gets what it can, and is told of the rest."""
    service.page_rows = 2
    for body in (b"1", bytes(70_000), b"2", bytes(80_000), b"3"):
        wire.run(put(queue_id, body))
    large = [message.message_id for message in wire.run(read(queue_id, most=5)) if len(message.body) > 1]
    wire.cut()
    smaller = Wire(clock, service, ClientOptions(max_frame=65_536))
    smaller.connect(existing="use")
    assert [record.args for record in caplog.records] == [(2, large[0])]
    assert bodies(smaller.run(read(queue_id, most=5))) == [b"1", b"2", b"3"]
    smaller.advance(60)
    assert [stored.message_id for kept in service.deliveries.values() for stored in kept] == large
    smaller.cut()
    after = Wire(clock, service)
    after.connect(existing="use")
    assert [message.message_id for message in after.run(read(queue_id, most=5))] == large
    after.advance(1)
    assert not service.deliveries
    assert len(caplog.records) == 1


@pytest.mark.parametrize("most", [1, 2])
def test_a_read_whose_answer_is_lost_may_bring_less_than_it_took(
    wire: Wire, service: FakeService, queue_id: int, most: int
) -> None:
    """When the client goes on at a middleware that accepts less; what it cannot get is never confirmed."""
    wire.run(put(queue_id, bytes(70_000), priority=9))
    wire.run(put(queue_id, b"small"))
    call = wire.start(read(queue_id, most=most))
    lose_answers(wire)
    service.max_frame = 65_536
    wire.settle()
    if most == 1:
        with pytest.raises(MessageTooLargeError) as raised:
            wire.finish(call)
        assert raised.value.related_id is not None
        call = wire.start(read(queue_id))
        wire.settle()
    assert bodies(wire.finish(call)) == [b"small"]
    wire.run(put(queue_id))
    wire.advance(1)
    assert [len(stored.body) for kept in service.deliveries.values() for stored in kept] == [70_000]
    service.max_frame = 1 << 20
    wire.cut()
    wire.settle()
    assert [len(message.body) for message in wire.run(read(queue_id))] == [70_000]


def test_a_read_whose_answer_is_lost_is_refused_when_the_user_may_not_read_any_more(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    """The message stays with the client, which gets it once its user may read again."""
    service.page_rows = 1
    wire.run(put(queue_id, b"mine"))
    call = wire.start(read(queue_id))
    lose_answers(wire)
    service.unreadable.add(queue_id)
    wire.settle()
    with pytest.raises(PermissionDeniedError, match="right to get again") as raised:
        wire.finish(call)
    [kept] = [stored for kept in service.deliveries.values() for stored in kept]
    assert raised.value.related_id == kept.message_id
    wire.advance(60)
    assert service.deliveries, "it is not confirmed"
    service.unreadable.clear()
    wire.cut()
    wire.settle()
    assert bodies(wire.run(read(queue_id))) == [b"mine"]


def test_a_new_process_is_told_of_what_its_user_may_not_read(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    wire.run(put(queue_id, b"mine"))
    [message] = wire.run(read(queue_id))
    wire.cut()
    service.unreadable.add(queue_id)
    after = Wire(clock, service)
    after.connect(existing="use")
    assert [record.args for record in caplog.records] == [(1, message.message_id)]
    assert after.run(read(queue_id)) == []


def test_what_is_owed_for_a_message_that_no_frame_holds_is_confirmed(
    by_hand: Wire, service: FakeService, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    by_hand.run(put(queue_id, bytes(70_000)))
    [message] = by_hand.run(read(queue_id))
    service.max_frame = 65_536
    by_hand.cut()
    by_hand.settle()
    assert not caplog.records, "the application has it"
    by_hand.session.confirm([message.hand_over])
    by_hand.advance(1)
    assert not service.deliveries


def test_recovered_messages_respect_the_bound_in_bytes(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    for _ in range(3):
        wire.run(put(queue_id, bytes(100)))
    wire.run(read(queue_id, most=3))
    wire.cut()
    after = Wire(clock, service)
    after.connect(existing="use")
    assert len(after.run(ReadCall(queue_id, None, ReadMode.PRIORITY, 0, 3, 250))) == 2


def test_a_recovered_response_goes_to_who_asks_for_it(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    client_id = wire.session.client_id or 0
    wire.run(put(queue_id, b"response", receiver_id=client_id, context=7))
    wire.run(ReadResponseCall(queue_id, 7, 0))
    wire.cut()
    after = Wire(clock, service)
    after.connect(existing="use")
    assert after.run(ReadResponseCall(queue_id, 8, 0)) == []
    assert bodies(after.run(ReadResponseCall(queue_id, 7, 0))) == [b"response"]


def test_what_nobody_asks_for_goes_back_to_its_queue(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id, b"m"))
    wire.run(read(queue_id))
    wire.cut()
    after = Wire(clock, service, ClientOptions(recovered_hold=30))
    after.connect(existing="use")
    after.advance(29)
    assert service.deliveries
    after.advance(2)
    assert not service.deliveries
    assert service.queues[queue_id].messages[0].redelivered


def test_what_there_is_no_space_for_goes_back_at_once(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    for _ in range(3):
        wire.run(put(queue_id))
    wire.run(read(queue_id, most=3))
    wire.cut()
    after = Wire(clock, service, ClientOptions(max_recovered=2))
    after.connect(existing="use")
    assert len(service.queues[queue_id].messages) == 1
    assert len(after.run(read(queue_id, most=5))) == 2


def test_a_release_that_was_lost_is_sent_again(
    wire: Wire, clock: Clock, service: FakeService, queue_id: int
) -> None:
    wire.run(put(queue_id))
    wire.run(read(queue_id))
    wire.cut()
    after = Wire(clock, service)
    after.connect(existing="use")
    after.clock.now += 31
    after.session.tick()
    lose_requests(after)
    after.settle()
    assert len(service.queues[queue_id].messages) == 1
    service.faults.append(Fault(packets.Release, ErrorCode.OVERLOADED))
    after.run(read(queue_id))


def test_a_cancelled_read_takes_nothing(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(read(queue_id, None))
    wire.settle()
    wire.session.abandon(call)
    wire.settle()
    assert len(sent(service, packets.CancelRequest)) == 1
    assert not service.parked
    wire.run(put(queue_id))
    wire.advance(1)
    assert len(service.queues[queue_id].messages) == 1


def test_messages_that_a_cancelled_read_took_go_to_the_next(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    call = wire.start(read(queue_id, None))
    wire.settle()
    wire.run(put(queue_id, b"m"))
    assert call.phase == DONE  # answered, and not yet returned to the caller
    wire.session.abandon(call)
    assert [(m.body, m.redelivered) for m in wire.run(read(queue_id))] == [(b"m", False)]
    wire.advance(1)
    assert not service.deliveries


def test_messages_that_came_too_late_go_to_a_read_that_waits(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    first, second = wire.start(read(queue_id, None)), wire.start(read(queue_id, None))
    wire.settle()
    wire.start(put(queue_id, b"m"))
    wire.reach_service()
    wire.collect()  # the message is on its way to the first read
    wire.session.abandon(first)
    wire.settle()
    assert bodies(wire.finish(second)) == [b"m"]
    wire.advance(1)
    assert not service.deliveries
    assert not service.parked


@pytest.mark.parametrize("lost", [False, True], ids=["answered", "lost"])
@pytest.mark.parametrize("wait", [0, None], ids=["at once", "waiting"])
def test_the_next_read_does_not_overtake_a_cancelled_one(
    wire: Wire, service: FakeService, queue_id: int, wait: float | None, lost: bool
) -> None:
    wire.run(put(queue_id, b"older"))
    wire.run(put(queue_id, b"newer"))
    call = wire.start(read(queue_id, wait))
    wire.collect()
    wire.deliver_to_service()  # it takes the older one
    wire.session.abandon(call)
    following = wire.start(read(queue_id))
    wire.reach_service()
    if lost:
        wire.cut()
        wire.advance(10)
    wire.settle()
    assert bodies(wire.finish(following)) == [b"older"]
    assert bodies(wire.run(read(queue_id))) == [b"newer"]
    wire.advance(1)
    assert not service.deliveries


def test_a_cancelled_read_holds_up_reads_of_its_queue_only(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    other = wire.run(CreateQueueCall("other", {})).queue_id
    wire.run(put(other, b"there"))
    call = wire.start(read(queue_id, None))
    wire.reach_service()
    wire.session.abandon(call)
    elsewhere = wire.start(read(other))
    wire.reach_service()
    assert len(sent(service, packets.ReadMessage)) == 2  # before the answer to the first is seen
    wire.settle()
    assert bodies(wire.finish(elsewhere)) == [b"there"]


def test_a_read_left_before_it_was_sent(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(read(queue_id, None))
    wire.session.abandon(call)
    wire.settle()
    assert not sent(service, packets.ReadMessage)


# ---------------------------------------------------------------------------------- explicit confirmation
@pytest.fixture
def by_hand(clock: Clock, service: FakeService) -> Wire:
    wire = Wire(clock, service, ClientOptions(auto_confirm=False))
    wire.connect("bob")
    return wire


def test_messages_are_confirmed_one_by_one(by_hand: Wire, service: FakeService, queue_id: int) -> None:
    for _ in range(3):
        by_hand.run(put(queue_id))
    messages = by_hand.run(read(queue_id, most=3))
    by_hand.advance(60)
    assert len(next(iter(service.deliveries.values()))) == 3
    by_hand.session.confirm([messages[1].hand_over])
    by_hand.advance(1)
    assert len(next(iter(service.deliveries.values()))) == 2
    by_hand.session.confirm([messages[0].hand_over, messages[2].hand_over])
    by_hand.advance(1)
    assert not service.deliveries
    assert by_hand.session.unconfirmed == 0


def test_the_last_message_confirms_the_read_by_its_number(
    by_hand: Wire, service: FakeService, queue_id: int
) -> None:
    by_hand.run(put(queue_id))
    [message] = by_hand.run(read(queue_id))
    by_hand.session.confirm([message.hand_over])
    by_hand.run(put(queue_id))
    assert sent(service, packets.PutMessage)[-1].confirmed == [2]
    assert not service.deliveries


def test_a_single_message_whose_confirm_was_refused_goes_ahead_of_the_next_request(
    by_hand: Wire, service: FakeService, queue_id: int
) -> None:
    """Before that it waits for the usual time: a Confirm with every request would cost a call each."""
    for _ in range(3):
        by_hand.run(put(queue_id))
    messages = by_hand.run(read(queue_id, most=3))
    by_hand.session.confirm([messages[0].hand_over])
    by_hand.run(put(queue_id))
    assert not sent(service, packets.Confirm)
    service.faults.append(Fault(packets.Confirm, ErrorCode.DATABASE_UNAVAILABLE))
    by_hand.clock.now += 0.05
    by_hand.session.tick()
    by_hand.settle()
    assert len(sent(service, packets.Confirm)) == 1
    by_hand.session.confirm([messages[1].hand_over])
    by_hand.run(put(queue_id))
    assert [type(packet) for packet in service.received[-2:]] == [packets.Confirm, packets.PutMessage]
    assert [len(left) for left in service.deliveries.values()] == [1]
    by_hand.run(put(queue_id))
    assert len(sent(service, packets.Confirm)) == 2


def test_a_takeover_does_not_offer_what_the_application_holds(
    by_hand: Wire, service: FakeService, queue_id: int
) -> None:
    by_hand.run(put(queue_id))
    [message] = by_hand.run(read(queue_id))
    by_hand.cut()
    assert by_hand.run(read(queue_id)) == []
    by_hand.session.confirm([message.hand_over])
    by_hand.advance(1)
    assert not service.deliveries


def test_released_messages_are_not_confirmed_with_their_read(
    by_hand: Wire, service: FakeService, queue_id: int
) -> None:
    for _ in range(2):
        by_hand.run(put(queue_id))
    first, second = by_hand.run(read(queue_id, most=2))
    service.faults.append(Fault(packets.Release, ErrorCode.OVERLOADED))
    call = by_hand.session.give_back([first.hand_over])
    by_hand.session.confirm([second.hand_over])
    by_hand.settle()
    assert call.phase != DONE
    by_hand.advance(0.1)
    assert by_hand.finish(call) == 1
    assert len(service.queues[queue_id].messages) == 1
    assert not service.deliveries
    assert by_hand.session.unconfirmed == 0


def test_part_of_a_read_is_given_back_before_it_was_confirmed(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    for body in (b"1", b"2", b"3"):
        wire.run(put(queue_id, body))
    messages = wire.run(read(queue_id, most=3))
    call = wire.session.give_back([messages[1].hand_over])
    wire.settle()
    assert wire.finish(call) == 1
    wire.advance(1)
    assert [message.body for message in service.queues[queue_id].messages] == [b"2"]
    assert not service.deliveries
    again = wire.session.give_back([messages[0].hand_over])
    assert wire.finish(again) == 0


def test_giving_back_after_the_connection_was_lost(wire: Wire, service: FakeService, queue_id: int) -> None:
    for body in (b"1", b"2"):
        wire.run(put(queue_id, body))
    messages = wire.run(read(queue_id, most=2))
    wire.cut()
    call = wire.session.give_back([messages[0].hand_over])
    assert call.phase != DONE
    wire.settle()
    assert wire.finish(call) == 1
    wire.advance(1)
    assert [message.body for message in service.queues[queue_id].messages] == [b"1"]
    assert not service.deliveries


# ---------------------------------------------------------------------------------- time
def test_a_call_fails_when_its_time_is_up(clock: Clock, service: FakeService, queue_id: int) -> None:
    wire = Wire(clock, service, ClientOptions(call_timeout=3, try_timeout=60))
    wire.connect()
    sent_put, sent_read = wire.start(put(queue_id)), wire.start(read(queue_id, 1))
    question = wire.start(GetQueuesCall(0, 1))
    wire.collect()
    wire.to_service = b""  # swallowed by a network that pretends to live
    wire.clock.now += 3
    wire.session.tick()
    with pytest.raises(DeadlineExceededError, match="may have been done") as raised:
        wire.finish(sent_put)
    assert isinstance(raised.value, TimeoutError)
    assert raised.value.error_class is ErrorClass.IN_DOUBT
    with pytest.raises(DeadlineExceededError) as raised:
        wire.finish(question)
    assert raised.value.error_class is ErrorClass.RETRYABLE
    assert sent_read.phase == SENT
    wire.clock.now += 1
    wire.session.tick()
    with pytest.raises(DeadlineExceededError, match="kept for the next"):
        wire.finish(sent_read)
    wire.cut()
    assert wire.run(put(queue_id))
    assert len(service.put_bodies) == 1, "the put whose caller gave up is not sent again"


def test_without_a_connection_the_reason_is_told(clock: Clock, service: FakeService, queue_id: int) -> None:
    wire = Wire(clock, service, ClientOptions(call_timeout=3))
    wire.connect()
    wire.cut()
    call = wire.start(put(queue_id))
    for _ in range(40):
        if wire.session.next_attempt is not None:
            wire.session.attempt_failed(NotConnectedError("cannot connect to a:1: nothing listens there"))
        wire.clock.now += 0.1
        wire.session.tick()
    with pytest.raises(DeadlineExceededError, match="nothing listens there") as raised:
        wire.finish(call)
    assert raised.value.error_class is ErrorClass.RETRYABLE


def test_a_silent_connection_is_left(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    wire.collect()
    wire.to_service = b""
    wire.advance(11)
    assert wire.finish(call)
    assert len(service.put_bodies) == 1


def test_a_long_wait_is_kept_alive_and_watched(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(read(queue_id, None))
    wire.advance(100)
    assert len(sent(service, packets.Ping)) >= 5
    assert call.phase == SENT
    first_link = wire.link
    assert wire.remote is not None
    wire.remote.receive = lambda data: None  # type: ignore[method-assign]
    wire.advance(30)
    assert wire.link is not first_link
    wire.run(put(queue_id, b"m"))
    assert bodies(wire.finish(call)) == [b"m"]


def test_the_middleware_says_how_long_a_client_may_be_silent(clock: Clock, service: FakeService) -> None:
    service.idle_limit_ms = 2_000
    wire = Wire(clock, service)
    wire.connect()
    wire.advance(10)
    assert len(sent(service, packets.Ping)) >= 9


def test_waiting_ends_in_time_and_not_before(wire: Wire, clock: Clock, queue_id: int) -> None:
    call = wire.start(read(queue_id, 5))
    wire.advance(2)
    wire.cut()
    wire.advance(2.9)
    assert call.phase != DONE
    wire.advance(0.2)
    assert wire.finish(call) == []


def test_interrupted_waiting_does_not_count_as_a_failure(wire: Wire, queue_id: int) -> None:
    call = wire.start(read(queue_id, None))
    for _ in range(20):
        wire.advance(12)
        wire.cut()
    wire.settle()
    wire.run(put(queue_id, b"m"))
    assert bodies(wire.finish(call)) == [b"m"]


def test_ping_measures_time(wire: Wire, clock: Clock) -> None:
    call = wire.session.ping()
    wire.collect()
    clock.now += 0.25
    wire.settle()
    assert wire.finish(call) == pytest.approx(0.25)


def test_ping_survives_a_lost_connection(clock: Clock, service: FakeService) -> None:
    wire = Wire(clock, service)
    call = wire.session.ping()
    wire.open_link()
    wire.cut()
    wire.advance(1)
    assert wire.finish(call) == 0


def test_ping_without_a_service(clock: Clock, service: FakeService) -> None:
    wire = Wire(clock, service, ClientOptions(connect_tries=2))
    call = wire.session.ping()
    while wire.session.next_attempt is not None:
        wire.session.attempt_failed(NotConnectedError("nothing listens there"))
    with pytest.raises(NotConnectedError, match="nothing listens"):
        wire.finish(call)
    assert wire.session.timer == math.inf or call.phase == DONE


# ---------------------------------------------------------------------------------- moving on
def test_a_draining_middleware_is_left_in_order(wire: Wire, service: FakeService, queue_id: int) -> None:
    waiting = wire.start(read(queue_id, None))
    wire.settle()
    assert wire.remote is not None
    old = wire.remote
    wire.run(put(service.add_queue("q2")))
    wire.remote.go_away(["c:3"])
    late = wire.start(put(queue_id, b"m"))
    wire.settle()
    assert wire.remote is not old
    assert str(wire.session.address) in ("b:2", "c:3")
    assert wire.finish(late)
    wire.settle()
    assert bodies(wire.finish(waiting)) == [b"m"]
    wire.advance(1)
    assert not service.operations


def test_a_draining_middleware_that_hangs_is_left_in_time(wire: Wire, queue_id: int) -> None:
    assert wire.remote is not None
    wire.remote.go_away([])
    wire.remote.receive = lambda data: None  # type: ignore[method-assign]
    call = wire.start(put(queue_id))
    wire.session.pump()
    wire.advance(11)
    assert wire.finish(call)


def test_shutting_down_moves_the_request(wire: Wire, service: FakeService, queue_id: int) -> None:
    service.faults.append(Fault(packets.PutMessage, ErrorCode.SHUTTING_DOWN))
    before = wire.link
    assert wire.run(put(queue_id))
    assert wire.link is not before


def test_a_full_middleware_is_passed_by(clock: Clock, service: FakeService) -> None:
    service.faults.append(Fault(packets.Hello, ErrorCode.TOO_MANY_CONNECTIONS))
    wire = Wire(clock, service)
    wire.connect()
    assert wire.session.address == "b:2"


def test_a_busy_takeover_is_tried_again(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    lose_answers(wire)
    service.faults += [Fault(packets.IdentifyClient, ErrorCode.TAKEOVER_BUSY) for _ in range(3)]
    wire.advance(2)
    assert wire.finish(call)
    assert len(service.put_bodies) == 1


def test_connect_waits_while_a_lost_connection_is_replaced(wire: Wire, queue_id: int) -> None:
    wire.cut()
    call = wire.session.connect(wire.session.identity)
    wire.open_link()
    assert call.phase != DONE
    wire.settle()
    wire.finish(call)
    assert wire.session.connected
    wire.finish(wire.session.connect(wire.session.identity))


def test_connect_gives_up_in_time_and_the_client_goes_on(wire: Wire, queue_id: int) -> None:
    wire.cut()
    early = wire.session.connect(wire.session.identity)
    given_up = wire.session.connect(wire.session.identity)
    wire.session.abandon(given_up)
    for _ in range(40):
        attempt = wire.session.next_attempt
        wire.session.attempt_failed(ConnectionLostError("nobody there"))
        assert attempt is not None
        wire.clock.now += 1.0
        wire.session.tick()
    late = wire.session.connect(wire.session.identity)
    with pytest.raises(NotConnectedError, match="nobody there"):
        wire.finish(early)
    wire.advance(2)
    wire.finish(late)
    wire.run(put(queue_id))


@pytest.mark.parametrize("end", ["close", "fail"])
def test_who_waits_for_another_connection_hears_of_the_end(wire: Wire, queue_id: int, end: str) -> None:
    wire.cut()
    call = wire.session.connect(wire.session.identity)
    if end == "close":
        wire.session.begin_close()
    else:
        wire.session.fail_all(ForkedError("forked"))
    with pytest.raises(NotConnectedError):
        wire.finish(call)


def test_connecting_gives_up_after_some_rounds(clock: Clock, service: FakeService) -> None:
    from telesto.client.bookkeeping.identity import Identity

    wire = Wire(clock, service, ClientOptions(connect_tries=3))
    call = wire.session.connect(Identity(None, "alice", None, "error"))
    attempts = 0
    while wire.session.next_attempt is not None:
        attempts += 1
        wire.session.attempt_failed(NotConnectedError("nothing listens there"))
    assert attempts == 6
    with pytest.raises(NotConnectedError, match="nothing listens"):
        wire.finish(call)
    wire.connect()


def test_another_major_version_is_refused(clock: Clock, service: FakeService) -> None:
    from telesto.client.bookkeeping.identity import Identity

    service.faults += [Fault(packets.Hello, ErrorCode.UNSUPPORTED_VERSION) for _ in range(20)]
    wire = Wire(clock, service)
    call = wire.session.connect(Identity(None, "alice", None, "error"))
    wire.advance(20)
    with pytest.raises(Exception, match="UNSUPPORTED_VERSION"):
        wire.finish(call)


@pytest.mark.parametrize(
    "garbage",
    [
        b"\0\0\0\1x",  # shorter than a header
        b"\xff\xff\xff\xff",  # longer than allowed
        packets.Pong().encode(77),  # answers nothing
        packets.PutMessageResponse([]).encode(0),  # the server does not send it on its own
        b"\0\0\0\7\0\x32\0\0\0\5\xff",  # a response to no request
    ],
)
def test_a_confused_server_is_left(wire: Wire, service: FakeService, queue_id: int, garbage: bytes) -> None:
    before = wire.link
    wire.to_client += garbage
    wire.settle()
    wire.advance(1)
    assert wire.link is not before
    assert wire.run(put(queue_id))


def test_a_response_that_cannot_be_read_is_in_doubt(wire: Wire, service: FakeService, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    wire.reach_service()
    assert wire.remote is not None
    wire.remote.output.clear()
    wire.to_client = (
        packets.PutMessageResponse([]).encode(call.packet_id)[:-1].replace(b"\0\0\0\x0b", b"\0\0\0\x0a")
    )
    wire.settle()
    assert wire.finish(call) == service.queues[queue_id].messages[0].message_id


def test_an_error_about_the_connection_ends_it(wire: Wire, queue_id: int) -> None:
    wire.to_client += packets.Error(18, ErrorClass.FATAL, "too large", None, None).encode(0)
    before = wire.link
    wire.settle()
    assert wire.link is not before
    assert wire.run(put(queue_id))


# ---------------------------------------------------------------------------------- closing
def close(wire: Wire) -> None:
    wire.session.begin_close()
    wire.settle()
    assert wire.session.finished
    wire.session.end_close()


def test_closing_gives_back(wire: Wire, clock: Clock, service: FakeService, queue_id: int) -> None:
    for _ in range(2):
        wire.run(put(queue_id))
    wire.run(read(queue_id))
    wire.cut()
    after = Wire(clock, service)
    after.connect(existing="use")
    after.run(put(queue_id))
    close(after)
    assert not service.operations
    assert not service.deliveries
    assert len(service.queues[queue_id].messages) == 3


def test_closing_ends_what_waits_and_finishes_what_is_under_way(
    wire: Wire, service: FakeService, queue_id: int
) -> None:
    waiting = wire.start(read(queue_id, None))
    under_way = wire.start(put(service.add_queue("q2")))
    wire.collect()
    in_line = wire.start(put(queue_id))
    wire.session.begin_close()
    with pytest.raises(ClientClosedError):
        wire.finish(waiting)
    with pytest.raises(ClientClosedError):
        wire.finish(in_line)
    wire.settle()
    assert wire.finish(under_way)
    wire.advance(0.1)
    assert wire.session.finished
    assert not service.operations
    assert not service.parked


def test_closing_does_not_wait_for_ever(wire: Wire, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    wire.collect()
    wire.to_service = b""
    wire.session.begin_close()
    wire.clock.now += 2.1
    wire.session.tick()
    assert wire.session.finished
    wire.session.end_close()
    with pytest.raises(ConnectionLostError, match="may have been done"):
        wire.finish(call)


def test_closing_without_a_connection(wire: Wire, queue_id: int) -> None:
    call = wire.start(put(queue_id))
    lose_requests(wire)
    close(wire)
    with pytest.raises(ConnectionLostError, match="may have been done"):
        wire.finish(call)
    assert wire.session.next_attempt is None
