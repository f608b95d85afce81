"""The service in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from telesto.cli.serve.announce import Announcement
from telesto.cli.serve.stop import Stop
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.server import MiddlewareServer


def serve_single(settings: ServerSettings, announcement: Announcement, stop: Stop) -> int:
    """Serve until a signal; return the exit status. Raises OSError if the address cannot be bound.

    At the signal the requests in flight are answered first.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        loop = runner.get_loop()
        requested = asyncio.Event()
        stop.graceful = lambda: loop.call_soon_threadsafe(requested.set)
        runner.run(_serve(settings, announcement, stop, requested))
    return ExitCode.DONE


async def _serve(
    settings: ServerSettings, announcement: Announcement, stop: Stop, requested: asyncio.Event
) -> None:
    server = MiddlewareServer(settings)
    if (tls := server.tls) is not None:
        loop = asyncio.get_running_loop()
        stop.read_certificates = lambda: loop.call_soon_threadsafe(tls.read_again)
    start = asyncio.create_task(server.start())
    end = asyncio.create_task(_end(requested, server, start))
    try:
        with suppress(asyncio.CancelledError):
            await start
            announcement.print(*server.address, server.admin_address, asyncio.get_running_loop())
            await server.wait_closed()
    finally:
        end.cancel()


async def _end(requested: asyncio.Event, server: MiddlewareServer, start: asyncio.Task[None]) -> None:
    await requested.wait()
    if start.done():
        server.request_stop()
    else:
        start.cancel()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, else None for asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
