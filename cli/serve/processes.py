"""The service as several processes that share the port, under a supervisor."""

from __future__ import annotations

import multiprocessing
import socket
import threading

from telesto.cli.serve.announce import WILDCARDS, Announcement
from telesto.cli.serve.stop import Stop
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.middleware.common import listening
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.processes import Supervisor, serve_process

READY_POLL_S = 0.05


def serve_processes(settings: ServerSettings, announcement: Announcement, stop: Stop) -> int:
    """Serve until a signal; return the exit status. Raises OSError if the address cannot be bound.

    At the signal the processes first answer the requests in flight.
    """
    settings = settings.model_copy(update={"reuse_port": True})
    with listening.bind(settings.host, settings.port, reuse_port=True) as held:
        settings = settings.model_copy(update={"port": held.getsockname()[1]})
        supervisor = Supervisor(settings, serve_process)
        ours = stop.at_once

        def at_once() -> None:
            for child in multiprocessing.active_children():
                child.kill()
            ours()

        stop.graceful, stop.at_once = supervisor.stop, at_once
        if stop.read_certificates is not None:
            stop.read_certificates = supervisor.read_certificates
        threading.Thread(target=_announce, args=(settings, announcement, stop), daemon=True).start()
        supervisor.run()
    return ExitCode.DONE


def _announce(settings: ServerSettings, announcement: Announcement, stop: Stop) -> None:
    """Print the announcement once a process accepts connections."""
    host = WILDCARDS.get(settings.host, settings.host)
    pause = threading.Event()
    while not stop.begun:
        try:
            socket.create_connection((host, settings.port), timeout=1.0).close()
        except OSError:
            pause.wait(READY_POLL_S)
            continue
        announcement.print(settings.host, settings.port)
        return
