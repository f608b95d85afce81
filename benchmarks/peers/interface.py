"""The definition of a peer.

A `Peer` lives in the main process: it knows its server and manages queues. A `Client` lives in a process that
generates load. They communicate by an address in JSON. All bodies are ASCII text, so that systems whose
messages are JSON carry the same bytes as the others.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

Address = dict[str, Any]

TAKEN_AT_ONCE = 256
"""A consumer has at most this many unacknowledged messages, if the peer has such a limit."""
WAIT_S = 0.2
"""How long a consumer waits for messages before it checks whether it must stop."""


class PeerUnavailableError(Exception):
    """A peer cannot take part; the message says why."""


class Server(Protocol):
    """The processes of a system, which several peers may share."""

    async def start(self, directory: Path) -> None:
        """Start in an empty directory; return when clients can connect. Raises PeerUnavailableError."""

    async def stop(self) -> None:
        """End all processes; do nothing if none runs."""

    def roots(self) -> Iterable[int]:
        """The processes from which all others of the system descend."""


class Sink(Protocol):
    """Takes the reports of a consumer."""

    def acknowledged(self, bodies: Sequence[bytes], delivered_at: float) -> None:
        """These messages, which were delivered at that time (monotonic), are acknowledged."""


class Client(Protocol):
    """One connection to one queue, of a producer or of a consumer."""

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Put messages; return when all are confirmed."""

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Take and acknowledge messages until told to stop; finish those that were begun."""

    async def close(self) -> None:
        """Disconnect."""


class Peer(ABC):
    """A system, used in one way.

    Attributes:
        name: on the command line and in tables.
        module: the module whose `connect(address, queue)` returns a client.
        server: its processes.
        puts_at_once: how many of the messages in flight on a connection one `put` carries. With 1, each is
            put by a call of its own, with as many concurrent calls.
        calls_overlap: a connection may have several calls of `put` in flight. In the open loop each message
            then has its own call even if one call could carry more, so that none waits for others.
        consumers_max: how many consumers a queue may have in one process; None for any number.
    """

    module: str
    calls_overlap: bool = False
    consumers_max: int | None = None

    def __init__(self, name: str, server: Server, puts_at_once: int = 1) -> None:
        self.name = name
        self.server = server
        self.puts_at_once = puts_at_once

    async def prepare(self) -> None:
        """Create what the queues need, once, after the server has started; by default nothing."""
        return

    @abstractmethod
    def address(self) -> Address:
        """The address of the server, for clients."""

    @abstractmethod
    async def make_queue(self, queue: str) -> None:
        """Make an empty queue."""

    @abstractmethod
    async def left(self, queue: str) -> list[bytes]:
        """Return the bodies of all messages that are not acknowledged; the queue is no longer in use."""

    @abstractmethod
    async def drop_queue(self, queue: str) -> None:
        """Remove a queue with its messages."""

    @abstractmethod
    async def describe(self) -> dict[str, str]:
        """Versions and settings that matter for the figures, by name."""
