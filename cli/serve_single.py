"""The service in this process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress

from telesto.cli import output
from telesto.cli.exit_codes import ExitCode
from telesto.cli.serve_announce import Announcement
from telesto.middleware.server import MiddlewareServer
from telesto.middleware.settings import ServerSettings


def serve_single(settings: ServerSettings, announcement: Announcement, at_once: Callable[[], None]) -> int:
    """Serve until a signal; returns the exit status. Raises OSError when the address cannot be had.

    A first Ctrl-C or SIGTERM answers what is under way and ends; at a second one `at_once` is called, which
    frees what outlives the process, and the process ends.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings, announcement, at_once))
    return ExitCode.DONE


async def _serve(settings: ServerSettings, announcement: Announcement, at_once: Callable[[], None]) -> None:
    server = MiddlewareServer(settings)
    start = asyncio.create_task(server.start())
    stop = _Stop(start.cancel, at_once)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.signalled)
    with suppress(asyncio.CancelledError):
        await start
        stop.graceful = server.request_stop
        announcement.print(*server.address, server.admin_address)
        await server.wait_closed()


class _Stop:
    """Stops the service at the first signal, the process at the second.

    Attributes:
        graceful: ends what there is at present: the start, later the server.
    """

    def __init__(self, graceful: Callable[[], object], at_once: Callable[[], None]) -> None:
        self.graceful = graceful
        self._at_once = at_once
        self._signalled = False

    def signalled(self) -> None:
        """A signal has come."""
        if self._signalled:
            self._at_once()
            os._exit(ExitCode.INTERRUPTED)
        self._signalled = True
        output.print_note("stopping; Ctrl-C again ends at once")
        self.graceful()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, else None for asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
