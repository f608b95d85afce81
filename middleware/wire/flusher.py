"""Sends the answers of one turn of the loop together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from telesto.middleware.wire.connection import Connection


class Flusher:
    """Has each connection with answers send them in one write at the end of the turn of the loop."""

    __slots__ = ("_connections", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """Takes note of a connection that had nothing to send before."""
        if not self._connections:
            self._loop.call_soon(self._flush)
        self._connections.append(connection)

    def _flush(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()
