"""The output of commands to standard output and standard error.

Standard output has no buffer in Python: when `write` returns, the kernel has the bytes. So `telesto get` can
confirm a message after it was written and not before.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Iterable, Mapping, Sequence

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, OutputClosedError

STANDARD_OUTPUT = 1

Cell = str | int | float | None


def write(data: bytes) -> None:
    """Write all of `data` to standard output. Raises what `write_some` raises."""
    view = memoryview(data)
    while view:
        view = view[write_some(view) :]


def write_some(data: memoryview) -> int:
    """Write as much of `data` to standard output as goes at once; return the number of bytes.

    Raises OutputClosedError if its reader is gone, CommandError if it cannot be written (a full disk).
    """
    try:
        return os.write(STANDARD_OUTPUT, data)
    except BlockingIOError:
        select.select([], [STANDARD_OUTPUT], [])
        return 0
    except BrokenPipeError:
        raise OutputClosedError from None
    except OSError as error:
        raise CommandError(f"cannot write the output: {error.strerror}", ExitCode.REFUSED) from error


def print_line(text: str) -> None:
    """Write one line of text, UTF-8, to standard output."""
    write(text.encode("utf-8", "surrogateescape") + b"\n")


def print_json(value: Mapping[str, object]) -> None:
    """Write one JSON object as one line to standard output."""
    print_line(json.dumps(value, ensure_ascii=False))


def print_error(message: str) -> None:
    """Write `telesto: <message>` to standard error; a closed standard error is not worth failing for."""
    print_note(f"telesto: {message}")


def print_note(text: str) -> None:
    """Write one line to standard error."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except OSError:
        return


def is_terminal() -> bool:
    """Whether standard output is a terminal."""
    return os.isatty(STANDARD_OUTPUT)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
    """Write rows as a table on a terminal, elsewhere as lines with tabs between the cells, no header."""
    if is_terminal():
        write(_drawn_table(columns, rows).encode())
        return
    for row in rows:
        print_line("\t".join(_cell(cell) for cell in row))


def print_properties(properties: Mapping[str, Cell]) -> None:
    """Write names and values: aligned on a terminal, elsewhere with a tab between."""
    width = max(map(len, properties)) + 2
    for name, value in properties.items():
        label = name.ljust(width) if is_terminal() else name + "\t"
        print_line(label + _cell(value))


def _cell(value: Cell) -> str:
    return "-" if value is None else str(value)


def _drawn_table(columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numbers = all(isinstance(row[index], int | float | None) for row in rows)
        last = index == len(columns) - 1
        table.add_column(
            column,
            justify="right" if numbers else "left",
            no_wrap=True,
            min_width=None if last else max(len(column), *(len(_cell(row[index])) for row in rows)),
        )
    for row in rows:
        table.add_row(*(Text(_cell(cell)) for cell in row))
    console = Console()
    with console.capture() as capture:
        console.print(table)
    return capture.get()
