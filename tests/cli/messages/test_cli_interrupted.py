"""Commands that are ended from outside: what was not written comes back, nothing is said."""

import fcntl
import os
import signal
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest

from command_line import TIMEOUT_S, CommandLine
from faults.waiting import wait_until

# Together more than a pipe holds (64 KiB), so that writing them blocks.
LINE = b"x" * 1000
LINES = 500
PIPE_BYTES = 65_536

Put = Callable[..., None]


@pytest.fixture
def full_queue(queue: str, put: Put) -> str:
    put(*(b"%d %s" % (number, LINE) for number in range(LINES)))
    return queue


def _numbers(output: bytes) -> list[int]:
    """The numbers of the lines that came out whole."""
    return [int(line.split(b" ")[0]) for line in output.split(b"\n")[:-1]]


@contextmanager
def _blocked_get(
    telesto: CommandLine, queue: str, *options: str
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A `telesto get --follow` that cannot go on, because nobody reads its output; the reading end."""
    reading, writing = os.pipe()
    try:
        with telesto.started("get", queue, "--follow", *options, stdout=writing) as process:
            os.close(writing)
            _wait_until_full(reading, process)
            yield process, reading
    finally:
        os.close(reading)


def _wait_until_full(reading: int, process: subprocess.Popen[bytes]) -> None:
    waiting = bytearray(4)

    def full() -> bool:
        assert process.poll() is None
        fcntl.ioctl(reading, termios.FIONREAD, waiting)
        return int.from_bytes(waiting, "little") >= PIPE_BYTES - len(LINE)

    wait_until(full, TIMEOUT_S)


def _read_all(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def _rest(telesto: CommandLine, queue: str, *options: str) -> list[int]:
    return _numbers(telesto.output("get", queue, "--count", "9999", *options))


def test_reader_that_goes_away_ends_it_quietly(telesto: CommandLine, full_queue: str) -> None:
    reading, writing = os.pipe()
    with telesto.started("get", full_queue, "--follow", stdout=writing) as process:
        os.close(writing)
        seen = os.read(reading, 5000)
        os.close(reading)
        assert process.wait(TIMEOUT_S) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""
    # What stood in the pipe is lost with its reader; what was never written is not.
    rest = _rest(telesto, full_queue)
    assert rest == list(range(rest[0], LINES))
    assert rest[0] <= (len(seen) + PIPE_BYTES) // len(LINE) + 1
    assert _numbers(seen)[0] == 0


def test_reader_that_goes_away_is_noticed_without_a_message(
    telesto: CommandLine, queue: str, put: Put
) -> None:
    put(b"only one")
    reading, writing = os.pipe()
    with telesto.started("get", queue, "--follow", stdout=writing) as process:
        os.close(writing)
        assert os.read(reading, 100) == b"only one\n"
        os.close(reading)
        assert process.wait(TIMEOUT_S) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted_while_waiting(
    telesto: CommandLine, queue: str, put: Put, number: signal.Signals, code: int
) -> None:
    put(b"first")
    with telesto.started("get", queue, "--follow") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == code
        assert process.stderr is not None
        assert process.stderr.read() == b""
    put(b"second")
    assert telesto.output("get", queue) == b"second\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("options", [(), ("--client", "steady")])
def test_what_was_not_written_comes_back(
    telesto: CommandLine,
    full_queue: str,
    service_database: str,
    number: signal.Signals,
    options: tuple[str, ...],
) -> None:
    """Whatever ends it, each line is in the output or comes again, and those that come again say so."""
    with _blocked_get(telesto, full_queue, *options) as (process, reading):
        process.send_signal(number)
        process.wait(TIMEOUT_S)
        written = _numbers(_read_all(reading))
    assert written == list(range(len(written)))

    # What a temporary client held comes back when it is deleted, by itself or by the service.
    wait_until(lambda: _temporary_clients(service_database) == 0, TIMEOUT_S)
    messages = telesto.objects("get", full_queue, "--count", "9999", *options)
    rest = [int(str(message["body"]).split()[0]) for message in messages]
    assert set(written) | set(rest) == set(range(LINES))
    assert len(set(rest)) == len(rest)
    again = [
        message["redelivered"] for message in messages if int(str(message["body"]).split()[0]) in written
    ]
    assert all(again)


def test_orderly_end_confirms_what_was_written(telesto: CommandLine, full_queue: str) -> None:
    """Ctrl-C once the output is taken: nothing comes twice."""
    with telesto.started("get", full_queue, "--follow") as process:
        assert process.stdout is not None
        written = [process.stdout.readline() for _ in range(LINES)]
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    assert _numbers(b"".join(written)) == list(range(LINES))
    assert telesto.run("get", full_queue).returncode == 4


def test_orderly_runs_leave_no_client(telesto: CommandLine, queue: str, service_database: str) -> None:
    for arguments in (("put", queue, "x"), ("get", queue), ("queue", "list")):
        telesto.output(*arguments)
    with telesto.started("get", queue, "--follow") as process:
        wait_until(lambda: _temporary_clients(service_database) == 1, TIMEOUT_S)
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 130
    wait_until(lambda: _temporary_clients(service_database) == 0, TIMEOUT_S)


def _temporary_clients(database: str) -> int:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT count(*) FROM telesto.clients WHERE temporary").fetchone()
    assert row is not None
    return int(row[0])


def test_output_that_is_closed_keeps_the_message(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"kept")
    command = " ".join([*telesto.command, "get", queue, ">&-"])
    process = subprocess.run(
        ["sh", "-c", command], env=telesto.environment, stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False
    )
    assert process.returncode == 1
    assert process.stderr == b"telesto: cannot write the output: Bad file descriptor\n"
    assert telesto.output("get", queue) == b"kept\n"


def test_output_that_is_full_keeps_the_message(telesto: CommandLine, queue: str, put: Put) -> None:
    put(b"kept")
    with open("/dev/full", "wb") as full:
        process = subprocess.run(
            [*telesto.command, "get", queue],
            env=telesto.environment,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=TIMEOUT_S,
            check=False,
        )
    assert process.returncode == 1
    assert process.stderr == b"telesto: cannot write the output: No space left on device\n"
    assert telesto.output("get", queue) == b"kept\n"
