"""Does what is due for a blocking client while none of its callers waits for the socket."""

from __future__ import annotations

import math
import select
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

from telesto.client.io.waker import Waker
from telesto.client.options import ClientOptions

if TYPE_CHECKING:
    from telesto.client.io.driver import Driver

#: When something is due sooner than this, in seconds, it only sleeps: a call is likely to come before.
_WATCH_AFTER = 0.5
#: How long it sleeps at most while others drive, in seconds.
_SLEEP_MAX = 60.0


class BackgroundThread:
    """A background thread, started when it is first needed.

    It sends confirmations and signs of life when they are due, replaces a lost connection, and watches the
    socket while nothing else happens. It wakes rarely while calls follow each other closely: they carry the
    confirmations themselves.
    """

    def __init__(self, driver: Driver, options: ClientOptions) -> None:
        self._confirm_after = options.confirm_after
        self._driver = weakref.ref(driver)
        self._pause = options.confirm_after
        self._changes = 0
        self._waker: Waker | None = None
        self._thread: threading.Thread | None = None
        self._sleeps_until = -math.inf
        self._watching = False
        self._stopped = False

    # With the driver's lock held

    def notice(self) -> None:
        """No thread drives: makes sure that the background thread is awake when something is due."""
        if self._stopped:
            return
        if self._thread is None or self._waker is None:
            self._start()
        elif (driver := self._driver()) is not None and driver.session.timer < self._sleeps_until:
            self._waker.wake()

    def stop_watching(self) -> None:
        """A caller is about to wait for the socket, or to close it: stops watching it."""
        if self._watching and self._waker is not None:
            self._watching = False
            self._waker.wake()

    # Without it

    @property
    def started(self) -> bool:
        """Tells whether there is a thread."""
        return self._thread is not None

    def dropped(self) -> None:
        """Nothing holds the driver any more: has the thread end, by itself."""
        self._stopped = True
        if self._thread is not None and self._waker is not None:
            with suppress(OSError):  # it has seen it, and is gone
                self._waker.wake()

    def stop(self) -> None:
        """Ends the thread."""
        self._stopped = True
        thread, self._thread = self._thread, None
        if thread is not None and self._waker is not None:
            self._waker.wake()
            if thread is not threading.current_thread():
                thread.join()
            self._waker.close()

    def forked(self) -> None:
        """The thread does not exist in this process."""
        self._stopped = True
        self._thread = None
        self._watching = False
        if self._waker is not None:
            self._waker.close()

    def _start(self) -> None:
        self._waker = Waker()
        self._sleeps_until = -math.inf
        self._thread = threading.Thread(target=self._run, name="telesto-background", daemon=True)
        self._thread.start()

    # In the thread

    def _run(self) -> None:
        """Works and sleeps. Asleep it does not hold the driver, which so ends when it is dropped."""
        waker = self._waker
        assert waker is not None
        came = False
        while (driver := self._driver()) is not None:
            with driver.inner_lock:
                self._sleeps_until = -math.inf
                self._watching = False
                if self._stopped:
                    return
                waker.clear()
                if came and not driver.driven_by:
                    driver.serve_socket()
                sleep = self._work(driver)
                if self._stopped:
                    return
            del driver
            came = sleep is not None and _sleep(waker, *sleep)
        waker.close()

    def _work(self, driver: Driver) -> tuple[float, int | None] | None:
        """Does what is due; returns until when to sleep, and with an eye on which descriptor."""
        if driver.driven_by:
            longer = min(2 * self._pause, _SLEEP_MAX)
            self._pause = longer if self._changes == driver.changes else self._confirm_after
            self._changes = driver.changes
            self._sleeps_until = time.monotonic() + self._pause
            return self._sleeps_until, None
        driver.serve_due()
        if driver.sock is None and driver.session.next_attempt is not None:
            driver.connect()
            driver.hand_on()
            return None
        link = driver.session.link
        self._sleeps_until = due = driver.session.timer
        # An eye on the socket, unless calls are likely.
        quiet = link is not None and (link.pending or due - time.monotonic() > _WATCH_AFTER)
        self._watching = driver.sock is not None and bool(quiet)
        return due, driver.sock.fileno() if driver.sock is not None and quiet else None


def _sleep(waker: Waker, until: float, descriptor: int | None) -> bool:
    """Tells whether the descriptor is ready."""
    poll = select.poll()
    poll.register(waker, select.POLLIN)
    if descriptor is not None:
        poll.register(descriptor, select.POLLIN)
    timeout_ms = None if until == math.inf else max(0.0, (until - time.monotonic()) * 1000)
    return any(ready == descriptor for ready, _ in poll.poll(timeout_ms))
