"""What connections do in a turn of the event loop: handle received data in a fair order, send answers."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from telesto.protocol.framing import FRAME_COST

if TYPE_CHECKING:
    from telesto.middleware.wire.connection import Connection


class Flusher:
    """Lets each connection send its answers in one write at the end of a turn of the event loop."""

    __slots__ = ("_connections", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """Adds a connection that had nothing to send before."""
        if not self._connections:
            self._loop.call_soon(self._flush)
        self._connections.append(connection)

    def _flush(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()


#: How much is handled at once in one turn of the event loop: of all connections, and of one connection.
TURN_BYTES = 512 * FRAME_COST
AT_ONCE_BYTES = 128 * FRAME_COST
#: The same of one connection when TURN_BYTES are used up: enough for a connection that sends little.
LITTLE_BYTES = 4 * FRAME_COST
#: How much waiting data is handled in one turn of the event loop, at most of one connection after the other.
PORTION_BYTES = 16 * FRAME_COST


class Intake:
    """Shares the turns of the event loop among connections by the amount of data that they send.

    Data is handled in the turn in which it comes, up to TURN_BYTES; then only LITTLE_BYTES of each connection
    are, and the rest waits. In each turn one portion of the waiting data is handled, alternately of
    connections that have begun to wait and of those that go on waiting, first come first served. So a
    connection that sends much delays another one that sends little by one portion at most.

    Data is counted in bytes; a frame counts as FRAME_COST at least.
    """

    __slots__ = ("_asked", "_fresh", "_left", "_loop", "_old")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = TURN_BYTES
        self._fresh: deque[Connection] = deque()
        self._old: deque[Connection] = deque()
        self._asked = False

    def __len__(self) -> int:
        """How many connections wait."""
        return len(self._fresh) + len(self._old)

    def came(self, connection: Connection, data: bytes) -> None:
        """Handles data that came over a connection, or a part of it."""
        waited = connection.waits
        self._left -= connection.take(data, AT_ONCE_BYTES if self._left > 0 else LITTLE_BYTES)
        if connection.waits and not waited:
            self._fresh.append(connection)
            self._ask()
        elif self._left < TURN_BYTES // 2:
            # Not earlier, so that a turn in which little comes needs no callback.
            self._ask()

    def again(self, connection: Connection) -> None:
        """Lets a connection whose frames wait have its turn again."""
        if not connection.waits:
            connection.waits = True
            self._old.append(connection)
            self._ask()

    def _turn(self) -> None:
        """Handles one portion of the waiting data; runs once in a turn of the event loop."""
        self._asked = False
        left = PORTION_BYTES
        first, second = self._fresh, self._old
        while left > 0 and (first or second):
            connection = (first or second).popleft()
            left -= max(1, connection.take(b"", left))
            if connection.waits:
                self._old.append(connection)
            first, second = second, first
        if len(self):
            self._left = 0
            self._ask()
        else:
            self._left = TURN_BYTES

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._turn)
