"""Reads the histories of producers and consumers and says what the service has done that it must not.

What is held against the service:

- a put that was acknowledged is pushed to a consumer, under leases that follow each other, until one of them
  is acknowledged; one in doubt at most so; nothing else appears;
- a message is acknowledged once: a second acknowledgement is told that its lease was over;
- after an acknowledgement that was taken no further lease is given;
- what comes again is marked redelivered;
- what one client puts gets rising ids, in the order of the calls;
- an acknowledgement that was called after a put is not taken when the put before it was refused;
- an attempt counts when an application was given the message, and at no other time;
- partitions keep their order, with one consumer at a time (partition_checker);
- every call returns in time, nothing is left behind.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from ..clients.consumer import AT_A_TIME, RESULT
from ..clients.history import DONE, DOUBT, REFUSED, Event
from .calls import Bounds, misbehaviour, slowest_s
from .checker import Verdict, disordered_puts
from .consumer_ledger import ConsumerLedger, Lease
from .ledger import Name
from .partition_checker import partition_faults, partitions_of


def check_consumers(events: Iterable[Event], bounds: Bounds) -> Verdict:
    """Checks the histories, of which a drain that acknowledged everything is part."""
    ledger = ConsumerLedger(events)
    violations = [
        *misbehaviour(ledger, bounds),
        *losses(ledger),
        *phantoms(ledger),
        *doubled_puts(ledger),
        *doubled_acknowledgements(ledger),
        *lost_results(ledger),
        *miscounted_attempts(ledger),
        *disordered_puts(ledger),
        *partition_faults(ledger),
    ]
    return Verdict(violations, figures(ledger), slowest_s(ledger))


def losses(ledger: ConsumerLedger) -> Iterator[str]:
    """Puts that were acknowledged and whose last lease ended without an acknowledgement."""
    for name, put in ledger.puts.items():
        if put.outcome != DONE:
            continue
        assert put.ended is not None
        message_id = put.ended.message_id
        leases = ledger.leases.get(message_id)
        if not leases:
            yield f"lost: {name} was put as message {message_id} and never pushed"
        elif leases[max(leases)].outcome not in (DONE, DOUBT) and not _done(leases):
            yield f"lost: {name}, message {message_id}, was not acknowledged under {max(leases)}, its last"


def phantoms(ledger: ConsumerLedger) -> Iterator[str]:
    """Messages that nobody put, or that differ from what was put."""
    for lease in ledger.all_leases():
        leased = lease.leased
        name = Name(leased.key, leased.queue_id)
        put = ledger.puts.get(name)
        if put is None:
            yield f"phantom: message {leased.message_id} {name} was never put"
            continue
        sender = ledger.process(put.began).client_id
        if put.outcome == REFUSED:
            yield f"phantom: {name} was refused and pushed as {leased.message_id}"
        elif not leased.intact or (leased.priority, leased.sender_id, leased.partition) != (
            put.began.priority,
            sender,
            put.began.partition,
        ):
            yield f"changed: message {leased.message_id} {name}"


def doubled_puts(ledger: ConsumerLedger) -> Iterator[str]:
    """Puts that came out under several ids."""
    ids: dict[Name, set[int]] = defaultdict(set)
    for name, put in ledger.puts.items():
        if put.outcome == DONE and put.ended is not None:
            ids[name].add(put.ended.message_id)
    for lease in ledger.all_leases():
        ids[Name(lease.leased.key, lease.leased.queue_id)].add(lease.leased.message_id)
    for name, message_ids in ids.items():
        if len(message_ids) > 1:
            yield f"doubled: {name} is messages {sorted(message_ids)}"


def doubled_acknowledgements(ledger: ConsumerLedger) -> Iterator[str]:
    """Messages that were acknowledged twice, or given to somebody after that, or not marked."""
    for message_id, leases in ledger.leases.items():
        done = _done(leases)
        if len(done) > 1:
            yield f"doubled: message {message_id} was acknowledged under the leases {done}"
        if done and max(leases) > done[0]:
            yield f"doubled: message {message_id}, acknowledged under {done[0]}, was leased as {max(leases)}"
        for lease_id in sorted(leases)[1:]:
            if not leases[lease_id].leased.redelivered:
                yield f"duplicate: message {message_id} came again under {lease_id}, not marked redelivered"


def lost_results(ledger: ConsumerLedger) -> Iterator[str]:
    """Messages whose acknowledgement overtook the put of their result, which was called before."""
    there = {lease.leased.key for lease in ledger.all_leases()}
    for name, put in ledger.puts.items():
        if not name.key.startswith(f"{RESULT}.") or name.key in there:
            continue
        if put.ended is not None and put.outcome != DONE:
            continue  # the application knows
        message_id, lease_id = map(int, name.key.split(".")[1:])
        leases = ledger.leases[message_id]
        outcome = leases[lease_id].outcome
        if outcome == DONE or (outcome == DOUBT and lease_id == max(leases)):
            yield f"overtaken: message {message_id} is acknowledged under {lease_id}, its result was not put"


def miscounted_attempts(ledger: ConsumerLedger) -> Iterator[str]:
    """Attempts of which no application knows, beyond those that a killed process could not write down."""
    unknown = {
        message_id: max(
            lease.leased.attempt - 1 - seen for seen, (_, lease) in enumerate(sorted(leases.items()))
        )
        for message_id, leases in ledger.leases.items()
    }
    miscounted = {message_id: count for message_id, count in unknown.items() if count > 0}
    allowed = AT_A_TIME * sum(process.killed for process in ledger.processes.values())
    if sum(miscounted.values()) > allowed:
        yield f"miscounted: attempts of messages that no application was given: {miscounted}"


def figures(ledger: ConsumerLedger) -> dict[str, int]:
    """Counts of what was seen."""
    outcomes = Counter(put.outcome for put in ledger.puts.values())
    answers = Counter(lease.outcome for lease in ledger.all_leases())
    partitions = partitions_of(ledger)
    return {
        "puts": len(ledger.puts),
        "put done": outcomes[DONE],
        "put refused": outcomes[REFUSED],
        "put doubtful": outcomes[DOUBT],
        "leases": sum(answers.values()),
        "acknowledged": answers[DONE],
        "lease lost": answers[REFUSED],
        "acknowledged in doubt": answers[DOUBT],
        "partitions": len(partitions),
        "leases in partitions": sum(map(len, partitions.values())),
        "processes": len(ledger.processes),
        "killed": sum(process.killed for process in ledger.processes.values()),
    }


def _done(leases: dict[int, Lease]) -> list[int]:
    return [lease_id for lease_id, lease in sorted(leases.items()) if lease.outcome == DONE]
