"""Log lines about events that clients can cause at any rate."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.logs import logger

#: For events of one kind and key there is one line in this time, and one that counts the others.
PERIOD_S = 10.0
#: How many kinds and keys are distinguished at a time.
_KEYS_MAX = 1_000


class EventLog:
    """Logs the first of several equal events at once, and later the last one with the number of the others.

    Events are equal if they have the same name and key, such as the address that they come from.
    """

    def __init__(self, part: str, clock: Callable[[], float], deadlines: Deadlines) -> None:
        self._log = logger(part)
        self._clock = clock
        self._deadlines = deadlines
        #: By event and key, how many were left out since the last line, and the last of them.
        self._left_out: dict[Hashable, tuple[int, Callable[..., Any], dict[str, Any]]] = {}

    def info(self, event: str, key: Hashable, **fields: Any) -> None:
        """Logs an event."""
        self.note(self._log.info, event, key, fields)

    def warning(self, event: str, key: Hashable, **fields: Any) -> None:
        """Logs an event that needs attention."""
        self.note(self._log.warning, event, key, fields)

    def note(self, write: Callable[..., Any], event: str, key: Hashable, fields: dict[str, Any]) -> None:
        """Logs an event by ``write``."""
        which: Hashable = (event, key)
        if which not in self._left_out and len(self._left_out) >= _KEYS_MAX:
            which = (event, None)
        seen = self._left_out.get(which)
        if seen is not None:
            self._left_out[which] = (seen[0] + 1, write, fields)
            return
        write(event, **fields)
        self._begin(event, which, write)

    def _begin(self, event: str, which: Hashable, write: Callable[..., Any]) -> None:
        self._left_out[which] = (0, write, {})
        self._deadlines.add(self._clock() + PERIOD_S, lambda: self._tell(event, which))

    def _tell(self, event: str, which: Hashable) -> None:
        count, write, fields = self._left_out.pop(which)
        if count:
            write(event, **fields, left_out=count - 1)
            self._begin(event, which, write)
