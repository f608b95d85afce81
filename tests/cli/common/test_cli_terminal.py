"""What is different where a person sits in front of it."""

import json
import os
import pty
import re
from collections.abc import Callable

import pytest
from rich.cells import cell_len

from command_line import TIMEOUT_S, CommandLine
from telesto.cli.terminal import output


def _at_terminal(telesto: CommandLine, *arguments: str, typed: bytes = b"") -> tuple[int, str]:
    """Run a command at a terminal; its exit code, and what the terminal shows without colours."""
    ours, theirs = pty.openpty()
    with telesto.started(*arguments, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, typed)
        shown = _read_until_closed(ours)
        code = process.wait(TIMEOUT_S)
    os.close(ours)
    return code, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.decode()).replace("\r\n", "\n")


def _read_until_closed(descriptor: int) -> bytes:
    shown = b""
    while True:
        try:
            piece = os.read(descriptor, 65_536)
        except OSError:  # a terminal whose other side is closed says so by an error
            return shown
        if not piece:
            return shown
        shown += piece


def test_deleting_asks(
    telesto: CommandLine, queue: str, put: Callable[..., None], depth: Callable[[], int]
) -> None:
    put(b"kept")
    code, shown = _at_terminal(telesto, "queue", "purge", queue, typed=b"n\n")
    assert (code, depth()) == (0, 1)
    assert f"Remove 1 message from the queue {queue}? [y/N]" in shown

    code, shown = _at_terminal(telesto, "queue", "delete", queue, typed=b"y\n")
    assert code == 0
    assert f"Delete the queue {queue} and the 1 message in it? [y/N]" in shown
    assert f"deleted the queue {queue}\n" in shown


def test_listings_are_tables(telesto: CommandLine, queue: str) -> None:
    telesto.output("put", queue, "first\tline", "--priority", "7")
    code, shown = _at_terminal(telesto, "browse", queue)
    assert code == 0
    lines = [line.split() for line in shown.splitlines()]
    assert ["id", "arrival", "(UTC)", "priority", "sender", "receiver", "bytes", "body"] in lines
    assert lines[-1][-3:] == ["-", "10", "first·line"]


@pytest.mark.parametrize("width", [80, 200])
def test_tables_fit_the_terminal(telesto: CommandLine, queue: str, width: int) -> None:
    telesto.environment["COLUMNS"] = str(width)
    body = "\u4fe1\u606f" * 10 + "\x1b[2J" + "x" * 300
    telesto.output("put", queue, "--file", "-", stdin=body.encode())
    code, shown = _at_terminal(telesto, "browse", queue)
    assert code == 0
    header, row = shown.splitlines()
    assert cell_len(row) == min(width, cell_len(row))
    assert row.endswith("\N{HORIZONTAL ELLIPSIS}")
    assert header.index("body") == row.index("\u4fe1")
    assert cell_len(row) > width - 3 or width == 200


def test_what_would_move_the_cursor_is_escaped(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    columns = (output.Column[str]("id", len), output.Column[str]("name", str, cut=True))
    names = ["red\x1b[31m\u202e\tname", "two\nlines", "d\u00e9j\u00e0"]
    output.print_list(names, columns, as_json=False, as_dict=lambda name: {"name": name}, empty="none")
    assert capfdbinary.readouterr().out.decode().splitlines() == [
        "id\tname",
        "14\tred\\x1b[31m\\u202e\\tname",
        "9\ttwo\\nlines",
        "4\td\u00e9j\u00e0",
    ]
    output.print_list(names, columns, as_json=True, as_dict=lambda name: {"name": name}, empty="none")
    assert [json.loads(line)["name"] for line in capfdbinary.readouterr().out.splitlines()] == names
    output.print_error("no queue \x1b[2J")
    assert capfdbinary.readouterr().err == b"telesto: no queue \\x1b[2J\n"


def test_nothing_to_get_is_said(telesto: CommandLine, queue: str) -> None:
    assert _at_terminal(telesto, "get", queue) == (4, f"telesto: nothing to get from {queue}\n")
    telesto.output("topic", "subscribe", queue, "--client", "dora")
    for topic in ([queue], ["--all-topics"]):
        code, shown = _at_terminal(telesto, "topic", "get", *topic, "--client", "dora")
        assert (code, shown.startswith("telesto: nothing to get from ")) == (4, True)


def test_lines_have_a_progress_bar(telesto: CommandLine, queue: str) -> None:
    (telesto.home / "lines").write_bytes(b"line\n" * 20_000)
    code, shown = _at_terminal(telesto, "put", queue, "--lines", "lines")
    assert code == 0
    assert f"putting into {queue}" in shown
    assert "put 20000 messages" in shown.splitlines()[-1]
