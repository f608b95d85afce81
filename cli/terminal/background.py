"""Waiting for a call that another thread makes, so that a signal cuts only the waiting and not the call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

POLL_S = 0.5
"""The waiting is bounded for a signal that comes just before it begins, which would not end it."""

ResultT = TypeVar("ResultT")


class BackgroundCall(Generic[ResultT]):
    """A call under way in a thread of its own. Whoever does not wait for its end has to see that it ends."""

    def __init__(self, function: Callable[[], ResultT]) -> None:
        self._function = function
        self._outcome: SimpleQueue[ResultT | Exception] = SimpleQueue()
        threading.Thread(target=self._run, name="call", daemon=True).start()

    def result(self) -> ResultT:
        """Wait for what the function returns, or raise what it raised; a signal may come meanwhile."""
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
