"""Reads the histories of publishers and subscribers and says what topics have done that they must not.

What is held against the service:

- a put that was acknowledged has its number for good, one in doubt at most one; nothing else appears; a
  publisher's sequence is there once, however often and by however many of its processes it was put;
- all subscribers get the same message under the same number;
- what one client puts to a topic gets rising numbers, in the order of the calls;
- a subscription is owed every message whose put was processed after it began: not one that was acknowledged
  before it was asked for, and each that was put once it was known;
- it gets these one by one, in order and without a gap; one comes again only after the application released it
  or its process was killed before its confirmation was known to the service;
- a client that was killed and came back with its state is told what became of every put in it, surely, and
  what it has noted there as confirmed does not come again;
- every call returns in time, nothing is left behind.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from ..clients.history import DONE, DOUBT, REFUSED, Event
from .calls import Bounds, misbehaviour, slowest_s
from .checker import Verdict, forgotten
from .topic_ledger import Life, Publish, Receipt, TopicLedger

SEQUENCE_GAP = "SequenceGapError"


def check_topics(events: Iterable[Event], bounds: Bounds) -> Verdict:
    """Checks the histories, of which a drain that got everything is part."""
    ledger = TopicLedger(events)
    numbers = Numbers(ledger)
    violations = [
        *misbehaviour(ledger, bounds),
        *numbers.contradictions,
        *phantoms(ledger),
        *gaps_of_sequences(ledger),
        *disordered_puts(ledger, numbers),
        *wrong_steps(ledger),
        *wrong_begins(ledger, numbers),
        *losses(ledger, numbers),
        *forgotten(ledger, lambda key, _: key in ledger.publishes and ledger.publishes[key].told > 0),
    ]
    return Verdict(violations, figures(ledger), slowest_s(ledger))


class Numbers:
    """Which message has which number, by all who saw it.

    Attributes:
        of: the number of a key.
        by_topic: the messages of a topic whose numbers are known, by number.
        contradictions: where two saw it differently.
    """

    def __init__(self, ledger: TopicLedger) -> None:
        self.of: dict[str, int] = {}
        self.by_topic: dict[str, dict[int, Publish]] = defaultdict(dict)
        self.contradictions: list[str] = []
        self._ledger = ledger
        for publish in ledger.publishes.values():
            for event in publish.ended:
                if event.outcome == DONE and event.message_number:
                    self._see(event.topic, event.message_number, event.key, "its publisher")
        for life in ledger.lives.values():
            for receipt in life.receipts:
                self._see(life.topic, receipt.got.message_number, receipt.got.key, _who(receipt))

    def _see(self, topic: str, number: int, key: str, who: str) -> None:
        publish = self._ledger.publishes.get(key)
        if publish is None:
            return
        before = self.of.setdefault(key, number)
        if before != number:
            self.contradictions.append(
                f"doubled: {key} of {topic} is number {before}, and {number} for {who}"
            )
        other = self.by_topic[topic].setdefault(number, publish)
        if other is not publish:
            self.contradictions.append(
                f"changed: number {number} of {topic} is {other.began.key}, and {key} for {who}"
            )


def phantoms(ledger: TopicLedger) -> Iterator[str]:
    """Messages that nobody put, or that differ from what was put."""
    for life in ledger.lives.values():
        for receipt in life.receipts:
            got = receipt.got
            publish = ledger.publishes.get(got.key)
            where = f"number {got.message_number} of {life.topic} for {_who(receipt)}"
            if publish is None or publish.began.topic != got.topic:
                yield f"phantom: {where} was never put: {got.key}"
            elif publish.outcome == REFUSED:
                yield f"phantom: {where} was refused: {got.key}"
            elif not got.intact:
                yield f"changed: the body of {where}"


def gaps_of_sequences(ledger: TopicLedger) -> Iterator[str]:
    """Sequences that the service forgot: a publisher leaves none out."""
    for publish in ledger.publishes.values():
        if any(event.error == SEQUENCE_GAP for event in publish.ended):
            yield f"lost: {publish.began.key} was refused for a gap that its publisher did not leave"


def disordered_puts(ledger: TopicLedger, numbers: Numbers) -> Iterator[str]:
    """Puts whose numbers do not follow the order of the calls."""
    last: dict[tuple[str, str], tuple[int, str]] = {}
    for publish in sorted(ledger.publishes.values(), key=lambda publish: publish.place):
        number = numbers.of.get(publish.began.key)
        if number is None or not ledger.process(publish.began).ordered:
            continue
        line = (publish.began.client, publish.began.topic)
        before = last.get(line)
        if before is not None and number < before[0]:
            yield f"reordered: {publish.began.key} has number {number}, {before[1]} before it {before[0]}"
        last[line] = (number, publish.began.key)


def wrong_steps(ledger: TopicLedger) -> Iterator[str]:
    """Messages that a subscription got too early or once more."""
    for life in ledger.lives.values():
        begin: int | None = None
        last: Receipt | None = None
        proven = 0
        noted: Receipt | None = None
        again: int | None = None
        for receipt in life.receipts:
            number = receipt.got.message_number
            if begin is None or last is None:
                begin = number
            else:
                known = proven or begin - 1
                if noted is not None and ledger.keeps_state(noted.get, receipt.get.at):
                    known = max(known, noted.got.message_number)
                first, most = _may_follow(ledger, last, known, again, receipt)
                if number > most:
                    yield f"lost: {_who(receipt)} got {life.topic} {number} after {most - 1}"
                elif number < first:
                    yield f"duplicate: {_who(receipt)} got {life.topic} {number} again after {first - 1}"
            if receipt.released:
                again = number if again is None else min(again, number)
            elif again is not None and number >= again:
                again = None
            if receipt.proven:
                proven = max(proven, number)
            if receipt.noted:
                noted = receipt
            last = receipt


def _may_follow(
    ledger: TopicLedger, last: Receipt, proven: int, again: int | None, receipt: Receipt
) -> tuple[int, int]:
    """The first and the last number that may come next."""
    after = last.got.message_number + 1
    if (last.get.client, last.get.run) == (receipt.get.client, receipt.get.run):
        return (again, after) if again is not None else (after, after)
    if not ledger.process(last.get).killed:
        return (again if again is not None else after, after)
    return (min(proven + 1, after), after)


def wrong_begins(ledger: TopicLedger, numbers: Numbers) -> Iterator[str]:
    """Subscriptions that begin with a message from before them, or leave out the first ones."""
    for life in ledger.lives.values():
        if not life.receipts:
            continue
        first = life.receipts[0].got.message_number
        for number, publish in numbers.by_topic[life.topic].items():
            if number >= first and publish.done_at < life.began_at:
                yield f"phantom: {_name(life)} begins with {first}, {number} was done before it was asked for"
            if number < first and publish.began.at > life.known_at:
                yield f"lost: {_name(life)} begins with {first}, {number} was put when it was known"


def losses(ledger: TopicLedger, numbers: Numbers) -> Iterator[str]:
    """Messages that a subscription was owed and never got, although it never ended."""
    for life in ledger.lives.values():
        if life.left_at != float("inf"):
            continue
        most = max((receipt.got.message_number for receipt in life.receipts), default=0)
        for number, publish in numbers.by_topic[life.topic].items():
            if number > most and publish.outcome == DONE and publish.began.at > life.known_at:
                yield f"lost: {_name(life)} never got {number}, its last is {most}"


def figures(ledger: TopicLedger) -> dict[str, int]:
    """Counts of what was seen."""
    outcomes = Counter(publish.outcome for publish in ledger.publishes.values())
    receipts = [receipt for life in ledger.lives.values() for receipt in life.receipts]
    different = {(receipt.got.subscription_id, receipt.got.message_number) for receipt in receipts}
    return {
        "puts": len(ledger.publishes),
        "acknowledged": outcomes[DONE],
        "refused": outcomes[REFUSED],
        "doubtful": outcomes[DOUBT],
        "put again": sum(publish.calls - 1 for publish in ledger.publishes.values()),
        "recovered": sum(publish.told > 0 for publish in ledger.publishes.values()),
        "subscriptions": len(ledger.lives),
        "ended": sum(life.left_at != float("inf") for life in ledger.lives.values()),
        "got": len(receipts),
        "repeated": len(receipts) - len(different),
        "processes": len(ledger.processes),
        "killed": sum(process.killed for process in ledger.processes.values()),
    }


def _who(receipt: Receipt) -> str:
    return f"{receipt.get.client}.{receipt.get.run}"


def _name(life: Life) -> str:
    return f"subscription {life.subscription_id} of {life.client} to {life.topic}"
