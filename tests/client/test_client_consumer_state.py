"""What a consumer's client hands to the application of a partition, in every order of what it hears."""

from __future__ import annotations

import random
from typing import Any

import pytest

from telesto.client import ClientOptions
from telesto.client.calls import DONE
from telesto.client.consuming import LEASES_OVER_MAX, ConsumerState, Consuming, JoinCall, NextCall
from telesto.client.models import LeaseId
from telesto.protocol import packets
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

    def deliver(self, *message_ids: int, key: str | None = "key", lease: int = LEASE) -> None:
        deliveries = [
            Delivery(lease, packets.Message(number, 1, 2, 0, 5, 0, 1, False, b"", None, partition_key=key))
            for number in message_ids
        ]
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

    def give_back(self, message_id: int, lease: int = LEASE) -> None:
        self.consuming.answering(self.state, [self.lease(message_id, lease)])
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
    bench.now = 11.0
    bench.consuming.tick(bench.now)
    errand = bench.host.sent[-1]
    errand.response = packets.TouchResponse(
        [ElementResult(1, 27), ElementResult(2, None), ElementResult(3, None)]
    )
    errand.on_answer(errand)
    assert bench.take_all() == []


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
