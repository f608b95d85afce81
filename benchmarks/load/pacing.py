"""The schedule of requests: a closed loop with think time, or an open loop at scheduled times.

In an open loop the times are fixed in advance, whatever the service does. If no slot is free at a scheduled
time, the request is sent as soon as one is, and its latency counts from the scheduled time. So a stall shows
in all requests that were due during it, not only in the few that were in flight.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Iterator
from random import Random
from typing import Final, Literal

Arrivals = Literal["fixed", "poisson"]
ThinkSpread = Literal["fixed", "exponential"]

LEAST_DELAY_S: Final = 1e-6
LATE_AFTER_S: Final = 0.002
"""A request sent this long after its scheduled time counts as late."""


class SignalTimer:
    """Waits by a timer of the kernel, because the timers of event loops resolve only a millisecond."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[tuple[float, asyncio.Future[None]]] = deque()
        self._loop.add_signal_handler(signal.SIGALRM, self._ring)

    async def until(self, moment: float) -> None:
        """Return at the moment, or at once if it has passed. Callers ask for rising moments."""
        if moment <= time.monotonic():
            return
        future = self._loop.create_future()
        self._waiting.append((moment, future))
        if len(self._waiting) == 1:
            self._set(moment)
        await future

    def close(self) -> None:
        """Stop the timer."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        self._loop.remove_signal_handler(signal.SIGALRM)

    def _ring(self) -> None:
        now = time.monotonic()
        waiting = self._waiting
        while waiting and (waiting[0][0] <= now or waiting[0][1].done()):
            _, future = waiting.popleft()
            if not future.done():
                future.set_result(None)
        if waiting:
            self._set(waiting[0][0])

    def _set(self, moment: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, max(LEAST_DELAY_S, moment - time.monotonic()))


def arrival_moments(begin: float, rate: float, arrivals: Arrivals, random: Random) -> Iterator[float]:
    """Yield the times of an open loop with `rate` requests a second, without end."""
    moment = begin
    number = 0
    while True:
        number += 1
        moment = begin + number / rate if arrivals == "fixed" else moment + random.expovariate(rate)
        yield moment


class Schedule:
    """The times of one process's open loop, shared by all slots that send.

    Attributes:
        late: requests that were given out more than LATE_AFTER_S after their scheduled times.
    """

    def __init__(self, moments: Iterator[float], end: float, timer: SignalTimer) -> None:
        self._moments = moments
        self._end = end
        self._timer = timer
        self._next = next(moments)
        self.late = 0

    async def take(self, now: float) -> float | None:
        """Wait for the next scheduled time that no slot has taken, and return it; None when the time is up.

        A late slot gets the first missed time at once, until the end.
        """
        moment = self._next
        if moment >= self._end or now >= self._end:
            return None
        self._next = next(self._moments)
        if now - moment > LATE_AFTER_S:
            self.late += 1
        await self._timer.until(moment)
        return moment

    def count_unsent(self) -> int:
        """Count the scheduled times before the end that no slot has taken."""
        count = 0
        while self._next < self._end:
            count += 1
            self._next = next(self._moments)
        return count


class Thinking:
    """The pause of a client in a closed loop."""

    def __init__(self, think_s: float, spread: ThinkSpread, random: Random) -> None:
        self._think_s = think_s
        self._spread = spread
        self._random = random

    async def pause(self) -> None:
        """Think."""
        if self._think_s:
            exponential = self._spread == "exponential"
            await asyncio.sleep(self._random.expovariate(1 / self._think_s) if exponential else self._think_s)
