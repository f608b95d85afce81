"""What is different where a person sits in front of it."""

import os
import pty
import re
from collections.abc import Callable

from command_line import TIMEOUT_S, CommandLine


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
    assert lines[-2][-3:] == ["-", "10", "first·line"]


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
