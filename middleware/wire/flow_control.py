"""Backpressure of one connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.requests import Pipeline
from telesto.protocol.packets import Alive

#: How often Alive is sent to a peer from which nothing is read, in seconds.
_ALIVE_S = 0.5
_ALIVE = Alive().encode(0)


class FlowControl:
    """Pauses reading while the pipeline is full, received data waits, or the peer does not read its answers.

    The pipeline may exceed its limit by the requests that are handled at once. Nothing is executed for a peer
    that does not read, so at most the answers of one run and of its woken reads are unsent.

    While the pipeline is full, no Ping is read, so the middleware sends Alive to the peer instead.

    Attributes:
        pipeline_full: the pipeline is full.
        slow: too many answers are unsent.
        slow_since: when that began, by the loop's clock in seconds; None if it is not so.
        waits: received data waits to be handled (see Intake).
        resumed_at: when reading was resumed last, by the loop's clock in seconds.
    """

    __slots__ = (
        "_again",
        "_alive_entry",
        "_clock",
        "_deadlines",
        "_pipeline",
        "_settings",
        "_transport",
        "pipeline_full",
        "resumed_at",
        "slow",
        "slow_since",
        "waits",
    )

    def __init__(
        self,
        transport: asyncio.Transport,
        pipeline: Pipeline,
        settings: ServerSettings,
        clock: Callable[[], float],
        deadlines: Deadlines,
        again: Callable[[], None],
    ) -> None:
        """``again`` is called when the received data that waits may be handled again."""
        self._transport = transport
        self._clock = clock
        self._deadlines = deadlines
        self._again = again
        self._alive_entry = 0
        self._pipeline = pipeline
        self._settings = settings
        self.pipeline_full = False
        self.slow = False
        self.waits = False
        self.slow_since: float | None = None
        self.resumed_at = 0.0
        transport.set_write_buffer_limits(settings.write_high_bytes, settings.write_low_bytes)

    @property
    def full(self) -> bool:
        """No more data of the peer is handled now."""
        return self.pipeline_full or self.slow

    @property
    def rests(self) -> bool:
        """Reading from the peer is paused."""
        return self.full or self.waits

    @property
    def says_alive(self) -> bool:
        """Alive will be sent, or it will be seen that it need not be."""
        return bool(self._alive_entry)

    def wait(self) -> None:
        """Received data waits to be handled."""
        if not self.waits:
            self.waits = True
            self._transport.pause_reading()

    def go_on(self) -> None:
        """All received data was handled."""
        self.waits = False
        self._go_on()

    def pipeline_is_full(self) -> None:
        """Pauses reading until the pipeline is half empty."""
        self.pipeline_full = True
        self._pipeline.drained = self._on_drained
        self._transport.pause_reading()
        if not self._alive_entry:
            self._alive_entry = self._deadlines.add(self._clock() + _ALIVE_S, self._say_alive)

    def peer_is_slow(self) -> None:
        """Too many answers are unsent."""
        self.slow = self._pipeline.held = True
        self.slow_since = self._clock()
        self._transport.pause_reading()

    def peer_reads(self) -> None:
        """The unsent answers have fallen below the limit."""
        self.slow = self._pipeline.held = False
        self.slow_since = None
        self._go_on()

    def end(self) -> None:
        """The connection ends."""
        self._deadlines.cancel(self._alive_entry)
        self._again = _ignore_rest

    def _say_alive(self) -> None:
        # A pipeline may fill and drain many times a second, so the timer is not cancelled each time.
        self._alive_entry = 0
        if not self.pipeline_full:
            return
        if not self.slow:
            self._pipeline.send(_ALIVE)
        self._alive_entry = self._deadlines.add(self._clock() + _ALIVE_S, self._say_alive)

    def _on_drained(self) -> None:
        pipeline, settings = self._pipeline, self._settings
        if (
            len(pipeline.requests) <= settings.pipeline_requests // 2
            and pipeline.size <= settings.pipeline_bytes // 2
        ):
            self.pipeline_full = False
            pipeline.drained = None
            self._go_on()

    def _go_on(self) -> None:
        if self.full or self._transport.is_closing():
            return
        if self.waits:
            self._again()
        else:
            self.resumed_at = self._clock()
            self._transport.resume_reading()


def _ignore_rest() -> None:
    """Data that came over a connection that ends is not handled."""
