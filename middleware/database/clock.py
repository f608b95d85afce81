"""Detects when the database's clock is set: PostgreSQL has no clock that cannot be set."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from telesto.db import calls
from telesto.middleware.common.failures import RefusedError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.single_request import Call

#: How often the clock is read, in seconds.
_PERIOD_S = 1.0
#: A smaller difference is no step: clocks are also adjusted by running them faster or slower.
_TOLERANCE_S = 1.0
#: A reading that took longer is compared with the one before, but the next is not compared with it.
_QUICK_S = 1.0

_log = logger("clock")


def steady_time() -> float:
    """Returns this machine's boot time clock in seconds: it cannot be set and runs on during suspension."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Look:
    """A reading of the database's clock, in microseconds since 1970, between two of the steady clock."""

    asked: float
    told: float
    at_us: int
    steps: int
    last_id: int


class DatabaseClock:
    """Compares the progress of the database's clock with that of a clock that cannot be set.

    A difference between two readings is a step. The middleware that detects it first has the database move
    the stored due times. The others see that the number of steps has changed and start again with the new
    reading. Until then `latest` keeps jobs from taking what a step forward seems to have made due.

    Attributes:
        work: what runs in the background.
        last: the reading with which the next one is compared; None before the first.
    """

    def __init__(self, call: Call, counters: Counters, steady: Callable[[], float] = steady_time) -> None:
        self._call = call
        self._counters = counters
        self._steady = steady
        self.last: Look | None = None
        self.work = Periodic("clock", self.look, period_s=_PERIOD_S)
        self.work.poke()

    def latest(self) -> int | None:
        """Returns the latest time that the database's clock can show unless it was set; None at the start.

        In microseconds since 1970.
        """
        if self.last is None:
            return None
        return self.last.at_us + round((self._steady() - self.last.asked + _TOLERANCE_S) * 1e6)

    async def look(self) -> None:
        """Reads the clock and has a step noted. Raises what Call raises."""
        asked = self._steady()
        rows = await self._call(*calls.look_at_clock())
        row = rows[0]
        look = Look(asked, self._steady(), row["at"], row["steps"], row["last_id"])
        last = self.last
        if last is None:
            self.last = look
        elif look.steps != last.steps:
            _log.info("clock_step_noted", steps=look.steps)
            self.last = look
        elif step_s := _step_between(last, look):
            await self._note(step_s, last)
        elif look.told - look.asked < _QUICK_S:
            self.last = look

    async def _note(self, step_s: float, before: Look) -> None:
        """Has the database note a step. If the outcome is unknown, the next reading shows it."""
        try:
            rows = await self._call(
                *calls.note_clock_step(
                    step_ms=round(step_s * 1000), seen_steps=before.steps, last_id=before.last_id
                )
            )
        except RefusedError as error:
            _log.error("clock_step_failed", step_s=round(step_s, 3), error=str(error))
        else:
            if rows[0][0]:
                self._counters.clock_steps_total += 1
                _log.warning("clock_step", step_s=round(step_s, 3), leases="renewed", delays="moved")
        # The next reading is the first by the clock as it is now.
        self.last = None
        self.work.poke()


def _step_between(before: Look, after: Look) -> float:
    """Returns by how many seconds the clock was set between two readings; 0 if it may not have been set."""
    progress = (after.at_us - before.at_us) / 1e6
    least, most = after.asked - before.told, after.told - before.asked
    if least - _TOLERANCE_S <= progress <= most + _TOLERANCE_S:
        return 0.0
    return progress - (least + most) / 2
