"""One consumer: what it may have, and what it has."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from telesto.middleware.conduct import ENDLESS, Conduct, Patience
from telesto.middleware.requests import Client, Line
from telesto.protocol.packets import LeaseRef

#: In the place of a number of bytes: any number.
UNLIMITED_BYTES = 1 << 62


class LeaseKey(NamedTuple):
    """A message that a consumer has."""

    lease_id: int
    message_id: int


class Consumer:
    """A consumer of a queue, for as long as its connection lives.

    Attributes:
        consumer_id: identifies it in the database.
        queue_id: the queue.
        line: its connection.
        client: who it is.
        epoch: rises when a claim for it got lost, so that the database refuses that one if it comes late.
        seen_claim: the last claim by which something came for it.
        ready: partitions of its own hold more for it.
        ended: it is not a member any more.
        conduct: how it behaves.
        suspended: it is given nothing until the database knows that it is slow.
        touched_at: when it touched messages last.
    """

    __slots__ = (
        "_bytes",
        "_credit_bytes",
        "_credit_messages",
        "_held",
        "client",
        "conduct",
        "consumer_id",
        "ended",
        "epoch",
        "line",
        "queue_id",
        "ready",
        "seen_claim",
        "suspended",
        "touched_at",
    )

    def __init__(
        self,
        consumer_id: int,
        queue_id: int,
        line: Line,
        messages: int,
        size: int,
        patience: Patience = ENDLESS,
    ) -> None:
        self.consumer_id = consumer_id
        self.queue_id = queue_id
        self.line = line
        self.client: Client = line.client
        self.epoch = 0
        self.seen_claim = 0
        self.ready = False
        self.ended = False
        self.conduct = Conduct(patience)
        self.suspended = False
        self.touched_at = 0.0
        # By message the bytes of its body, and when it was given or touched.
        self._held: dict[LeaseKey, tuple[int, float]] = {}
        self._bytes = 0
        self.set_credit(messages, size)

    def set_credit(self, messages: int, size: int) -> None:
        """Sets how many messages and bytes of bodies it may have at a time; 0 bytes for any number."""
        self._credit_messages = messages
        self._credit_bytes = size or UNLIMITED_BYTES

    @property
    def paused(self) -> bool:
        """It has no credit."""
        return self._credit_messages == 0

    @property
    def held(self) -> int:
        """How many messages it has."""
        return len(self._held)

    @property
    def room(self) -> int:
        """How many more messages it may be given now."""
        if self.ended or self.suspended or self.line.closed or self.line.held:
            return 0
        if self._bytes >= self._credit_bytes:
            return 0
        return max(0, self._credit_messages - len(self._held))

    @property
    def room_bytes(self) -> int:
        """How many more bytes of bodies."""
        return max(0, self._credit_bytes - self._bytes)

    def add(self, key: LeaseKey, size: int, claim_id: int) -> None:
        """It was given a message by a claim."""
        self._held[key] = size, time.monotonic()
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
        self._bytes -= held[0]
        return True

    def since(self, key: LeaseKey) -> float | None:
        """When it was given a message, or has touched it last; None when it does not have it."""
        held = self._held.get(key)
        return None if held is None else held[1]

    def touched(self, keys: Iterable[LeaseKey]) -> None:
        """It has touched messages, when it was heard last."""
        for key in keys:
            held = self._held.get(key)
            if held is not None:
                self._held[key] = held[0], self.touched_at

    def clear(self) -> list[LeaseRef]:
        """It has nothing any more; returns what it had."""
        held = list(self.refs(self._held))
        self._held.clear()
        self._bytes = 0
        return held

    def refs(self, keys: Iterable[LeaseKey]) -> Iterable[LeaseRef]:
        """The names of messages on the wire."""
        return (LeaseRef(self.consumer_id, key.lease_id, key.message_id) for key in keys)
