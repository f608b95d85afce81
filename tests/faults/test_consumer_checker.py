"""The checker of consumers on histories with one fault each, planted by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .calls import Bounds
from .consumer_checker import check_consumers
from .history import (
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

QUEUE = 7
IDS = {"producer": 1, "one": 2, "two": 3}


class Story:
    """Tells a history event by event, a second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.numbers = 0
        for client, client_id in IDS.items():
            self.tell(Began, client, client_id=client_id)

    def tell(self, event: type[Event], client: str, **values: object) -> None:
        self.now += 1
        self.events.append(event(client, 1, self.now, **values))

    def call(self, key: str) -> int:
        self.numbers += 1
        self.tell(PutBegan, "producer", number=self.numbers, key=key, queue_id=QUEUE, priority=5, session=1)
        return self.numbers

    def put(self, message: int, outcome: str = DONE) -> None:
        key = f"key-{message}"
        self.tell(
            PutEnded,
            "producer",
            number=self.call(key),
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
    ) -> None:
        self.numbers += 1
        leased = Leased(message, QUEUE, lease, key or f"key-{message}", 5, 1, redelivered, intact)
        self.tell(TakeBegan, client, number=self.numbers, wait=0.0, session=1)
        self.tell(TakeEnded, client, number=self.numbers, messages=[leased], session=1)

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


@pytest.mark.parametrize(
    "tell",
    [
        good,
        given_back_and_done_by_another,
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


@pytest.mark.parametrize(
    ("tell", "word"),
    [
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
