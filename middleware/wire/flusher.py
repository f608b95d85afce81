"""Sends the answers of one turn of the loop together."""

from __future__ import annotations

import asyncio
from typing import Protocol


class Sender(Protocol):
    """Somebody with answers to send."""

    def flush(self) -> None:
        """Sends them in one write."""


class Flusher:
    """Collects who has answers to send, and has them sent at the end of the turn, in one write each."""

    __slots__ = ("_loop", "_senders")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._senders: list[Sender] = []

    def add(self, sender: Sender) -> None:
        """Takes note of a sender that had nothing to send before."""
        if not self._senders:
            self._loop.call_soon(self._flush)
        self._senders.append(sender)

    def _flush(self) -> None:
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.flush()
