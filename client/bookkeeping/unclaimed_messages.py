"""Messages that were handed over to this client and that no call waits for.

They come from reads that were cancelled or whose caller gave up, and from takeovers: what an earlier session,
perhaps of a process that died, took and did not confirm. The next matching reads get them first; what is not
read in time is given back to its queue.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Collection
from typing import Any

from telesto.client.calls.queue_calls import TakingCall
from telesto.client.models import HandOverId, Message
from telesto.protocol.packets import ReadMode


def _by_priority(message: Message) -> tuple[int, int]:
    return -message.priority, message.message_id


class UnclaimedMessages:
    """Holds at most ``most`` messages, each for ``hold`` seconds.

    Attributes:
        messages: those that it holds.
    """

    def __init__(self, hold: float, most: int) -> None:
        self._hold = hold
        self._most = most
        self._queues: dict[int, list[Message]] = {}
        self.messages: dict[HandOverId, Message] = {}
        self._ends: deque[tuple[float, HandOverId]] = deque()

    def __len__(self) -> int:
        return len(self.messages)

    def __contains__(self, hand_over: HandOverId) -> bool:
        return hand_over in self.messages

    @property
    def free(self) -> int:
        """How many more messages it may hold."""
        return self._most - len(self.messages)

    @property
    def due(self) -> float:
        """When the next message has to be given back, by the session's clock; infinity when there is none."""
        ends = self._ends
        while ends and ends[0][1] not in self.messages:
            ends.popleft()
        return ends[0][0] if ends else math.inf

    def place(self, message: Message, now: float) -> bool:
        """Keeps the message for a while; False when it holds as many as it may."""
        hand_over = message.hand_over
        if hand_over is None or self.free <= 0:
            return False
        self.messages[hand_over] = message
        insort(self._queues.setdefault(message.queue_id, []), message, key=_by_priority)
        self._ends.append((now + self._hold, hand_over))
        return True

    def take(self, call: TakingCall[Any]) -> list[Message]:
        """Takes the messages that the read asks for, in its order and within its limits."""
        queue = self._queues.get(call.queue_id)
        if not queue:
            return []
        if call.mode is ReadMode.TIME:
            queue = sorted(queue, key=lambda message: message.message_id)
        taken: list[Message] = []
        size = 0
        for message in filter(call.matches, queue):
            size += len(message.body)
            if taken and call.max_bytes and size > call.max_bytes:
                break
            taken.append(message)
            if len(taken) == call.max_messages:
                break
        for message in taken:
            self._remove(message)
        return taken

    def take_due(self, now: float) -> list[HandOverId]:
        """Takes what was kept long enough; returns the names."""
        due = []
        while self.due <= now:
            _, hand_over = self._ends.popleft()
            self._remove(self.messages[hand_over])
            due.append(hand_over)
        return due

    def take_all(self) -> list[HandOverId]:
        """Takes everything; returns the names."""
        names = list(self.messages)
        self.messages.clear()
        self._queues.clear()
        self._ends.clear()
        return names

    def keep_listed(self, hand_overs: Collection[HandOverId]) -> None:
        """Drops what a takeover no longer lists: it is no longer this client's."""
        for hand_over, message in list(self.messages.items()):
            if hand_over.number and hand_over not in hand_overs:
                self._remove(message)

    def _remove(self, message: Message) -> None:
        queue = self._queues[message.queue_id]
        queue.remove(message)
        if not queue:
            del self._queues[message.queue_id]
        if message.hand_over is not None:
            del self.messages[message.hand_over]
