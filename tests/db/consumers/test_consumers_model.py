"""Random calls of consumers against a model in memory: who has which message, in which order, how often."""

import os
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import psycopg
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from consumer_calls import CONSUMER_NOT_EXISTING, LEASE_LOST, Consumer, Consuming, Lease
from consumer_model import ATTEMPTS_MAX, LEASE_H, Entry, Model
from procedure_calls import SESSION_FENCED, Calls, Client, Element, Put
from telesto.db.checks.findings import find_contradictions

# How many sequences; a longer run, with other sequences each time, is a matter of this variable.
EXAMPLES = int(os.environ.get("TELESTO_TEST_CONSUMER_EXAMPLES", "0"))
STEPS = 60
HOUR_MS = 3_600_000
KEYS = [None, None, "a", "b", "c", "d"]
MEMBERS_MAX = 5
REDRIVE, DELETE_LETTERS = 0x6D, 0x6F
SWEEPS = ("delayed", "due_partitions", "expired", "expired_keyed", "partitions")

#: So much earlier is all that waits for its time.
AN_HOUR_GOES_BY = (
    "UPDATE telesto.leases SET deadline = deadline - interval '1 hour',"
    " expires_at = expires_at - interval '1 hour'"
    " WHERE ctid = ANY (ARRAY(SELECT ctid FROM telesto.leases FOR UPDATE SKIP LOCKED))",
    "UPDATE telesto.messages SET expires_at = expires_at - interval '1 hour' WHERE expires_at IS NOT NULL",
    "UPDATE telesto.delayed_messages SET due_at = due_at - interval '1 hour',"
    " expires_at = expires_at - interval '1 hour'",
    "UPDATE telesto.keyed_messages SET due_at = due_at - interval '1 hour',"
    " expires_at = expires_at - interval '1 hour'",
    "UPDATE telesto.partitions SET place = place - 3600000000 WHERE line = 4",
)
TABLES = ("messages", "delayed_messages", "keyed_messages", "leases", "dead_letters")
PLACES = " UNION ALL ".join(
    f"SELECT message_id, '{table}' AS place, attempt, redelivered FROM telesto.{table}"
    " WHERE queue_id = %(queue)s"
    for table in TABLES
)
#: Those that would take a message which failed elsewhere.
TAKERS = (
    "SELECT consumer_id FROM telesto.consumers"
    " WHERE queue_id = %s AND NOT paused AND coalesce(slow_until <= clock_timestamp(), true)"
)
#: Time goes by in hours: what is kept for others is so for the rest of its hour.
KEEP = (
    "UPDATE telesto.messages SET kept_until = clock_timestamp()"
    " + CASE WHEN message_id = ANY (%s) THEN interval '20 seconds' ELSE interval '-1 hour' END"
    " WHERE failed_by IS NOT NULL"
)
T = TypeVar("T")
Draw = Callable[..., Any]
#: What may happen, each as often as it is likely.
KINDS = (
    *["claim"] * 7,
    *["put", "acknowledge", "nack", "begin_some"] * 5,
    *["come", "hour", "leases", "letters", "keep"] * 2,
    *["hold", "let_go"] * 2,
    *[
        "change",
        "go",
        "take_over",
        "crash",
        "touch",
        "be_slow",
        "return_waiting",
        "acknowledge_for_another",
        "job",
        "ask_what_was_lost",
        "look",
    ],
)

#: Which ones, of however many there are.
several = st.lists(st.integers(0, 1 << 10), min_size=1, max_size=4)
new_messages = st.tuples(
    st.sampled_from(KEYS),
    st.integers(1, 3),  # priority
    st.sampled_from([None] * 6 + [1, 2]),  # hours of delay
    st.sampled_from([None] * 12 + [2, 5]),  # hours to live
)


@dataclass
class Member:
    """A consumer, and the last claim by which something came for it."""

    consumer: Consumer
    side: int
    seen_claim: int = 0


def _chosen(which: list[int], things: list[T]) -> list[T]:
    """Those of the things that were drawn, each once."""
    return [things[at] for at in dict.fromkeys(n % len(things) for n in which)] if things else []


def _swept(consuming: Consuming, job: str) -> dict[str, Any]:
    """Does a job whoever did it last, and looks at everything."""
    execute = consuming.calls.connection.execute
    execute("UPDATE telesto.jobs SET holder = 0, deadline = '-infinity' WHERE job = %s", (job,))
    if job != "partitions":  # its position is none of time
        execute("UPDATE telesto.jobs SET position = 0 WHERE job = %s", (job,))
    swept = consuming.sweep(job)
    assert swept["elected"]
    return swept


class ConsumerMachine(RuleBasedStateMachine):
    """The procedures and the model, step by step. Two middlewares, two clients, one queue.

    There is one rule, which does one of many things: of several rules Hypothesis leaves some out of each
    sequence, and little happens to messages that do not come and go. What is drawn does not depend on what
    happened, since what is the database's to choose is not the same when a sequence is repeated.
    """

    def __init__(self, calls: Calls, application: psycopg.Connection, seen: Counter[str]) -> None:
        super().__init__()
        self.calls = calls
        self.application = application
        self.seen = seen
        self.members: list[Member] = []
        self.stale: list[tuple[int, Lease]] = []
        #: Consumers that ended while a transaction held some of what they had, and whether that counts.
        self.ended: list[tuple[Consumer, bool]] = []

    # ------------------------------------------------------------------ begin

    @initialize(burying=st.booleans(), chance=st.floats(-1, 1))
    def begin(self, burying: bool, chance: float) -> None:
        self.calls.connection.execute("SELECT setseed(%s)", (chance,))
        self.clients = [self.calls.register() for _ in range(2)]
        self.sides = [Consuming(self.calls, f"127.0.0.1:{port}") for port in (7001, 7002)]
        self.queue = self.calls.create_queue(
            self.clients[0],
            max_attempts=ATTEMPTS_MAX,
            backoff_ms=HOUR_MS,
            backoff_max_ms=HOUR_MS,
            lease_ms=LEASE_H * HOUR_MS,
            bury_expired=burying,
            late_window_ms=24 * HOUR_MS,
        )
        self.model = Model(burying)
        self.join(0, 0)

    @rule(data=st.data())
    def step(self, data: st.DataObject) -> None:
        """Does one thing."""
        kind = data.draw(st.sampled_from(KINDS), "kind")
        getattr(self, kind)(data.draw)

    # ------------------------------------------------------------------ messages come

    def put(self, draw: Draw) -> None:
        sender = self.clients[draw(st.integers(0, 1), "sender")]
        messages = draw(st.lists(new_messages, min_size=1, max_size=8), "messages")
        elements = [
            Element(
                self.queue,
                priority=priority,
                delay_ms=None if delay is None else delay * HOUR_MS,
                life_ms=None if life is None else life * HOUR_MS,
                partition=key,
            )
            for key, priority, delay, life in messages
        ]
        (answer,) = self.calls.put([Put(sender, elements)])
        assert set(answer.errors) == {None}
        for message_id, (key, priority, delay, life) in zip(answer.message_ids, messages, strict=True):
            self.model.put(Entry(message_id, sender.client_id, key, priority), delay, life)

    # ------------------------------------------------------------------ consumers come and go

    def come(self, draw: Draw) -> None:
        self.join(draw(st.integers(0, 1), "client"), draw(st.integers(0, 1), "side"))

    def go(self, draw: Draw) -> None:
        who, counted = draw(several, "who"), draw(st.booleans(), "counted")
        for member in _chosen(who[:1], self.members):
            self.leave(member, counted)

    def take_over(self, draw: Draw) -> None:
        """The client's consumers are nobody's, until the sweep ends them."""
        client = draw(st.integers(0, 1), "client")
        self.clients[client] = self.calls.take_over(self.clients[client])

    def change(self, draw: Draw) -> None:
        """Some become slow, are paused or go on: whoever has their partitions then gets them in order."""
        slow, paused = draw(st.booleans(), "slow"), draw(st.booleans(), "paused")
        for member in _chosen(draw(several, "who")[:1], self.members):
            self.sides[0].change(member.consumer, slow=slow, paused=paused)
            self.seen.update([f"change {slow} {paused}"])

    def crash(self, draw: Draw) -> None:
        self.lose_middleware(draw(st.integers(0, 1), "side"))

    def join(self, client: int, side: int) -> None:
        """Joining ends what the client had in earlier sessions."""
        if len(self.members) < MEMBERS_MAX or all(self._is_orphan(member) for member in self.members):
            consumer = self.sides[side].join(self.clients[client], self.queue)
            self._end(
                [member for member in self.members if self._is_fenced(member, client)], True, known=False
            )
            self.members.append(Member(consumer, side))

    def leave(self, member: Member, counted: bool) -> None:
        self.sides[0].leave(member.consumer, counted=counted, begun=self._begun())
        self._end([member], counted)

    def lose_middleware(self, side: int) -> None:
        """It is not there any more, and starts again as another one."""
        self.calls.connection.execute(
            "SELECT telesto.forget_middlewares(%s)", ([self.sides[side].middleware],)
        )
        for member in self.members:
            if member.side == side:
                member.side = -1 - side
        self.sides[side] = Consuming(self.calls, f"127.0.0.1:{7001 + side}")

    def _is_fenced(self, member: Member, client: int | None = None) -> bool:
        mine = member.consumer.client
        wanted = self.clients if client is None else [self.clients[client]]
        return any(mine.client_id == now.client_id and mine.session != now.session for now in wanted)

    def _end(self, members: list[Member], counted: bool, *, known: bool = True) -> None:
        for member in members:
            self.members.remove(member)
            self.model.untold.pop(member.consumer.consumer_id, None)
            entries = [entry for entry in self.model.leased(member.consumer) if not entry.held]
            self._give_back(entries, "lost", 0, counted, known=known)
            self.seen["ended with messages"] += bool(entries)
            if self.model.leased(member.consumer):
                self.ended.append((member.consumer, counted))

    # ------------------------------------------------------------------ messages go out

    def claim(self, draw: Draw) -> None:
        """Some of them ask; now and then the answer is lost, and what it gave is found out."""
        who, count, lost = (
            draw(several, "who"),
            draw(st.integers(1, 8), "count"),
            draw(st.integers(0, 5), "lost"),
        )
        if all(self._is_orphan(member) for member in self.members):
            self.join(who[0] % 2, count % 2)
        self._claim(_chosen(who, self.members), count, lost == 5)

    def _claim(self, members: list[Member], count: int, lost: bool = False) -> bool:
        consumers = [member.consumer for member in members]
        kept = [entry.message_id for entry in self.model.waiting() if entry.kept == self.model.now]
        self.calls.connection.execute(KEEP, (kept,))
        takers = self._takers()
        claimed = self.sides[0].claim(*consumers, count=count)
        assert self._takers() == takers
        fenced = [member for member in members if self._is_fenced(member)]
        assert claimed.errors == {member.consumer.consumer_id: SESSION_FENCED for member in fenced}
        assert not {lease.consumer.consumer_id for lease in claimed.leases} & set(claimed.errors)
        served = {consumer.consumer_id for consumer in consumers} - set(claimed.errors)
        self.seen["kept for others"] += self.model.give(claimed.leases, count, served, takers)
        self.seen["claimed"] += len(claimed.leases)
        self.seen["claimed of partitions"] += sum(
            lease.message["partition_key"] is not None for lease in claimed.leases
        )
        if lost:
            self._recover(members, claimed.leases)
        for member in members:
            for lease in claimed.leases:
                if lease.consumer.consumer_id == member.consumer.consumer_id:
                    member.seen_claim = max(member.seen_claim, lease.message["claim_id"])
        return bool(claimed.leases)

    def _takers(self) -> set[int]:
        rows = self.calls.connection.execute(TAKERS, (self.queue,)).fetchall()
        return {consumer_id for row in rows for consumer_id in row.values()}

    def _recover(self, members: list[Member], leases: list[Lease]) -> None:
        """The middleware raises the epoch and asks for all that it has not seen; the old one is refused."""
        for member in members:
            before, epoch = member.consumer, member.consumer.epoch + 1
            found = self.sides[0].recover([before], epoch, member.seen_claim)
            expected = [lease.ref for lease in leases if lease.consumer is before]
            assert [lease.ref for lease in found.leases] == expected
            if not self._is_fenced(member):
                refused = self.sides[0].claim(before)
                assert refused.errors == {before.consumer_id: CONSUMER_NOT_EXISTING}
            member.consumer = replace(before, epoch=epoch)
            for entry in self.model.leased(before):
                assert entry.lease is not None
                entry.lease = replace(entry.lease, consumer=member.consumer)
            self.seen["recovered"] += len(found.leases)

    # ------------------------------------------------------------------ answers

    def acknowledge(self, draw: Draw) -> None:
        which, late = draw(several, "which"), draw(st.booleans(), "late")
        self._acknowledge(*self._some(which), late)

    def nack(self, draw: Draw) -> None:
        which, failed = draw(several, "which"), draw(st.booleans(), "failed")
        delay = draw(st.sampled_from([None, None, 0, 0, 1, 2]), "delay")
        self._nack(*self._some(which), failed, delay)

    def touch(self, draw: Draw) -> None:
        self._touch(*self._some(draw(several, "which")))

    def acknowledge_for_another(self, draw: Draw) -> None:
        client, leases = self._some(draw(several, "which"))
        (other,) = (other for other in self.clients if other is not client)
        if leases:
            assert self.sides[0].ack(other, *leases) == [LEASE_LOST] * len(leases)

    def _acknowledge(self, client: Client, leases: list[Lease], late: bool) -> None:
        if late:
            leases = leases + [lease for owner, lease in self.stale[-2:] if owner == client.client_id]
        if not leases:
            return
        found = [None if self._is_held(lease) else self.model.holds(lease) for lease in leases]
        answers = self.sides[0].ack(client, *leases)
        assert answers == [None if entry is not None else LEASE_LOST for entry in found]
        for entry, lease in zip(found, leases, strict=True):
            if entry is not None:
                self.model.end(entry)
                self.stale.append((client.client_id, lease))
        self.seen["acknowledged"] += answers.count(None)
        self.seen["late"] += answers.count(LEASE_LOST)

    def _nack(self, client: Client, leases: list[Lease], failed: bool, delay: int | None) -> None:
        if not leases:
            return
        late = [lease for owner, lease in self.stale[-1:] if owner == client.client_id]
        delay_ms = None if delay is None else delay * HOUR_MS
        answers = self.sides[0].nack(
            client, *leases, *late, failed=failed, delay_ms=delay_ms, begun=self._begun()
        )
        expected = [LEASE_LOST if self._is_held(lease) else None for lease in leases]
        assert answers == expected + [LEASE_LOST] * len(late)
        # The backoff is an hour at most.
        wait_h = delay if delay is not None else int(failed)
        entries = [self.model.entries[lease.message_id] for lease in leases if not self._is_held(lease)]
        self.seen["given back"] += len(entries)
        self.seen["followed"] += len(self._give_back(entries, "failed", wait_h, failed)) - len(entries)

    def _touch(self, client: Client, leases: list[Lease]) -> None:
        if not leases:
            return
        late = [lease for owner, lease in self.stale[-1:] if owner == client.client_id]
        answers = self.sides[0].touch(client, *leases, *late)
        assert answers == [None] * len(leases) + [LEASE_LOST] * len(late)
        for lease in leases:
            if not self._is_held(lease):
                self.model.entries[lease.message_id].deadline = self.model.now + LEASE_H

    # ------------------------------------------------------------------ what is begun, and what waits

    def begin_some(self, draw: Draw) -> None:
        """Applications are given messages; only their middleware hears of it."""
        for entry in _chosen(draw(several, "which"), self.model.leased()):
            entry.begun = True

    def keep(self, draw: Draw) -> None:
        """Leases hold on; of those that were begun the database notes it."""
        which, hours = draw(several, "which"), draw(st.integers(0, LEASE_H - 1), "hours")
        chosen = _chosen(which, self.model.leased())
        for begun in (False, True):
            entries = [entry for entry in chosen if entry.begun is begun and entry.lease is not None]
            leases = [entry.lease for entry in entries if entry.lease is not None]
            stale = [lease for _, lease in self.stale[-1:]]
            if not leases:
                continue
            answers = self.sides[0].keep(*leases, *stale, begun_ms=hours * HOUR_MS if begun else None)
            held = [self._is_held(lease) for lease in leases]
            assert answers == [-1 if is_held else None for is_held in held] + [LEASE_LOST] * len(stale)
            for entry, is_held in zip(entries, held, strict=True):
                if not is_held:
                    entry.deadline = max(entry.deadline, self.model.now + LEASE_H - hours * begun)
                    entry.noted |= begun
            self.seen["kept"] += len(leases)

    def be_slow(self, draw: Draw) -> None:
        """An application begins messages, and takes longer than it may."""
        which = draw(several, "which")
        entries = [entry for entry in _chosen(which, self.model.leased()) if not entry.held]
        leases = [entry.lease for entry in entries if entry.lease is not None]
        if not leases:
            return
        self.sides[0].keep(*leases, begun_ms=0)
        for entry in entries:
            entry.begun = entry.noted = True
            entry.deadline = self.model.now + LEASE_H
        for _ in range(LEASE_H):
            self.let_an_hour_go_by()
        self.sweep_leases()

    def return_waiting(self, draw: Draw) -> None:
        """What has waited at silent consumers comes back, and that is no attempt."""
        chosen = _chosen(draw(several, "which"), self.model.leased())
        entries = [entry for entry in chosen if not entry.begun and not entry.noted and not entry.held]
        if entries:
            leases = [entry.lease for entry in entries if entry.lease is not None]
            self.sides[0].return_waiting(*leases)
            self._give_back(entries, "late", 0, False, known=False)
            self.seen["waited in vain"] += len(entries)

    # ------------------------------------------------------------------ an application's transaction

    def hold(self, draw: Draw) -> None:
        """An application acknowledges in its own transaction, which stays open."""
        _, leases = self._some(draw(several, "which"))
        for lease in [lease for lease in leases if not self._is_held(lease)]:
            self.application.execute("SELECT telesto.ack(%s, %s, %s)", lease.ref)
            self.model.entries[lease.message_id].held = True

    def let_go(self, draw: Draw) -> None:
        self._end_transaction(draw(st.booleans(), "commit"))

    def _end_transaction(self, commit: bool) -> None:
        if commit:
            self.application.commit()
        else:
            self.application.rollback()
        for entry in [entry for entry in self.model.leased() if entry.held]:
            entry.held = False
            self.seen["committed" if commit else "rolled back"] += 1
            if commit and entry.lease is not None:
                self.stale.append((entry.lease.consumer.client.client_id, entry.lease))
                self.model.end(entry)

    def _is_held(self, lease: Lease) -> bool:
        entry = self.model.holds(lease)
        return entry is not None and entry.held

    # ------------------------------------------------------------------ time

    def hour(self, _draw: Draw) -> None:
        self.let_an_hour_go_by()

    def leases(self, _draw: Draw) -> None:
        self.sweep_leases()

    def job(self, draw: Draw) -> None:
        self.sweep(draw(st.sampled_from(SWEEPS), "job"))

    def let_an_hour_go_by(self) -> None:
        for statement in AN_HOUR_GOES_BY:
            self.calls.connection.execute(statement.encode())
        self.model.pass_hour()

    def sweep_leases(self) -> None:
        """What ran out comes back, and what those have that are gone."""
        self._sweep("leases")
        late = [entry for entry in self.model.leased() if entry.deadline <= self.model.now and not entry.held]
        members = {member.consumer.consumer_id for member in self.members}
        self.seen["ran out begun"] += sum(entry.noted for entry in late)
        for lease in self._give_back(late, "late", 0, True, known=False):
            if lease.consumer.consumer_id in members:
                self.model.untold.setdefault(lease.consumer.consumer_id, set()).add(lease.ref)
        self.seen["ran out"] += len(late)
        self._end([member for member in self.members if self._is_orphan(member)], True, known=False)
        for consumer, counted in self.ended:
            left = [entry for entry in self.model.leased(consumer) if not entry.held]
            for entry in left:  # a transaction was about to acknowledge it
                entry.begun = True
            self._give_back(left, "lost", 0, counted)
            self.seen["came back after its consumer"] += len(left)
        self.ended = [each for each in self.ended if self.model.leased(each[0])]

    def sweep(self, job: str) -> None:
        self._sweep(job)
        if job == "delayed":
            self.model.surface()
        elif job.startswith("expired"):
            before = len(self.model.waiting())
            self.model.expire(keyed=job == "expired_keyed")
            self.seen["expired"] += before - len(self.model.waiting())

    def ask_what_was_lost(self, draw: Draw) -> None:
        side = draw(st.integers(0, 1), "side")
        told = self.sides[side].lost()
        mine = {member.consumer.consumer_id for member in self.members if member.side == side}
        assert len(set(told)) == len(told)
        expected = {ref for consumer_id in mine for ref in self.model.untold.pop(consumer_id, ())}
        assert {ref for ref in told if ref[0] in mine} == expected

    def _sweep(self, job: str) -> None:
        assert not _swept(self.sides[1], job)["more"]

    def _is_orphan(self, member: Member) -> bool:
        return member.side < 0 or self._is_fenced(member)

    # ------------------------------------------------------------------ dead letters

    def letters(self, draw: Draw) -> None:
        which, redriving = draw(several, "which"), draw(st.booleans(), "redriving")
        self._settle_letters([entry.message_id for entry in _chosen(which, self.model.dead())], redriving)

    def _settle_letters(self, message_ids: list[int], redriving: bool) -> None:
        method = REDRIVE if redriving else DELETE_LETTERS
        answer = self.calls.numbered(
            "settle_letters", self.clients[0], method, self.queue, message_ids, redriving, 1_000, 0
        )
        assert (answer["error"], answer["settled"]) == (None, len(message_ids))
        for message_id in message_ids:
            entry = self.model.entries[message_id]
            self.seen[f"dead {entry.dead}"] += 1
            if redriving:
                self.model.redrive(entry)
            else:
                self.model.end(entry)

    # ------------------------------------------------------------------ helpers

    def _some(self, which: list[int]) -> tuple[Client, list[Lease]]:
        """A client in its present session, and some of what its consumers have, each once."""
        leases = [entry.lease for entry in _chosen(which, self.model.leased()) if entry.lease is not None]
        if not leases:
            return self.clients[0], []
        client_id = leases[0].consumer.client.client_id
        (client,) = (client for client in self.clients if client.client_id == client_id)
        return client, [lease for lease in leases if lease.consumer.client.client_id == client_id]

    def _begun(self) -> list[Lease]:
        """What applications were given, as middlewares know it."""
        return [entry.lease for entry in self.model.leased() if entry.begun and entry.lease is not None]

    def _give_back(
        self, entries: list[Entry], reason: str, wait_h: int, counted: bool, *, known: bool = True
    ) -> list[Lease]:
        """Messages come back; returns the leases that are over."""
        before = {entry.message_id: entry.lease for entry in self.model.leased()}
        followers = self.model.give_back(entries, reason, wait_h, counted, known=known)
        over = [lease for entry in [*entries, *followers] if (lease := before[entry.message_id]) is not None]
        self.stale += [(lease.consumer.client.client_id, lease) for lease in over]
        return over

    # ------------------------------------------------------------------ comparisons

    @invariant()
    def every_message_is_in_its_place(self) -> None:
        if not hasattr(self, "model"):
            return
        rows = self.calls.connection.execute(PLACES.encode(), {"queue": self.queue}).fetchall()
        assert sorted(tuple(row.values()) for row in rows) == [
            self.model.entries[message_id].row for message_id in sorted(self.model.entries)
        ]
        statistics = self.calls.statistics(self.queue)
        assert statistics["depth"] == len(self.model.waiting())
        assert statistics["leased"] == len(self.model.leased())

    def sweep_all(self) -> None:
        """What middlewares do every now and then."""
        self.sweep_leases()
        for job in SWEEPS:
            self.sweep(job)

    def look(self, _draw: Draw) -> None:
        if any(not self._is_orphan(member) for member in self.members):
            self.nothing_waits_in_vain()

    def nothing_waits_in_vain(self) -> None:
        """Those who live get all that is ready, unless it comes behind what somebody has."""
        self.sweep_all()
        while self.members and self._claim(self.members, 20):
            pass
        held = {entry.partition for entry in self.model.leased()}
        blocked = set()
        for entry in self.model.waiting():
            if entry.partition is None:
                assert not self.model.is_ready(entry), f"{entry} waits in vain"
            elif not self.model.is_expired(entry):
                is_behind = entry.partition in blocked | held
                assert is_behind or not self.model.is_ready(entry), f"{entry} waits in vain"
                blocked.add(entry.partition)

    def teardown(self) -> None:
        """In the end everything is acknowledged, by one consumer, and nothing is left."""
        if not hasattr(self, "model"):
            return
        self._end_transaction(commit=False)
        if dead := [entry.message_id for entry in self.model.dead()]:
            self._settle_letters(dead, redriving=True)
        self.lose_middleware(0)
        self.lose_middleware(1)
        self.sweep_all()
        self.join(0, 0)
        hours = 0
        while self.model.entries:
            self.nothing_waits_in_vain()
            while leased := self.model.leased():
                self._acknowledge(*self._some(list(range(len(leased)))), late=False)
            if dead := [entry.message_id for entry in self.model.dead()]:
                self._settle_letters(dead, redriving=False)
            self.let_an_hour_go_by()
            hours += 1
            assert hours < 10, self.model.entries
        self.every_message_is_in_its_place()
        self.sides[0].leave(*[member.consumer for member in self.members])


#: What has to come about, so that it is compared.
COMPARED = (
    "claimed",
    "claimed of partitions",
    "recovered",
    "acknowledged",
    "late",
    "given back",
    "followed",
    "ran out",
    "ran out begun",
    "kept",
    "kept for others",
    "waited in vain",
    "ended with messages",
    "came back after its consumer",
    "committed",
    "rolled back",
    "expired",
    "dead failed",
    "dead expired",
)


def test_consumers_agree_with_the_model(calls: Calls, other: psycopg.Connection, database_url: str) -> None:
    seen: Counter[str] = Counter()
    # What never came about was not compared. What comes about depends on the time that calls take, too.
    for rounds in range(5):
        run_state_machine_as_test(
            lambda: ConsumerMachine(calls, other, seen),
            settings=settings(
                max_examples=EXAMPLES or 40,
                stateful_step_count=STEPS,
                derandomize=not EXAMPLES and not rounds,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
        if all(seen[kind] for kind in COMPARED):
            break
    consuming = Consuming(calls)
    for _ in range(3):  # partitions are forgotten when they have been empty for a turn
        _swept(consuming, "partitions")
    with psycopg.connect(database_url) as connection:
        assert find_contradictions(connection) == []
        assert connection.execute("SELECT count(*) FROM telesto.partitions").fetchone() == (0,)
    assert all(seen[kind] for kind in COMPARED), seen
