"""What the whole middleware has under way."""

from __future__ import annotations

import asyncio


class Budget:
    """Counts the requests that were admitted and are neither answered nor parked, and the bytes they hold.

    Attributes:
        requests: how many are under way.
        bytes: what they hold, and what connections have received of frames that are not complete.
        unsent: bytes of answers that peers have not taken.
    """

    __slots__ = ("_idle", "bytes", "requests", "unsent")

    def __init__(self) -> None:
        self._idle: asyncio.Event | None = None
        self.requests = 0
        self.bytes = 0
        self.unsent = 0

    def enter(self, requests: int, size: int) -> None:
        """Requests come under way."""
        self.requests += requests
        self.bytes += size

    def leave(self, requests: int, size: int) -> None:
        """Requests are answered, parked or dropped."""
        self.requests -= requests
        self.bytes -= size
        if self._idle is not None and self.requests == 0:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Returns when nothing is under way."""
        if self.requests:
            self._idle = asyncio.Event()
            await self._idle.wait()
