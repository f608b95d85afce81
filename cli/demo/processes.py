"""The processes of the demonstration: started apart from the terminal, stopped, and checked for failures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError
from telesto.client.url import LOGIN_VARIABLES

STOP_TIMEOUT_S = 20.0

Process = subprocess.Popen[bytes]


def without_login(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without what logs in to another service: that of the demonstration has no users."""
    return {name: value for name, value in environment.items() if name not in LOGIN_VARIABLES}


@contextmanager
def running(
    module: str, arguments: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Process]:
    """Run a module of this package as a process until the end of the block; its errors go to `log`.

    It has its own session, so that Ctrl-C at the terminal reaches only the demonstration, which then stops
    its processes. Its standard input is a pipe, which closes when the demonstration is gone.
    """
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", f"telesto.cli.demo.{module}", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
            env={**without_login(os.environ), **(environment or {})},
        )
    try:
        yield process
    finally:
        _stop(process)


def wait_for(process: Process, what: str, log: Path, timeout_s: float | None = None) -> None:
    """Wait for a process to end by itself. Raises CommandError when it fails or takes too long."""
    try:
        code = process.wait(timeout_s)
    except subprocess.TimeoutExpired as error:
        raise CommandError(
            f"{what} did not end within {timeout_s} s: {last_line(log)}", ExitCode.REFUSED
        ) from error
    if code != 0:
        raise CommandError(f"{what} failed: {last_line(log)}", ExitCode.REFUSED)


def last_line(log: Path) -> str:
    """The last line of a process's output."""
    lines = log.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"


def ready_client(process: Process, what: str, log: Path) -> int:
    """Wait until a process is ready; returns the id of its client. Raises CommandError when it fails."""
    line = process.stdout.readline() if process.stdout is not None else b""
    if not line:
        raise CommandError(f"{what} did not start: {last_line(log)}", ExitCode.REFUSED)
    return int(line)


def start(process: Process) -> None:
    """Let a process that is ready begin; `wait_for` reports one that has ended since."""
    if process.stdin is not None:
        with suppress(BrokenPipeError):
            process.stdin.write(b"!")
            process.stdin.flush()


def task_of_this_process() -> dict[str, str]:
    """In such a process: the task that it was started with."""
    task: dict[str, str] = json.loads(sys.argv[1])
    return task


def wait_for_start(client_id: int | None) -> None:
    """In such a process: report that it is ready and wait for the start."""
    print(client_id, flush=True)
    if not os.read(sys.stdin.fileno(), 1):
        sys.exit("the demonstration has ended")
    end_with_the_demonstration()


def end_with_the_demonstration() -> None:
    """In such a process: end it, as by SIGTERM, when the demonstration is gone."""
    threading.Thread(target=_await_the_end, name="demonstration", daemon=True).start()


def _await_the_end() -> None:
    os.read(sys.stdin.fileno(), 1)  # returns when the other end of the pipe is closed
    os.kill(os.getpid(), signal.SIGTERM)


def _stop(process: Process) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
