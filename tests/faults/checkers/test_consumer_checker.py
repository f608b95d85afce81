"""The checker of consumers on histories with one fault each, planted by hand."""

from collections.abc import Callable, Iterable

import pytest

from ..clients.consumer import RESULT
from ..clients.history import (
    DONE,
    DOUBT,
    REFUSED,
    Began,
    Ended,
    Event,
    Killed,
    Leased,
    PutBegan,
    PutEnded,
    SettleBegan,
    SettleEnded,
    TakeBegan,
    TakeEnded,
)
from .calls import Bounds
from .consumer_checker import check_consumers

QUEUE, RESULTS = 7, 8
IDS = {"producer": 1, "one": 2, "two": 3, "many": 4}
#: Takes several messages at a time.
UNORDERED = ("many",)


class Story:
    """Tells a history event by event, a second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.numbers = 0
        self.partitions: dict[int, str] = {}
        for client, client_id in IDS.items():
            self.tell(Began, client, client_id=client_id, ordered=client not in UNORDERED)

    def tell(self, event: type[Event], client: str, **values: object) -> None:
        self.now += 1
        self.events.append(event(client, 1, self.now, **values))

    def call(self, key: str, partition: str) -> int:
        self.numbers += 1
        values = {
            "number": self.numbers,
            "key": key,
            "queue_id": QUEUE,
            "priority": 5,
            "partition": partition,
        }
        self.tell(PutBegan, "producer", session=1, **values)
        return self.numbers

    def put(self, message: int, outcome: str = DONE, partition: str = "") -> None:
        key = f"key-{message}"
        if partition:
            self.partitions[message] = partition
        self.tell(
            PutEnded,
            "producer",
            number=self.call(key, partition),
            key=key,
            queue_id=QUEUE,
            outcome=outcome,
            message_id=message if outcome == DONE else 0,
            session=1,
        )

    def lease(
        self,
        message: int,
        lease: int,
        client: str = "one",
        *,
        key: str = "",
        redelivered: bool = False,
        intact: bool = True,
        partition: str | None = None,
        attempt: int = 1,
    ) -> None:
        self.numbers += 1
        if partition is None:
            partition = self.partitions.get(message, "")
        key = key or f"key-{message}"
        leased = Leased(message, QUEUE, lease, key, 5, 1, redelivered, intact, partition, attempt)
        self.tell(TakeBegan, client, number=self.numbers, wait=0.0, session=1)
        self.tell(TakeEnded, client, number=self.numbers, messages=[leased], session=1)

    def put_partition(self, messages: Iterable[int], partition: str = "key") -> None:
        for message in messages:
            self.put(message, partition=partition)

    def process(
        self, messages: Iterable[int], lease: int, client: str = "one", redelivered: bool = False
    ) -> None:
        """Leases and acknowledges one after the other."""
        for message in messages:
            self.lease(message, lease, client, redelivered=redelivered)
            self.settle(message, lease, client)

    def settle(
        self, message: int, lease: int, client: str = "one", what: str = "ack", outcome: str = DONE
    ) -> None:
        self.numbers += 1
        values = {"number": self.numbers, "message_id": message, "lease_id": lease, "what": what}
        self.tell(SettleBegan, client, session=1, **values)
        self.tell(SettleEnded, client, session=1, outcome=outcome, **values)

    def violations(self) -> list[str]:
        gone = {event.client for event in self.events if isinstance(event, Killed | Ended)}
        for client in IDS:
            if client not in gone:
                self.tell(Ended, client)
        return check_consumers(self.events, Bounds(call_s=5.0)).violations


def good(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.settle(1, 10)


def given_back_and_done_by_another(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.settle(1, 10, what="nack")
    story.lease(1, 11, "two", redelivered=True)
    story.settle(1, 11, "two")


def begun_and_begun_again(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.settle(1, 10, what="nack")
    story.lease(1, 11, "two", redelivered=True, attempt=2)
    story.settle(1, 11, "two")


def begun_by_a_process_that_was_killed_at_once(story: Story) -> None:
    story.put(1)
    story.tell(Killed, "one")
    story.lease(1, 11, "two", redelivered=True, attempt=2)
    story.settle(1, 11, "two")


def _forward(story: Story, message: int, lease: int, put: str | None) -> None:
    """Puts the result of a message and acknowledges it; ``put`` tells how the put ended, if it did."""
    values = {"number": 1_000 + lease, "key": f"{RESULT}.{message}.{lease}", "queue_id": RESULTS}
    story.put(message)
    story.lease(message, lease)
    story.tell(PutBegan, "one", session=1, priority=5, **values)
    story.settle(message, lease)
    if put is not None:
        story.tell(PutEnded, "one", session=1, outcome=put, message_id=50 if put == DONE else 0, **values)
    else:
        story.tell(Killed, "one")


def forwarded(story: Story) -> None:
    _forward(story, 1, 10, DONE)
    leased = Leased(50, RESULTS, 12, f"{RESULT}.1.10", 5, IDS["one"], False, True)
    story.tell(TakeBegan, "two", number=2_000, wait=0.0, session=1)
    story.tell(TakeEnded, "two", number=2_000, messages=[leased], session=1)
    story.settle(50, 12, "two")


def forwarded_and_told_that_it_failed(story: Story) -> None:
    _forward(story, 1, 10, REFUSED)


def late_and_told_so(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.lease(1, 11, "two", redelivered=True)
    story.settle(1, 11, "two")
    story.settle(1, 10, outcome=REFUSED)


def killed_with_a_message(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.tell(Killed, "one")
    story.lease(1, 11, "two", redelivered=True)
    story.settle(1, 11, "two")


def doubt_that_was_done(story: Story) -> None:
    story.put(1, DOUBT)
    story.lease(1, 10)
    story.settle(1, 10, outcome=DOUBT)


def seen_late_under_an_old_lease(story: Story) -> None:
    story.put(1)
    story.lease(1, 11, "two", redelivered=True)
    story.settle(1, 11, "two")
    story.lease(1, 10)
    story.settle(1, 10, outcome=REFUSED)


def partition_in_order_with_two_owners_in_turn(story: Story) -> None:
    story.put_partition(range(1, 5))
    story.process((1, 2), 10)
    story.process((3, 4), 11, "two")


def partition_given_back_and_processed_by_another(story: Story) -> None:
    story.put_partition(range(1, 4))
    story.process([1], 10)
    story.lease(2, 10)
    story.settle(2, 10, what="nack")
    story.process((2, 3), 11, "two", redelivered=True)


def partition_that_was_lost_on_its_way(story: Story) -> None:
    """Nobody saw the first two under their first lease, of which the third came on another way."""
    story.put_partition(range(1, 4))
    story.lease(3, 10, "many")
    story.process((1, 2, 3), 11, "two", redelivered=True)
    story.settle(3, 10, "many", outcome=REFUSED)


def partition_late_in_the_middle(story: Story) -> None:
    """The first one had it when the second got it, who was late, too."""
    story.put_partition((1, 2))
    story.lease(1, 10)
    story.process((1, 2), 11, "two", redelivered=True)
    story.settle(1, 10, outcome=REFUSED)


def partition_acknowledged_in_doubt(story: Story) -> None:
    story.put_partition((1, 2))
    story.lease(1, 10)
    story.settle(1, 10, outcome=DOUBT)
    story.process([2], 11, "two")


def partition_of_several_in_flight(story: Story) -> None:
    story.put_partition((1, 2))
    story.lease(1, 10, "many")
    story.lease(2, 10, "many")
    story.settle(2, 10, "many")
    story.settle(1, 10, "many")


def two_partitions_and_some_without(story: Story) -> None:
    story.put_partition((1, 3), "a")
    story.put_partition((4, 6), "b")
    story.put(7)
    story.put(8)
    story.process([4], 10)
    story.process([8], 11)
    story.process([1], 12, "two")
    story.process([7], 13)
    story.process([6], 10)
    story.process([3], 12, "two")


@pytest.mark.parametrize(
    "tell",
    [
        partition_in_order_with_two_owners_in_turn,
        partition_given_back_and_processed_by_another,
        partition_that_was_lost_on_its_way,
        partition_late_in_the_middle,
        partition_acknowledged_in_doubt,
        partition_of_several_in_flight,
        two_partitions_and_some_without,
        good,
        given_back_and_done_by_another,
        begun_and_begun_again,
        begun_by_a_process_that_was_killed_at_once,
        forwarded,
        forwarded_and_told_that_it_failed,
        late_and_told_so,
        killed_with_a_message,
        doubt_that_was_done,
        seen_late_under_an_old_lease,
    ],
)
def test_what_is_right_is_not_held_against_the_service(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    assert story.violations() == []


def never_pushed(story: Story) -> None:
    story.put(1)


def given_back_and_gone(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.settle(1, 10, what="nack")


def told_that_its_lease_was_over_and_gone(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.settle(1, 10, outcome=REFUSED)


def killed_and_gone(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.tell(Killed, "one")


def acknowledged_by_two(story: Story) -> None:
    late_and_told_so(story)
    story.settle(1, 10)


def leased_after_it_was_done(story: Story) -> None:
    good(story)
    story.lease(1, 11, "two", redelivered=True)
    story.settle(1, 11, "two", outcome=REFUSED)


def not_marked(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.lease(1, 11, "two")
    story.settle(1, 11, "two")


def counted_though_never_begun(story: Story) -> None:
    story.put(1)
    story.lease(1, 10, attempt=2)
    story.settle(1, 10)


def acknowledged_before_its_result(story: Story) -> None:
    _forward(story, 1, 10, None)


def one_lease_twice(story: Story) -> None:
    good(story)
    story.lease(1, 10)


def never_put(story: Story) -> None:
    story.lease(1, 10)
    story.settle(1, 10)


def refused_and_pushed(story: Story) -> None:
    story.put(1, REFUSED)
    story.lease(1, 10)
    story.settle(1, 10)


def another_body(story: Story) -> None:
    story.put(1)
    story.lease(1, 10, intact=False)
    story.settle(1, 10)


def stored_twice(story: Story) -> None:
    good(story)
    story.lease(2, 11, key="key-1")
    story.settle(2, 11)


def calls_in_another_order(story: Story) -> None:
    for message in (2, 1):
        story.put(message)
        story.lease(message, 10 + message)
        story.settle(message, 10 + message)


def in_another_partition(story: Story) -> None:
    story.put(1, partition="a")
    story.lease(1, 10, partition="b")
    story.settle(1, 10)


def partition_inverted(story: Story) -> None:
    story.put_partition((1, 2))
    story.process((2, 1), 10)


def partition_inverted_over_leases(story: Story) -> None:
    story.put_partition((1, 2))
    story.process([2], 10)
    story.process([1], 11, "two")


def partition_inverted_unseen(story: Story) -> None:
    """The application takes messages in order: it would have seen the first one, leased with the second."""
    story.put_partition((1, 2))
    story.process([2], 10)
    story.process([1], 11, "two", redelivered=True)


def partition_skipped_by_many(story: Story) -> None:
    story.put_partition((1, 2, 3))
    story.process([1], 10, "many")
    story.process([3], 10, "many")
    story.process([2], 11, "many")


def partition_skipped_after_a_redelivery(story: Story) -> None:
    story.put_partition((1, 2, 3))
    story.lease(1, 10, "many")
    story.lease(2, 10, "many")
    story.settle(1, 10, "many", what="nack")
    story.process((1, 3), 11, redelivered=True)
    story.process([2], 12, redelivered=True)


def partition_in_an_older_lease(story: Story) -> None:
    story.put_partition((1, 2))
    story.process([1], 11)
    story.process([2], 10)


def partition_with_two_owners(story: Story) -> None:
    story.put_partition((1, 2))
    story.lease(1, 10)
    story.lease(2, 11, "two")
    story.settle(1, 10)
    story.settle(2, 11, "two")


def partition_touched_after_it_went_on(story: Story) -> None:
    story.put_partition((1, 2))
    story.lease(1, 10)
    story.process((1, 2), 11, "two", redelivered=True)
    story.settle(1, 10, what="touch")
    story.settle(1, 10, outcome=REFUSED)


def message_touched_after_it_went_on(story: Story) -> None:
    story.put(1)
    story.lease(1, 10)
    story.lease(1, 11, "two", redelivered=True)
    story.settle(1, 10, what="touch")
    story.settle(1, 11, "two")


def one_lease_of_two(story: Story) -> None:
    story.put_partition((1, 2))
    story.process([1], 10)
    story.process([2], 10, "two")


def two_of_a_partition_at_a_time(story: Story) -> None:
    story.put_partition((1, 2))
    story.lease(1, 10)
    story.lease(2, 10)
    story.settle(1, 10)
    story.settle(2, 10)


@pytest.mark.parametrize(
    ("tell", "word"),
    [
        (in_another_partition, "changed"),
        (counted_though_never_begun, "miscounted"),
        (acknowledged_before_its_result, "overtaken"),
        (partition_inverted, "reordered: key"),
        (partition_inverted_over_leases, "skipped"),
        (partition_inverted_unseen, "skipped"),
        (partition_skipped_by_many, "skipped"),
        (partition_skipped_after_a_redelivery, "skipped"),
        (partition_in_an_older_lease, "older lease"),
        (partition_with_two_owners, "two owners"),
        (partition_touched_after_it_went_on, "two owners"),
        (message_touched_after_it_went_on, "two owners"),
        (one_lease_of_two, "shared"),
        (two_of_a_partition_at_a_time, "overlap"),
        (never_pushed, "lost"),
        (given_back_and_gone, "lost"),
        (told_that_its_lease_was_over_and_gone, "lost"),
        (killed_and_gone, "lost"),
        (acknowledged_by_two, "doubled"),
        (leased_after_it_was_done, "doubled"),
        (not_marked, "duplicate"),
        (one_lease_twice, "came twice"),
        (never_put, "phantom"),
        (refused_and_pushed, "phantom"),
        (another_body, "changed"),
        (stored_twice, "doubled"),
        (calls_in_another_order, "reordered"),
    ],
)
def test_a_planted_fault_is_found(tell: Callable[[Story], None], word: str) -> None:
    story = Story()
    tell(story)
    assert any(word in violation for violation in story.violations())
