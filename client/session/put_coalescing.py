"""Puts that wait next to each other are sent as one request.

An application that puts from many tasks or threads at a time has many puts in line when the client gets to
write. As requests of their own, each would have a frame, a number, a record in the database and a
confirmation; together they have one of each. No put waits for others: what goes together is what is in line
by then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from telesto.client.calls.queue_calls import SENT, WAITING, Call, PutCall, PutManyCall
from telesto.client.errors import ProtocolViolationError
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import InternalError
from telesto.protocol.headers import content_bytes

#: Puts together are no longer than this, for large messages gain nothing by it.
_JOINT_BYTES = 128 * 1024
#: Bytes of a message in a request beside its body, its headers and its keys, at most.
_OVERHEAD_BYTES = 64
#: Bytes of a key, at most: 255 characters of four bytes.
_KEY_BYTES = 1024


@dataclass(frozen=True, slots=True)
class JointLimits:
    """What one request of several puts may hold.

    Attributes:
        messages: how many.
        size: their bytes in all.
        body: the largest body, its headers included; a larger one goes alone, so that a refusal of it
            concerns no other.
    """

    messages: int
    size: int
    body: int

    @classmethod
    def of(cls, options: ClientOptions, service: packets.HelloResponse) -> JointLimits:
        """The limits within which a middleware refuses no put because of its neighbours."""
        assert service.max_body is not None
        assert service.max_put_elements is not None
        return cls(
            min(options.put_batch_messages, service.max_put_elements),
            min(options.put_batch_bytes, service.max_frame // 2, _JOINT_BYTES),
            service.max_body,
        )


#: Every put goes alone.
ALONE = JointLimits(1, 0, 0)


class JointPut(PutManyCall):
    """Several puts in one request. The calls wait for it with the phase SENT.

    Attributes:
        parts: the puts, in the order of their calls.
        untaken: how many callers have not taken their result yet; then the request can be confirmed.
    """

    def __init__(self, parts: list[PutCall], on_done: Callable[[JointPut], None]) -> None:
        # A put has the attributes of a message and its queue, so that none need be made.
        super().__init__(parts[0].queue_id, cast("list[packets.QueuedMessage]", parts))
        self.parts = parts
        self.on_done = on_done
        self.untaken = 0
        self.order = parts[0].order
        self.tries = max(part.tries for part in parts)
        for part in parts:
            part.phase = SENT
            part.joint = self

    @property
    def open_parts(self) -> list[PutCall]:
        """The puts whose callers still wait."""
        return [part for part in self.parts if self._has(part)]

    def _has(self, part: PutCall) -> bool:
        return part.phase == SENT and part.joint is self

    def share(self) -> list[PutCall]:
        """Gives its answer to those that still wait; returns them."""
        if self.error is None and len(self.response.results) != len(self.parts):
            count = len(self.response.results)
            self.error = ProtocolViolationError(
                f"{count} results answer {len(self.parts)} messages",
                method=self.method,
                queue_id=self.queue_id,
            )
        waiting = []
        for index, part in enumerate(self.parts):
            if self._has(part):
                part.session = self.session
                part.number = self.number
                part.response = self.response
                part.at = index
                part.error = None if self.error is None else copy(self.error)
                waiting.append(part)
        self.untaken = len(waiting)
        # Nothing refers to itself in a circle, so that all is freed at once.
        self.parts, self.messages = [], []
        return waiting

    def dissolve(self) -> list[PutCall]:
        """Gives back those that still wait, to be sent again; returns them."""
        parts, self.parts = self.open_parts, []
        for part in parts:
            part.joint = None
            part.alone = part.alone or isinstance(
                self.failure, InternalError
            )  # perhaps because of one of them
            part.tries = self.tries
            part.failure = self.failure
        return parts


def join(
    first: Call[Any], line: deque[Call[Any]], limits: JointLimits, on_done: Callable[[JointPut], None]
) -> Call[Any]:
    """Takes from the line the puts that go along with the one that stood before it.

    Returns them as one call, which is over with ``on_done``; the first itself when there are none.
    """
    if type(first) is not PutCall:
        return first
    content, size = _sizes(first)
    if first.alone or size > limits.size or content > limits.body:
        return first
    parts = [first]
    while line and len(parts) < limits.messages:
        call = line[0]
        if call.phase != WAITING:
            line.popleft()
            continue
        if type(call) is not PutCall or call.queue_id != first.queue_id or call.alone:
            break
        content, more = _sizes(call)
        size += more
        if size > limits.size or content > limits.body:
            break
        parts.append(call)
        line.popleft()
    return first if len(parts) == 1 else JointPut(parts, on_done)


def _sizes(call: PutCall) -> tuple[int, int]:
    """Returns the bytes of a put's content, and of its message in a request, at most."""
    message = call.message
    content = content_bytes(message)
    size = content + _OVERHEAD_BYTES
    if message.dedup_key is not None:
        size += _KEY_BYTES
    if message.partition_key is not None:
        size += _KEY_BYTES
    return content, size
