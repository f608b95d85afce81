"""When periodic tasks are due."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo

from telesto.client import NewMessage

#: Within this time, in seconds, a tick that was missed is made up for.
GRACE = 60.0


class Schedule:
    """The ticks that a cron expression tells, in UTC."""

    def __init__(self, expression: str, zone: tzinfo) -> None:
        """Raises ValueError for an expression that is none, or that never comes."""
        try:
            from cronsim import CronSim, CronSimError
        except ImportError as error:
            raise ImportError("periodic tasks need: pip install 'telesto-mq[tasks]'") from error

        def ticks(after: datetime) -> Iterator[datetime]:
            found: Iterator[datetime] = CronSim(expression, after.astimezone(zone))  # type: ignore[no-untyped-call,unused-ignore]
            return found

        self._ticks = ticks
        try:
            self.next(datetime.now(UTC))
        except (CronSimError, StopIteration) as error:
            raise ValueError(f"{expression!r} is no cron expression: {error}") from error

    def next(self, after: datetime) -> datetime:
        """Returns the first tick after a moment."""
        return next(self._ticks(after)).astimezone(UTC)

    def latest(self, after: datetime, until: datetime) -> datetime | None:
        """Returns the last tick after one moment and up to another; None when there is none."""
        latest, tick = None, self.next(after)
        while tick <= until:
            latest, tick = tick, self.next(tick)
        return latest


@dataclass(frozen=True)
class Periodic:
    """A task and when it is due.

    Attributes:
        task: its name.
        queue: the name of its queue.
        schedule: when it is due.
        message: makes its message.
    """

    task: str
    queue: str
    schedule: Schedule
    message: Callable[[], NewMessage]

    def message_at(self, tick: datetime) -> NewMessage:
        """Returns the message of a tick, whose key is the same whoever puts it."""
        message = self.message()
        told = tick.isoformat()
        message.dedup_key = f"{self.task}@{told}"
        message.headers = {**(message.headers or {}), "tick": told}
        return message
