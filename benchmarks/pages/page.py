"""A report as one self-contained page, and the directory that it is written to."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import groupby
from pathlib import Path

import jinja2

from telesto.benchmarks.pages.section import Section, shown
from telesto.benchmarks.spark.errors import ReportError

TABLE_ROWS_MAX = 50
"""The number of rows of a table that the page shows; the CSV files have more."""
TEMPLATE = "page.html.j2"


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence at the top of the page; `tone` is `good`, `bad` or `note`."""

    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report."""

    title: str
    subtitle: str
    summary: Sequence[tuple[str, str]]
    findings: Sequence[Finding]
    sections: Sequence[Section]
    footer: Sequence[str] = field(default=())

    def as_html(self) -> str:
        """The page."""
        source = (files("telesto.benchmarks.pages") / TEMPLATE).read_text(encoding="utf-8")
        # Users choose the names of queues and clients: everything except the plots is escaped.
        template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
        return template.render(
            title=self.title,
            subtitle=self.subtitle,
            summary=self.summary,
            findings=self.findings,
            groups=[(name, list(of)) for name, of in groupby(self.sections, lambda each: each.group)],
            footer=self.footer,
            shown=shown,
            table_rows_max=TABLE_ROWS_MAX,
        )

    def as_text(self) -> str:
        """A summary for the terminal."""
        width = max(len(label) for label, _ in self.summary) + 2
        lines = [self.title, *(label.ljust(width) + value for label, value in self.summary)]
        return "\n".join([*lines, *(finding.text for finding in self.findings)])


PAGE = "index.html"
READABLE = 0o755
#: Plots are drawn for a white page; by themselves they may stand on a dark one.
_ON_WHITE = '<svg style="background: #fff" '


def require_place(directory: Path, replace: bool) -> None:
    """Check, before the work, that a report can be written there.

    Raises:
        ReportError: the directory holds something else, or an older report that must not be replaced.
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
    """Yield a directory to write to, which replaces the given one if the block ends without an error."""
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
