"""One process of `telesto worker`: imports the application and runs its tasks."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import io
import logging
import math
import multiprocessing
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import NoReturn

from telesto.cli.common.service_errors import explain
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error
from telesto.cli.terminal.progress import is_shown
from telesto.client import TelestoError
from telesto.tasks import App, TaskTimeoutError, Worker
from telesto.tasks.worker import stack_of

#: How often a process tells the supervisor of what it has done, in seconds.
TELL_S = 0.25
#: The exit statuses of a process that could not begin, that failed, and of which a function ran too long.
REFUSED, FAILED, OVERDUE = 2, 1, 3
#: After so long, in seconds, it is told that a coroutine blocks the event loop.
BLOCKED_S = 5.0
#: Signals that are for the supervisor. They get a handler, because what tasks start inherits ignored ones.
SUPERVISORS = (signal.SIGINT, signal.SIGHUP)
#: Has a process end at once. A second SIGTERM could be lost behind the first one.
AT_ONCE = signal.SIGUSR1
#: How much longer than its tasks a process may take to end, in seconds, before it is killed.
GRACE_S = 5.0
#: Has a terminal go to the beginning of the line and clear it.
CLEAR_LINE = "\r\x1b[2K"
_log = logging.getLogger("telesto.tasks")


@dataclass(frozen=True)
class Plan:
    """What the user asked for; `application` is MODULE:APP."""

    application: str
    concurrency: int
    queues: tuple[str, ...] | None
    drain: float
    update_queues: bool


class _Lines(io.TextIOWrapper):
    """Writes whole lines, so that those of several processes stay apart.

    Where the supervisor shows its progress, in the line of the cursor, each begins by clearing that line.
    """

    def __init__(self, descriptor: int) -> None:
        file = open(descriptor, "wb", closefd=False)  # noqa: SIM115 - it stays open
        super().__init__(file, errors="backslashreplace", line_buffering=True)
        self._clear = CLEAR_LINE if is_shown() and os.isatty(descriptor) else ""
        self._at_start = True

    def write(self, text: str) -> int:
        """Write a text."""
        if self._clear and self._at_start and text:
            super().write(self._clear)
        self._at_start = text.endswith("\n") if text else self._at_start
        return super().write(text)


def run(plan: Plan, events: Connection) -> NoReturn:
    """Work until SIGTERM or AT_ONCE, and end the process, whatever threads still run.

    The supervisor is told by `events`: ("working", None), ("refused", a message and an exit code), and
    ("done", a list of task, outcome and seconds).
    """
    for number in SUPERVISORS:
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SUPERVISORS)
    threading.Thread(target=_end_with_the_supervisor, args=(plan.drain,), daemon=True).start()
    if sys.stdout is not None:  # as where its descriptor was closed
        sys.stdout = _Lines(sys.stdout.fileno())
    if sys.stderr is not None:
        sys.stderr = _Lines(sys.stderr.fileno())
    _log.setLevel(logging.INFO)
    code = FAILED
    try:
        app = load(plan.application)
        # Where the application has not configured logging, what it tells is shown.
        logging.basicConfig(format="%(asctime)s %(process)d %(levelname)s %(message)s", level=logging.INFO)
        code = asyncio.run(_work(app, plan, events))
        app.close()
    except CommandError as error:
        code = REFUSED
        with suppress(OSError):
            events.send(("refused", (error.message, error.code)))
    except BaseException:  # noqa: BLE001 - told, and the process ends
        _log.exception("the process ends")
    finally:
        logging.shutdown()
        if sys.stdout is not None:
            sys.stdout.flush()
        os._exit(code)


def load(application: str) -> App:
    """Import an application. Raises CommandError."""
    module_name, _, name = application.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise usage_error(f"there is no module {error.name!r} in {os.getcwd()}, nor installed") from error
    except Exception as error:
        _log.exception("importing %s failed", module_name)
        why = f"importing {module_name} failed: {type(error).__name__}: {error}"
        raise CommandError(why, ExitCode.REFUSED) from error
    app = getattr(module, name, None)
    if isinstance(app, App):
        return app
    there = [known for known, value in vars(module).items() if isinstance(value, App)]
    hint = f"; there is {module_name}:{there[0]}" if there else ""
    what = f"is a {type(app).__name__}, no App" if hasattr(module, name) else "does not exist"
    raise usage_error(f"{application} {what}{hint}")


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
        raise usage_error(f"{plan.application}: {error}") from error

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

    watch = LoopWatch(app, worker)
    beating = asyncio.create_task(watch.beat())
    threading.Thread(target=watch.run, daemon=True).start()
    asyncio.get_running_loop().add_signal_handler(AT_ONCE, worker.stop, 0)
    teller = asyncio.create_task(telling())
    try:
        await worker.run(stop_signals=[signal.SIGTERM])
    except TaskTimeoutError:
        return OVERDUE
    except TelestoError as error:
        explained = explain(error)
        if worker.working.is_set() and explained.code is not ExitCode.NOT_ALLOWED:
            raise
        why = explained.message.replace("; update=True changes", "; --update-queues changes")
        raise CommandError(why, explained.code) from error
    finally:
        teller.cancel()
        beating.cancel()
        with suppress(OSError):
            tell()
    return 0


class LoopWatch:
    """Tells when a coroutine blocks the event loop, where no timeout of asyncio can end it.

    When that lasts longer than any coroutine may take, the process ends.
    """

    def __init__(self, app: App, worker: Worker) -> None:
        tasks = [task for task in app.tasks.values() if task.queue in worker.queues]
        timeouts = [task.timeout for task in tasks if inspect.iscoroutinefunction(task.function)]
        self._limit = max((math.inf if limit is None else limit for limit in timeouts), default=math.inf)
        self._last = time.monotonic()

    async def beat(self) -> None:
        """Show that the event loop runs, until this is cancelled."""
        while True:
            self._last = time.monotonic()
            await asyncio.sleep(TELL_S)

    def run(self) -> None:
        """Watch, in a thread of its own."""
        told = math.inf
        while True:
            before = time.monotonic()
            time.sleep(TELL_S)
            now = time.monotonic()
            if now - before > BLOCKED_S / 2:  # the whole process stood still, and the event loop may run now
                self._last = now
            last = self._last
            blocked = now - last
            if blocked > self._limit + GRACE_S:
                _log.error("no coroutine may run for more than %g s, so this process ends", self._limit)
                os._exit(OVERDUE)
            if blocked > BLOCKED_S and told != last:
                told = last
                where = stack_of(threading.main_thread())
                _log.error("a coroutine blocks the event loop for %d s now; it is here:\n%s", blocked, where)


def _end_with_the_supervisor(drain: float) -> None:
    """End this process in order when the supervisor is gone, however it ended."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(drain + GRACE_S)
    os._exit(FAILED)  # a coroutine blocks the event loop
