"""What a service manager such as systemd is told, by datagrams to its NOTIFY_SOCKET (sd_notify(3))."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from contextlib import suppress


class ServiceManager:
    """Tells that the service is ready, that it stops, and meanwhile that it lives (WatchdogSec=).

    Without a NOTIFY_SOCKET it tells nobody. The variables are removed, so that PostgreSQL, which may know the
    protocol too, does not speak for the service.
    """

    def __init__(self) -> None:
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        watchdog_us = os.environ.pop("WATCHDOG_USEC", "")
        ours = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        self._period_s = int(watchdog_us) / 1e6 / 3 if ours and watchdog_us.isdigit() else 0.0
        self._stopping = threading.Event()

    def ready(self, status: str, loop: asyncio.AbstractEventLoop | None = None) -> None:
        """The service accepts clients. From now on the watchdog hears of it, as long as `loop` turns."""
        self._tell("READY=1", f"STATUS={status}")
        if self._address and self._period_s:
            threading.Thread(target=self._live, args=(loop,), name="watchdog", daemon=True).start()

    def stopping(self) -> None:
        """The service ends: its loop does not turn any more while PostgreSQL stops."""
        self._stopping.set()
        self._tell("STOPPING=1", "STATUS=stopping")

    def _live(self, loop: asyncio.AbstractEventLoop | None) -> None:
        turned = threading.Event()
        pause = threading.Event()
        while True:
            if loop is None or self._stopping.is_set():
                turned.set()
            else:
                with suppress(RuntimeError):  # it was closed in between
                    loop.call_soon_threadsafe(turned.set)
            pause.wait(self._period_s)
            if turned.is_set():
                turned.clear()
                self._tell("WATCHDOG=1")

    def _tell(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto("\n".join(lines).encode(), self._address)
