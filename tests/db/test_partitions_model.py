"""Long random sequences of what happens to partitions and their consumers against a model in memory."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass, field

import psycopg
import pytest

from consumer_calls import LEASE_LOST, Consumer, Consuming, Lease
from procedure_calls import Calls, Element, Put
from telesto.db.checks import find_contradictions

# How many sequences; a longer run is a matter of this variable.
SEEDS = int(os.environ.get("TELESTO_TEST_MODEL_SEEDS", "6"))
STEPS = 300
KEYS = [None, *"abcdefgh"]
CONSUMERS_MAX = 4
ATTEMPTS_MAX = 2


@dataclass
class Entry:
    """A message as the model knows it: it waits, is leased, or is over."""

    message_id: int
    key: str | None
    attempt: int = 0
    lease: Lease | None = None


@dataclass
class Walk:
    """A random sequence of calls, each compared with the model."""

    calls: Calls
    seed: int
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.consuming = Consuming(self.calls)
        self.client = self.calls.register()
        self.queue = self.calls.create_queue(self.client, max_attempts=ATTEMPTS_MAX, backoff_ms=0)
        self.members: list[Consumer] = []
        self.entries: dict[int, Entry] = {}
        self.stale: list[Lease] = []
        self.put_count = self.acknowledged = 0

    # ------------------------------------------------------------------ the model

    def leased(self, consumer: Consumer | None = None) -> list[Entry]:
        return [
            entry
            for entry in self.entries.values()
            if entry.lease is not None and consumer in (None, entry.lease.consumer)
        ]

    def followers(self, first: Entry) -> list[Entry]:
        """What comes back with a message: the later ones of its partition that the same consumer has."""
        assert first.lease is not None
        return [
            entry
            for entry in self.leased(first.lease.consumer)
            if first.key is not None and entry.key == first.key and entry.message_id > first.message_id
        ]

    def give_back(self, entry: Entry, counted: bool) -> None:
        assert entry.lease is not None
        self.stale.append(entry.lease)
        entry.lease = None
        if counted:
            entry.attempt += 1
            if entry.attempt == ATTEMPTS_MAX:
                self.seen["dead"] += 1
                del self.entries[entry.message_id]

    def hand_over(self, lease: Lease) -> None:
        """A message was given to a consumer: it was its turn."""
        entry = self.entries[lease.message_id]
        assert entry.lease is None, "it is leased already"
        assert lease.message["partition_key"] == entry.key
        assert lease.message["attempt"] == entry.attempt + 1
        if entry.key is not None:
            before = [
                other
                for other in self.entries.values()
                if other.key == entry.key and other.message_id < entry.message_id
            ]
            for other in before:
                assert other.lease is not None, f"message {other.message_id} of its partition still waits"
                assert other.lease.consumer is lease.consumer, "its partition is with another consumer"
        entry.lease = lease

    # ------------------------------------------------------------------ what happens

    def put(self) -> None:
        keys = self.random.choices(KEYS, k=self.random.randint(1, 8))
        elements = [Element(self.queue, b"%d" % i, partition=key) for i, key in enumerate(keys)]
        (answer,) = self.calls.put([Put(self.client, elements)])
        for key, message_id in zip(keys, answer.message_ids, strict=True):
            self.entries[message_id] = Entry(message_id, key)
        self.put_count += len(keys)

    def join(self) -> None:
        if len(self.members) < CONSUMERS_MAX:
            self.members.append(self.consuming.join(self.client, self.queue))

    def leave(self) -> None:
        self._end(counted=False)

    def crash(self) -> None:
        self._end(counted=True)

    def _end(self, counted: bool) -> None:
        if len(self.members) < 2 and self.random.random() < 0.7:
            return
        if not self.members:
            return
        gone = self.members.pop(self.random.randrange(len(self.members)))
        self.consuming.leave(gone, counted=counted)
        begun = {}
        for entry in self.leased(gone):
            # Of a partition the first one alone can have been begun.
            first = begun.setdefault(entry.key or entry.message_id, entry)
            self.give_back(entry, counted and first is entry)

    def claim(self) -> None:
        some = [member for member in self.members if self.random.random() < 0.7]
        if some:
            claimed = self.consuming.claim(*some, count=self.random.randint(1, 6))
            assert claimed.errors == {}
            by_consumer: dict[int, list[Lease]] = {}
            for lease in claimed.leases:
                by_consumer.setdefault(lease.consumer.consumer_id, []).append(lease)
                self.hand_over(lease)
            self.seen["claimed"] += len(claimed.leases)

    def acknowledge(self) -> None:
        entry = self._some_leased()
        if entry is not None and entry.lease is not None:
            assert self.consuming.ack(self.client, entry.lease) == [None]
            del self.entries[entry.message_id]
            self.acknowledged += 1
            self.seen["acknowledged"] += 1

    def answer_late(self) -> None:
        if self.stale:
            lease = self.stale.pop(self.random.randrange(len(self.stale)))
            assert self.consuming.ack(self.client, lease, number=0) == [LEASE_LOST]
            self.seen["late"] += 1

    def nack(self) -> None:
        entry = self._some_leased()
        if entry is None or entry.lease is None:
            return
        failed = self.random.random() < 0.5
        followers = self.followers(entry)
        assert self.consuming.nack(self.client, entry.lease, failed=failed) == [None]
        self.give_back(entry, failed)
        for follower in followers:
            self.give_back(follower, False)
            self.seen["followed"] += 1

    def expire(self) -> None:
        entry = self._some_leased()
        if entry is None or entry.lease is None:
            return
        self.calls.connection.execute("UPDATE telesto.jobs SET position = 0 WHERE job = 'leases'")
        self.calls.connection.execute(
            "UPDATE telesto.leases SET deadline = now() - interval '1 day' WHERE message_id = %s",
            (entry.message_id,),
        )
        followers = self.followers(entry)
        assert self.consuming.sweep()["done"] == 1
        self.give_back(entry, True)
        for follower in followers:
            self.give_back(follower, False)
        self.seen["expired"] += 1

    def sweep(self) -> None:
        self.consuming.sweep("partitions")

    def _some_leased(self) -> Entry | None:
        """Mostly the first one that is leased of a partition, as consumers answer in order."""
        leased = self.leased()
        if not leased:
            return None
        entry = self.random.choice(leased)
        if self.random.random() < 0.8:
            entry = next(other for other in leased if other.key == entry.key)
        return entry

    # ------------------------------------------------------------------ the walk

    def run(self, steps: int) -> None:
        happenings = [self.put] * 4 + [self.claim] * 6 + [self.acknowledge] * 8 + [self.nack] * 2
        happenings += [self.join, self.leave, self.crash, self.expire, self.answer_late, self.sweep]
        for _ in range(steps):
            self.random.choice(happenings)()
            depth = sum(entry.lease is None for entry in self.entries.values())
            assert self.calls.statistics(self.queue)["depth"] == depth

    def finish(self) -> None:
        """Consume what is left: nothing may be stuck."""
        self.join()
        idle = 0
        while self.entries and idle < 5:
            before = len(self.entries)
            claimed = self.consuming.claim(*self.members, count=10)
            for lease in claimed.leases:
                self.hand_over(lease)
            for entry in self.leased():
                assert entry.lease is not None
                assert self.consuming.ack(self.client, entry.lease, number=0) == [None]
                del self.entries[entry.message_id]
            idle = 0 if len(self.entries) < before else idle + 1
        assert self.entries == {}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_partitions_agree_with_the_model(calls: Calls, database_url: str, seed: int) -> None:
    walk = Walk(calls, seed)
    walk.join()
    walk.run(STEPS)
    with psycopg.connect(database_url) as connection:
        assert find_contradictions(connection) == []
    walk.finish()
    for _ in range(3):
        walk.sweep()
    with psycopg.connect(database_url) as connection:
        assert find_contradictions(connection) == []
        left = connection.execute("SELECT count(*) FROM telesto.partitions").fetchone()
    assert left == (0,)
    # What never came about was not compared.
    assert min(walk.seen[kind] for kind in ("claimed", "acknowledged")) > 5, walk.seen
