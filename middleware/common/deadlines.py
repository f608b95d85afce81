"""Many deadlines with one timer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush

#: Cancelled entries are removed when they outnumber the live ones by this many.
_SLACK = 1_024
#: How many actions are called in one turn of the event loop. The rest follows in the next.
_TURN = 256


class Deadlines:
    """Calls each action when its time has come. Times are those of the loop's clock, in seconds.

    A cancelled entry stays in the heap until it is due or until such entries outnumber the others. So the
    heap has at most twice the live entries and a constant.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[float, int]] = []
        self._actions: dict[int, Callable[[], None]] = {}
        self._last = 0
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._actions)

    @property
    def kept(self) -> int:
        """How many entries take memory, including cancelled ones."""
        return len(self._heap)

    @property
    def now(self) -> float:
        """The loop's clock."""
        return self._loop.time()

    def add(self, when: float, action: Callable[[], None]) -> int:
        """Schedules an action. Returns the entry for ``cancel``."""
        self._last += 1
        self._actions[self._last] = action
        heappush(self._heap, (when, self._last))
        if self._heap[0][1] == self._last:
            self._set_timer()
        return self._last

    def cancel(self, entry: int) -> None:
        """Cancels an entry. Does nothing if its action was called or cancelled already."""
        self._actions.pop(entry, None)
        if len(self._heap) > 2 * len(self._actions) + _SLACK:
            self._heap = [item for item in self._heap if item[1] in self._actions]
            heapify(self._heap)

    def close(self) -> None:
        """Cancels all entries."""
        self._actions.clear()
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(self._heap[0][0], self._run) if self._heap else None

    def _run(self) -> None:
        now = self._loop.time()
        self._timer = None
        try:
            for _ in range(_TURN):
                if not self._heap or self._heap[0][0] > now:
                    break
                action = self._actions.pop(heappop(self._heap)[1], None)
                if action is not None:
                    action()
        finally:
            self._set_timer()
