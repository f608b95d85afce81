"""The service as several processes that share the port; this one watches over them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable
from types import FrameType

from telesto.cli import output
from telesto.cli.exit_codes import ExitCode
from telesto.cli.serve_announce import WILDCARDS, Announcement
from telesto.middleware import listening
from telesto.middleware.processes import Supervisor, serve_process
from telesto.middleware.settings import ServerSettings

READY_POLL_S = 0.05


def serve_processes(settings: ServerSettings, announcement: Announcement, at_once: Callable[[], None]) -> int:
    """Serve until a signal; returns the exit status. Raises OSError when the address cannot be had.

    A first Ctrl-C or SIGTERM lets the processes answer what is under way and end; a second one kills them,
    calls `at_once`, which frees what outlives this process, and ends it.
    """
    settings = settings.model_copy(update={"reuse_port": True})
    with listening.bind(settings) as held:
        settings = settings.model_copy(update={"port": held.getsockname()[1]})
        supervisor = Supervisor(settings, serve_process)
        stop = _Stop(supervisor, at_once)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, stop.signalled)
        threading.Thread(target=_announce, args=(settings, announcement, stop.begun), daemon=True).start()
        supervisor.run()
    return ExitCode.DONE


class _Stop:
    """Stops the processes at the first signal, kills them at the second."""

    def __init__(self, supervisor: Supervisor, at_once: Callable[[], None]) -> None:
        self._supervisor = supervisor
        self._at_once = at_once
        self.begun = threading.Event()

    def signalled(self, number: int, frame: FrameType | None) -> None:
        """A signal has come."""
        if self.begun.is_set():
            for child in multiprocessing.active_children():
                child.kill()
            self._at_once()
            os._exit(ExitCode.INTERRUPTED)
        self.begun.set()
        output.print_note("stopping; Ctrl-C again ends at once")
        self._supervisor.stop(number, frame)


def _announce(settings: ServerSettings, announcement: Announcement, stopping: threading.Event) -> None:
    """Print the announcement once a process accepts connections."""
    host = WILDCARDS.get(settings.host, settings.host)
    while not stopping.wait(READY_POLL_S):
        try:
            socket.create_connection((host, settings.port), timeout=1.0).close()
        except OSError:
            continue
        announcement.print(settings.host, settings.port)
        return
