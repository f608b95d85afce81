"""When periodic tasks are due."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from cronsim import CronSim, CronSimError

#: Within this time, in seconds, a tick that was missed is made up for.
GRACE = 60.0


class Schedule:
    """The ticks that a cron expression tells, in UTC."""

    def __init__(self, expression: str, zone: tzinfo) -> None:
        """Raises ValueError for a wrong expression, or one that no moment fits."""
        self._expression = expression
        self._zone = zone
        try:
            self.next(datetime.now(UTC))
        except (CronSimError, StopIteration) as error:
            raise ValueError(f"{expression!r} is no cron expression: {error}") from error

    def next(self, after: datetime) -> datetime:
        """Returns the first tick after a moment."""
        tick: datetime = next(CronSim(self._expression, after.astimezone(self._zone)))  # type: ignore[no-untyped-call,unused-ignore]
        return tick.astimezone(UTC)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Returns the last tick after one moment and up to another; None when there is none."""
        latest, tick = None, self.next(after)
        while tick <= until:
            latest, tick = tick, self.next(tick)
        return latest
