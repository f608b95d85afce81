"""One consumer: its credit and its messages."""

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

#: A credit without a limit of bytes.
UNLIMITED_BYTES = 1 << 62
#: After this part of the lease, a waiting message's lease is extended if the client was heard.
KEEP_AFTER = 1 / 3
#: After this part of the lease without data from the client, the message goes back.
RETURN_AFTER = 3 / 4
#: The begin of a message is noted in the database after this part of its lease, or this many seconds.
NOTE_AFTER = 1 / 4
NOTE_AFTER_S = 1.0


class LeaseKey(NamedTuple):
    """A message that a consumer has."""

    lease_id: int
    message_id: int


class HeldMessage:
    """A message that a consumer has. Times are monotonic, in seconds.

    Attributes:
        size: the bytes of its body.
        since: when it was received, begun or touched last.
        kept_at: its lease in the database began at this time or later.
        begun_at: when the application got it; 0 while it waits.
        silent: its lease should be extended, but nothing was heard from the client.
    """

    __slots__ = ("begun_at", "kept_at", "silent", "since", "size")

    def __init__(self, size: int, now: float, kept_at: float) -> None:
        self.size = size
        self.since = now
        self.kept_at = kept_at
        self.begun_at = 0.0
        self.silent = False


class Consumer:
    """A consumer of a queue. It lives as long as its connection.

    The service knows which messages it has, and which of them wait in the client: these count no attempt, and
    their leases are extended. The begin of a message is noted in the database if its handler takes long.

    Attributes:
        consumer_id: identifies it in the database.
        queue_id: the queue.
        pipeline: its connection.
        client: its client and session.
        lease_s: how long its leases last, in seconds.
        epoch: rises when the outcome of a claim for it is unknown, so that the database refuses that claim if
            it arrives late.
        seen_claim: the last claim that brought messages for it.
        ready: its partitions have more messages.
        ended: it is not a member any more.
        behaviour: its late answers and failures.
        suspended: it gets nothing until the database knows that it is slow.
        failing: it fails everything. It gets nothing, or one message to try, until it succeeds.
        rests_until: until when it gets nothing, by the monitor's clock; 0 without a timer.
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
        """It fails everything, so it gets nothing for a while."""
        self.failing = True
        self._limit = 0

    def try_one(self) -> None:
        """Its pause is over: it may get one message more than it has."""
        self._limit = min(self._credit_messages, len(self._held) + 1)

    def recover(self) -> None:
        """It has succeeded and gets messages as before."""
        self.failing = False
        self._limit = self._credit_messages

    @property
    def paused(self) -> bool:
        """Whether it has no credit, or its client is silent. Others have its partitions then."""
        return self._credit_messages == 0 or self.pipeline.silent

    @property
    def held(self) -> int:
        """How many messages it has."""
        return len(self._held)

    @property
    def free(self) -> int:
        """How many more messages it may get now."""
        pipeline = self.pipeline
        if self.ended or self.suspended or pipeline.closed or pipeline.held or pipeline.silent:
            return 0
        if self._bytes >= self._credit_bytes:
            return 0
        return max(0, self._limit - len(self._held))

    @property
    def free_bytes(self) -> int:
        """How many more bytes of bodies it may get."""
        return max(0, self._credit_bytes - self._bytes)

    def add(self, key: LeaseKey, size: int, claim_id: int, kept_at: float) -> None:
        """Adds a message from a claim. ``kept_at`` is a time before the lease began."""
        self._held[key] = self._waiting[key] = HeldMessage(size, time.monotonic(), kept_at)
        self._bytes += size
        self.seen_claim = max(self.seen_claim, claim_id)

    def has(self, key: LeaseKey) -> bool:
        """Tells whether it has a message."""
        return key in self._held

    def drop(self, key: LeaseKey) -> bool:
        """Removes a message. Returns whether it had it."""
        held = self._held.pop(key, None)
        if held is None:
            return False
        self._waiting.pop(key, None)
        self._begun.pop(key, None)
        self._bytes -= held.size
        return True

    def since(self, key: LeaseKey) -> float | None:
        """Returns when it received, began or touched a message last; None if it does not have it."""
        held = self._held.get(key)
        return None if held is None else held.since

    def begin(self, key: LeaseKey, now: float) -> None:
        """The application got a message."""
        held = self._waiting.pop(key, None)
        if held is not None:
            held.begun_at = held.since = now
            self._begun[key] = held

    def take_back(self, key: LeaseKey) -> None:
        """The application did not get a message after all."""
        held = self._held.get(key)
        if held is not None and held.begun_at:
            held.begun_at = 0.0
            self._begun.pop(key, None)
            # Its lease is checked first, however long it lasts.
            self._waiting = {key: held, **self._waiting}

    def has_begun(self, key: LeaseKey) -> bool:
        """Tells whether the application got a message that the consumer has."""
        held = self._held.get(key)
        return held is not None and bool(held.begun_at)

    @property
    def begun_ids(self) -> list[int]:
        """The messages that the application got."""
        return [key.message_id for key, held in self._held.items() if held.begun_at]

    @property
    def held_ids(self) -> list[int]:
        """The messages that it has."""
        return [key.message_id for key in self._held]

    def touched(self, keys: Iterable[LeaseKey]) -> None:
        """It touched messages at ``touched_at``."""
        for key in keys:
            held = self._held.get(key)
            if held is not None:
                held.since = self.touched_at
                self.kept(key, self.touched_at)

    # --- the time of leases --------------------------------------------------------------------

    def to_keep(self, now: float) -> list[LeaseKey]:
        """Returns the waiting messages whose leases are due for an extension and whose client was heard."""
        due: list[LeaseKey] = []
        for key, held in self._waiting.items():
            if now < held.kept_at + self.lease_s * KEEP_AFTER:
                break
            if self._heard_since(held.kept_at):
                due.append(key)
        return due

    def to_note(self, now: float) -> list[tuple[LeaseKey, float]]:
        """Returns the messages whose begin should be noted, and how long ago they were begun."""
        due: list[tuple[LeaseKey, float]] = []
        after = min(NOTE_AFTER_S, self.lease_s * NOTE_AFTER)
        for key, held in self._begun.items():
            if now >= held.begun_at + after or held.begun_at > held.kept_at + self.lease_s / 2:
                due.append((key, now - held.begun_at))
        return due

    def to_return(self, now: float) -> list[LeaseKey]:
        """Returns waiting messages whose client was silent for most of the lease.

        The client must be silent in two checks, because data from it may not have been read yet.
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
        """Tells whether the client was heard since then, or whether the middleware does not read from it."""
        return self.pipeline.heard_at >= moment or self.pipeline.drained is not None

    def kept(self, key: LeaseKey, at: float) -> None:
        """The lease of a message was extended."""
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
        """Removes all messages. Returns them."""
        held = list(self.refs(self._held))
        self._held.clear()
        self._waiting.clear()
        self._begun.clear()
        self._bytes = 0
        return held

    def tell_lost(self, lost: list[LeaseRef], failure: Failure, *, ended: bool = False) -> None:
        """Tells the client that the consumer has lost these messages, or has ended, and why."""
        fitting = max(1, (self.pipeline.frame_bytes - _LOST_OVERHEAD_BYTES) // _LEASE_REF_BYTES)
        while len(lost) > fitting:
            self.tell_lost(lost[:fitting], failure)
            lost = lost[fitting:]
        packet = LeaseLost(self.consumer_id, lost, ended, failure.code, failure.details)
        self.pipeline.send(packet.encode(0))

    def refs(self, keys: Iterable[LeaseKey]) -> Iterable[LeaseRef]:
        """Returns the leases of messages for packets."""
        return (LeaseRef(self.consumer_id, key.lease_id, key.message_id) for key in keys)
