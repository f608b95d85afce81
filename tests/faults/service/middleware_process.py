"""A middleware as a process that ends with its owner; it says when it serves."""

import asyncio
import faulthandler
import signal
import sys

import uvloop

from telesto.middleware.common.logs import configure
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.server import MiddlewareServer

from .processes import end_with_parent


def main() -> None:
    """Serves with the settings of the environment until SIGTERM; SIGUSR1 shows what it is doing."""
    end_with_parent()
    faulthandler.register(signal.SIGUSR1)
    settings = ServerSettings.load()
    configure(settings.log_level, json=settings.log_json)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings))


async def _serve(settings: ServerSettings) -> None:
    server = MiddlewareServer(settings)
    await server.start()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, server.request_stop)
    loop.add_signal_handler(signal.SIGUSR2, _show_tasks)
    print("serving", flush=True)
    await server.wait_closed()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        print(f"tasks left: {others}", file=sys.stderr)


def _show_tasks() -> None:
    for task in asyncio.all_tasks():
        task.print_stack(file=sys.stderr)


if __name__ == "__main__":
    main()
