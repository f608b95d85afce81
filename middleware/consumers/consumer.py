"""One consumer: what it may have, and what it has."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import NamedTuple

from telesto.middleware.common.failures import Failure
from telesto.middleware.consumers.behaviour import NO_LIMITS, Behaviour, BehaviourLimits
from telesto.middleware.scheduling.requests import Client, Pipeline
from telesto.protocol.packets import LeaseLost, LeaseRef

#: Bytes of a LeaseLost beside its leases, at most, and of each of them.
_LOST_OVERHEAD_BYTES = 512
_LEASE_REF_BYTES = 24

#: In the place of a number of bytes: any number.
UNLIMITED_BYTES = 1 << 62
#: When so much of its lease has passed, a message that waits has it begun anew, if the client is heard of.
KEEP_AFTER = 1 / 3
#: When so much has passed without a word of the client, the message goes back.
RETURN_AFTER = 3 / 4
#: That a message was begun is noted in the database after so much of its lease, but not later than this.
NOTE_AFTER = 1 / 4
NOTE_AFTER_S = 1.0


class LeaseKey(NamedTuple):
    """A message that a consumer has."""

    lease_id: int
    message_id: int


class HeldMessage:
    """What is known of a message that a consumer has. Times are monotonic, in seconds.

    Attributes:
        size: the bytes of its body.
        since: when it was given, begun or touched last.
        kept_at: its lease in the database began then, or later.
        begun_at: when the application was given it; 0 while it waits.
        silent: its lease is to be begun anew, but nothing was heard of the client.
    """

    __slots__ = ("begun_at", "kept_at", "silent", "since", "size")

    def __init__(self, size: int, now: float, kept_at: float) -> None:
        self.size = size
        self.since = now
        self.kept_at = kept_at
        self.begun_at = 0.0
        self.silent = False


class Consumer:
    """A consumer of a queue, for as long as its connection lives.

    The service knows what it has, and what of that waits: the application was not given it, so it does not
    count, and its lease goes on. What was begun is noted in the database when it takes longer.

    Attributes:
        consumer_id: identifies it in the database.
        queue_id: the queue.
        pipeline: its connection.
        client: who it is.
        lease_s: how long it may take for a message, in seconds.
        epoch: rises when a claim for it got lost, so that the database refuses that one if it comes late.
        seen_claim: the last claim by which something came for it.
        ready: partitions of its own hold more for it.
        ended: it is not a member any more.
        behaviour: its late answers and failures.
        suspended: it is given nothing until the database knows that it is slow.
        failing: it fails everything: it is given nothing, or one message to try, until it succeeds.
        rests_until: how long it is given nothing, by the monitor's clock; 0 when no timer waits for that.
        touched_at: when it touched messages last.
    """

    __slots__ = (
        "_begun",
        "_bytes",
        "_credit_bytes",
        "_credit_messages",
        "_held",
        "_limit",
        "_waiting",
        "behaviour",
        "client",
        "consumer_id",
        "ended",
        "epoch",
        "failing",
        "lease_s",
        "pipeline",
        "queue_id",
        "ready",
        "rests_until",
        "seen_claim",
        "suspended",
        "touched_at",
    )

    def __init__(
        self,
        consumer_id: int,
        queue_id: int,
        pipeline: Pipeline,
        messages: int,
        size: int,
        limits: BehaviourLimits = NO_LIMITS,
        lease_s: float = math.inf,
    ) -> None:
        self.lease_s = lease_s
        self.consumer_id = consumer_id
        self.queue_id = queue_id
        self.pipeline = pipeline
        self.client: Client = pipeline.client
        self.epoch = 0
        self.seen_claim = 0
        self.ready = False
        self.ended = False
        self.behaviour = Behaviour(limits)
        self.suspended = False
        self.failing = False
        self.rests_until = 0.0
        self.touched_at = 0.0
        self._held: dict[LeaseKey, HeldMessage] = {}
        # Those that wait, by their kept_at; those whose begin the database does not know, by begun_at.
        self._waiting: dict[LeaseKey, HeldMessage] = {}
        self._begun: dict[LeaseKey, HeldMessage] = {}
        self._bytes = 0
        self._limit = messages
        self.set_credit(messages, size)

    def set_credit(self, messages: int, size: int) -> None:
        """Sets how many messages and bytes of bodies it may have at a time; 0 bytes for any number."""
        self._credit_messages = messages
        self._credit_bytes = size or UNLIMITED_BYTES
        self._limit = min(self._limit, messages) if self.failing else messages

    def rest(self) -> None:
        """It has failed everything: it is given nothing for a while."""
        self.failing = True
        self._limit = 0

    def try_one(self) -> None:
        """It has rested: it may be given one message more than it has."""
        self._limit = min(self._credit_messages, len(self._held) + 1)

    def recover(self) -> None:
        """It has succeeded: it is given messages as before."""
        self.failing = False
        self._limit = self._credit_messages

    @property
    def paused(self) -> bool:
        """It has no credit, or its client is silent: others have its partitions."""
        return self._credit_messages == 0 or self.pipeline.silent

    @property
    def held(self) -> int:
        """How many messages it has."""
        return len(self._held)

    @property
    def free(self) -> int:
        """How many more messages it may be given now."""
        pipeline = self.pipeline
        if self.ended or self.suspended or pipeline.closed or pipeline.held or pipeline.silent:
            return 0
        if self._bytes >= self._credit_bytes:
            return 0
        return max(0, self._limit - len(self._held))

    @property
    def free_bytes(self) -> int:
        """How many more bytes of bodies."""
        return max(0, self._credit_bytes - self._bytes)

    def add(self, key: LeaseKey, size: int, claim_id: int, kept_at: float) -> None:
        """It was given a message by a claim; ``kept_at`` is a moment before the lease began."""
        self._held[key] = self._waiting[key] = HeldMessage(size, time.monotonic(), kept_at)
        self._bytes += size
        self.seen_claim = max(self.seen_claim, claim_id)

    def has(self, key: LeaseKey) -> bool:
        """Tells whether it has a message."""
        return key in self._held

    def drop(self, key: LeaseKey) -> bool:
        """It does not have a message any more; returns whether it had it."""
        held = self._held.pop(key, None)
        if held is None:
            return False
        self._waiting.pop(key, None)
        self._begun.pop(key, None)
        self._bytes -= held.size
        return True

    def since(self, key: LeaseKey) -> float | None:
        """When it was given a message, has begun or touched it last; None when it does not have it."""
        held = self._held.get(key)
        return None if held is None else held.since

    def begin(self, key: LeaseKey, now: float) -> None:
        """The application is given a message."""
        held = self._waiting.pop(key, None)
        if held is not None:
            held.begun_at = held.since = now
            self._begun[key] = held

    def take_back(self, key: LeaseKey) -> None:
        """The application was not given a message after all."""
        held = self._held.get(key)
        if held is not None and held.begun_at:
            held.begun_at = 0.0
            self._begun.pop(key, None)
            # Its lease is looked at next, however long it holds yet.
            self._waiting = {key: held, **self._waiting}

    def has_begun(self, key: LeaseKey) -> bool:
        """Tells whether the application was given a message that the consumer has."""
        held = self._held.get(key)
        return held is not None and bool(held.begun_at)

    @property
    def begun_ids(self) -> list[int]:
        """The messages that the application was given."""
        return [key.message_id for key, held in self._held.items() if held.begun_at]

    @property
    def held_ids(self) -> list[int]:
        """The messages that it has."""
        return [key.message_id for key in self._held]

    def touched(self, keys: Iterable[LeaseKey]) -> None:
        """It has touched messages, when it was heard last."""
        for key in keys:
            held = self._held.get(key)
            if held is not None:
                held.since = self.touched_at
                self.kept(key, self.touched_at)

    # --- the time of leases --------------------------------------------------------------------

    def to_keep(self, now: float) -> list[LeaseKey]:
        """The waiting messages whose leases are due for renewal and whose client was heard from."""
        due: list[LeaseKey] = []
        for key, held in self._waiting.items():
            if now < held.kept_at + self.lease_s * KEEP_AFTER:
                break
            if self._heard_since(held.kept_at):
                due.append(key)
        return due

    def to_note(self, now: float) -> list[tuple[LeaseKey, float]]:
        """Messages that have been begun for a while, and how long."""
        due: list[tuple[LeaseKey, float]] = []
        after = min(NOTE_AFTER_S, self.lease_s * NOTE_AFTER)
        for key, held in self._begun.items():
            if now >= held.begun_at + after or held.begun_at > held.kept_at + self.lease_s / 2:
                due.append((key, now - held.begun_at))
        return due

    def to_return(self, now: float) -> list[LeaseKey]:
        """Messages that wait in vain, since the client has been silent for most of the lease.

        Silence counts when it is found twice: what the client has sent may not be read yet.
        """
        due: list[LeaseKey] = []
        for key, held in self._waiting.items():
            if now < held.kept_at + self.lease_s * KEEP_AFTER:
                break
            silent, held.silent = held.silent, not self._heard_since(held.kept_at)
            if silent and held.silent and now >= held.kept_at + self.lease_s * RETURN_AFTER:
                due.append(key)
        return due

    def _heard_since(self, moment: float) -> bool:
        """The client was heard since then, or it is the middleware that does not read."""
        return self.pipeline.heard_at >= moment or self.pipeline.drained is not None

    def kept(self, key: LeaseKey, at: float) -> None:
        """The lease of a message was begun anew."""
        held = self._held.get(key)
        if held is not None:
            held.kept_at = at
            held.silent = False
            if self._waiting.pop(key, None) is not None:
                self._waiting[key] = held

    def noted(self, key: LeaseKey) -> None:
        """The database knows that a message was begun."""
        self._begun.pop(key, None)

    def clear(self) -> list[LeaseRef]:
        """It has nothing any more; returns what it had."""
        held = list(self.refs(self._held))
        self._held.clear()
        self._waiting.clear()
        self._begun.clear()
        self._bytes = 0
        return held

    def tell_lost(self, lost: list[LeaseRef], failure: Failure, *, ended: bool = False) -> None:
        """Tells the client that it has lost these messages, or the consumer, and why."""
        fitting = max(1, (self.pipeline.frame_bytes - _LOST_OVERHEAD_BYTES) // _LEASE_REF_BYTES)
        while len(lost) > fitting:
            self.tell_lost(lost[:fitting], failure)
            lost = lost[fitting:]
        packet = LeaseLost(self.consumer_id, lost, ended, failure.code, failure.details)
        self.pipeline.send(packet.encode(0))

    def refs(self, keys: Iterable[LeaseKey]) -> Iterable[LeaseRef]:
        """The names of messages on the wire."""
        return (LeaseRef(self.consumer_id, key.lease_id, key.message_id) for key in keys)
