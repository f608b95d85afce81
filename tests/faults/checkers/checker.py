"""Reads the histories of all clients and says what the service has done that it must not.

What is held against the service:

- a put that was acknowledged is handed over, once; one in doubt at most once; nothing else appears;
- a message is handed over again only when the process that took it gave it back, or was killed before its
  confirmation was known to the service, and then marked redelivered;
- what one client puts into a queue gets rising ids, in the order of the calls;
- a reader gets the messages of one sender and priority in the order of their ids, but for redelivered ones;
- after a queue refused a put as full, puts called before that was known are refused too;
- no call fails because another process is this client, for there is none;
- a client that was killed and came back with its state is told what became of every put in it, surely, and
  what it has noted there as confirmed does not come again;
- every call returns in time, nothing is left behind.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from ..clients.history import DONE, DOUBT, REFUSED, Event
from .calls import Bounds, Calls, misbehaviour, slowest_s
from .ledger import HandOver, Ledger, Name, Put

QUEUE_FULL, CANCELLED = "QueueFullError", "CancelledError"
#: The library knows an answer so much earlier than the application writes it down, at most.
_TOLD_S = 0.05
#: The service answers a put within so long, as a rule.
_ANSWERED_S = 5.0
#: So many refusals in a row are looked at together.
_REMEMBERED = 200


@dataclass(slots=True)
class Verdict:
    """What came out.

    Attributes:
        violations: each in one line; none if all is well.
        figures: counts of what was seen.
        slowest_s: the longest call beyond its waiting time.
    """

    violations: list[str]
    figures: dict[str, int]
    slowest_s: float


def check(events: Iterable[Event], bounds: Bounds, removed: frozenset[int] = frozenset()) -> Verdict:
    """Checks the histories, of which a drain that emptied all queues is part.

    ``removed`` are queues that were purged or deleted: what they held need not have been handed over.
    """
    ledger = Ledger(events)
    violations = [
        *misbehaviour(ledger, bounds),
        *losses(ledger, removed),
        *phantoms(ledger),
        *doubled_puts(ledger),
        *repeated_hand_overs(ledger),
        *disordered_puts(ledger),
        *disordered_hand_overs(ledger),
        *overtaken_refusals(ledger),
        *forgotten_puts(ledger),
    ]
    return Verdict(violations, figures(ledger), slowest_s(ledger))


def losses(ledger: Ledger, removed: frozenset[int]) -> Iterator[str]:
    """Puts that were acknowledged and never handed over."""
    for name, put in ledger.puts.items():
        if put.outcome != DONE or name.queue_id in removed:
            continue
        assert put.ended is not None
        hand_overs = ledger.hand_overs.get(put.ended.message_id, ())
        if all(hand_over.released == DONE for hand_over in hand_overs):
            how = "given back" if hand_overs else "acknowledged"
            yield f"lost: {name} was {how} as message {put.ended.message_id} and never handed over then"


def phantoms(ledger: Ledger) -> Iterator[str]:
    """Messages that nobody put, or that differ from what was put."""
    for hand_over in _all(ledger):
        taken = hand_over.taken
        name = Name(taken.key, hand_over.read.queue_id)
        put = ledger.puts.get(name)
        if put is None:
            yield f"phantom: message {taken.message_id} {name} was never put"
        elif put.outcome == REFUSED:
            assert put.ended is not None
            yield f"phantom: {name} was refused ({put.ended.error}) and handed over as {taken.message_id}"
        else:
            yield from _differences(ledger, name, put, hand_over)


def _differences(ledger: Ledger, name: Name, put: Put, hand_over: HandOver) -> Iterator[str]:
    taken, began = hand_over.taken, put.began
    if not taken.intact:
        yield f"changed: the body of message {taken.message_id} {name}"
    if put.ended is not None and put.outcome == DONE and put.ended.message_id != taken.message_id:
        yield f"doubled: {name} was acknowledged as {put.ended.message_id}, handed over as {taken.message_id}"
    sender = ledger.process(began).client_id
    if (taken.priority, taken.sender_id) != (began.priority, sender):
        yield f"changed: {name} has priority {taken.priority} and sender {taken.sender_id}"
    reader = ledger.process(hand_over.read).client_id
    if taken.receiver_id != began.receiver_id or taken.receiver_id not in (0, reader):
        yield f"misdirected: {name} for {began.receiver_id} went to {reader} as for {taken.receiver_id}"


def doubled_puts(ledger: Ledger) -> Iterator[str]:
    """Puts that came out under several ids."""
    ids: dict[Name, set[int]] = defaultdict(set)
    for hand_over in _all(ledger):
        ids[Name(hand_over.taken.key, hand_over.read.queue_id)].add(hand_over.taken.message_id)
    for name, message_ids in ids.items():
        if len(message_ids) > 1:
            yield f"doubled: {name} was handed over as messages {sorted(message_ids)}"


def repeated_hand_overs(ledger: Ledger) -> Iterator[str]:
    """Messages that were handed over again without a right to it."""
    for message_id, hand_overs in ledger.hand_overs.items():
        for earlier, later in pairwise(hand_overs):
            why = _why_not_again(ledger, earlier, later)
            if why:
                yield f"duplicate: message {message_id} went to {_who(earlier)} and {_who(later)}, {why}"


def _why_not_again(ledger: Ledger, earlier: HandOver, later: HandOver) -> str:
    if not later.taken.redelivered:
        return "not marked redelivered"
    if earlier.released:
        return ""
    if not ledger.process(earlier.read).killed:
        return "although the first was not killed"
    if earlier.proven:
        return "although the first had confirmed it"
    if earlier.noted and ledger.keeps_state(earlier.read, later.read.at):
        return "although the first had noted in its state that it was confirmed"
    return ""


def disordered_puts(ledger: Ledger) -> Iterator[str]:
    """Puts whose ids do not follow the order of the calls."""
    known = {
        Name(hand_over.taken.key, hand_over.read.queue_id): hand_over.taken.message_id
        for hand_over in _all(ledger)
    }
    last: dict[tuple[str, int], tuple[int, Name]] = {}
    for name, put in sorted(ledger.puts.items(), key=lambda item: item[1].place):
        message_id = put.ended.message_id if put.ended and put.outcome == DONE else known.get(name)
        if message_id is None or not ledger.process(put.began).ordered:
            continue
        line = (put.began.client, name.queue_id)
        before = last.get(line)
        if before is not None and message_id < before[0]:
            yield f"reordered: {name} is message {message_id}, {before[1]}, put before, is {before[0]}"
        last[line] = (message_id, name)


def disordered_hand_overs(ledger: Ledger) -> Iterator[str]:
    """Messages of one sender and priority that a reader got in another order."""
    for hand_overs in ledger.taken_by.values():
        last: dict[tuple[int, int, int], int] = {}
        for hand_over in hand_overs:
            taken = hand_over.taken
            if taken.redelivered or not ledger.process(hand_over.read).ordered:
                continue
            line = (hand_over.read.queue_id, taken.sender_id, taken.priority)
            if taken.message_id < last.get(line, 0):
                yield f"reordered: {_who(hand_over)} got {taken.message_id} of {line} after {last[line]}"
            last[line] = max(taken.message_id, last.get(line, 0))


def overtaken_refusals(ledger: Ledger) -> Iterator[str]:
    """Puts that were done although one called before them was refused as too many, and that was not known.

    A caller that knows of the first of several refusals has the queue decide anew about what it calls then.
    A put to several queues may be refused for one of them, so it says nothing about what comes after it.
    """
    queues: dict[tuple[str, int, int], set[int]] = defaultdict(set)
    for put in ledger.puts.values():
        queues[put.began.client, put.began.run, put.began.number].add(put.began.queue_id)
    lines: dict[tuple[str, int, int, int], list[Put]] = defaultdict(list)
    for put in sorted(ledger.puts.values(), key=lambda put: put.place):
        began, ended = put.began, put.ended
        if ended is not None and ledger.process(began).ordered:
            lines[began.client, began.run, began.queue_id, ended.session].append(put)
    known = _known(ledger)
    for puts in lines.values():
        yield from _overtaken(
            puts, lambda put: len(queues[put.began.client, put.began.run, put.began.number]) == 1, known
        )


def _known(ledger: Ledger) -> dict[Name, float]:
    """Tells for each put by when its answer had reached the library.

    Answers come in the order of the puts, and the application may write down a refusal later than what came
    behind it.
    """
    known: dict[Name, float] = {}
    earliest: dict[tuple[str, int, int], float] = {}
    for put in sorted(ledger.puts.values(), key=lambda put: put.place, reverse=True):
        if put.ended is not None:
            session = (put.began.client, put.began.run, put.ended.session)
            at = min(put.ended.at, earliest.get(session, put.ended.at))
            known[Name(put.began.key, put.began.queue_id)] = at
            if put.outcome == DONE:
                earliest[session] = at
    return known


def _overtaken(puts: list[Put], single: Callable[[Put], bool], known: dict[Name, float]) -> Iterator[str]:
    refused: list[Put] = []  # the last ones, and what was cancelled, which may have been refused too
    for put in puts:
        assert put.ended is not None
        if put.ended.error in (QUEUE_FULL, CANCELLED):
            refused = [*refused[1 - _REMEMBERED :], put]
        elif put.outcome == DONE and put.began.session == put.ended.session and single(put):
            for place, before in enumerate(refused):
                assert before.ended is not None
                known_at = known[Name(before.began.key, before.began.queue_id)]
                unknown = before.ended.error == QUEUE_FULL and put.began.at < known_at - _TOLD_S
                if not unknown or not single(before) or before.began.session != before.ended.session:
                    continue
                if not any(_ends_rule(first, before, put) for first in refused[:place]):
                    keys = f"{put.began.key} was put after {before.began.key}"
                    yield f"reordered: {keys} and overtook its refusal"
                    break


def _ends_rule(first: Put, before: Put, put: Put) -> bool:
    """Tells whether a put was called when the first refusal was known, and the other was under way then."""
    assert first.ended is not None
    told_until = first.ended.at
    if first.ended.error == CANCELLED:  # its answer came later
        told_until = first.began.at + _ANSWERED_S
    return first.ended.at <= put.began.at + _TOLD_S and told_until > before.began.at


def forgotten_puts(ledger: Ledger) -> Iterator[str]:
    """Puts in a client's state of which it was never told."""

    def told(key: str, queue_id: int) -> bool:
        put = ledger.puts.get(Name(key, queue_id))
        return put is not None and put.told > 0

    yield from forgotten(ledger, told)


def forgotten(calls: Calls, told: Callable[[str, int], bool]) -> Iterator[str]:
    """Puts that a killed client had in its state, which came back with it, and of which it was never told."""
    for process in list(calls.processes.values()):
        successors = calls.runs_of(process.client, process.run + 1)
        if process.left is None or any(each.killed and each.left is None for each in successors):
            continue
        for key, queue_id in process.left:
            if not told(key, queue_id):
                yield f"forgotten: {key} ({queue_id}) was in the state of {process.client}.{process.run}"


def figures(ledger: Ledger) -> dict[str, int]:
    """Counts of what was seen."""
    outcomes = Counter(put.outcome for put in ledger.puts.values())
    hand_overs = list(_all(ledger))
    arrived = {Name(each.taken.key, each.read.queue_id) for each in hand_overs}
    doubtful = [name for name, put in ledger.puts.items() if put.outcome == DOUBT]
    return {
        "puts": len(ledger.puts),
        "acknowledged": outcomes[DONE],
        "refused": outcomes[REFUSED],
        "doubtful": outcomes[DOUBT],
        "doubtful_done": sum(name in arrived for name in doubtful),
        "recovered": sum(put.told > 0 for put in ledger.puts.values()),
        "hand_overs": len(hand_overs),
        "redelivered": sum(each.taken.redelivered for each in hand_overs),
        "repeated": sum(len(each) - 1 for each in ledger.hand_overs.values()),
        "processes": len(ledger.processes),
        "killed": sum(process.killed for process in ledger.processes.values()),
    }


def _all(ledger: Ledger) -> Iterator[HandOver]:
    for hand_overs in ledger.hand_overs.values():
        yield from hand_overs


def _who(hand_over: HandOver) -> str:
    return f"{hand_over.read.client}.{hand_over.read.run}"
