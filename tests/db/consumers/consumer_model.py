"""What a queue with consumers should hold, in dictionaries: who has which message, and who may get it next.

Time goes by in hours, so that nothing runs out by itself while a test is slow.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from consumer_calls import Consumer, Lease

LEASE_H = 2
ATTEMPTS_MAX = 2


@dataclass
class Entry:
    """A message that is not over.

    Attributes:
        due: the hour from which it may be given; None when it does not wait for one.
        surfaced: one without a key has been moved to those that are ready.
        expires: the hour at which it expires; None for never.
        attempt: how many attempts have failed.
        lease: who has it; None while it waits.
        deadline: the hour at which the lease runs out.
        held: an application has acknowledged it in a transaction that is open.
        begun: the application was given it, as its middleware knows.
        noted: the database knows that.
        dead: why it is a dead letter; empty while it is none.
        failed_by: the consumer that it failed with last.
        kept: the hour in which it is kept for others, if there are others.
    """

    message_id: int
    sender: int
    key: str | None
    priority: int
    due: int | None = None
    expires: int | None = None
    surfaced: bool = True
    attempt: int = 0
    redelivered: bool = False
    lease: Lease | None = None
    deadline: int = 0
    held: bool = False
    begun: bool = False
    noted: bool = False
    dead: str = ""
    failed_by: int = 0
    kept: int = -1

    @property
    def partition(self) -> tuple[int, str] | None:
        return None if self.key is None else (self.sender, self.key)

    @property
    def place(self) -> str:
        if self.dead:
            return "dead_letters"
        if self.lease is not None:
            return "leases"
        if self.key is not None:
            return "keyed_messages"
        return "messages" if self.surfaced else "delayed_messages"

    @property
    def row(self) -> tuple[int, str, int, bool]:
        """The message as its table has it: a lease has counted its own attempt."""
        return self.message_id, self.place, self.attempt + (self.lease is not None), self.redelivered


@dataclass
class Model:
    """One queue.

    Attributes:
        now: the hour.
        entries: the messages that are not over, dead letters among them.
        over: the messages that are over.
        owners: by lease of a partition: its consumer and the partition.
        ended: leases of partitions of which something came back: nothing more is given under them.
        untold: leases that ran out and of which no middleware has asked yet, by consumer.
    """

    burying: bool
    now: int = 0
    entries: dict[int, Entry] = field(default_factory=dict)
    over: set[int] = field(default_factory=set)
    owners: dict[int, tuple[int, tuple[int, str]]] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    last_lease: dict[tuple[int, str], int] = field(default_factory=dict)
    untold: dict[int, set[tuple[int, int, int]]] = field(default_factory=dict)

    # ------------------------------------------------------------------ looking

    def waiting(self) -> list[Entry]:
        """What is neither leased nor dead, in the order of ids."""
        return [entry for entry in self._sorted() if entry.lease is None and not entry.dead]

    def leased(self, consumer: Consumer | None = None) -> list[Entry]:
        """What consumers have, in the order of ids."""
        return [
            entry
            for entry in self._sorted()
            if entry.lease is not None and consumer in (None, entry.lease.consumer)
        ]

    def dead(self) -> list[Entry]:
        """The dead letters."""
        return [entry for entry in self._sorted() if entry.dead]

    def holds(self, lease: Lease) -> Entry | None:
        """The message of a lease that is not over."""
        entry = self.entries.get(lease.message_id)
        return entry if entry is not None and entry.lease == lease else None

    def is_expired(self, entry: Entry) -> bool:
        return entry.expires is not None and entry.expires <= self.now

    def is_ready(self, entry: Entry) -> bool:
        """Tells whether a message that waits could be given, if it is its turn."""
        is_due = entry.surfaced if entry.key is None else entry.due is None or entry.due <= self.now
        return is_due and not self.is_expired(entry)

    def _sorted(self) -> Iterator[Entry]:
        return (self.entries[message_id] for message_id in sorted(self.entries))

    # ------------------------------------------------------------------ what happens

    def put(self, entry: Entry, delay_h: int | None, life_h: int | None) -> None:
        assert not self.entries or entry.message_id > max(self.entries)
        entry.expires = None if life_h is None else self.now + life_h
        if delay_h is not None:
            entry.due = self.now + delay_h if life_h is None else self.now + min(delay_h, life_h)
            entry.surfaced = False
        self.entries[entry.message_id] = entry

    def is_kept(self, entry: Entry, takers: Collection[int]) -> bool:
        """Tells whether a message is for other consumers than that with which it failed."""
        return (
            entry.key is None and entry.kept == self.now and any(taker != entry.failed_by for taker in takers)
        )

    def give(
        self, leases: Collection[Lease], slots: int, served: Collection[int], takers: Collection[int]
    ) -> int:
        """A claim gave these messages: it was their turn, and the best of those without a key went first.

        What is kept for others may be passed over when none of them had a slot left; returns how many were.
        """
        for lease in leases:
            entry = self.entries[lease.message_id]
            is_kept = self.is_kept(entry, takers)
            assert not is_kept or entry.failed_by != lease.consumer.consumer_id, "it is kept for others"
            self._give(lease)
        plain = [self.entries[lease.message_id] for lease in leases if lease.message["partition_key"] is None]
        left = [entry for entry in self.waiting() if entry.key is None and self.is_ready(entry)]
        passed = [entry for entry in left if self.is_kept(entry, takers)]
        for entry in passed:
            others = [consumer_id for consumer_id in served if consumer_id != entry.failed_by]
            given = sum(lease.consumer.consumer_id in others for lease in leases)
            assert given == slots * len(others), "another consumer had credit for it"
        left = [entry for entry in left if entry not in passed]
        if plain and left:
            assert max(map(_turn, plain)) < min(map(_turn, left)), "a better one was left behind"
        counts = [sum(lease.consumer is other.consumer for lease in leases) for other in leases]
        assert max(counts, default=0) <= slots
        return len(passed)

    def _give(self, lease: Lease) -> None:
        entry, message = self.entries[lease.message_id], lease.message
        assert entry.lease is None, "somebody has it"
        assert not entry.dead
        assert self.is_ready(entry), "it is not due, or expired"
        assert (message["sender_id"], message["partition_key"]) == (entry.sender, entry.key)
        assert (message["attempt"], message["redelivered"]) == (entry.attempt + 1, entry.redelivered)
        if entry.partition is not None:
            self._give_of_partition(entry.partition, entry, lease)
        entry.lease, entry.deadline, entry.due, entry.surfaced = lease, self.now + LEASE_H, None, True

    def _give_of_partition(self, partition: tuple[int, str], entry: Entry, lease: Lease) -> None:
        owner = (lease.consumer.consumer_id, partition)
        assert self.owners.setdefault(lease.lease_id, owner) == owner, (
            "a lease has one consumer and partition"
        )
        assert lease.lease_id >= self.last_lease.get(partition, 0), "leases of a partition follow each other"
        assert lease.lease_id not in self.ended, "something of this lease has come back"
        self.last_lease[partition] = lease.lease_id
        for other in self.entries.values():
            if other.partition != partition or other.dead or other is entry:
                continue
            if other.lease is not None:
                assert other.lease.lease_id == lease.lease_id, f"{other.message_id} has another lease"
            elif other.message_id < entry.message_id:
                assert self.is_expired(other), f"{other.message_id}, which comes before, waits"

    def pass_hour(self) -> None:
        """Time goes by, but for what somebody holds, which nobody can touch meanwhile."""
        self.now += 1
        for entry in self.leased():
            if entry.held:
                entry.deadline += 1
                entry.expires = None if entry.expires is None else entry.expires + 1

    def end(self, entry: Entry) -> None:
        """The message is over."""
        self.over.add(entry.message_id)
        del self.entries[entry.message_id]

    def give_back(
        self, entries: Iterable[Entry], reason: str, wait_h: int, counted: bool, *, known: bool = True
    ) -> list[Entry]:
        """Messages come back; returns what came along: the later ones of their partitions, unless held.

        Without ``known`` nobody can say what was begun but the database, as far as it has noted that.
        """
        given = sorted(entries, key=lambda entry: entry.message_id)
        firsts: dict[int, int] = {}
        for entry in given:
            assert entry.lease is not None
            if entry.key is not None:
                firsts.setdefault(entry.lease.lease_id, entry.message_id)
        followers = [
            entry
            for entry in self.leased()
            if entry not in given
            and not entry.held
            and entry.lease is not None
            and entry.lease.lease_id in firsts
            and entry.message_id > firsts[entry.lease.lease_id]
        ]
        self.ended.update(firsts)
        unsure = not known or (
            counted and reason == "lost"
        )  # what a lost connection told last may not have come
        for entry in given:
            begun = entry.noted or (known and entry.begun) or (reason == "failed" and counted)
            self._return(entry, reason, wait_h, counted and begun, begun or unsure)
        for entry in followers:
            self._return(entry, reason, 0, False, entry.begun or unsure)
        return followers

    def _return(self, entry: Entry, reason: str, wait_h: int, failed: bool, marked: bool) -> None:
        if failed and entry.lease is not None:
            entry.failed_by = entry.lease.consumer.consumer_id
        if entry.failed_by:
            entry.kept = self.now + wait_h
        entry.lease = None
        entry.begun = entry.noted = False
        entry.redelivered |= marked
        entry.attempt += failed
        if failed and entry.attempt == ATTEMPTS_MAX:
            entry.redelivered = True
            entry.dead = reason
            return
        entry.surfaced = wait_h == 0
        entry.due = None if wait_h == 0 else self.now + wait_h
        if entry.due is not None and entry.expires is not None:
            entry.due = min(entry.due, entry.expires)

    def redrive(self, entry: Entry) -> None:
        """A dead letter goes back, as if it had never been given."""
        entry.dead, entry.attempt, entry.redelivered, entry.expires = "", 0, True, None
        entry.failed_by, entry.kept = 0, -1
        entry.due, entry.surfaced = None, True

    def surface(self) -> None:
        """What was delayed and is due is ready."""
        for entry in self.waiting():
            if not entry.surfaced and entry.key is None and entry.due is not None and entry.due <= self.now:
                entry.surfaced, entry.due = True, None

    def expire(self, *, keyed: bool) -> None:
        """What has expired where it waits to be read is over, or a dead letter."""
        for entry in self.waiting():
            where = entry.key is not None if keyed else entry.key is None and entry.surfaced
            if where and self.is_expired(entry):
                if self.burying:
                    entry.dead = "expired"
                else:
                    self.end(entry)


def _turn(entry: Entry) -> tuple[int, int]:
    return -entry.priority, entry.message_id
