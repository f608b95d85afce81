"""One process of `telesto worker`: imports the application and runs its tasks."""

from __future__ import annotations

import asyncio
import importlib
import io
import logging
import multiprocessing
import os
import signal
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import NoReturn

from telesto.cli.common.service_errors import describe
from telesto.client import QueueSettingsDifferError, TelestoError
from telesto.tasks import App, TaskTimeoutError, Worker

#: How often a process tells the supervisor of what it has done, in seconds.
TELL_S = 0.25
#: The exit statuses of a process that could not begin, that failed, and of which a function ran too long.
REFUSED, FAILED, OVERDUE = 2, 1, 3
#: Signals that are for the supervisor. They get a handler, because what tasks start inherits ignored ones.
SUPERVISORS = (signal.SIGINT, signal.SIGHUP)
#: Has a process end at once. A second SIGTERM could be lost behind the first one.
AT_ONCE = signal.SIGUSR1
_log = logging.getLogger("telesto.tasks")


@dataclass(frozen=True)
class Plan:
    """What the user asked for; `application` is MODULE:APP."""

    application: str
    concurrency: int
    queues: tuple[str, ...] | None
    drain: float
    update_queues: bool


class RefusedError(Exception):
    """The application cannot be run as it is; the text says why."""


def run(plan: Plan, events: Connection) -> NoReturn:
    """Work until SIGTERM or AT_ONCE, and end the process, whatever threads still run.

    The supervisor is told by `events`: ("working", None), ("refused", why), and ("done", a list of task,
    outcome and seconds).
    """
    for number in SUPERVISORS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SUPERVISORS)
    threading.Thread(target=_end_with_the_supervisor, name="supervisor", daemon=True).start()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # so that the lines of processes stay apart
    logging.basicConfig(format="%(asctime)s %(process)d %(levelname)s %(message)s")
    _log.setLevel(logging.INFO)
    code = FAILED
    try:
        app = load(plan.application)
        code = asyncio.run(_work(app, plan, events))
        app.close()
    except RefusedError as error:
        code = REFUSED
        with suppress(OSError):
            events.send(("refused", str(error)))
    except BaseException:  # noqa: BLE001 - told, and the process ends
        _log.exception("the process ends")
    finally:
        logging.shutdown()
        sys.stdout.flush()
        os._exit(code)


def load(application: str) -> App:
    """Import an application. Raises RefusedError."""
    module_name, _, name = application.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise RefusedError(f"there is no module {error.name!r} in {os.getcwd()}, nor installed") from error
    except Exception as error:
        _log.exception("importing %s failed", module_name)
        raise RefusedError(f"importing {module_name} failed: {type(error).__name__}: {error}") from error
    app = getattr(module, name, None)
    if isinstance(app, App):
        return app
    there = [known for known, value in vars(module).items() if isinstance(value, App)]
    hint = f"; there is {module_name}:{there[0]}" if there else ""
    what = f"is a {type(app).__name__}, no App" if hasattr(module, name) else "does not exist"
    raise RefusedError(f"{application} {what}{hint}")


async def _work(app: App, plan: Plan, events: Connection) -> int:
    done: list[tuple[str, str, float]] = []
    try:
        worker = Worker(
            app,
            concurrency=plan.concurrency,
            queues=plan.queues,
            drain=plan.drain,
            update_queues=plan.update_queues,
            observer=lambda *what: done.append(what),
        )
    except ValueError as error:
        raise RefusedError(f"{plan.application}: {error}") from error

    def tell() -> None:
        if done:
            events.send(("done", done.copy()))
            done.clear()

    async def telling() -> None:
        await worker.working.wait()
        events.send(("working", None))
        while True:
            await asyncio.sleep(TELL_S)
            tell()

    asyncio.get_running_loop().add_signal_handler(AT_ONCE, worker.stop, 0)
    teller = asyncio.create_task(telling())
    try:
        await worker.run(stop_signals=[signal.SIGTERM])
    except TaskTimeoutError:
        return OVERDUE
    except TelestoError as error:
        if worker.working.is_set():
            raise
        advice = "; --update-queues changes it" if isinstance(error, QueueSettingsDifferError) else ""
        raise RefusedError(describe(error).replace("; update=True changes it", advice)) from error
    finally:
        teller.cancel()
        with suppress(OSError):
            tell()
    return 0


def _end_with_the_supervisor() -> None:
    """End this process in order when the supervisor is gone, however it ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
