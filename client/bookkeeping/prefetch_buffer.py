"""What was pushed to a consumer and waits until the application is given it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from telesto.client.models import Message


class PrefetchBuffer:
    """The messages of a consumer that wait, in order.

    Attributes:
        by_partition: of each partition one is given at a time: what comes behind it waits until it has ended.
    """

    def __init__(self) -> None:
        self.by_partition = False
        self._line: deque[Message] = deque()
        # Of the partitions of which one is given, or stands in _next: what is behind it.
        self._behind: dict[tuple[int, str], deque[Message]] = {}
        self._next: deque[Message] = deque()

    def __len__(self) -> int:
        return len(self._next) + len(self._line) + sum(map(len, self._behind.values()))

    def add(self, message: Message) -> None:
        """A message came."""
        self._line.append(message)

    def take(self) -> Message | None:
        """The next message that may be given; None when there is none."""
        if self._next:
            return self._next.popleft()
        while self._line:
            message = self._line.popleft()
            partition = self._partition_of(message)
            if partition is None:
                return message
            if partition not in self._behind:
                self._behind[partition] = deque()
                return message
            self._behind[partition].append(message)
        return None

    def put_back(self, message: Message) -> None:
        """A message was not given after all: it comes next, but after those before it in its partition."""
        if self.by_partition:
            self._next.appendleft(message)
            return
        before = [at for at, other in enumerate(self._line) if _comes_before(other, message)]
        self._line.insert(before[-1] + 1 if before else 0, message)

    def ended(self, message: Message) -> None:
        """A message that was given is worked on no more: the next one of its partition may be given."""
        partition = self._partition_of(message)
        if partition is not None:
            self._advance(partition)

    def messages(self) -> list[Message]:
        """All that waits."""
        return [
            *self._next,
            *(message for behind in self._behind.values() for message in behind),
            *self._line,
        ]

    def remove(self, is_gone: Callable[[Message], bool]) -> list[Message]:
        """Takes out what is gone; returns it."""
        removed = [message for message in self.messages() if is_gone(message)]
        if not removed:
            return []
        ids = {id(message) for message in removed}
        freed = [self._partition_of(message) for message in self._next if id(message) in ids]
        for waiting in (self._next, self._line, *self._behind.values()):
            kept = [message for message in waiting if id(message) not in ids]
            waiting.clear()
            waiting.extend(kept)
        for partition in freed:
            if partition is not None:
                self._advance(partition)
        return removed

    def shorten(self, count: int, begun: set[int]) -> list[Message]:
        """Takes out what stands behind the first ``count``; returns it.

        Of a partition all goes or nothing: it stays if its lease is one of those ``begun``.
        """
        waiting = self.messages()
        staying = begun | {message.lease.lease_id for message in waiting[:count] if message.lease is not None}
        gone = {
            id(message)
            for message in waiting[count:]
            if message.partition_key is None or (message.lease and message.lease.lease_id not in staying)
        }
        return self.remove(lambda message: id(message) in gone)

    def clear(self) -> list[Message]:
        """Takes out all that waits; returns it."""
        return self.remove(lambda message: True)

    def _advance(self, partition: tuple[int, str]) -> None:
        if behind := self._behind.get(partition):
            self._next.append(behind.popleft())
        else:
            self._behind.pop(partition, None)

    def _partition_of(self, message: Message) -> tuple[int, str] | None:
        if not self.by_partition or message.partition_key is None:
            return None
        return message.sender_id, message.partition_key


def _comes_before(message: Message, other: Message) -> bool:
    """Tells whether a message is of the same partition, under the same lease, as another one after it."""
    if message.lease is None or other.lease is None or message.partition_key is None:
        return False
    return message.lease.lease_id == other.lease.lease_id and message.message_id < other.message_id
