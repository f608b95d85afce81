"""Backpressure of one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import Line
from telesto.protocol.packets import Alive

#: So often a peer of which nothing is read is told that it is heard later, in seconds.
_ALIVE_S = 0.5
_ALIVE = Alive().encode(0)


class FlowControl:
    """Lets reading rest while the line is full, what has come waits, or the peer does not read its answers.

    The line's bound is soft by what is handled at once. A peer that does not read gets no turns
    either, so that what is unsent is bounded by one run and its woken reads.

    Where the line is full a Ping would not be read either, so the peer is told that this one lives.

    Attributes:
        line_full: the line is full.
        slow: too much is unsent.
        slow_since: since when, by the loop's clock in seconds; None when it is not.
        waits: what has come waits for its turn (see Intake).
        resumed_at: when reading went on last.
    """

    __slots__ = (
        "_again",
        "_alive_entry",
        "_clock",
        "_deadlines",
        "_line",
        "_settings",
        "_transport",
        "line_full",
        "resumed_at",
        "slow",
        "slow_since",
        "waits",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        line: Line,
        settings: ServerSettings,
        clock: Callable[[], float],
        deadlines: Deadlines,
        again: Callable[[], None],
    ) -> None:
        """``again`` is called when what has come may have its turn again."""
        self._transport = transport
        self._clock = clock
        self._deadlines = deadlines
        self._again = again
        self._alive_entry = 0
        self._line = line
        self._settings = settings
        self.line_full = False
        self.slow = False
        self.waits = False
        self.slow_since: float | None = None
        self.resumed_at = 0.0
        transport.set_write_buffer_limits(settings.write_high_bytes, settings.write_low_bytes)

    @property
    def full(self) -> bool:
        """Nothing more is handled of the peer now."""
        return self.line_full or self.slow

    @property
    def rests(self) -> bool:
        """Nothing is read from the peer now."""
        return self.full or self.waits

    def wait(self) -> None:
        """What has come waits for its turn."""
        if not self.waits:
            self.waits = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """All that has come has had its turn."""
        self.waits = False
        self._go_on()

    def check_line(self) -> None:
        """Lets reading rest if the line is full."""
        line, settings = self._line, self._settings
        if not self.line_full and (
            len(line.requests) >= settings.line_requests or line.size >= settings.line_bytes
        ):
            self.line_full = True
            line.drained = self._on_drained
            self._transport.pause_reading()
            if not self._alive_entry:
                self._alive_entry = self._deadlines.add(self._clock() + _ALIVE_S, self._say_alive)

    def peer_is_slow(self) -> None:
        """Too much is unsent."""
        self.slow = self._line.held = True
        self.slow_since = self._clock()
        self._transport.pause_reading()

    def peer_reads(self) -> None:
        """What is unsent has fallen enough."""
        self.slow = self._line.held = False
        self.slow_since = None
        self._go_on()

    def end(self) -> None:
        """The connection ends."""
        self._deadlines.cancel(self._alive_entry)
        self._again = _have_no_turn

    def _say_alive(self) -> None:
        # A line is full and drained again many times a second, so this goes on until it finds it drained.
        self._alive_entry = 0
        if not self.line_full:
            return
        if not self.slow:
            self._line.send(_ALIVE)
        self._alive_entry = self._deadlines.add(self._clock() + _ALIVE_S, self._say_alive)

    def _on_drained(self) -> None:
        line, settings = self._line, self._settings
        if len(line.requests) <= settings.line_requests // 2 and line.size <= settings.line_bytes // 2:
            self.line_full = False
            line.drained = None
            self._go_on()

    def _go_on(self) -> None:
        if self.full or self._transport.is_closing():
            return
        if self.waits:
            self._again()
        else:
            self.resumed_at = self._clock()
            self._transport.resume_reading()


def _have_no_turn() -> None:
    """What came over a connection that ends is not handled."""
