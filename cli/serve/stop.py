"""What signals do to `telesto serve`, from its first step to its last."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.interrupts import handled, raise_for
from telesto.middleware.common.signals import SIGNALS_WITHOUT_EFFECT


class Stop:
    """Stops the service in order at a first signal, at once at a second one; for the main thread.

    SIGHUP does not count as a second one, nor as a first: a terminal that goes away sends one and its shell
    another one, and systemd may send one together with SIGTERM.

    Attributes:
        begun: whether a signal has come.
        graceful: begins the stop of what runs, without raising. While there is none the program is unwound.
        at_once: frees what would outlive this process.
    """

    def __init__(self) -> None:
        self.begun = False
        self._insisted = False
        self.graceful: Callable[[], object] | None = None
        self.at_once: Callable[[], object] = _nothing
        for number in handled():
            signal.signal(number, self._signalled)
        for number in SIGNALS_WITHOUT_EFFECT:
            signal.signal(number, _nothing)

    def served(self) -> None:
        """What ran has ended: a first signal from now on changes nothing."""
        self.graceful = _nothing

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._insisted and number != signal.SIGHUP:
            self.at_once()
            os._exit(ExitCode.INTERRUPTED)
        self._insisted |= number != signal.SIGHUP
        if not self.begun:
            self.begun = True
            output.print_note("stopping; a second Ctrl-C ends at once")
            if self.graceful is None:
                raise_for(number)
            else:
                self.graceful()


def _nothing(*_: object) -> None:
    """There is nothing to do."""
