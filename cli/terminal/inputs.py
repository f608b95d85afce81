"""The bodies of messages: from an argument, a file or standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error

STANDARD_INPUT = "-"
BODY_BYTES_MAX = 16 << 20
"""A longer body or line is refused before it is read completely; the service's own limit is lower."""


@dataclass(frozen=True)
class LineSource:
    """A file to be read line by line; `size_bytes` is None if the size is unknown (a pipe)."""

    name: str
    file: BinaryIO
    size_bytes: int | None

    def lines(self) -> Iterator[bytes]:
        """The lines without their newline, otherwise unchanged.

        Raises CommandError for a line beyond BODY_BYTES_MAX.
        """
        number = 0
        while line := self.file.readline(BODY_BYTES_MAX + 1):
            number += 1
            if len(line) > BODY_BYTES_MAX:
                raise CommandError(
                    f"line {number} of {self.name} is longer than {BODY_BYTES_MAX} bytes; "
                    f"the {number - 1} lines before it were put",
                    ExitCode.USAGE,
                )
            yield line.removesuffix(b"\n")


def check_one_given(body: str | None, lines: Path | None, file: Path | None) -> None:
    """Raise CommandError unless exactly one source of messages is given."""
    given = [source for source in (body, lines, file) if source is not None]
    if len(given) == 1:
        return
    problem = "more than one thing to put" if given else "nothing to put"
    raise usage_error(f"{problem}; give one of: BODY, - (standard input), --file FILE, --lines FILE")


def read_body(body: str | None, file: Path | None) -> bytes:
    """The one message to put. Raises CommandError when it cannot be read or is too long."""
    if body is not None and body != STANDARD_INPUT:
        return os.fsencode(body)
    with opened(file if file is not None else Path(STANDARD_INPUT)) as source:
        content = source.file.read(BODY_BYTES_MAX + 1)
    if len(content) > BODY_BYTES_MAX:
        raise usage_error(f"{source.name} is longer than {BODY_BYTES_MAX} bytes, which no message can be")
    return content


@contextmanager
def opened(path: Path) -> Iterator[LineSource]:
    """Open a file, or standard input for `-`. Raises CommandError when it cannot be opened or read."""
    if str(path) == STANDARD_INPUT:
        yield LineSource("standard input", sys.stdin.buffer, None)
        return
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size or None
            yield LineSource(repr(str(path)), file, size)
    except OSError as error:
        if error.filename is None or Path(error.filename) != path:
            raise
        raise usage_error(f"cannot read {str(path)!r}: {error.strerror}") from error
