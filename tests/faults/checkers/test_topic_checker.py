"""The checker of topics on histories with one fault each, planted by hand."""

from collections.abc import Callable

import pytest

from ..clients.history import (
    DONE,
    DOUBT,
    REFUSED,
    Began,
    Confirmed,
    Ended,
    Event,
    GetBegan,
    GetEnded,
    Got,
    Killed,
    Left,
    Noted,
    PublishBegan,
    PublishEnded,
    Recovered,
    Released,
    SubscribeBegan,
    Subscribed,
    UnsubscribeBegan,
)
from .calls import Bounds
from .topic_checker import check_topics

TOPIC = "news"
IDS = {"publisher": 1, "one": 2, "two": 3}


class Story:
    """Tells a history event by event, a second apart."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.now = 0.0
        self.numbers = 0
        for client in IDS:
            self.begin(client)

    def tell(self, event: type[Event], client: str, run: int = 1, **values: object) -> None:
        self.now += 1
        self.events.append(event(client, run, self.now, **values))

    def begin(self, client: str, run: int = 1) -> None:
        self.tell(Began, client, run, client_id=IDS[client])

    def kill(self, client: str, state: list[str] | None = None) -> None:
        """Kills a client; it comes back with its state, if that holds something or nothing, or without."""
        self.tell(Killed, client)
        if state is not None:
            self.tell(Left, client, puts=[(key, 0) for key in state])
        self.begin(client, 2)
        self.tell(Ended, client, 2)

    def call(self, key: str, sequence: int = 0) -> int:
        self.numbers += 1
        self.tell(
            PublishBegan, "publisher", number=self.numbers, key=key, topic=TOPIC, sequence=sequence, session=1
        )
        return self.numbers

    def answer(self, number: int, key: str, message: int = 0, outcome: str = DONE, error: str = "") -> None:
        self.tell(
            PublishEnded,
            "publisher",
            number=number,
            key=key,
            topic=TOPIC,
            outcome=outcome,
            message_number=message,
            error=error,
            session=1,
        )

    def recover(self, key: str, message: int = 0, outcome: str = DONE) -> None:
        """The publisher is told what became of a put."""
        values = {"queue_id": 0, "topic": TOPIC, "outcome": outcome, "message_id": message}
        self.tell(Recovered, "publisher", 2, key=key, **values)

    def put(self, *messages: int) -> None:
        for message in messages:
            self.answer(self.call(f"key-{message}"), f"key-{message}", message)

    def subscribe(self, client: str = "one", subscription_id: int = 7) -> None:
        self.numbers += 1
        self.tell(SubscribeBegan, client, number=self.numbers, topic=TOPIC)
        self.tell(Subscribed, client, topic=TOPIC, subscription_id=subscription_id)

    def get(
        self, *messages: int, client: str = "one", run: int = 1, subscription_id: int = 7, intact: bool = True
    ) -> int:
        got = [Got(subscription_id, TOPIC, message, f"key-{message}", intact) for message in messages]
        return self.get_these(got, client, run)

    def get_these(self, got: list[Got], client: str = "one", run: int = 1) -> int:
        self.numbers += 1
        self.tell(GetBegan, client, run, number=self.numbers, topic=TOPIC, wait=0.0, session=1)
        self.tell(GetEnded, client, run, number=self.numbers, topic=TOPIC, messages=got, session=1)
        return self.numbers

    def end(self) -> None:
        ended = {(event.client, event.run) for event in self.events if isinstance(event, Ended | Killed)}
        for client in IDS:
            if (client, 1) not in ended:
                self.tell(Ended, client)

    def violations(self) -> list[str]:
        self.end()
        return check_topics(self.events, Bounds(call_s=5.0)).violations


def good(story: Story) -> None:
    story.put(1)
    story.subscribe()
    story.put(2, 3)
    story.get(2)
    story.get(3)


def doubt_that_was_done(story: Story) -> None:
    story.subscribe()
    story.answer(story.call("key-1"), "key-1", outcome=DOUBT, error="IoError")
    story.get(1)


def killed_before_it_confirmed(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.get(1, 2)
    story.kill("one")
    story.get(1, 2, run=2)


def released(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    number = story.get(1, 2)
    story.tell(Released, "one", number=number, outcome=DONE)
    story.get(1)
    story.get(2)


def sequence_put_by_two_processes(story: Story) -> None:
    story.subscribe()
    story.call("key-1", sequence=1)
    story.answer(story.call("key-1", sequence=1), "key-1", 1)
    story.get(1)


def left_before_it_got_all(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.get(1)
    story.tell(UnsubscribeBegan, "one", topic=TOPIC)


def killed_with_a_state(story: Story) -> None:
    story.subscribe()
    for message in (1, 2):
        story.call(f"key-{message}")
    story.kill("publisher", ["key-1", "key-2"])
    story.recover("key-1", 1)
    story.recover("key-2", outcome=REFUSED)
    story.get(1)


def killed_with_its_state_and_then_without(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.tell(Noted, "one", number=story.get(1))
    story.kill("one")
    story.get(1, 2, run=2)


def put_while_it_subscribed(story: Story) -> None:
    number = story.call("key-1")
    story.subscribe()
    story.answer(number, "key-1", 1)


@pytest.mark.parametrize(
    "tell",
    [
        good,
        doubt_that_was_done,
        killed_before_it_confirmed,
        released,
        sequence_put_by_two_processes,
        left_before_it_got_all,
        killed_with_a_state,
        killed_with_its_state_and_then_without,
        put_while_it_subscribed,
    ],
)
def test_what_is_right_is_not_held_against_the_service(tell: Callable[[Story], None]) -> None:
    story = Story()
    tell(story)
    if tell is sequence_put_by_two_processes:
        story.tell(Killed, "publisher")  # the first call never returned
    assert story.violations() == []


def lost_at_the_end(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.get(1)


def lost_although_nothing_was_got(story: Story) -> None:
    story.subscribe()
    story.put(1)


def lost_in_the_middle(story: Story) -> None:
    story.subscribe()
    story.put(1, 2, 3)
    story.get(1)
    story.get(3)


def lost_in_one_answer(story: Story) -> None:
    story.subscribe()
    story.put(1, 2, 3)
    story.get(1, 3)


def lost_at_the_begin(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.get(2)


def lost_over_a_kill(story: Story) -> None:
    story.subscribe()
    story.put(1, 2, 3)
    story.get(1)
    story.kill("one")
    story.get(3, run=2)


def got_twice(story: Story) -> None:
    story.subscribe()
    story.put(1)
    story.get(1)
    story.get(1)


def got_again_after_its_proof(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    number = story.get(1)
    story.tell(Confirmed, "one", number=number, session=1)
    story.get(2)
    story.kill("one")
    story.get(1, 2, run=2)


def got_again_although_the_state_has_it(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.tell(Noted, "one", number=story.get(1))
    story.kill("one", [])
    story.get(1, 2, run=2)


def not_told_of_what_the_state_holds(story: Story) -> None:
    story.call("key-1")
    story.kill("publisher", ["key-1"])


def told_of_as_done_and_not_there(story: Story) -> None:
    story.subscribe()
    story.call("key-1")
    story.kill("publisher", ["key-1"])
    story.recover("key-1", 1)


def told_of_as_not_done_and_there(story: Story) -> None:
    story.subscribe()
    story.call("key-1")
    story.kill("publisher", ["key-1"])
    story.recover("key-1", outcome=REFUSED)
    story.get(1)


def told_of_in_doubt(story: Story) -> None:
    story.call("key-1")
    story.kill("publisher", ["key-1"])
    story.recover("key-1", outcome=DOUBT)


def reordered_at_the_subscriber(story: Story) -> None:
    story.subscribe()
    story.put(1, 2)
    story.get(2)
    story.get(1)


def from_before_the_subscription(story: Story) -> None:
    story.put(1)
    story.subscribe()
    story.put(2)
    story.get(1)
    story.get(2)


def never_put(story: Story) -> None:
    story.subscribe()
    story.get(1)


def refused_and_there(story: Story) -> None:
    story.subscribe()
    story.answer(story.call("key-1"), "key-1", outcome=REFUSED, error="MessageTooLargeError")
    story.get(1)


def another_body(story: Story) -> None:
    story.subscribe()
    story.put(1)
    story.get(1, intact=False)


def stored_twice(story: Story) -> None:
    story.subscribe()
    story.put(1)
    story.get(1)
    story.get_these([Got(7, TOPIC, 2, "key-1", True)])


def another_number_than_acknowledged(story: Story) -> None:
    story.subscribe()
    story.answer(story.call("key-1"), "key-1", 2)
    story.get(1)


def two_subscribers_two_orders(story: Story) -> None:
    story.subscribe()
    story.subscribe("two", 8)
    for key in ("key-1", "key-2"):
        story.answer(story.call(key), key, outcome=DOUBT, error="IoError")
    story.get(1, 2)
    story.get_these([Got(8, TOPIC, 1, "key-2", True), Got(8, TOPIC, 2, "key-1", True)], "two")


def calls_in_another_order(story: Story) -> None:
    story.answer(story.call("key-2"), "key-2", 2)
    story.answer(story.call("key-1"), "key-1", 1)


def forgotten_sequence(story: Story) -> None:
    story.answer(story.call("key-2", 2), "key-2", outcome=REFUSED, error="SequenceGapError")


def hung(story: Story) -> None:
    story.call("key-1")


def unaccounted_end(story: Story) -> None:
    story.begin("one", 2)


@pytest.mark.parametrize(
    ("tell", "word"),
    [
        (lost_at_the_end, "lost"),
        (lost_although_nothing_was_got, "lost"),
        (lost_in_the_middle, "lost"),
        (lost_in_one_answer, "lost"),
        (lost_at_the_begin, "lost"),
        (lost_over_a_kill, "lost"),
        (got_twice, "duplicate"),
        (got_again_after_its_proof, "duplicate"),
        (got_again_although_the_state_has_it, "duplicate"),
        (not_told_of_what_the_state_holds, "forgotten"),
        (told_of_as_done_and_not_there, "lost"),
        (told_of_as_not_done_and_there, "phantom"),
        (told_of_in_doubt, "in doubt"),
        (reordered_at_the_subscriber, "duplicate"),
        (from_before_the_subscription, "phantom"),
        (never_put, "phantom"),
        (refused_and_there, "phantom"),
        (another_body, "changed"),
        (stored_twice, "doubled"),
        (another_number_than_acknowledged, "doubled"),
        (two_subscribers_two_orders, "changed"),
        (calls_in_another_order, "reordered"),
        (forgotten_sequence, "lost"),
        (hung, "hung"),
        (unaccounted_end, "did not end"),
    ],
)
def test_a_planted_fault_is_found(tell: Callable[[Story], None], word: str) -> None:
    story = Story()
    tell(story)
    assert any(word in violation for violation in story.violations())
