"""The progress of an experiment: bars on a terminal, a line for each run elsewhere, on standard error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from telesto.benchmarks.harness.execution import Listener
from telesto.benchmarks.harness.experiment import Run
from telesto.benchmarks.harness.one_run import OnSecond
from telesto.cli.terminal import output
from telesto.cli.terminal.progress import STANDARD_ERROR


@contextmanager
def shown_progress() -> Iterator[Listener]:
    """Yield a listener that shows the progress."""
    if not os.isatty(STANDARD_ERROR):
        yield Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        yield Bars(progress)


def described(run: Run) -> str:
    """Name a run by its levels."""
    levels = ", ".join(f"{name} {level}" for name, level in run.levels.items())
    return f"{levels or run.settings.workload} (repetition {run.repetition})"


def concluded(result: dict[str, Any]) -> str:
    """The result of a run in a few words."""
    rate = result["figures"]["messages_per_s"]
    balance = result["balance"]
    audit = "clean" if balance["clean"] else "NOT CLEAN"
    return f"{rate:,.0f} messages/s, {balance['put']:,} put, audit {audit}"


class Lines:
    """A line for each run."""

    def __init__(self) -> None:
        self._runs = 0

    def begins(self, runs: int, done: int) -> None:
        """The experiment begins; `done` of its runs are complete already."""
        self._runs = runs
        if done:
            output.print_note(f"{done} of {runs} runs are done already")

    def run_begins(self, _run: Run) -> OnSecond:
        """A run begins; the seconds are not shown."""
        return lambda second: None

    def run_ends(self, run: Run, result: dict[str, Any]) -> None:
        """A run is complete."""
        output.print_note(f"run {run.number} of {self._runs}: {described(run)}: {concluded(result)}")


class Bars:
    """A bar for the experiment, one for the run, and a line for each run that is done."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._experiment = progress.add_task("runs", total=None)
        self._run = progress.add_task("", total=None, visible=False)

    def begins(self, runs: int, done: int) -> None:
        """The experiment begins; `done` of its runs are complete already."""
        self._progress.update(self._experiment, total=runs, completed=done)

    def run_begins(self, run: Run) -> OnSecond:
        """A run begins; its bar counts the seconds."""
        total = round(run.settings.total_s)
        self._progress.reset(self._run, total=total, visible=True, description=described(run))
        return lambda second: self._progress.update(self._run, completed=min(total, round(second)))

    def run_ends(self, run: Run, result: dict[str, Any]) -> None:
        """A run is complete."""
        self._progress.update(self._run, visible=False)
        self._progress.advance(self._experiment)
        self._progress.console.print(
            f"run {run.number}: {described(run)}: {concluded(result)}", highlight=False
        )
