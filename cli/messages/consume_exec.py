"""Consumes a queue by commands: one for each message, which is acknowledged if the command ends with 0."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from telesto.cli.common.connection import connected, find_queue
from telesto.cli.messages.consume_print import report_lost
from telesto.cli.messages.taking import exit_code
from telesto.cli.terminal import output
from telesto.cli.terminal.background import POLL_S
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError
from telesto.client import Consumer, LeasedMessage, Message, TelestoError

CANNOT_RUN = {126: "cannot be executed", 127: "was not found"}
"""Exit statuses by which a shell says that the command can never run."""


#: How often to check whether a command still runs, in seconds.
_LOOK_S = 0.02


@dataclass(frozen=True)
class ExecPlan:
    """The user's request; it ends after `wait_s` seconds without a message, None for never."""

    url: str
    client_name: str | None
    queue: str
    count: int | None
    wait_s: float | None
    credit: int | None
    command: str
    concurrency: int


def consume_by_commands(plan: ExecPlan) -> ExitCode:
    """Run commands as planned; NOTHING if there were no messages, COMMAND_FAILED if a command failed.

    Raises CommandError if the command cannot be run, and re-raises a signal's exception after the commands
    have ended.
    """
    with connected(plan.url, plan.client_name) as client:
        queue = find_queue(client, plan.queue)
        with queue.consume(credit=plan.credit, keep_alive=True) as consumer:
            running = Running(consumer, plan)
            running.run()
    report_lost(consumer)
    if running.impossible is not None:
        raise CommandError(running.impossible, ExitCode.COMMAND_NOT_RUN)
    return ExitCode.COMMAND_FAILED if running.failed else exit_code(running.begun, plan.queue)


class Running:
    """Runs commands in threads, one at a time for each partition.

    Attributes:
        begun: how many commands were begun.
        failed: how many have failed.
        impossible: why no command can run, once that is known.
    """

    def __init__(self, consumer: Consumer, plan: ExecPlan) -> None:
        self._consumer = consumer
        self._plan = plan
        self._lock = threading.Lock()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._stopping = False
        self._ended_by_us = False
        self._inbox: SimpleQueue[LeasedMessage | Exception | None] = SimpleQueue()
        self._slots = threading.Semaphore(plan.concurrency)
        self.begun = 0
        self.failed = 0
        self.impossible: str | None = None

    def run(self) -> None:
        """Run commands until there are enough, no message comes, or a signal raises; wait for all."""
        threads = ThreadPoolExecutor(self._plan.concurrency, "command")
        self._consumer._give_to_handlers()
        try:
            try:
                self._begin_all(threads)
                self._wait_for_commands()
            except BaseException as error:
                self._stop(error)
                self._wait_for_commands()
                raise
        except BaseException:
            self._end_all()  # at a second signal
            self._wait_for_commands()
            raise
        finally:
            threads.shutdown(wait=True)

    def _begin_all(self, threads: ThreadPoolExecutor) -> None:
        while (leased := self._next()) is not None:
            threads.submit(self._work, leased)

    def _stop(self, error: BaseException) -> None:
        """Begin no more commands."""
        self._stopping = True
        if self._any_runs and not isinstance(error, Exception):
            output.print_note("telesto: waiting for the commands that still run; a second Ctrl-C ends them")

    def _next(self) -> LeasedMessage | None:
        """Wait for a free slot and for a message; None at the end."""
        # A signal that comes just before a wait does not end it, so waits are short.
        while not self._slots.acquire(timeout=POLL_S):
            pass
        if self._enough:
            return None
        threading.Thread(target=self._take, name="take", daemon=True).start()
        while True:
            with suppress(Empty):
                taken = self._inbox.get(timeout=POLL_S)
                break
        if isinstance(taken, Exception):
            raise taken
        return taken

    def _take(self) -> None:
        try:
            self._inbox.put(self._consumer.get(self._plan.wait_s))
        except Exception as error:  # noqa: BLE001 - it is raised where the message is waited for
            self._inbox.put(error)

    def _stop_taking(self) -> None:
        """Take no more messages; those that still come go back when the consumer is closed."""
        self._inbox.put(None)

    @property
    def _enough(self) -> bool:
        return self._stopping or (self._plan.count is not None and self.begun >= self._plan.count)

    @property
    def _any_runs(self) -> bool:
        with self._lock:  # a command that is starting is in the set when the lock is free
            return bool(self._processes)

    def _wait_for_commands(self) -> None:
        """Check repeatedly: a signal does not end a wait that it just precedes.

        The pool does not know a thread that was starting when a signal came.
        """
        while self._any_runs:
            time.sleep(_LOOK_S)

    def _end_all(self) -> None:
        with self._lock:
            self._stopping = self._ended_by_us = True
            for process in self._processes:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGTERM)

    # ------------------------------------------------------------------ one after the other

    def _work(self, leased: LeasedMessage) -> None:
        try:
            if leased._begin():
                self._process(leased)
        finally:
            self._consumer._ended(leased)
            self._slots.release()

    def _process(self, leased: LeasedMessage) -> None:
        """Run a command for a message. A message that must not begin any more goes back at the end."""
        try:
            process = self._begin(leased.message)
        except OSError as error:
            self._give_up(leased, f"cannot be started: {error.strerror}")
            return
        if process is None:
            return
        try:
            self._end(leased, process)
        finally:
            with self._lock:
                self._processes.discard(process)

    def _begin(self, message: Message) -> subprocess.Popen[bytes] | None:
        """Start a command; None if no more may begin."""
        with self._lock:
            if self._enough:
                return None
            process = subprocess.Popen(
                self._plan.command,
                shell=True,
                stdin=subprocess.PIPE,
                env=os.environ | environment(self._plan, message),
                process_group=0,  # Ctrl-C at the terminal must reach only this program
            )
            self._processes.add(process)
            self.begun += 1
            if self._enough:
                self._stop_taking()
        return process

    def _end(self, leased: LeasedMessage, process: subprocess.Popen[bytes]) -> None:
        """Wait for a command and answer its message."""
        process.communicate(leased.body)
        with self._lock:
            status, ended_by_us = process.returncode, self._ended_by_us
        if status == 0:
            with leased:
                pass
        elif status in CANNOT_RUN:
            self._give_up(leased, f"{CANNOT_RUN[status]} (exit status {status})")
        elif ended_by_us:
            _give_back(leased, failed=False)
        else:
            self._failed(leased, status)

    def _give_up(self, leased: LeasedMessage, why: str) -> None:
        """The command cannot run: the failure does not count against the message."""
        with self._lock:
            self._stopping = True
            self.impossible = f"the command {self._plan.command!r} {why}; its messages went back to the queue"
        _give_back(leased, failed=False)
        self._stop_taking()

    def _failed(self, leased: LeasedMessage, status: int) -> None:
        message = leased.message
        ending = f"exit status {status}" if status > 0 else f"signal {-status}"
        with self._lock:
            self.failed += 1
        output.print_error(
            f"the command failed with {ending} on message {message.message_id}, attempt {message.attempt}"
        )
        _give_back(leased, failed=True, reason=ending)


def _give_back(leased: LeasedMessage, *, failed: bool, reason: str | None = None) -> None:
    """A message that cannot be given back belongs to another consumer, or goes back with the connection."""
    with suppress(TelestoError):
        leased.nack(failed=failed, reason=reason)


def environment(plan: ExecPlan, message: Message) -> Mapping[str, str]:
    """The variables that a command finds in its environment."""
    variables = {
        "TELESTO_URL": plan.url,
        "TELESTO_QUEUE": plan.queue,
        "TELESTO_MESSAGE_ID": str(message.message_id),
        "TELESTO_SENDER_ID": str(message.sender_id),
        "TELESTO_PRIORITY": str(message.priority),
        "TELESTO_ATTEMPT": str(message.attempt),
        "TELESTO_REDELIVERED": str(int(message.redelivered)),
    }
    if message.partition_key is not None:
        variables["TELESTO_PARTITION_KEY"] = message.partition_key
    if message.headers:
        variables["TELESTO_HEADERS"] = json.dumps(message.headers)
    return variables
