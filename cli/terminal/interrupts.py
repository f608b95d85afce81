"""The effect of SIGINT (Ctrl-C), SIGTERM and SIGHUP on a command, and how to hold them back briefly."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def take_over() -> None:
    """Make each of the signals unwind this program, whatever it inherited; for the main thread.

    A shell without job control starts background programs with SIGINT ignored, but a SIGINT that is sent to
    such a program is meant for it. A program under nohup, which ignores SIGHUP, must outlive its terminal:
    SIGHUP stays ignored there, and SIGINT too if it is.
    """
    under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    spared = set(SIGNALS) - set(handled()) - {signal.SIGTERM} if under_nohup else set()
    for number in set(SIGNALS) - spared:
        signal.signal(number, _unwind)


def handled() -> list[signal.Signals]:
    """The signals that are not ignored."""
    return [number for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN]


def name_of(number: int) -> str:
    """The name of a signal, as its sender knows it."""
    return "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name


def raise_for(number: int) -> None:
    """Unwind as for Ctrl-C, so that the command releases what it holds.

    Raises KeyboardInterrupt for SIGINT, SystemExit with 128 plus the number for another signal.
    """
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _unwind(number: int, _frame: FrameType | None) -> None:
    raise_for(number)


class Interrupts:
    """Raises for a signal at once, or at the end of `held` if it comes inside; for the main thread."""

    def __init__(self) -> None:
        self._held = False
        self._pending: int | None = None
        for number in handled():
            signal.signal(number, self._signalled)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep a signal back until the end of the block; a second one is not kept back."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            self._raise_pending()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Inside `held`: a signal may come in this block, which waits for something."""
        self._held = False
        try:
            self._raise_pending()
            yield
        finally:
            self._held = True

    def _signalled(self, number: int, _frame: FrameType | None) -> None:
        if self._held and self._pending is None:
            self._pending = number
        else:
            raise_for(number)

    def _raise_pending(self) -> None:
        if self._pending is not None:
            number, self._pending = self._pending, None
            raise_for(number)
