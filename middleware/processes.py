"""Several processes on one port: the parent starts them, restarts those that crash, and forwards signals."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from telesto.middleware.common import listening
from telesto.middleware.common.logs import configure, logger
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.common.signals import SIGNALS_WITHOUT_EFFECT, stop_signals

_log = logger("processes")
_FIRST_BACKOFF_S = 0.1
#: After a process has lived this long, its next crash begins with the first pause again.
_STEADY_S = 30.0


class Supervisor:
    """Keeps a number of processes running until it is stopped.

    Each listens on the same port (SO_REUSEPORT), so that the kernel distributes the connections. The parent
    holds the port without listening.
    """

    def __init__(self, settings: ServerSettings, target: Callable[[ServerSettings], None]) -> None:
        self._settings = settings
        self._target = target
        self._context = multiprocessing.get_context("spawn")
        self._children: dict[int, SpawnProcess] = {}
        self._started: dict[int, float] = {}
        self._backoff: dict[int, float] = {}
        self._due: dict[int, float] = {}
        self._stopping = False
        self._bell, self._bell_end = socket.socketpair()
        self._bell_end.setblocking(False)

    def run(self) -> None:
        """Runs the processes. Returns when it was stopped and all of them have ended."""
        for index in range(self._settings.processes):
            if not self._stopping:
                self._start(index)
        while self._children or (self._due and not self._stopping):
            self._wait()
            for index, child in list(self._children.items()):
                if child.exitcode is not None:
                    self._ended(index, child.exitcode)
            self._start_due()
        self._bell.close()
        self._bell_end.close()

    def stop(self, number: int = signal.SIGTERM, _frame: FrameType | None = None) -> None:
        """Terminates the processes and starts no more."""
        self._stopping = True
        for child in self._children.values():
            if child.is_alive():
                child.terminate()
        self._bell_end.send(b"!")

    def read_certificates(self, *_: object) -> None:
        """Has the processes read their certificate again."""
        for child in self._children.values():
            if child.is_alive() and child.pid is not None:
                os.kill(child.pid, signal.SIGHUP)

    def _wait(self) -> None:
        timeout = None
        if self._due and not self._stopping:
            timeout = max(0.0, min(self._due.values()) - time.monotonic())
        ready = wait([self._bell, *(child.sentinel for child in self._children.values())], timeout)
        if self._bell in ready:
            self._bell.recv(64)
        for child in self._children.values():
            if child.sentinel in ready:
                child.join()

    def _start_due(self) -> None:
        if self._stopping:
            return
        now = time.monotonic()
        for index in [index for index, due in self._due.items() if due <= now]:
            del self._due[index]
            self._start(index)

    def _start(self, index: int) -> None:
        child = self._context.Process(target=self._target, args=(self._of(index),), name=f"telesto {index}")
        # It has SIGHUP blocked until it has a handler: one that comes earlier would end it.
        blocked = {signal.SIGHUP} if self._settings.tls_certificate else ()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        child.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        self._children[index] = child
        self._started[index] = time.monotonic()
        if self._stopping:  # a signal came while it was being started
            child.terminate()

    def _of(self, index: int) -> ServerSettings:
        """Returns the settings of one process: the shared port, and an admin port of its own."""
        admin_port = self._settings.admin_port
        if admin_port:
            admin_port += index
        return self._settings.model_copy(
            update={"processes": 1, "reuse_port": True, "admin_port": admin_port}
        )

    def _ended(self, index: int, exit_code: int) -> None:
        del self._children[index]
        if self._stopping:
            return
        steady = time.monotonic() - self._started[index] > _STEADY_S
        pause_s = _FIRST_BACKOFF_S if steady else self._backoff.get(index, _FIRST_BACKOFF_S)
        self._backoff[index] = min(2 * pause_s, self._settings.restart_backoff_s)
        self._due[index] = time.monotonic() + pause_s
        _log.warning("process_ended", index=index, exit_code=exit_code, restart_in_s=pause_s)


def supervise(settings: ServerSettings) -> None:
    """Runs the processes of the settings until SIGTERM, SIGINT or SIGHUP."""
    settings = settings.model_copy(update={"reuse_port": True})
    with listening.bind(settings.host, settings.port, reuse_port=True) as held:
        settings = settings.model_copy(update={"port": held.getsockname()[1]})
        supervisor = Supervisor(settings, serve_process)
        for number in stop_signals():
            signal.signal(number, supervisor.stop)
        if settings.tls_certificate is not None:
            signal.signal(signal.SIGHUP, supervisor.read_certificates)
        for number in SIGNALS_WITHOUT_EFFECT:
            signal.signal(number, lambda *_: None)
        _log.info("serving", host=settings.host, port=settings.port, processes=settings.processes)
        supervisor.run()


def serve_process(settings: ServerSettings) -> None:
    """Runs one process."""
    from telesto.middleware.server import run

    configure(settings.log_level, json=settings.log_json)
    run(settings)
