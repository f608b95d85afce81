"""Tells the user that a command waits for a connection."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from telesto.cli.terminal import output
from telesto.client import LoginsPausedError, TelestoClient, TelestoError
from telesto.client.url import without_password

NOTICE_AFTER_S = 3.0
"""A shorter interruption is not reported."""
POLL_S = 0.25


class ConnectionNotices:
    """Decides when to report that the service at `url` is away, and that it is back; once each time."""

    def __init__(self, url: str, say: Callable[[str], None]) -> None:
        self._url = without_password(url)
        self._say = say
        self._away_since: float | None = None
        self._told = False

    def look(self, connected: bool, now: float, hindrance: TelestoError | None = None) -> None:
        """Check whether there is a connection at `now`, in seconds of a monotonic clock, and why not."""
        if connected:
            if self._told:
                self._say(f"connected to {self._url}")
            self._away_since, self._told = None, False
            return
        if self._away_since is None:
            self._away_since = now
        if self._told:
            return
        if isinstance(hindrance, LoginsPausedError):
            self._say(f"{hindrance.details}. This command tries again after that")
            self._told = True
        elif now - self._away_since >= NOTICE_AFTER_S:
            self._say(
                f"there is no connection to {self._url}; is `telesto serve` running there? "
                "This command keeps trying"
            )
            self._told = True


@contextmanager
def watched(client: TelestoClient, url: str, connected: Callable[[], bool]) -> Iterator[None]:
    """Report on standard error if `client` has no connection to the service at `url` inside the block."""
    over = threading.Event()
    notices = ConnectionNotices(url, output.print_error)

    def watch() -> None:
        while not over.is_set():
            notices.look(connected(), time.monotonic(), client.hindrance)
            over.wait(POLL_S)

    watcher = threading.Thread(target=watch, name="notices", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
