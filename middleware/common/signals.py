"""Which signals stop a middleware that is run by itself, and which do nothing."""

from __future__ import annotations

import signal

SIGNALS_WITHOUT_EFFECT = (signal.SIGUSR1, signal.SIGUSR2)
"""By default they would end the process. They get a handler: ignored signals are inherited."""


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, SIGINT and SIGHUP; not SIGHUP under nohup, which ignores it."""
    under_nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return [signal.SIGTERM, signal.SIGINT, *([] if under_nohup else [signal.SIGHUP])]
