"""Signals at long commands: whatever they inherited, and at any moment of `telesto serve`."""

import json
import os
import pty
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command_line import TIMEOUT_S, CommandLine

Put = Callable[..., None]

LONG = [("get", "--follow"), ("consume",), ("consume", "--exec", "cat")]


@contextmanager
def _following(
    telesto: CommandLine, queue: str, put: Put, command: tuple[str, ...], ignoring: tuple[str, ...]
) -> Iterator[subprocess.Popen[bytes]]:
    """A long command that has printed a message and waits for the next one."""
    put(b"first\n" if "--exec" in command else b"first")
    word, *options = command
    with telesto.started(word, queue, *options, ignoring=ignoring) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        yield process


@pytest.mark.parametrize("command", LONG)
@pytest.mark.parametrize(
    ("number", "ignored", "code"), [(signal.SIGINT, "INT", 130), (signal.SIGTERM, "TERM", 143)]
)
def test_a_signal_ends_what_inherited_that_it_is_ignored(
    telesto: CommandLine,
    queue: str,
    put: Put,
    command: tuple[str, ...],
    number: signal.Signals,
    ignored: str,
    code: int,
) -> None:
    with _following(telesto, queue, put, command, (ignored,)) as process:
        process.send_signal(number)
        assert process.wait(TIMEOUT_S) == code


@pytest.mark.parametrize("command", LONG)
def test_under_nohup_in_the_background_only_sigterm_ends_it(
    telesto: CommandLine, queue: str, put: Put, command: tuple[str, ...]
) -> None:
    with _following(telesto, queue, put, command, ("INT", "HUP")) as process:
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        put(b"second\n" if "--exec" in command else b"second")
        assert process.stdout is not None
        assert process.stdout.readline() == b"second\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 143


# ---------------------------------------------------------------------------------- telesto serve
@contextmanager
def _serving(
    telesto: CommandLine, database: tuple[str, str], *options: str, **how: object
) -> Iterator[tuple[subprocess.Popen[bytes], dict[str, str]]]:
    """A running service, and what it says of itself."""
    arguments = ("serve", *database, "--port", "0", "--json", *options)
    with telesto.started(*arguments, **({"stderr": subprocess.DEVNULL} | how)) as process:
        assert process.stdout is not None
        yield process, json.loads(process.stdout.readline())


@pytest.fixture(params=["url", "embedded"])
def database(request: pytest.FixtureRequest) -> tuple[str, str]:
    """The option that names a database."""
    if request.param == "url":
        return "--database-url", request.getfixturevalue("database_url")
    return "--data-dir", str(request.getfixturevalue("data_dir"))


def test_a_terminal_that_goes_away_stops_it_in_order(
    bare_telesto: CommandLine, database: tuple[str, str]
) -> None:
    """It sends SIGHUP, the shell another one, and nothing can be written to it any more."""
    terminal, its_end = pty.openpty()
    with _serving(bare_telesto, database, stderr=its_end) as (process, _):
        os.close(its_end)
        os.close(terminal)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        assert process.wait(TIMEOUT_S) == 0


def test_several_processes_that_all_get_sighup_stop_in_order(
    bare_telesto: CommandLine, database_url: str
) -> None:
    options = {"start_new_session": True, "stderr": subprocess.PIPE}
    database = ("--database-url", database_url)
    with _serving(bare_telesto, database, "--processes", "2", **options) as (process, _):
        os.killpg(process.pid, signal.SIGHUP)
        assert process.wait(TIMEOUT_S) == 0
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read().decode()


@pytest.mark.parametrize("processes", ["1", "2"])
def test_signals_without_a_meaning_do_nothing(
    bare_telesto: CommandLine, database_url: str, processes: str
) -> None:
    database = ("--database-url", database_url)
    with _serving(bare_telesto, database, "--processes", processes, start_new_session=True) as (
        process,
        service,
    ):
        telesto = CommandLine(bare_telesto.home, service["url"])
        with socket.create_connection(("127.0.0.1", int(service["url"].rpartition(":")[2]))) as connection:
            for number in (signal.SIGUSR1, signal.SIGUSR2):
                os.killpg(process.pid, number)
            telesto.output("ping")
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):  # it is still connected to the process that it had
                connection.recv(1)
        process.terminate()
        assert process.wait(TIMEOUT_S) == 0


def test_sighup_behind_sigterm_does_not_cut_the_stop_short(
    bare_telesto: CommandLine, database_url: str
) -> None:
    bare_telesto.environment |= {"TELESTO_GOAWAY_GRACE_S": "1", "TELESTO_LOG_LEVEL": "error"}
    database = ("--database-url", database_url)
    with (
        _serving(bare_telesto, database) as (process, service),
        socket.create_connection(("127.0.0.1", int(service["url"].rpartition(":")[2]))),
    ):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGHUP)
        assert process.wait(TIMEOUT_S) == 0


def test_under_nohup_it_serves_on(bare_telesto: CommandLine, database_url: str) -> None:
    database = ("--database-url", database_url)
    with _serving(bare_telesto, database, ignoring=("HUP",)) as (process, service):
        process.send_signal(signal.SIGHUP)
        CommandLine(bare_telesto.home, service["url"]).output("ping")
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


# ---------------------------------------------------------------------------------- telesto bench peers
def test_one_sigterm_ends_a_comparison_with_what_was_compared(tmp_path: Path, data_dir: Path) -> None:
    """A second one does not keep it from ending its servers."""
    directory = data_dir.parent
    figures = tmp_path / "figures.json"
    size = ("--seconds", "0.2", "--repetitions", "500", "--directory", str(directory))
    what = ("--only", "telesto-many", "--work", "put", "--json", str(figures))
    with CommandLine(tmp_path).started("bench", "peers", *what, *size) as process:
        assert process.stderr is not None
        while (said := process.stderr.readline()) and b"repetition 1 of 500: telesto-many:" not in said:
            pass
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        output, said = process.communicate(timeout=TIMEOUT_S)
    assert (process.returncode, b"failed" in said) == (143, False), said
    assert b"Durable puts" in output
    runs = json.loads(figures.read_text())["runs"]["put"]
    assert set(runs) == {"telesto", "telesto-many"}
    assert len(runs["telesto"]) < 500
    assert list(directory.iterdir()) == [], "nothing stays"
