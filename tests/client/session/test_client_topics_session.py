"""Topics in the session core: lost answers, positions that are told and proven, turns, time."""

from typing import Any

import pytest

from fake_service import FakeService, Fault
from harness import Clock, Wire
from telesto.client import ClientClosedError, NotSubscribedError, PositionUnknownError
from telesto.client.calls.queue_calls import DONE
from telesto.client.calls.topic_calls import GetCall, PutOneToTopicCall, SubscribeCall, UnsubscribeCall
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode


@pytest.fixture
def wire(clock: Clock, service: FakeService) -> Wire:
    wire = Wire(clock, service)
    wire.connect()
    return wire


def subscribe(wire: Wire, topic: str = "t", *bodies: bytes) -> int:
    subscription_id: int = wire.run(SubscribeCall(topic, None, None, False))
    for body in bodies:
        wire.run(PutOneToTopicCall(topic, body, None))
    return subscription_id


def get(wire: Wire, topic: str | None = "t", timeout: float | None = 0, **attributes: Any) -> list[bytes]:
    return [message.body for message in wire.run(GetCall(topic, timeout, **attributes))]


def position(service: FakeService, subscription_id: int) -> int:
    return service.topics.subscriptions[subscription_id].position


def told(service: FakeService) -> list[packets.Packet]:
    return [packet for packet in service.received if isinstance(packet, packets.ConfirmPositions)]


def lose_the_answer(wire: Wire) -> None:
    """Has the service execute what is on its way; its answer is lost with the connection."""
    wire.reach_service()
    wire.cut()


def test_a_get_whose_answer_is_lost_gets_the_same_message(wire: Wire, service: FakeService) -> None:
    subscription = subscribe(wire, "t", b"1", b"2")
    call = wire.start(GetCall("t", 0))
    lose_the_answer(wire)
    wire.advance(1)
    assert [message.body for message in wire.finish(call)] == [b"1"]
    call = wire.start(GetCall("t", 0))
    lose_the_answer(wire)
    assert position(service, subscription) == 1
    wire.advance(1)
    assert [message.body for message in wire.finish(call)] == [b"2"]
    assert get(wire) == []


def test_a_put_whose_answer_is_lost_is_put_once(wire: Wire, service: FakeService) -> None:
    subscribe(wire)
    call = wire.start(PutOneToTopicCall("t", b"1", None))
    lose_the_answer(wire)
    wire.advance(1)
    assert wire.finish(call)[0].number == 1
    assert get(wire, max_messages=9) == [b"1"]


def test_a_put_that_was_a_duplicate_is_one_also_when_its_answer_is_lost(
    wire: Wire, service: FakeService
) -> None:
    subscribe(wire)
    wire.run(PutOneToTopicCall("t", b"1", 1))
    wire.run(PutOneToTopicCall("t", b"2", 2))
    for sequence, number in ((2, 2), (1, 0)):
        call = wire.start(PutOneToTopicCall("t", b"again", sequence))
        lose_the_answer(wire)
        wire.advance(1)
        (result,) = wire.finish(call)
        assert (result.number, result.duplicate) == (number, True)
    assert get(wire, max_messages=9) == [b"1", b"2"]


def test_subscribing_and_unsubscribing_whose_answers_are_lost_are_done_once(
    wire: Wire, service: FakeService
) -> None:
    call = wire.start(SubscribeCall("t", None, None, False))
    lose_the_answer(wire)
    wire.advance(1)
    assert wire.finish(call) in service.topics.subscriptions
    again = wire.start(UnsubscribeCall("t"))
    lose_the_answer(wire)
    wire.advance(1)
    wire.finish(again)
    assert service.topics.subscriptions == {}


def test_what_is_taken_is_told_after_a_while_when_no_get_tells_it(wire: Wire, service: FakeService) -> None:
    subscription = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    assert position(service, subscription) == 0
    wire.advance(0.1)
    assert position(service, subscription) == 1
    wire.advance(10)
    assert len(told(service)) == 1


def test_a_position_that_was_refused_for_now_is_told_soon(wire: Wire, service: FakeService) -> None:
    subscription = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    service.faults.append(Fault(packets.ConfirmPositions, ErrorCode.OVERLOADED))
    wire.advance(0.2)
    assert position(service, subscription) == 1
    assert len(told(service)) == 2


def test_a_get_under_way_tells_it_alone(wire: Wire, service: FakeService) -> None:
    subscription = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    waiting = wire.start(GetCall("t", 5.0))
    wire.settle()
    assert position(service, subscription) == 1
    wire.advance(1)
    assert told(service) == []
    wire.advance(5)
    assert wire.finish(waiting) == []


def test_closing_tells_what_is_taken(wire: Wire, service: FakeService) -> None:
    subscription = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    wire.session.begin_close()
    assert not wire.session.finished
    wire.settle()
    assert wire.session.finished
    assert position(service, subscription) == 1


def test_closing_ends_gets_that_wait_and_those_whose_turn_has_not_come(wire: Wire) -> None:
    subscribe(wire)
    calls = [wire.start(GetCall("t", None)) for _ in range(3)]
    wire.settle()
    wire.session.begin_close()
    wire.settle()
    for call in calls:
        with pytest.raises(ClientClosedError):
            wire.finish(call)


def test_what_was_told_in_vain_is_told_again_on_the_next_connection(wire: Wire, service: FakeService) -> None:
    subscription = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    wire.cut()
    wire.advance(1)
    assert position(service, subscription) == 1


def test_gets_of_a_topic_have_their_turns_and_of_others_go_on(wire: Wire) -> None:
    subscribe(wire, "t", b"1", b"2")
    subscribe(wire, "other", b"3")
    first, second, third = (wire.start(GetCall(topic, 0)) for topic in ("t", "t", "other"))
    wire.settle()
    assert [call.phase == DONE for call in (first, second, third)] == [True, False, True]
    assert [message.body for message in wire.finish(first)] == [b"1"]
    wire.settle()
    assert [message.body for message in wire.finish(second)] == [b"2"]
    assert [message.body for message in wire.finish(third)] == [b"3"]


def test_a_get_given_up_after_its_answer_leaves_the_message_to_the_next(wire: Wire) -> None:
    subscribe(wire, "t", b"1", b"2")
    given_up, next_one = wire.start(GetCall("t", 0)), wire.start(GetCall("t", 0))
    wire.settle()
    wire.session.abandon(given_up)
    wire.settle()
    assert [message.body for message in wire.finish(next_one)] == [b"1"]
    assert get(wire) == [b"2"]


def test_a_get_given_up_under_way_is_cancelled_and_takes_nothing(wire: Wire, service: FakeService) -> None:
    subscribe(wire)
    waiting = wire.start(GetCall("t", None))
    wire.settle()
    wire.session.abandon(waiting)
    wire.settle()
    assert not service.parked
    wire.run(PutOneToTopicCall("t", b"1", None))
    assert get(wire) == [b"1"]


def test_a_get_whose_turn_does_not_come_in_time_is_empty(wire: Wire) -> None:
    subscribe(wire)
    wire.start(GetCall("t", None))
    late = wire.start(GetCall("t", 0.5))
    wire.settle()
    wire.advance(1)
    assert wire.finish(late) == []


def test_a_waiting_get_outlives_a_cut_and_a_stop(wire: Wire, service: FakeService) -> None:
    subscribe(wire)
    waiting = wire.start(GetCall("t", 60.0))
    wire.settle()
    wire.cut()
    wire.advance(1)
    assert wire.remote is not None
    wire.remote.go_away([])
    wire.settle()
    wire.advance(1)
    wire.run(PutOneToTopicCall("t", b"1", None))
    wire.advance(1)
    assert [message.body for message in wire.finish(waiting)] == [b"1"]


def test_a_refusal_for_now_is_tried_again(wire: Wire, service: FakeService) -> None:
    subscribe(wire, "t", b"1")
    service.faults.append(Fault(packets.GetFromTopics, ErrorCode.OVERLOADED))
    service.faults.append(Fault(packets.GetFromTopics, ErrorCode.IO_ERROR))
    call = wire.start(GetCall("t", 0))
    wire.advance(5)
    assert [message.body for message in wire.finish(call)] == [b"1"]


def test_a_position_that_the_service_has_lost_is_told_once(wire: Wire, service: FakeService) -> None:
    subscribe(wire, "t", b"1", b"2")
    assert get(wire, max_messages=9) == [b"1", b"2"]
    service.topics.topics["t"].messages.clear()
    with pytest.raises(PositionUnknownError):
        get(wire)
    wire.run(PutOneToTopicCall("t", b"3", None))
    assert get(wire) == [b"3"]


def test_another_subscription_of_the_same_topic_is_found_by_its_name(
    wire: Wire, service: FakeService, clock: Clock
) -> None:
    first = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    old = service.topics.subscriptions.pop(first)
    packet = packets.Subscribe(1, [], "t")
    second = service.topics.subscribe(old.client_id, packet)
    wire.run(PutOneToTopicCall("t", b"2", None))
    assert get(wire) == [b"2"]
    service.topics.subscriptions.pop(second)
    with pytest.raises(NotSubscribedError):
        get(wire)


def test_of_another_database_nothing_is_known(wire: Wire, service: FakeService) -> None:
    subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    wire.cut()
    service.incarnation = "second"
    wire.advance(1)
    assert told(service) == []
    assert get(wire) == [b"1"]


def test_whoever_becomes_the_client_again_still_owes_what_it_took(
    clock: Clock, service: FakeService, wire: Wire
) -> None:
    subscription = subscribe(wire, "t", b"1")
    assert get(wire) == [b"1"]
    other = Wire(clock, service)
    other.connect(existing="use")
    wire.advance(1)
    assert wire.session.client_id is not None
    wire.connect(existing="use")
    wire.advance(1)
    assert position(service, subscription) == 1


def test_what_was_fetched_ahead_is_not_told_before_it_is_taken(clock: Clock, service: FakeService) -> None:
    wire = Wire(clock, service, ClientOptions(fetch_ahead=10))
    wire.connect()
    subscription = subscribe(wire, "t", b"1", b"2", b"3")
    for expected in (b"1", b"2"):
        assert get(wire, ahead=10) == [expected]
    wire.advance(1)
    assert position(service, subscription) == 2
    gets = [packet for packet in service.received if isinstance(packet, packets.GetFromTopics)]
    assert len(gets) == 1
