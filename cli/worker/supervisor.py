"""The processes of `telesto worker`: started, started again when they die, exchanged, and stopped.

The middleware's supervisor (`telesto.middleware.processes`) does not serve here: it exchanges no code and
hears nothing from its processes, and a worker's machine need not have what a middleware imports.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import time
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType

from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError
from telesto.cli.terminal.interrupts import handled, name_of
from telesto.cli.terminal.progress import Progress, progress_of
from telesto.cli.worker.metrics import Metrics
from telesto.cli.worker.process import AT_ONCE, GRACE_S, SUPERVISORS, Plan, run

_PAUSE_LEAST_S, _PAUSE_MOST_S = 0.1, 10.0
#: The longest pause before a process whose login failed begins anew: somebody has to mend that.
_DENIED_MOST_S = 60.0
#: After a process has lived this long, its next death is followed by the shortest pause again.
_STEADY_S = 30.0


class Child:
    """A process, as the supervisor knows it.

    Attributes:
        index: its place, from 0.
        generation: how often the code was loaded anew before it started.
        working: it has joined its queues.
        leaving: it was told to end.
        denied: its login failed, or a right was missing.
        kill_at: when it is killed if it has not ended by then.
    """

    def __init__(self, plan: Plan, index: int, generation: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.events, theirs = context.Pipe(duplex=False)
        self.index = index
        self.generation = generation
        self.working = False
        self.leaving = False
        self.denied = False
        self.kill_at = math.inf
        self._drain = plan.drain
        self.since = time.monotonic()
        self.process: SpawnProcess = context.Process(
            target=run, args=(plan, theirs), name=f"telesto worker {index}"
        )
        # Until the process has its own handlers, what the terminal sends to all must not end it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SUPERVISORS)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def leave(self) -> None:
        """Tell it to end; again to do so at once."""
        drain = 0.0 if self.leaving else self._drain
        self.kill_at = min(self.kill_at, time.monotonic() + drain + GRACE_S)
        if self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, AT_ONCE if self.leaving else signal.SIGTERM)
        self.leaving = True


class Supervisor:
    """Keeps processes of the newest code that works."""

    def __init__(self, plan: Plan, count: int, metrics: Metrics, progress: Progress) -> None:
        self._plan = plan
        self._count = count
        self._metrics = metrics
        self._progress = progress
        self._children: list[Child] = []
        self._generation = 0
        self._working_generation = -1
        self._pauses = [_PAUSE_LEAST_S] * count
        self._due: dict[int, float] = {}
        self._stops = 0
        self._stop_signal = 0
        self._stops_told = 0
        self._reload = False
        #: Why processes cannot begin, as it was told; None once one works.
        self._denied: str | None = None
        self._bell, self._bell_end = socket.socketpair()
        self._bell_end.setblocking(False)

    def signalled(self, number: int, _frame: FrameType | None) -> None:
        """Take note of a signal."""
        if number == signal.SIGHUP:
            self._reload = True
        else:
            self._stops += 1
            self._stop_signal = number
        with suppress(OSError):
            self._bell_end.send(b"!")

    def run(self) -> None:
        """Run the processes until a signal. Raises CommandError when they cannot begin."""
        try:
            self._start_all()
            while self._children or (self._due and not self._stops):
                self._wait()
                self._heed_signals()
                self._kill_overdue()
                for child in [child for child in self._children if not child.process.is_alive()]:
                    self._ended(child)
                self._start_due()
        finally:
            for child in self._children:
                child.process.kill()
                child.process.join()
            self._bell.close()
            self._bell_end.close()

    # ------------------------------------------------------------------ what happens

    def _wait(self) -> None:
        next_s = min([*self._due.values(), *(child.kill_at for child in self._children)], default=math.inf)
        timeout = max(0.0, next_s - time.monotonic()) if next_s < math.inf else None
        sources = {child.events: child for child in self._children if not child.events.closed}
        sentinels = [child.process.sentinel for child in self._children]
        for ready in wait([self._bell, *sources, *sentinels], timeout):
            if ready is self._bell:
                self._bell.recv(64)
            elif isinstance(ready, Connection) and ready in sources:
                self._hear(sources[ready])

    def _hear(self, child: Child) -> bool:
        """Take what a process says; returns False when it says nothing more."""
        try:
            kind, what = child.events.recv()
        except (EOFError, OSError):
            child.events.close()
            return False
        if kind == "done":
            for task, outcome, seconds in what:
                self._metrics.done(task, outcome, seconds)
            self._progress.advance(len(what))
        elif kind == "working":
            child.working = True
            self._denied = None
            self._exchange()
        elif kind == "refused":
            self._refused(child, *what)
        self._metrics.processes(sum(each.working for each in self._children))
        return True

    def _refused(self, child: Child, why: str, code: ExitCode) -> None:
        if child.leaving:  # one of its kind has said so, or it is replaced already
            return
        if self._working_generation < 0:
            raise CommandError(why, code)
        child.denied = code is ExitCode.NOT_ALLOWED
        if not child.denied or why != self._denied:
            output.print_error(why)
        if child.denied:
            self._denied = why
        if child.generation > self._working_generation:
            output.print_error("the new code cannot be run: the processes go on with the old one")
            self._drop_newer()
            self._generation = self._working_generation
            there = {each.index for each in self._children if each.generation == self._generation}
            self._due = dict.fromkeys(set(range(self._count)) - there, time.monotonic())

    def _drop_newer(self) -> None:
        """End the processes of code that has not been seen to work."""
        for child in self._children:
            if child.generation > self._working_generation and not child.leaving:
                child.leave()

    def _exchange(self) -> None:
        """End the processes of old code when all of the newest work."""
        newest = [child for child in self._children if child.generation == self._generation and child.working]
        if len(newest) < self._count or self._working_generation == self._generation:
            return
        self._working_generation = self._generation
        output.print_note(f"telesto: {self._count} process{'es' if self._count > 1 else ''} at work")
        for child in self._children:
            if child.generation < self._generation:
                child.leave()

    def _heed_signals(self) -> None:
        while self._stops_told < self._stops:
            self._stops_told += 1
            if self._stops_told == 1:
                name = name_of(self._stop_signal)
                output.print_note(f"telesto: stopping; a second {name} cancels the tasks that still run")
            for child in self._children:
                if self._stops_told > 2:
                    child.process.kill()
                else:
                    child.leave()
        reload, self._reload = self._reload, False  # another signal may come meanwhile
        if reload and not self._stops:
            output.print_note("telesto: loading the code anew")
            self._drop_newer()
            self._generation = max(child.generation for child in self._children) + 1 if self._children else 1
            self._due.clear()
            self._start_all()

    def _kill_overdue(self) -> None:
        """Kill processes that do not end, such as one whose event loop a coroutine blocks."""
        for child in self._children:
            if child.kill_at <= time.monotonic():
                child.kill_at = math.inf
                output.print_error(f"process {child.process.pid} does not end: it is killed")
                child.process.kill()

    def _ended(self, child: Child) -> None:
        while not child.events.closed and child.events.poll() and self._hear(child):
            pass
        child.process.join()
        child.events.close()
        self._children.remove(child)
        self._metrics.processes(sum(each.working for each in self._children))
        if child.leaving or self._stops or child.generation != self._generation:
            return
        steady = time.monotonic() - child.since > _STEADY_S
        pause = _PAUSE_LEAST_S if steady else self._pauses[child.index]
        self._pauses[child.index] = min(2 * pause, _DENIED_MOST_S if child.denied else _PAUSE_MOST_S)
        self._due[child.index] = time.monotonic() + pause
        self._metrics.restarted()
        if child.denied:
            return
        code = child.process.exitcode or 0
        how = f"exit status {code}" if code >= 0 else f"signal {-code}"
        output.print_error(f"process {child.process.pid} ended with {how}; another begins in {pause:g} s")

    def _start_all(self) -> None:
        self._children += [Child(self._plan, index, self._generation) for index in range(self._count)]

    def _start_due(self) -> None:
        if self._stops:
            self._due.clear()
        for index in [index for index, due in self._due.items() if due <= time.monotonic()]:
            del self._due[index]
            self._children.append(Child(self._plan, index, self._generation))


def supervise(plan: Plan, count: int, metrics_address: tuple[str, int] | None) -> int:
    """Run an application's tasks in processes until a signal; return the exit status."""
    with ExitStack() as stack:
        metrics = Metrics()
        if metrics_address is not None:
            output.print_note(
                f"telesto: metrics at http://{stack.enter_context(metrics.served(*metrics_address))}"
            )
        progress = stack.enter_context(progress_of("tasks", None))
        supervisor = Supervisor(plan, count, metrics, progress)
        for number in handled():
            signal.signal(number, supervisor.signalled)
        supervisor.run()
    return ExitCode.DONE
