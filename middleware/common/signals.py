"""The signals that stop a middleware process, and those that have no effect."""

from __future__ import annotations

import signal

SIGNALS_WITHOUT_EFFECT = (signal.SIGUSR1, signal.SIGUSR2)
"""They would end the process. They get a handler, because child processes inherit ignored signals."""


def stop_signals() -> list[signal.Signals]:
    """Returns SIGTERM, SIGINT and SIGHUP, but not SIGHUP under nohup, which ignores it."""
    under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if under_nohup else [signal.SIGHUP])]
