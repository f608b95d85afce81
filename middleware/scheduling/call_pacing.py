"""When a call may begin while another one is under way.

Calls of different kinds could always run side by side. But each has a fixed price beside that of its
requests, and while many requests are under way, one that waits for the call before it finds more of them
gathered. So where calls are quick, those for few requests follow one another; where a call takes long, be it
for the disk's or a standby's flush or for a lock, side by side is better, and no call waits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from telesto.middleware.scheduling.dispatcher import FairQueue

#: How much the last call counts in the average.
_SHARE = 0.05
#: Side by side, calls take longer than they would one after the other: so often is it tried anew, in seconds.
_ANEW_S = 5.0


class PacedCall:
    """A call that may begin, or is under way.

    Attributes:
        begun: when it began, by the loop's clock in seconds.
        few: it was for few messages.
    """

    __slots__ = ("begun", "few")

    def __init__(self, begun: float, few: bool) -> None:
        self.begun = begun
        self.few = few


class CallPacing:
    """Lets the calls of all batch workers of a middleware begin, one after the other or side by side."""

    def __init__(
        self,
        clock: Callable[[], float],
        under_way: Callable[[], int],
        crowd: int,
        many: int,
        quick_s: float,
        wait_s: float,
    ) -> None:
        """Makes the pace of one middleware.

        Args:
            clock: the loop's.
            under_way: tells how many requests are under way.
            crowd: with at most this many, no call waits for another.
            many: a call with at least this many messages starts at once.
            quick_s: calls wait only while calls that only write, for few messages, take less on average.
            wait_s: no call waits longer than this, nor for a call that has already taken longer.
        """
        self._clock = clock
        self._under_way = under_way
        self._crowd = crowd
        self._many = many
        self._quick_s = quick_s
        self._wait_s = wait_s
        self._last: PacedCall | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._average_s = 0.0
        self._anew_at = 0.0

    async def begin(self, gathered: FairQueue) -> PacedCall:
        """Returns when a call for what has gathered may begin; ``end`` has to follow."""
        few = not gathered.has_messages(self._many)
        if few and self._has_to_wait():
            await self._wait()
        turn = self._last = PacedCall(self._clock(), few)
        return turn

    def end(self, turn: PacedCall, *, wrote: bool) -> None:
        """It is over; ``wrote`` tells whether there was something to commit, which is what takes time."""
        now = self._clock()
        if wrote and turn.few:
            self._note(now - turn.begun, now)
        if self._last is not turn:
            return
        self._last = None
        while self._waiting and self._last is None:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(None)
                self._last = PacedCall(now, False)  # until it begins, no other one does

    def _note(self, took_s: float, now: float) -> None:
        if self._average_s >= self._quick_s and now >= self._anew_at:
            self._average_s = 0.0
            self._anew_at = now + _ANEW_S
        self._average_s += _SHARE * (took_s - self._average_s)

    def _has_to_wait(self) -> bool:
        return (
            self._last is not None
            and self._clock() - self._last.begun < self._wait_s
            and self._average_s < self._quick_s
            and self._under_way() > self._crowd
        )

    async def _wait(self) -> None:
        """Waits for the end of the last call that began, but not for long."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiting.append(waiter)
        timer = loop.call_later(self._wait_s, _give_up, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)


def _give_up(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
