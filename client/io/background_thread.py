"""Does what is due for a blocking client while none of its callers waits for the socket."""

from __future__ import annotations

import math
import select
import threading
import time
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
        self._driver = driver
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
        elif self._driver.session.timer < self._sleeps_until:
            self._waker.wake()

    def stop_watching(self) -> None:
        """A caller is about to wait for the socket, or to close it: stops watching it."""
        if self._watching and self._waker is not None:
            self._watching = False
            self._waker.wake()

    # Without it

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
        driver = self._driver
        waker = self._waker
        assert waker is not None
        sleep = self._confirm_after
        changes = 0
        with driver.inner_lock:
            while not self._stopped:
                if driver.driven_by:
                    sleep = min(2 * sleep, _SLEEP_MAX) if changes == driver.changes else self._confirm_after
                    changes = driver.changes
                    self._sleep(waker, time.monotonic() + sleep)
                    continue
                driver.serve_due()
                if driver.sock is None and driver.session.next_attempt is not None:
                    driver.connect()
                    driver.hand_on()
                else:
                    self._keep(waker)

    def _keep(self, waker: Waker) -> None:
        """Sleeps until something is due, with an eye on the socket unless calls are likely."""
        driver = self._driver
        link = driver.session.link
        due = driver.session.timer
        quiet = link is not None and (link.pending or due - time.monotonic() > _WATCH_AFTER)
        if driver.sock is not None and quiet:
            self._watching = True
            came = self._sleep(waker, due, driver.sock.fileno())
            self._watching = False
            if came and not driver.driven_by:
                driver.serve_socket()
        else:
            self._sleep(waker, due)

    def _sleep(self, waker: Waker, until: float, descriptor: int | None = None) -> bool:
        """Sleeps with the lock released; tells whether the descriptor is ready."""
        poll = select.poll()
        poll.register(waker, select.POLLIN)
        if descriptor is not None:
            poll.register(descriptor, select.POLLIN)
        timeout_ms = None if until == math.inf else max(0.0, (until - time.monotonic()) * 1000)
        self._sleeps_until = until
        self._driver.inner_lock.release()
        try:
            events = poll.poll(timeout_ms)
        finally:
            self._driver.inner_lock.acquire()
        self._sleeps_until = -math.inf
        waker.clear()
        return any(ready == descriptor for ready, _ in events)
