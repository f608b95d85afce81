"""A report as one page that needs nothing else: style, tables and plots are in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import groupby

import jinja2

from telesto.benchmarks.pages.section import Section, shown

TABLE_ROWS_MAX = 50
"""How many rows of a table the page shows; the figures beside it have more."""
TEMPLATE = "page.html.j2"


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence at the top of the page; `tone` is `good`, `bad` or `note`."""

    tone: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report says."""

    title: str
    subtitle: str
    summary: Sequence[tuple[str, str]]
    findings: Sequence[Finding]
    sections: Sequence[Section]
    footer: Sequence[str] = field(default=())

    def as_html(self) -> str:
        """The page."""
        source = (files("telesto.benchmarks.pages") / TEMPLATE).read_text(encoding="utf-8")
        # Names of queues and clients are whatever users like: everything is escaped but the plots.
        template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
        return template.render(
            title=self.title,
            subtitle=self.subtitle,
            summary=self.summary,
            findings=self.findings,
            groups=self._groups(),
            footer=self.footer,
            shown=shown,
            table_rows_max=TABLE_ROWS_MAX,
        )

    def _groups(self) -> list[tuple[str, list[Section]]]:
        return [(name, list(members)) for name, members in groupby(self.sections, lambda each: each.group)]

    def as_text(self) -> str:
        """A few lines for the terminal."""
        width = max(len(label) for label, _ in self.summary) + 2
        lines = [self.title, *(label.ljust(width) + value for label, value in self.summary)]
        return "\n".join([*lines, *(finding.text for finding in self.findings)])
