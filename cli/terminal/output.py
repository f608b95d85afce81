"""The output of commands to standard output and standard error.

Standard output has no buffer in Python: when `write` returns, the kernel has the bytes. So `telesto get` can
confirm a message after it was written and not before.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, OutputClosedError

STANDARD_OUTPUT = 1

GAP = "  "
"""Stands between two columns on a terminal."""
CUT_LEAST = 12
"""No column is cut to less."""
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"

Cell = str | int | float | None
ItemT = TypeVar("ItemT")


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


def print_error(message: str, lines: Sequence[str] = ()) -> None:
    """Write `telesto: <message>`, and `lines` below it, to standard error.

    A closed standard error is not worth failing for.
    """
    print_note(f"telesto: {printable(message)}")
    for line in lines:
        print_note(f"  {printable(line)}")


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


@dataclass(frozen=True)
class Column(Generic[ItemT]):
    """A column of a list: its title, what it shows of an item, and whether a narrow terminal may cut it."""

    title: str
    value: Callable[[ItemT], Cell]
    cut: bool = False


def print_list(
    items: Iterable[ItemT],
    columns: Sequence[Column[ItemT]],
    *,
    as_json: bool,
    as_dict: Callable[[ItemT], Mapping[str, object]],
    empty: str,
) -> None:
    """Write a list: JSON, a line for each item; or columns, aligned on a terminal, with tabs elsewhere.

    Both of the latter have a header. On a terminal `empty` is written for a list without items.
    """
    if as_json:
        for item in items:
            print_json(as_dict(item))
        return
    if not is_terminal():
        print_line("\t".join(column.title for column in columns))
        for item in items:
            print_line("\t".join(_cell(column.value(item)) for column in columns))
        return
    rows = [[column.value(item) for column in columns] for item in items]
    if rows:
        write(_aligned(columns, rows).encode())
    else:
        print_line(empty)


def print_properties(properties: Mapping[str, Cell]) -> None:
    """Write names and values: aligned on a terminal, elsewhere with a tab between."""
    width = max(map(len, properties)) + 2
    for name, value in properties.items():
        label = name.ljust(width) if is_terminal() else name + "\t"
        print_line(label + _cell(value))


def printable(text: str) -> str:
    """The text with escapes (such as \\n) for what would move the cursor, or is not to be seen."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )


def _cell(value: Cell) -> str:
    return "-" if value is None else printable(str(value))


def _aligned(columns: Sequence[Column[ItemT]], rows: Sequence[Sequence[Cell]]) -> str:
    """The rows below a header. If the terminal is too narrow, the widest columns that may be cut are cut."""
    from rich.cells import cell_len, set_cell_size

    table = [[column.title for column in columns], *([_cell(cell) for cell in row] for row in rows)]
    wide = range(len(columns))
    widths = [max(cell_len(line[index]) for line in table) for index in wide]
    may_be_cut = [index for index in wide if columns[index].cut]
    space = shutil.get_terminal_size().columns - len(GAP) * (len(columns) - 1)
    while may_be_cut and sum(widths) > space:
        widest = max(may_be_cut, key=widths.__getitem__)
        if widths[widest] <= CUT_LEAST:
            break
        widths[widest] -= 1
    numbers = [all(isinstance(row[index], int | float | None) for row in rows) for index in wide]

    def fitted(index: int, text: str) -> str:
        missing = widths[index] - cell_len(text)
        if missing < 0:
            return set_cell_size(text, widths[index] - 1) + ELLIPSIS
        return " " * missing + text if numbers[index] else text + " " * missing

    lines = (GAP.join(fitted(index, line[index]) for index in wide).rstrip() for line in table)
    return "\n".join(lines) + "\n"
