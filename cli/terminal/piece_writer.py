"""Interruptible writing that knows how much was written."""

from __future__ import annotations

import select

from telesto.cli.terminal import output
from telesto.cli.terminal.interrupts import Interrupts

PIECE_BYTES_MAX = select.PIPE_BUF
"""A ready pipe takes this many bytes without blocking."""
READY_POLL_MS = 500


class PieceWriter:
    """Writes to standard output; a signal may come only between two pieces, while it waits for the reader.

    Attributes:
        written: bytes of the last `write` that the kernel has, also after it was interrupted.
    """

    def __init__(self, interrupts: Interrupts) -> None:
        self._interrupts = interrupts
        self.written = 0

    def write(self, data: bytes) -> None:
        """Write all of `data`; to be called inside `held` of the interrupts.

        Raises OutputClosedError when the reader is gone, CommandError when it cannot be written, and what the
        interrupts raise.
        """
        self.written = 0
        view = memoryview(data)
        while self.written < len(view):
            with self._interrupts.let_through():
                _wait_until_ready()
            self.written += output.write_some(view[self.written : self.written + PIECE_BYTES_MAX])


def _wait_until_ready() -> None:
    poll = select.poll()
    poll.register(output.STANDARD_OUTPUT, select.POLLOUT)
    # The pause is bounded for a signal that comes just before it begins.
    while not poll.poll(READY_POLL_MS):
        pass
