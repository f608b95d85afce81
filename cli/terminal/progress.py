"""A progress bar on standard error, only where that is a terminal."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

STANDARD_ERROR = 2


class Progress(Protocol):
    """Something that is told how far a piece of work is."""

    def advance(self, steps: int) -> None:
        """So many more steps are done."""


def is_shown() -> bool:
    """Whether progress is shown."""
    return os.isatty(STANDARD_ERROR)


@contextmanager
def progress_of(label: str, total: int | None) -> Iterator[Progress]:
    """Show a bar of `total` steps (unknown: None) while the block runs; nothing without a terminal."""
    if not is_shown():
        yield _NoProgress()
        return
    with _Bar(label, total) as bar:
        yield bar


class _NoProgress:
    def advance(self, steps: int) -> None:
        """Show nothing."""


class _Bar:
    def __init__(self, label: str, total: int | None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f} %" if total else "{task.completed}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task(label, total=total)

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._progress.stop()

    def advance(self, steps: int) -> None:
        """Move the bar."""
        self._progress.advance(self._task, steps)
