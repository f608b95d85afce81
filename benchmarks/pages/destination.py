"""Where a report goes: a directory that is there as a whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from telesto.benchmarks.pages.page import Report
from telesto.benchmarks.spark.errors import ReportError

PAGE = "index.html"
READABLE = 0o755
#: Plots are drawn for a white page; by themselves they may stand on a dark one.
_ON_WHITE = '<svg style="background: #fff" '


def require_place(directory: Path, replace: bool) -> None:
    """See to it, before the work, that a report can go there.

    Raises:
        ReportError: something else is there, or an older report that was not to be replaced.
    """
    if not directory.parent.is_dir():
        raise ReportError(f"there is no directory {directory.parent}")
    if not directory.exists():
        return
    if not directory.is_dir():
        raise ReportError(f"{directory} is not a directory")
    if any(directory.iterdir()) and not (replace and (directory / PAGE).is_file()):
        hint = "--replace replaces a report" if (directory / PAGE).is_file() else "and holds no report"
        raise ReportError(f"{directory} is not empty, {hint}; name another directory")


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """Give a directory beside it to write to, which takes its place when the block ends without an error."""
    directory = directory.absolute()
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        written = scratch / "new"
        written.mkdir(mode=READABLE)
        yield written
        if directory.exists():
            directory.rename(scratch / "old")
        written.rename(directory)
    finally:
        shutil.rmtree(scratch)


def write_report(report: Report, directory: Path) -> None:
    """Write the page, its figures and its plots. Raises OSError; then nothing has changed."""
    with new_directory(directory) as new:
        (new / PAGE).write_text(report.as_html(), encoding="utf-8")
        for section in report.sections:
            if section.plot is not None:
                plot = section.plot.replace("<svg ", _ON_WHITE, 1)
                (new / f"{section.figures.key}.svg").write_text(plot, encoding="utf-8")
            for figures in (section.figures, *section.more):
                (new / f"{figures.key}.csv").write_text(figures.as_csv(), encoding="utf-8")
