"""In which order connections are heard that have sent much."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from telesto.protocol.framing import FRAME_COST

if TYPE_CHECKING:
    from telesto.middleware.wire.connection import Connection

#: What is handled at once in one turn of the loop, all connections together, and of one connection.
TURN_BYTES = 512 * FRAME_COST
AT_ONCE_BYTES = 128 * FRAME_COST
#: The same of one connection while others wait, or more has come: enough for those that ask for little.
LITTLE_BYTES = 4 * FRAME_COST
#: What is handled in a turn of the loop of what waits, and so of one connection before it is the next one's
#: turn.
PORTION_BYTES = 16 * FRAME_COST


class Intake:
    """Shares the turns of the event loop among connections by what they send.

    All that comes in one turn of the loop is handled in it, unless it is much: then a part of it is, a little
    of each connection at least, and the rest waits. What waits is handled a portion in each turn, between the
    turn's other work: those that have begun to wait and those that wait on alternate, first come first
    served. So what a connection sends, however much that is, holds up another one that asks for little by one
    portion.

    Room is counted in bytes; a frame counts at least as FRAME_COST.
    """

    __slots__ = ("_asked", "_fresh", "_loop", "_old", "_room")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._room = TURN_BYTES
        self._fresh: deque[Connection] = deque()
        self._old: deque[Connection] = deque()
        self._asked = False

    def __len__(self) -> int:
        """How many connections wait."""
        return len(self._fresh) + len(self._old)

    def came(self, connection: Connection, data: bytes) -> None:
        """Data came over a connection."""
        waited = connection.waits
        self._room -= connection.take(data, AT_ONCE_BYTES if self._room > 0 else LITTLE_BYTES)
        if connection.waits and not waited:
            self._fresh.append(connection)
            self._ask()
        elif self._room < TURN_BYTES // 2:
            # Not before, so that the many turns in which little comes cost nothing.
            self._ask()

    def again(self, connection: Connection) -> None:
        """A connection of which frames wait may have its turn again."""
        if not connection.waits:
            connection.waits = True
            self._old.append(connection)
            self._ask()

    def _turn(self) -> None:
        """A turn of the loop: what waits, if anything does, has its portion."""
        self._asked = False
        room = PORTION_BYTES
        first, second = self._fresh, self._old
        while room > 0 and (first or second):
            connection = (first or second).popleft()
            room -= max(1, connection.take(b"", room))
            if connection.waits:
                self._old.append(connection)
            first, second = second, first
        if len(self):
            self._room = 0
            self._ask()
        else:
            self._room = TURN_BYTES

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._turn)
