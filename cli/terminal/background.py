"""Calls in another thread, so that a signal ends only the waiting and not the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

POLL_S = 0.5
"""Waits are short, because a signal that comes just before a wait does not end it."""

ResultT = TypeVar("ResultT")


class BackgroundCall(Generic[ResultT]):
    """A call in its own thread. A caller that does not wait for its end must make sure that it ends."""

    def __init__(self, function: Callable[[], ResultT]) -> None:
        self._function = function
        self._outcome: SimpleQueue[ResultT | Exception] = SimpleQueue()
        threading.Thread(target=self._run, name="call", daemon=True).start()

    def result(self) -> ResultT:
        """Wait for the result, or raise the function's exception; a signal may come meanwhile."""
        outcome = self._next_outcome()
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _next_outcome(self) -> ResultT | Exception:
        while True:
            with suppress(Empty):
                return self._outcome.get(timeout=POLL_S)

    def _run(self) -> None:
        try:
            self._outcome.put(self._function())
        except Exception as error:  # noqa: BLE001 - it is raised where the result is waited for
            self._outcome.put(error)
