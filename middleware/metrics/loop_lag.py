"""Measures the lag of the event loop."""

from __future__ import annotations

import asyncio
from time import monotonic

from telesto.middleware.metrics.counters import Counters


class LoopLag:
    """Sets a timer and measures how late it fires."""

    def __init__(self, loop: asyncio.AbstractEventLoop, counters: Counters, interval_s: float) -> None:
        self._loop = loop
        self._counters = counters
        self._interval_s = interval_s
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Starts measuring."""
        self._due = monotonic() + self._interval_s
        self._timer = self._loop.call_later(self._interval_s, self._measure)

    def stop(self) -> None:
        """Stops measuring."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _measure(self) -> None:
        lag_s = max(0.0, monotonic() - self._due)
        self._counters.loop_lag_s = lag_s
        self._counters.loop_lag_max_s = max(self._counters.loop_lag_max_s, lag_s)
        self.start()
