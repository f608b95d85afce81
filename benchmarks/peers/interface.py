"""What a peer is for the comparison.

A `Peer` lives in the process that directs: it knows its server and looks after queues. A `Client` lives in a
process that generates load. Between the two goes an address that JSON can carry. All bodies are ASCII
text, so that systems whose messages are JSON carry the same bytes as the others.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol

Address = dict[str, Any]

TAKEN_AT_ONCE = 256
"""Messages that a consumer has unacknowledged at most, where the peer has such a limit."""
WAIT_S = 0.2
"""How long a consumer waits for messages before it looks whether it shall stop."""


class PeerUnavailableError(Exception):
    """A peer cannot take part; the message says why."""


class Server(Protocol):
    """The processes of a system, which several peers may share."""

    async def start(self, directory: Path) -> None:
        """Start in an empty directory and return when clients can connect.

        Raises PeerUnavailableError.
        """

    async def stop(self) -> None:
        """End everything that was started; does nothing when nothing runs."""

    def roots(self) -> Iterable[int]:
        """The processes that all others of the system come from."""


class Sink(Protocol):
    """Where a consumer reports what it has."""

    def acknowledged(self, bodies: Sequence[bytes], delivered_at: float) -> None:
        """These messages, which the application got at that moment (monotonic), are acknowledged."""


class Client(Protocol):
    """One connection to one queue, of a producer or of a consumer."""

    async def put(self, bodies: Sequence[bytes]) -> None:
        """Put messages; return when all are confirmed."""

    async def consume(self, sink: Sink, stop: asyncio.Event) -> None:
        """Take and acknowledge messages until told to stop; leave none half done."""

    async def close(self) -> None:
        """Disconnect."""


class Peer(ABC):
    """A system in one way of using it.

    Attributes:
        name: on the command line and in tables.
        module: the module whose `connect(address, queue)` gives a client.
        server: its processes.
        puts_at_once: how many of the messages in flight on a connection one `put` carries. 1: each is put by
            a call of its own, so many calls at a time.
        calls_overlap: several calls of `put` may be under way on a connection. In the open loop each message
            then has a call of its own also where one could carry more, so that none waits for others.
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
        """Make what the queues need, once, after the server has started; by default there is nothing."""
        return

    @abstractmethod
    def address(self) -> Address:
        """How clients reach the server."""

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
