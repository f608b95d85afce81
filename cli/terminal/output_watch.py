"""Notices that the reader of standard output went away while there is nothing to write.

Otherwise `telesto get orders --follow | head -1` would wait for another message that it cannot write.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from telesto.cli.terminal.failures import OutputClosedError
from telesto.cli.terminal.output import STANDARD_OUTPUT

WAKE_SIGNAL = signal.SIGUSR1


class OutputWatch:
    """Watches standard output from a thread, if it is a pipe or a socket; to be made by the main thread."""

    def __init__(self) -> None:
        self._gone = False
        self._waiting = False
        mode = os.fstat(STANDARD_OUTPUT).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            signal.signal(WAKE_SIGNAL, self._wake)
            threading.Thread(target=self._watch, name="output", daemon=True).start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Raise OutputClosedError inside the block when the output's reader goes away."""
        self._waiting = True
        try:
            if self._gone:
                raise OutputClosedError
            yield
        finally:
            self._waiting = False

    def _watch(self) -> None:
        poll = select.poll()
        poll.register(STANDARD_OUTPUT, 0)  # errors and hang-ups are always reported
        poll.poll()
        self._gone = True
        main_thread = threading.main_thread().ident
        if main_thread is not None:
            signal.pthread_kill(main_thread, WAKE_SIGNAL)

    def _wake(self, _number: int, _frame: FrameType | None) -> None:
        if self._waiting:
            raise OutputClosedError
