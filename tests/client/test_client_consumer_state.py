"""What a consumer's client hands to the application of a partition, in every order of what it hears."""

from __future__ import annotations

import random
from typing import Any

import pytest

from telesto.client import ClientOptions
from telesto.client.calls import DONE
from telesto.client.consuming import BRISK, LEASES_OVER_MAX, ConsumerState, Consuming, JoinCall, NextCall
from telesto.client.models import LeaseId
from telesto.protocol import packets
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import Delivery, ElementResult, LeaseRef

CONSUMER, LEASE = 5, 70


class Host:
    """Takes note of what the consumers send."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send_when_ready(self, errand: Any) -> None:
        self.sent.append(errand)

    def finish_next(self, call: NextCall, error: Exception | None = None) -> None:
        call.phase = DONE


class Bench:
    """A consumer that has joined."""

    def __init__(self, keep_alive: bool = False) -> None:
        self.host = Host()
        self.now = 0.0
        self.consuming = Consuming(self.host, ClientOptions(), lambda: self.now)
        self.state = ConsumerState(1, 32, 0, keep_alive)
        self.joins(CONSUMER)

    def joins(self, consumer_id: int) -> None:
        call = JoinCall(self.state)
        call.response = packets.JoinQueueResponse(consumer_id, 30_000)
        self.consuming.joined(call)

    def deliver(
        self, *message_ids: int, key: str | None = "key", lease: int = LEASE, redelivered: bool = False
    ) -> None:
        messages = [
            packets.Message(number, 1, 2, 0, 5, 0, 1, redelivered, b"", None, partition_key=key)
            for number in message_ids
        ]
        deliveries = [Delivery(lease, message) for message in messages]
        self.consuming.delivered(packets.Deliver(self.state.consumer_id, deliveries))

    def call(self) -> NextCall:
        call = NextCall(self.state)
        if self.consuming.next(call):
            self.host.finish_next(call)
        return call

    def take(self) -> int | None:
        """Take the next message, if there is one; returns its id."""
        call = self.call()
        if call.message is None:
            self.consuming.forget(call)
            return None
        return call.message.message_id

    def take_all(self) -> list[int]:
        taken = []
        while (message_id := self.take()) is not None:
            taken.append(message_id)
        return taken

    def lease(self, message_id: int, lease: int = LEASE) -> LeaseId:
        return LeaseId(self.state.consumer_id, lease, message_id)

    def begins(self) -> list[tuple[bool, list[int]]]:
        """What is told of the application, and would be written now."""
        told = []
        for frame in FrameDecoder(1 << 24).feed(self.consuming.take_begins()):
            assert (frame.method_id, frame.packet_id) == (packets.Begin.METHOD_ID, 0)
            begin = packets.Begin.decode(frame.payload)
            assert all(ref.consumer_id == self.state.consumer_id for ref in begin.leases)
            told.append((begin.begun, [ref.message_id for ref in begin.leases]))
        return told

    def give_back(self, message_id: int, lease: int = LEASE) -> None:
        self.consuming.answering(self.state, [self.lease(message_id, lease)], done=False)
        self.consuming.given_back(self.state, [self.lease(message_id, lease)])

    def lose(self, *message_ids: int, lease: int = LEASE) -> None:
        refs = [LeaseRef(self.state.consumer_id, lease, number) for number in message_ids]
        self.consuming.lost(packets.LeaseLost(self.state.consumer_id, refs, False, 27, ""))


def test_what_is_on_its_way_when_one_before_it_is_given_back_is_not_begun() -> None:
    bench = Bench()
    bench.deliver(1, 2)
    assert bench.take() == 1
    bench.give_back(1)
    bench.deliver(3, 4)
    assert bench.take() is None
    bench.deliver(1, 2, 3, 4, lease=LEASE + 1)
    assert bench.take_all() == [1, 2, 3, 4]


def test_what_comes_before_the_one_given_back_stays() -> None:
    bench = Bench()
    bench.deliver(1, 2, 3)
    assert [bench.take(), bench.take()] == [1, 2]
    bench.give_back(2)
    assert bench.lease(1) in bench.state.open
    assert bench.take_all() == []


def test_what_follows_and_was_taken_is_lost() -> None:
    bench = Bench()
    bench.deliver(1, 2, 3)
    assert bench.take_all() == [1, 2, 3]
    bench.give_back(1)
    assert (list(bench.state.open), bench.state.lost) == ([], 2)
    bench.lose(2, 3)
    assert bench.state.lost == 2  # and is not counted again


@pytest.mark.parametrize("key", [None, "other"])
def test_what_is_of_no_or_another_partition_stays(key: str | None) -> None:
    bench = Bench()
    other = LEASE if key is None else LEASE + 1
    bench.deliver(1, 3)
    bench.deliver(2, 4, key=key, lease=other)
    assert bench.take() == 1
    bench.give_back(1)
    bench.deliver(5, key=key, lease=other)
    assert bench.take_all() == [2, 4, 5]


def test_one_that_is_lost_takes_those_after_it_along_before_they_are_named() -> None:
    bench = Bench()
    bench.deliver(1, 2, 3)
    bench.lose(2)
    bench.deliver(4)
    assert bench.take_all() == [1]


def test_one_that_a_touch_finds_lost_takes_those_after_it_along() -> None:
    bench = Bench(keep_alive=True)
    bench.deliver(1, 2, 3)
    assert bench.take() == 1
    bench.now = 11.0
    bench.consuming.tick(bench.now)
    errand = bench.host.sent[-1]
    errand.response = packets.TouchResponse([ElementResult(1, 27)])
    errand.on_answer(errand)
    assert bench.take_all() == []


# ---------------------------------------------------------------------------------- what is begun


def test_what_the_application_is_given_is_told_and_nothing_else() -> None:
    bench = Bench()
    bench.deliver(1, 2, 3)
    assert bench.begins() == []
    assert [bench.take(), bench.take()] == [1, 2]
    assert bench.begins() == [(True, [1, 2])]
    assert bench.begins() == []


def test_who_waits_is_given_what_comes_and_that_is_told() -> None:
    bench = Bench()
    call = bench.call()
    bench.deliver(1, 2)
    assert call.message is not None
    assert bench.begins() == [(True, [1])]


def test_what_the_application_was_not_given_after_all_is_told() -> None:
    bench = Bench()
    bench.deliver(1)
    call = bench.call()
    assert bench.begins() == [(True, [1])]
    bench.consuming.forget(call)
    assert bench.begins() == [(False, [1])]
    assert bench.take() == 1
    assert bench.begins() == [(True, [1])]


def test_what_another_call_is_given_in_the_same_turn_has_begun() -> None:
    bench = Bench()
    bench.deliver(1)
    call, other = bench.call(), bench.call()
    bench.consuming.forget(call)
    assert other.message is not None
    assert bench.begins() == [(True, [1])]


def test_what_is_done_before_that_was_told_has_not_to_be_told() -> None:
    bench = Bench()
    bench.deliver(1, 2)
    bench.take_all()
    bench.consuming.answering(bench.state, [bench.lease(1)], done=True)
    bench.consuming.answering(bench.state, [bench.lease(2)], done=False)
    assert bench.begins() == [(True, [2])]


def test_only_those_who_are_quick_are_given_before_that_is_told() -> None:
    bench = Bench()
    bench.deliver(1, 2, 3, lease=LEASE)
    assert bench.call().tell_first
    assert not bench.call().tell_first
    bench.now = BRISK
    assert bench.call().tell_first


def test_what_was_handed_over_before_is_told_first() -> None:
    bench = Bench()
    bench.deliver(1, 2, redelivered=True)
    assert [bench.call().tell_first, bench.call().tell_first] == [True, True]


def test_nothing_is_told_over_another_connection() -> None:
    bench = Bench()
    bench.deliver(1)
    bench.take()
    bench.consuming.parted()
    assert bench.begins() == []


def test_many_are_told_in_frames_that_fit() -> None:
    bench = Bench()
    bench.deliver(*range(1, 1_001))
    bench.take_all()
    begins = bench.begins()
    assert [len(ids) for _, ids in begins] == [512, 488]
    assert [number for _, ids in begins for number in ids] == list(range(1, 1_001))


@pytest.mark.parametrize("keep_alive", [True, False])
def test_the_service_hears_of_a_client_with_messages(keep_alive: bool) -> None:
    bench = Bench(keep_alive)
    bench.deliver(1, 2)
    bench.take()
    for at in (7.5, 15.0, 22.5):
        assert bench.consuming.due == at
        bench.now = at
        bench.consuming.tick(at)
    assert [type(errand.packet) for errand in bench.host.sent] == [
        packets.Touch if keep_alive else packets.Ping
    ] * 3
    if keep_alive:  # what waits is the service's matter
        assert all(len(errand.packet.leases) == 1 for errand in bench.host.sent)


def test_a_new_consumer_does_not_know_of_old_leases() -> None:
    bench = Bench()
    bench.deliver(1)
    bench.give_back(1)
    bench.consuming.parted()
    bench.joins(CONSUMER + 1)
    bench.deliver(2)
    assert bench.take_all() == [2]


def test_it_remembers_so_many_leases_and_no_more() -> None:
    bench = Bench()
    for number in range(2 * LEASES_OVER_MAX):
        bench.lose(1, lease=LEASE + number)
    assert len(bench.state.over) == LEASES_OVER_MAX
    bench.deliver(2, lease=LEASE + 2 * LEASES_OVER_MAX - 1)
    assert bench.take() is None


@pytest.mark.parametrize("seed", range(20))
def test_what_nobody_waits_for_any_more_comes_again_in_its_order(seed: int) -> None:
    chance = random.Random(seed)
    bench = Bench()
    bench.deliver(*range(1, 7))
    calls = [bench.call() for _ in range(chance.randint(1, 6))]
    chance.shuffle(calls)
    for call in calls:
        bench.consuming.forget(call)
    assert bench.take_all() == [1, 2, 3, 4, 5, 6]
