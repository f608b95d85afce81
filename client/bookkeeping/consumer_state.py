"""One consumer of a client: its settings, credit, leases, and the messages that it has and has lost."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from telesto.client import arguments
from telesto.client.bookkeeping.prefetch_buffer import PrefetchBuffer
from telesto.client.models import LeaseId
from telesto.protocol import packets
from telesto.protocol.errors import TelestoError

if TYPE_CHECKING:
    from telesto.client.bookkeeping.consumer_calls import FindToJoinCall, JoinCall, NextCall

#: How many leases that are over a consumer remembers, for messages that are still on their way.
LEASES_OVER_MAX = 1024
#: The part of a lease's time, after the last question that the service answered, in which no lease can end.
SURE = 1 / 2
#: The credit that a consumer begins with, unless the application sets it.
CREDIT_LEAST = 2
#: On Linux the monotonic clock stands still while the machine sleeps; elsewhere there is no other.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def elapsed() -> float:
    """Seconds that have passed, those included in which the process was stopped or the machine slept."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


class ConsumerState:
    """A consumer.

    Attributes:
        queue_id: the queue; 0 before it is joined.
        credit_messages, credit_bytes: what it may have at a time.
        paced: its credit follows the pace of the application.
        given: how many messages the application was given.
        given_before, counted_since: how many at the moment from which its pace is measured.
        given_at_look: how many at the last check whether it has become slower.
        look_at: when the next such check is due, by the session's clock.
        keep_alive: its leases are touched in time as long as the application has them.
        ack_in_database: its messages are acknowledged by the application's own transactions.
        consumer_id: its id on the service; 0 while it is not a member.
        lease: how long it may take for a message, in seconds.
        joins: how often it has joined; more than once after lost connections.
        buffer: what was pushed and the application was not given.
        sure_since: when the service was asked for what it has answered last, as ``elapsed`` tells.
        asking: how many answers are awaited before the application is given more.
        open: what the application has taken and not answered, with the keys of their partitions.
        over: leases of partitions that are over, and from which message on; nothing of them is to be begun.
        ended: why it gets no more messages; None while it lives.
        closed: the application has closed it.
        forgotten: the application dropped it without closing it, or stopped waiting for the close.
        stopped: nothing more is given to the application; what it has may still be answered.
        begun_at: when the application began a message last, as ``elapsed`` tells.
        slowed: how often the service found it slow.
        joining: the call that finds the queue, or makes it a member, until it is over.
    """

    def __init__(
        self,
        credit_messages: int | None,
        credit_bytes: int,
        keep_alive: bool,
        ack_in_database: bool = False,
    ) -> None:
        self.queue_id = 0
        self.paced = credit_messages is None
        self.credit_messages = (
            CREDIT_LEAST if credit_messages is None else arguments.check_count("credit", credit_messages)
        )
        self.given = self.given_before = self.given_at_look = 0
        self.counted_since = -math.inf
        self.look_at = math.inf
        self.credit_bytes = arguments.check_count("credit_bytes", credit_bytes, least=0)
        self.keep_alive = arguments.check_flag("keep_alive", keep_alive)
        self.ack_in_database = arguments.check_flag("ack_in_database", ack_in_database)
        self.consumer_id = 0
        self.lease = 0.0
        self.joins = 0
        self.buffer = PrefetchBuffer()
        self.sure_since = -math.inf
        self.asking = 0
        self.open: dict[LeaseId, str | None] = {}
        self.over: dict[int, int] = {}
        self.waiting: deque[NextCall] = deque()
        #: A list, because the state for a queue that is made anew shares it: messages of the old queue may be
        #: lost later.
        self._lost = [0]
        self.ended: TelestoError | None = None
        self.closed = False
        self.stopped = False
        self.forgotten = False
        self.slowed = 0
        self.begun_at = -math.inf
        self.touch_at = math.inf
        self.joining: FindToJoinCall | JoinCall | None = None

    def anew(self) -> ConsumerState:
        """Returns one with the same settings, which counts on."""
        credit = None if self.paced else self.credit_messages
        state = ConsumerState(credit, self.credit_bytes, self.keep_alive, self.ack_in_database)
        state.buffer.by_partition = self.buffer.by_partition
        state.joins, state.slowed, state._lost = self.joins, self.slowed, self._lost
        return state

    @property
    def lost(self) -> int:
        """How many messages it lost before it answered."""
        return self._lost[0]

    @lost.setter
    def lost(self, lost: int) -> None:
        self._lost[0] = lost

    def join_packet(self) -> packets.JoinQueue:
        """The request that makes it a member, to be sent now."""
        self.sure_since = elapsed()
        return packets.JoinQueue(self.queue_id, self.credit_messages, self.credit_bytes)

    def is_over(self, lease: LeaseId | None, partition_key: str | None) -> bool:
        """Tells whether a message of a partition follows, under its lease, one that the consumer has lost."""
        if lease is None or partition_key is None:
            return False
        return lease.message_id >= self.over.get(lease.lease_id, lease.message_id + 1)

    def lose(self, leases: Iterable[LeaseId]) -> None:
        """The consumer has lost these messages, and those that follow them in their partitions."""
        gone = set(leases)
        for lease in gone:
            first = self.over.pop(lease.lease_id, lease.message_id)
            self.over[lease.lease_id] = min(first, lease.message_id)
        while len(self.over) > LEASES_OVER_MAX:
            del self.over[next(iter(self.over))]
        self.buffer.remove(
            lambda message: message.lease in gone or self.is_over(message.lease, message.partition_key)
        )
        for lease in [lease for lease, key in self.open.items() if lease in gone or self.is_over(lease, key)]:
            del self.open[lease]
            self.lost += 1

    def is_sure(self, since: float) -> bool:
        """Tells whether no lease can be over that was begun, or confirmed, then."""
        return elapsed() - since <= self.lease * SURE

    def can_be_begun(self, lease: LeaseId, given_at: float) -> bool | None:
        """Tells whether a message that was given is still the consumer's; None if only the service knows."""
        if lease not in self.open:
            return False
        since = max(given_at, self.sure_since) if self.keep_alive else given_at
        return True if self.is_sure(since) else None
