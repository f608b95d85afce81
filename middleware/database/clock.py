"""Watches the database's clock: PostgreSQL knows no other than the one that its machine's owner may set."""

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

#: How often the clock is looked at, in seconds.
_PERIOD_S = 1.0
#: What is less than this is no step; clocks are also adjusted by making them go faster or slower.
_TOLERANCE_S = 1.0
#: A look that took longer is compared, but nothing is compared with it.
_QUICK_S = 1.0

_log = logger("clock")


def steady_time() -> float:
    """Seconds by a clock of this machine that nobody sets and that goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Look:
    """The database's clock, in microseconds since 1970, between two times of the steady clock, in seconds."""

    asked: float
    told: float
    at_us: int
    steps: int
    last_id: int


class DatabaseClock:
    """Compares the progress of the database's clock with that of a clock that nobody sets.

    A difference between two looks is a step. The middleware that notices it first has the database move what
    it has stored to be done some time after something else; to the others the database tells that a step has
    been noted, and they begin anew with what they see. Until then `latest` keeps jobs from taking what a
    step forward seems to have made due.

    Attributes:
        work: what runs in the background.
        last: what the next look is compared with; None before there is any.
    """

    def __init__(self, call: Call, counters: Counters, steady: Callable[[], float] = steady_time) -> None:
        self._call = call
        self._counters = counters
        self._steady = steady
        self.last: Look | None = None
        self.work = Periodic("clock", self.look, period_s=_PERIOD_S)
        self.work.poke()

    def latest(self) -> int | None:
        """Returns what the database's clock cannot be beyond, unless it was set; None before the first look.

        In microseconds since 1970.
        """
        if self.last is None:
            return None
        return self.last.at_us + round((self._steady() - self.last.asked + _TOLERANCE_S) * 1e6)

    async def look(self) -> None:
        """Looks at the clock now, and has a step noted; raises what Call raises."""
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
        """Has a step noted; when nobody knows whether it was, the next look tells."""
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
        # The next look is the first one by the clock as it is now.
        self.last = None
        self.work.poke()


def _step_between(before: Look, after: Look) -> float:
    """How far the clock was set between two looks, in seconds; 0 when it may just have gone on."""
    progress = (after.at_us - before.at_us) / 1e6
    least, most = after.asked - before.told, after.told - before.asked
    if least - _TOLERANCE_S <= progress <= most + _TOLERANCE_S:
        return 0.0
    return progress - (least + most) / 2
