"""The effect of signals on `telesto serve`."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType

from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.interrupts import handled, name_of, raise_for
from telesto.middleware.common.signals import SIGNALS_WITHOUT_EFFECT


class Stop:
    """Stops the service in order at a first signal, at once at a second one; for the main thread.

    SIGHUP does not count as a first or second signal: a closing terminal sends one and its shell another, and
    systemd may send one together with SIGTERM. With TLS it stops nothing: the certificate is read again.

    Attributes:
        begun: whether a signal has come.
        graceful: begins the stop, without raising. If it is None, the program is unwound.
        at_once: ends everything that would outlive this process.
        read_certificates: what SIGHUP does with TLS; None without.
    """

    def __init__(self, *, tls: bool, on_stop: Callable[[], object]) -> None:
        """`on_stop` is called at the first signal, before anything else."""
        self.begun = False
        self._on_stop = on_stop
        self._insisted = False
        self.graceful: Callable[[], object] | None = None
        self.at_once: Callable[[], object] = _nothing
        self.read_certificates: Callable[[], object] | None = _nothing if tls else None
        for number in handled():
            signal.signal(number, self._signalled)
        for number in SIGNALS_WITHOUT_EFFECT:
            signal.signal(number, _nothing)

    def served(self) -> None:
        """The service has ended: a first signal from now on changes nothing."""
        self.graceful = _nothing

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGHUP and self.read_certificates is not None:
            self.read_certificates()
            return
        if self._insisted and number != signal.SIGHUP:
            self.at_once()
            os._exit(ExitCode.INTERRUPTED)
        self._insisted |= number != signal.SIGHUP
        if not self.begun:
            self.begun = True
            self._on_stop()
            output.print_note(f"stopping; a second {name_of(number)} ends at once")
            if self.graceful is None:
                raise_for(number)
            else:
                self.graceful()


def _nothing(*_: object) -> None:
    """Do nothing."""
