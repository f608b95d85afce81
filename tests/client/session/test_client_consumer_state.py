"""What a consumer's client hands to the application of a partition, in every order of what it hears."""

import math
import random
from typing import Any

import pytest

from telesto.client import ClientOptions
from telesto.client.bookkeeping import consumer_credit, consumer_state, consumers
from telesto.client.bookkeeping.consumer_calls import JoinCall, NextCall
from telesto.client.bookkeeping.consumer_state import LEASES_OVER_MAX, ConsumerState
from telesto.client.bookkeeping.consumers import BRISK, Consumers
from telesto.client.calls.queue_calls import DONE
from telesto.client.models import LeaseId
from telesto.protocol import packets
from telesto.protocol.errors import StandbyUnavailableError
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import Delivery, ElementResult, LeaseRef

CONSUMER, LEASE = 5, 70


NOW = [0.0]


@pytest.fixture(autouse=True)
def clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """All clocks go as the bench says."""
    for module in (consumers, consumer_state):
        monkeypatch.setattr(module, "elapsed", lambda: NOW[0])


class Host:
    """Takes note of what the consumers send."""

    def __init__(self) -> None:
        self.sent: list[Any] = []
        self.settled: list[Any] = []

    def send(self, request: Any) -> None:
        self.sent.append(request)

    def settle_soon(self, state: ConsumerState, call: Any) -> None:
        self.settled.append(call)

    def finish(self, call: NextCall) -> None:
        call.phase = DONE


class Bench:
    """A consumer that has joined."""

    def __init__(self, keep_alive: bool = False, credit: int | None = 32) -> None:
        self.host = Host()
        self.now = 0.0
        self.consumers = Consumers(
            ClientOptions(), lambda: self.now, self.host.send, self.host.finish, self.host.settle_soon
        )
        self.state = ConsumerState(credit, 0, keep_alive)
        self.joins(CONSUMER)

    @property
    def now(self) -> float:
        return NOW[0]

    @now.setter
    def now(self, now: float) -> None:
        NOW[0] = now

    def joins(self, consumer_id: int) -> None:
        call = JoinCall(self.state)
        call.frame(0, [], 1, self.now)
        call.response = packets.JoinQueueResponse(consumer_id, 30_000)
        self.consumers.joined(call)

    def deliver(
        self, *message_ids: int, key: str | None = "key", lease: int = LEASE, redelivered: bool = False
    ) -> None:
        messages = [
            packets.Message(number, 1, 2, 0, 5, 0, 1, redelivered, b"", None, partition_key=key)
            for number in message_ids
        ]
        deliveries = [Delivery(lease, message) for message in messages]
        self.consumers.delivered(packets.Deliver(self.state.consumer_id, deliveries))

    def call(self) -> NextCall:
        call = NextCall(self.state)
        if self.consumers.next(call):
            self.host.finish(call)
        return call

    def take(self) -> int | None:
        """Take the next message, if there is one; returns its id."""
        call = self.call()
        if call.message is None:
            self.consumers.forget(call)
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
        for frame in FrameDecoder(1 << 24).feed(self.consumers.take_begins()):
            assert (frame.method_id, frame.packet_id) == (packets.Begin.METHOD_ID, 0)
            begin = packets.Begin.decode(frame.payload)
            assert all(ref.consumer_id == self.state.consumer_id for ref in begin.leases)
            told.append((begin.begun, [ref.message_id for ref in begin.leases]))
        return told

    def give_back(self, message_id: int, lease: int = LEASE) -> None:
        self.consumers.answering(self.state, [self.lease(message_id, lease)], done=False)
        self.consumers.given_back(self.state, [self.lease(message_id, lease)])

    def lose(self, *message_ids: int, lease: int = LEASE) -> None:
        refs = [LeaseRef(self.state.consumer_id, lease, number) for number in message_ids]
        self.consumers.lost(packets.LeaseLost(self.state.consumer_id, refs, False, 27, ""))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_what_is_on_its_way_when_one_before_it_is_given_back_is_not_begun(bench: Bench) -> None:
    bench.deliver(1, 2)
    assert bench.take() == 1
    bench.give_back(1)
    bench.deliver(3, 4)
    assert bench.take() is None
    bench.deliver(1, 2, 3, 4, lease=LEASE + 1)
    assert bench.take_all() == [1, 2, 3, 4]


def test_what_comes_before_the_one_given_back_stays(bench: Bench) -> None:
    bench.deliver(1, 2, 3)
    assert [bench.take(), bench.take()] == [1, 2]
    bench.give_back(2)
    assert bench.lease(1) in bench.state.open
    assert bench.take_all() == []


def test_what_follows_and_was_taken_is_lost(bench: Bench) -> None:
    bench.deliver(1, 2, 3)
    assert bench.take_all() == [1, 2, 3]
    bench.give_back(1)
    assert (list(bench.state.open), bench.state.lost) == ([], 2)
    bench.lose(2, 3)
    assert bench.state.lost == 2  # and is not counted again


@pytest.mark.parametrize("key", [None, "other"])
def test_what_is_of_no_or_another_partition_stays(key: str | None, bench: Bench) -> None:
    other = LEASE if key is None else LEASE + 1
    bench.deliver(1, 3)
    bench.deliver(2, 4, key=key, lease=other)
    assert bench.take() == 1
    bench.give_back(1)
    bench.deliver(5, key=key, lease=other)
    assert bench.take_all() == [2, 4, 5]


def test_one_that_is_lost_takes_those_after_it_along_before_they_are_named(bench: Bench) -> None:
    bench.deliver(1, 2, 3)
    bench.lose(2)
    bench.deliver(4)
    assert bench.take_all() == [1]


def test_one_that_a_touch_finds_lost_takes_those_after_it_along() -> None:
    bench = Bench(keep_alive=True)
    bench.deliver(1, 2, 3)
    assert bench.take() == 1
    bench.now = 11.0
    bench.consumers.tick(bench.now)
    request = bench.host.sent[-1]
    request.response = packets.TouchResponse([ElementResult(1, 27)])
    request.on_answer(request)
    assert bench.take_all() == []


# ---------------------------------------------------------------------------------- what is begun
def test_what_the_application_is_given_is_told_and_nothing_else(bench: Bench) -> None:
    bench.deliver(1, 2, 3)
    assert bench.begins() == []
    assert [bench.take(), bench.take()] == [1, 2]
    assert bench.begins() == [(True, [1, 2])]
    assert bench.begins() == []


def test_who_waits_is_given_what_comes_and_that_is_told(bench: Bench) -> None:
    call = bench.call()
    bench.deliver(1, 2)
    assert call.message is not None
    assert bench.begins() == [(True, [1])]


def test_what_the_application_was_not_given_after_all_is_told(bench: Bench) -> None:
    bench.deliver(1)
    call = bench.call()
    assert bench.begins() == [(True, [1])]
    bench.consumers.forget(call)
    assert bench.begins() == [(False, [1])]
    assert bench.take() == 1
    assert bench.begins() == [(True, [1])]


def test_what_another_call_is_given_in_the_same_turn_has_begun(bench: Bench) -> None:
    bench.deliver(1)
    call, other = bench.call(), bench.call()
    bench.consumers.forget(call)
    assert other.message is not None
    assert bench.begins() == [(True, [1])]


def test_what_is_done_before_that_was_told_has_not_to_be_told(bench: Bench) -> None:
    bench.deliver(1, 2)
    bench.take_all()
    bench.consumers.answering(bench.state, [bench.lease(1)], done=True)
    bench.consumers.answering(bench.state, [bench.lease(2)], done=False)
    assert bench.begins() == [(True, [2])]


def test_only_those_who_are_quick_are_given_before_that_is_told(bench: Bench) -> None:
    bench.deliver(1, 2, 3, lease=LEASE)
    assert bench.call().tell_first
    assert not bench.call().tell_first
    bench.now = BRISK
    assert bench.call().tell_first


def test_what_was_handed_over_before_is_told_first(bench: Bench) -> None:
    bench.deliver(1, 2, redelivered=True)
    assert [bench.call().tell_first, bench.call().tell_first] == [True, True]


def test_nothing_is_told_over_another_connection(bench: Bench) -> None:
    bench.deliver(1)
    bench.take()
    bench.consumers.link_lost()
    assert bench.begins() == []


def test_many_are_told_in_frames_that_fit(bench: Bench) -> None:
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
        assert bench.consumers.due == at
        bench.now = at
        bench.consumers.tick(at)
    assert [type(request.packet) for request in bench.host.sent] == [
        packets.Touch if keep_alive else packets.Ping
    ] * 3
    if keep_alive:  # what waits is the service's matter
        assert all(len(request.packet.leases) == 1 for request in bench.host.sent)


# ---------------------------------------------------------------------------------- the pace
class PacedBench(Bench):
    """A consumer whose credit follows its pace, with a service that always holds messages for it."""

    def __init__(self) -> None:
        super().__init__(credit=None)
        self.credit = consumer_state.CREDIT_LEAST
        self.last = 0
        self.held = 0
        self.serve()

    def serve(self, key: str | None = None, lease: int = LEASE) -> None:
        """The service gives what the consumer has credit for, and takes back what goes back."""
        for request in self.host.sent:
            if isinstance(request.packet, packets.Credit):
                self.credit = request.packet.credit_messages
            elif isinstance(request.packet, packets.Touch):
                answer(request)
            else:
                request.on_answer(request)
        self.host.sent.clear()
        for call in self.host.settled:
            self.held -= len(call.leases)
        self.host.settled.clear()
        while self.held < self.credit:
            self.held += 1
            self.last += 1
            self.deliver(self.last, key=key, lease=lease)

    def work(self, count: int, each_s: float, *, trip_s: float = 0.002) -> None:
        """Handle messages one by one; the service hears of each after a round trip."""
        for _ in range(count):
            call = self.call()
            if call.message is None:
                self.now += trip_s
                self.serve()
            assert call.message is not None
            self.now += each_s
            self.consumers.answering(self.state, [call.message.lease], done=True)
            self.held -= 1
            self.tick()

    def tick(self) -> None:
        while self.consumers.due <= self.now:
            self.consumers.tick(self.now)
        self.serve()

    def has(self) -> int:
        return len(self.state.buffer) + len(self.state.open)


def test_who_is_slow_has_two() -> None:
    bench = PacedBench()
    bench.work(20, 1.0)
    assert bench.credit == bench.has() == 2


def test_who_is_quick_has_many_and_who_becomes_slow_gives_them_back_in_order() -> None:
    bench = PacedBench()
    while bench.credit < consumer_credit.CREDIT_MOST:
        # It takes all that it has before it answers any of it, as asyncio applications do.
        taken = []
        while (call := bench.call()).message is not None:
            taken.append(call.message.lease)
        assert len(taken) == bench.credit
        bench.consumers.answering(bench.state, taken, done=True)
        bench.held -= len(taken)
        bench.now += 0.002
        bench.serve()
        assert call.message is not None
        bench.consumers.answering(bench.state, [call.message.lease], done=True)
        bench.held -= 1
        bench.serve()
    assert bench.credit == bench.has() == 256
    first = bench.take()
    assert first is not None
    bench.now += 1.0
    bench.consumers.tick(bench.now)  # it may have been quick until now
    bench.now += 1.0
    bench.consumers.tick(bench.now)
    kept = [message.message_id for message in bench.state.buffer.messages()]
    (back,) = bench.host.settled
    assert not back.failed
    assert kept == [first + 1, first + 2]
    assert [lease.message_id for lease in back.leases] == list(range(first + 3, first + 256))
    bench.serve()
    assert bench.credit == 2


def test_who_gathers_messages_gets_them_however_slow_it_is() -> None:
    bench = PacedBench()
    taken = 0
    call = bench.call()
    for _ in range(400):
        if call.message is not None:
            taken += 1
            call = bench.call()
        bench.now += 0.05
        bench.tick()
    assert taken > 100


def test_what_comes_rarely_is_no_reason_for_more() -> None:
    bench = Bench(credit=None)
    for number in range(1, 100):
        call = bench.call()
        bench.deliver(number, key=None)
        assert call.message is not None
        bench.consumers.answering(bench.state, [call.message.lease], done=True)
        bench.now += 1.0
        bench.state.sure_since = bench.now
        bench.consumers.tick(bench.now)
    assert not [request for request in bench.host.sent if isinstance(request.packet, packets.Credit)]


def test_of_a_partition_that_was_begun_nothing_goes_back_for_slowness() -> None:
    bench = Bench(credit=None)
    bench.state.credit_messages = 100
    bench.joins(CONSUMER)
    bench.deliver(*range(1, 40))
    bench.deliver(*range(40, 60), key="other", lease=LEASE + 1)
    bench.deliver(60, 61, key=None, lease=LEASE)
    assert bench.take() == 1
    for bench.now in (1.0, 2.0):
        bench.consumers.tick(bench.now)
    (back,) = bench.host.settled
    assert [lease.message_id for lease in back.leases] == list(range(40, 62))
    assert bench.take_all() == list(range(2, 40))


def test_a_consumer_with_the_least_credit_wakes_nobody_to_be_looked_at() -> None:
    assert Bench(credit=None).consumers.due == Bench().consumers.due


def test_a_credit_that_was_given_stays(bench: Bench) -> None:
    bench.deliver(*range(1, 33))
    bench.take()
    for bench.now in (1.0, 2.0, 3.0):
        bench.consumers.tick(bench.now)
    bench.take_all()
    assert not [request for request in bench.host.sent if isinstance(request.packet, packets.Credit)]
    assert not bench.host.settled


# ---------------------------------------------------------------------------------- after a gap
def answer(request: Any, *lost: int) -> list[int]:
    """The service says that these are lost; returns which it was asked for."""
    asked = [ref.message_id for ref in request.packet.leases]
    request.response = packets.TouchResponse(
        [ElementResult(ref, 27 if ref in lost else None) for ref in asked]
    )
    request.on_answer(request)
    return asked


def test_after_a_gap_the_service_is_asked_before_anything_is_given(bench: Bench) -> None:
    bench.deliver(1, 2, 3, key=None)
    assert bench.take() == 1
    bench.now = 15.1
    call = bench.call()
    assert call.message is None
    assert answer(bench.host.sent[-1], 2) == [2, 3]
    assert call.message is not None
    assert call.message.message_id == 3
    assert bench.begins() == [(True, [1, 3])]


def test_what_comes_while_the_service_is_asked_is_asked_about_as_well(bench: Bench) -> None:
    bench.deliver(1, key=None)
    bench.now = 60.0
    call = bench.call()
    bench.deliver(2, key=None)  # it may have been on its way since before the gap
    assert answer(bench.host.sent[-1]) == [1]
    assert call.message is None
    assert answer(bench.host.sent[-1], 2) == [2]
    assert call.message is not None
    assert call.message.message_id == 1
    assert bench.take_all() == []


def test_signs_of_life_make_asking_unnecessary_unless_there_was_a_gap(bench: Bench) -> None:
    for at in (7.5, 15.0, 22.5):
        bench.now = at
        bench.consumers.tick(at)
        bench.host.sent[-1].on_answer(bench.host.sent[-1])
    bench.now = 37.5
    bench.deliver(1, 2)
    assert bench.take() == 1
    bench.now = 40.0
    bench.consumers.tick(40.0)
    bench.host.sent[-1].on_answer(bench.host.sent[-1])
    assert bench.call().message is None
    assert isinstance(bench.host.sent[-1].packet, packets.Touch)


def test_what_the_service_could_not_tell_is_asked_again(bench: Bench) -> None:
    bench.deliver(1)
    bench.now = 20.0
    call = bench.call()
    bench.host.sent[-1].on_refused(StandbyUnavailableError("test"))
    assert call.message is None
    bench.consumers.tick(27.5)
    touches = [request for request in bench.host.sent if isinstance(request.packet, packets.Touch)]
    assert len(touches) == 2
    answer(touches[-1])
    assert call.message is not None


def test_a_new_connection_does_not_wait_for_the_answers_of_the_old_one(bench: Bench) -> None:
    bench.deliver(1)
    bench.now = 20.0
    call = bench.call()
    asked = bench.host.sent[-1]
    bench.consumers.link_lost()
    bench.joins(CONSUMER + 1)
    asked.on_lost()
    bench.deliver(2)
    assert call.message is not None
    assert call.message.message_id == 2


@pytest.mark.parametrize("keep_alive", [False, True])
def test_what_was_given_before_a_gap_may_be_begun_only_if_the_service_confirms_it(keep_alive: bool) -> None:
    bench = Bench(keep_alive)
    bench.deliver(1)
    call = bench.call()
    ask = (bench.lease(1), call.given_at)
    bench.now = 15.0
    assert bench.state.can_be_begun(*ask) is True
    bench.consumers.tick(15.0)
    if keep_alive:
        answer(bench.host.sent[-1])
    bench.now = 29.0
    assert bench.state.can_be_begun(*ask) is (True if keep_alive else None)
    bench.consumers.touch_failed(bench.state, bench.lease(1))
    assert bench.state.can_be_begun(*ask) is False
    assert bench.state.lost == 1


def test_of_a_partition_that_is_worked_on_nothing_is_given_or_told(bench: Bench) -> None:
    bench.state.buffer.by_partition = True
    bench.deliver(1, 2, 3)
    bench.deliver(4, key=None)
    call = bench.call()
    assert bench.take_all() == [4]
    waiting = bench.call()
    assert bench.begins() == []  # a handler begins it later
    assert call.message is not None
    bench.consumers.begin(bench.state, call.message, bench.now)
    assert bench.begins() == [(True, [1])]
    bench.consumers.ended(bench.state, call.message)
    assert waiting.message is not None
    assert waiting.message.message_id == 2
    assert bench.begins() == []


def test_what_waits_at_a_consumer_that_was_let_go_of_goes_back(bench: Bench) -> None:
    bench.deliver(1, 2, key=None)
    assert bench.take() == 1
    bench.state.forgotten = True
    bench.now = 7.5
    bench.consumers.tick(7.5)
    assert [call.leases for call in bench.host.settled] == [[bench.lease(2)]]
    assert bench.lease(1) in bench.state.open


def test_a_consumer_whose_close_was_given_up_leaves_all_the_same(bench: Bench) -> None:
    bench.deliver(1)
    bench.consumers.leave(bench.state)
    bench.now = 7.5
    bench.consumers.tick(7.5)
    assert bench.host.sent == []  # it is told in its turn
    bench.state.forgotten = True
    bench.now = 15.0
    bench.consumers.tick(15.0)
    assert [type(request.packet) for request in bench.host.sent] == [packets.LeaveQueue]
    bench.host.sent[-1].on_answer(bench.host.sent[-1])
    assert bench.consumers.due == math.inf


def test_a_new_consumer_does_not_know_of_old_leases(bench: Bench) -> None:
    bench.deliver(1)
    bench.give_back(1)
    bench.consumers.link_lost()
    bench.joins(CONSUMER + 1)
    bench.deliver(2)
    assert bench.take_all() == [2]


def test_it_remembers_so_many_leases_and_no_more(bench: Bench) -> None:
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
        bench.consumers.forget(call)
    assert bench.take_all() == [1, 2, 3, 4, 5, 6]


def test_what_is_lost_of_a_queue_that_was_made_anew_is_counted() -> None:
    before = ConsumerState(10, 0, False)
    first, second = (LeaseId(1, 1, message_id) for message_id in (1, 2))
    before.open = {first: None, second: None}
    before.lose([first])
    after = before.anew()
    assert after.lost == 1
    before.lose([second])
    assert after.lost == 2
