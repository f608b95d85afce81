"""The checker on histories with one fault each, planted by hand."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ..clients.history import (
    DONE,
    DOUBT,
    REFUSED,
    Began,
    Confirmed,
    Ended,
    Event,
    Killed,
    Left,
    Noted,
    PutBegan,
    PutEnded,
    ReadBegan,
    ReadEnded,
    Recorder,
    Recovered,
    Released,
    Taken,
    Trouble,
    read_histories,
)
from .calls import Bounds
from .checker import Verdict, check

QUEUE = 7
SENDER, READER, OTHER = 101, 102, 103
IDS = {"sender": SENDER, "reader": READER, "other": OTHER}


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

    def call(self, key: str, priority: int = 5, receiver_id: int = 0) -> int:
        self.numbers += 1
        self.tell(
            PutBegan,
            "sender",
            number=self.numbers,
            key=key,
            queue_id=QUEUE,
            priority=priority,
            receiver_id=receiver_id,
            session=1,
        )
        return self.numbers

    def answer(
        self, number: int, key: str, message_id: int = 0, outcome: str = DONE, error: str = ""
    ) -> None:
        self.tell(
            PutEnded,
            "sender",
            number=number,
            key=key,
            queue_id=QUEUE,
            outcome=outcome,
            message_id=message_id,
            error=error,
            session=1,
        )

    def put(self, key: str, message_id: int = 0, outcome: str = DONE, **values: object) -> None:
        self.answer(self.call(key, **values), key, message_id, outcome)  # type: ignore[arg-type]

    def take(
        self,
        client: str,
        key: str,
        message_id: int,
        run: int = 1,
        redelivered: bool = False,
        confirm: bool = True,
        intact: bool = True,
        receiver_id: int = 0,
        began_in: int = 1,
    ) -> None:
        self.numbers += 1
        taken = Taken(message_id, key, 5, SENDER, receiver_id, redelivered, intact)
        self.tell(ReadBegan, client, run, number=self.numbers, queue_id=QUEUE, wait=1.0, session=began_in)
        self.tell(ReadEnded, client, run, number=self.numbers, queue_id=QUEUE, messages=[taken], session=1)
        if confirm:
            self.tell(Confirmed, client, run, number=self.numbers, session=1)

    def kill(self, client: str, run: int = 1) -> None:
        self.tell(Killed, client, run)
        self.begin(client, run + 1)

    def kill_with_state(self, client: str, *keys: str, run: int = 1) -> None:
        """Kills a client that comes back with its state, which holds these puts."""
        self.tell(Killed, client, run)
        self.tell(Left, client, run, puts=[(key, QUEUE) for key in keys])
        self.begin(client, run + 1)

    def recover(
        self, key: str, message_id: int = 0, outcome: str = DONE, error: str = "", run: int = 2
    ) -> None:
        """The sender is told what became of a put."""
        values = {"queue_id": QUEUE, "outcome": outcome, "message_id": message_id, "error": error}
        self.tell(Recovered, "sender", run, key=key, **values)

    def verdict(self, removed: frozenset[int] = frozenset()) -> Verdict:
        events = list(self.events)
        killed = {(event.client, event.run) for event in events if isinstance(event, Killed)}
        for client, run in {(event.client, event.run) for event in events} - killed:
            events.append(Ended(client, run, self.now + 1))
        return check(events, Bounds(call_s=20.0), removed)


@pytest.fixture
def story() -> Story:
    story = Story()
    for number in range(1, 4):
        story.put(f"k{number}", number)
        story.take("reader", f"k{number}", number)
    return story


def blamed(story: Story, *words: str) -> None:
    """The history is found faulty, in exactly these ways."""
    violations = story.verdict().violations
    assert [violation.split(":")[0] for violation in violations] == list(words), violations


def test_a_good_history_passes_and_is_counted(story: Story) -> None:
    verdict = story.verdict()
    assert verdict.violations == []
    assert verdict.figures["acknowledged"] == verdict.figures["hand_overs"] == 3


def test_a_loss_is_found(story: Story) -> None:
    story.put("k4", 4)
    blamed(story, "lost")
    assert story.verdict(removed=frozenset({QUEUE})).violations == []


def test_a_put_in_doubt_may_be_done_or_not(story: Story) -> None:
    story.put("done", 0, DOUBT)
    story.put("not done", 0, DOUBT)
    story.take("reader", "done", 4)
    blamed(story)
    assert story.verdict().figures["doubtful_done"] == 1


def test_a_put_in_doubt_that_was_done_twice_is_found(story: Story) -> None:
    story.put("twice", 0, DOUBT)
    story.take("reader", "twice", 4)
    story.take("reader", "twice", 5)
    blamed(story, "doubled")


def test_an_acknowledged_put_that_came_under_two_ids_is_found(story: Story) -> None:
    story.put("twice", 4)
    story.take("reader", "twice", 4)
    story.take("reader", "twice", 5)
    blamed(story, "doubled", "doubled")


def test_a_phantom_is_found(story: Story) -> None:
    story.take("reader", "nobody", 4)
    blamed(story, "phantom")


def test_a_refused_put_must_not_appear(story: Story) -> None:
    story.put("refused", 0, REFUSED)
    story.take("reader", "refused", 4)
    blamed(story, "phantom")


def test_a_changed_body_is_found(story: Story) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4, intact=False)
    blamed(story, "changed")


def test_a_changed_priority_is_found(story: Story) -> None:
    story.put("k4", 4, priority=6)
    story.take("reader", "k4", 4)
    blamed(story, "changed")


@pytest.mark.parametrize("seen_receiver", [0, READER, OTHER])
def test_a_message_for_somebody_else_is_found(story: Story, seen_receiver: int) -> None:
    story.put("k4", 4, receiver_id=OTHER)
    story.take("reader", "k4", 4, receiver_id=seen_receiver)
    blamed(story, "misdirected")


@pytest.mark.parametrize("redelivered", [False, True])
def test_a_duplicate_is_found(story: Story, redelivered: bool) -> None:
    story.take("other", "k3", 3, redelivered=redelivered)
    blamed(story, "duplicate")


def kill_and_take_again(story: Story, *, redelivered: bool = True) -> None:
    story.kill("reader")
    story.take("reader", "k4", 4, run=2, redelivered=redelivered)


@pytest.mark.parametrize("confirm", [False, True])
def test_a_killed_reader_gets_again_what_it_had_not_proven(story: Story, confirm: bool) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4, confirm=confirm)
    kill_and_take_again(story)
    blamed(story)
    assert story.verdict().figures["repeated"] == 1


def test_a_redelivery_that_is_not_marked_is_found(story: Story) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4)
    kill_and_take_again(story, redelivered=False)
    blamed(story, "duplicate")


def test_a_redelivery_after_a_proven_confirmation_is_found(story: Story) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4)
    story.put("k5", 5)
    story.take("reader", "k5", 5)
    kill_and_take_again(story)
    blamed(story, "duplicate")


def test_a_redelivery_is_fine_while_the_confirmation_may_have_been_lost(story: Story) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4, confirm=False)
    story.put("k5", 5)
    story.take("reader", "k5", 5)
    kill_and_take_again(story)
    blamed(story)


def test_a_redelivery_is_fine_when_a_takeover_answered_the_read(story: Story) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4, began_in=0)
    story.put("k5", 5)
    story.take("reader", "k5", 5)
    kill_and_take_again(story)
    blamed(story)


def give_back(story: Story, outcome: str) -> None:
    """The reader takes a message and gives it back."""
    story.put("k4", 4)
    story.take("reader", "k4", 4, confirm=False)
    story.tell(Released, "reader", number=story.numbers, outcome=outcome)


@pytest.mark.parametrize("outcome", [DONE, DOUBT])
def test_what_was_given_back_may_come_again(story: Story, outcome: str) -> None:
    give_back(story, outcome)
    story.take("other", "k4", 4, redelivered=True)
    blamed(story)


def test_what_was_given_back_and_comes_unmarked_is_found(story: Story) -> None:
    give_back(story, DONE)
    story.take("other", "k4", 4)
    blamed(story, "duplicate")


def test_what_was_given_back_and_never_comes_again_is_found(story: Story) -> None:
    give_back(story, DONE)
    blamed(story, "lost")


def test_what_may_have_been_given_back_need_not_come_again(story: Story) -> None:
    give_back(story, DOUBT)
    blamed(story)


def test_puts_out_of_order_are_found(story: Story) -> None:
    story.put("k5", 5)
    story.put("k4", 4)
    story.take("reader", "k4", 4)
    story.take("reader", "k5", 5)
    blamed(story, "reordered")


def test_puts_out_of_order_are_found_by_what_came_of_doubt(story: Story) -> None:
    story.put("late", 0, DOUBT)
    story.put("k4", 4)
    story.take("reader", "k4", 4)
    story.take("reader", "late", 5)
    blamed(story, "reordered")


def test_hand_overs_out_of_order_are_found(story: Story) -> None:
    story.put("k4", 4)
    story.put("k5", 5)
    story.take("reader", "k5", 5)
    story.take("reader", "k4", 4)
    blamed(story, "reordered")


def test_a_redelivered_message_may_come_late(story: Story) -> None:
    story.put("k4", 4)
    story.put("k5", 5)
    story.take("reader", "k5", 5)
    story.take("reader", "k4", 4, redelivered=True)
    blamed(story)


def test_a_put_that_overtakes_a_refusal_is_found(story: Story) -> None:
    first, second = story.call("k4"), story.call("k5")
    story.answer(first, "k4", outcome=REFUSED, error="QueueFullError")
    story.answer(second, "k5", 5)
    story.take("reader", "k5", 5)
    blamed(story, "reordered")


def test_a_put_to_several_queues_may_be_refused_for_another_one(story: Story) -> None:
    first, second = story.call("k4"), story.call("k5")
    story.tell(PutBegan, "sender", number=first, key="k4", queue_id=QUEUE + 1, priority=5)
    story.tell(
        PutEnded,
        "sender",
        number=first,
        key="k4",
        queue_id=QUEUE + 1,
        outcome=REFUSED,
        error="QueueFullError",
    )
    story.answer(first, "k4", outcome=REFUSED, error="QueueFullError")
    story.answer(second, "k5", 5)
    story.take("reader", "k5", 5)
    blamed(story)


def test_a_put_after_a_refusal_may_be_done(story: Story) -> None:
    story.answer(story.call("k4"), "k4", outcome=REFUSED, error="QueueFullError")
    story.put("k5", 5)
    story.take("reader", "k5", 5)
    blamed(story)


def test_a_refusal_is_known_when_a_later_put_is_answered(story: Story) -> None:
    first, elsewhere = story.call("k4"), {"number": 100, "key": "else", "queue_id": QUEUE + 1, "session": 1}
    story.tell(PutBegan, "sender", priority=5, **elsewhere)
    story.tell(PutEnded, "sender", outcome=DONE, message_id=5, **elsewhere)
    again = story.call("k6")
    story.answer(first, "k4", outcome=REFUSED, error="QueueFullError")
    story.answer(again, "k6", 6)
    story.take("reader", "k6", 6)
    blamed(story, "lost")  # what was put elsewhere, and nothing else


def test_a_put_after_a_refusal_may_be_done_while_those_behind_it_are_under_way(story: Story) -> None:
    first, second = story.call("k4"), story.call("k5")
    story.answer(first, "k4", outcome=REFUSED, error="QueueFullError")
    again = story.call("k6")
    story.answer(second, "k5", outcome=REFUSED, error="QueueFullError")
    story.answer(again, "k6", 6)
    story.take("reader", "k6", 6)
    blamed(story)


def test_a_put_to_several_queues_begins_a_refusal_too(story: Story) -> None:
    first = story.call("k4")
    story.tell(PutBegan, "sender", number=first, key="k4", queue_id=QUEUE + 1, priority=5)
    second = story.call("k5")
    story.answer(first, "k4", outcome=REFUSED, error="QueueFullError")
    again = story.call("k6")
    story.answer(second, "k5", outcome=REFUSED, error="QueueFullError")
    story.answer(again, "k6", 6)
    story.take("reader", "k6", 6)
    blamed(story)


def test_a_cancelled_put_may_have_been_refused_first(story: Story) -> None:
    story.answer(story.call("k4"), "k4", outcome=DOUBT, error="CancelledError")
    second, third = story.call("k5"), story.call("k6")
    story.answer(second, "k5", outcome=REFUSED, error="QueueFullError")
    story.answer(third, "k6", 6)
    story.take("reader", "k6", 6)
    blamed(story)


def test_a_fence_without_a_rival_is_found(story: Story) -> None:
    story.answer(story.call("k4"), "k4", outcome=DOUBT, error="SessionFencedError")
    blamed(story, "fenced")


def test_a_late_call_is_found(story: Story) -> None:
    number = story.call("k4")
    story.now += 30
    story.answer(number, "k4", 4)
    story.take("reader", "k4", 4)
    blamed(story, "late")


def test_a_call_that_never_returns_is_found(story: Story) -> None:
    story.call("k4")
    blamed(story, "hung")


def test_a_killed_process_need_not_return(story: Story) -> None:
    story.call("k4")
    story.kill("sender")
    blamed(story)


def test_a_leak_and_a_silent_end_are_found(story: Story) -> None:
    events = [*story.events, Ended("reader", 1, 99.0, leaks=["task x"])]
    verdict = check(events, Bounds(call_s=20.0))
    assert sorted(verdict.violations) == [
        "leak: reader.1 left task x",
        "other.1 did not end by itself and was not killed",
        "sender.1 did not end by itself and was not killed",
    ]


def test_what_a_client_complains_about_is_told(story: Story) -> None:
    story.tell(Trouble, "reader", what="it hurts")
    assert story.verdict().violations == ["reader.1: it hurts"]


def write_story(directory: Path, spoil: Callable[[bytes], bytes]) -> list[Event]:
    recorder = Recorder(directory, "reader", 1)
    recorder.write(Began, client_id=READER)
    recorder.write(
        ReadEnded, number=1, queue_id=QUEUE, messages=[Taken(1, "k", 5, SENDER, 0, False, True)], session=3
    )
    recorder.close()
    path = directory / "reader.1.jsonl"
    path.write_bytes(spoil(path.read_bytes()))
    return read_histories(directory)


def test_a_history_survives_its_process(tmp_path: Path) -> None:
    began, ended = write_story(tmp_path, lambda data: data)
    assert isinstance(began, Began)
    assert isinstance(ended, ReadEnded)
    assert ended.messages[0].key == "k"
    assert ended.session == 3


def test_a_line_that_was_cut_by_a_kill_is_left_out(tmp_path: Path) -> None:
    assert len(write_story(tmp_path, lambda data: data[:-5])) == 1


# --- clients with a state ------------------------------------------------------------------------------
def test_what_a_state_holds_is_told_of_and_handed_over(story: Story) -> None:
    story.call("done")
    story.call("not done")
    story.kill_with_state("sender", "done", "not done")
    story.recover("done", 4)
    story.recover("not done", 0, REFUSED)
    story.take("reader", "done", 4)
    blamed(story)
    assert story.verdict().figures["recovered"] == 2


def test_a_put_in_a_state_of_which_nobody_is_told_is_found(story: Story) -> None:
    story.call("k4")
    story.kill_with_state("sender", "k4")
    blamed(story, "forgotten")


def test_a_put_in_a_state_that_was_lost_later_may_be_forgotten(story: Story) -> None:
    story.call("k4")
    story.kill_with_state("sender", "k4")
    story.kill("sender", 2)
    blamed(story)


def test_a_put_that_was_told_of_as_done_must_be_handed_over_once(story: Story) -> None:
    story.call("k4")
    story.kill_with_state("sender", "k4")
    story.recover("k4", 4)
    blamed(story, "lost")
    story.take("reader", "k4", 4)
    story.take("reader", "k4", 5)
    blamed(story, "doubled", "doubled")


def test_a_put_that_was_told_of_as_not_done_must_not_appear(story: Story) -> None:
    story.call("k4")
    story.kill_with_state("sender", "k4")
    story.recover("k4", 0, REFUSED)
    story.take("reader", "k4", 4)
    blamed(story, "phantom")


def test_doubt_beside_a_state_is_found(story: Story) -> None:
    story.call("k4")
    story.kill_with_state("sender", "k4")
    story.recover("k4", 0, DOUBT, "OutcomeUnknownError")
    blamed(story, "in doubt")


@pytest.mark.parametrize(("message_id", "outcome"), [(5, DONE), (0, REFUSED)])
def test_being_told_something_else_than_before_is_found(story: Story, message_id: int, outcome: str) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4)
    story.kill_with_state("sender", "k4")
    story.recover("k4", message_id, outcome)
    blamed(story, "told")


def test_being_told_of_what_nobody_put_is_found(story: Story) -> None:
    story.recover("k4", 4, run=1)
    assert "which nobody put" in story.verdict().violations[0]


@pytest.mark.parametrize("state_kept", [True, False])
def test_what_a_state_has_as_confirmed_comes_again_only_without_it(story: Story, state_kept: bool) -> None:
    story.put("k4", 4)
    story.take("reader", "k4", 4)
    story.tell(Noted, "reader", number=story.numbers)
    story.kill_with_state("reader")
    if not state_kept:
        story.kill("reader", 2)
    story.take("reader", "k4", 4, run=2 if state_kept else 3, redelivered=True)
    blamed(story, *(["duplicate"] if state_kept else []))
