"""The sections of the report on scalability, for one sweep."""

from __future__ import annotations

import re
from collections.abc import Callable

from telesto.benchmarks.pages.section import Figures, Section
from telesto.benchmarks.scalability_report.models import model_part, response_law_part
from telesto.benchmarks.scalability_report.stations_section import phases_part, processors_part, stations_part
from telesto.benchmarks.scalability_report.sweep import Sweep
from telesto.benchmarks.scalability_report.throughput import CUSTOMERS, law_part, throughput_part


def sections_of(sweep: Sweep, prefix: str, group: str) -> list[Section]:
    """All sections of a sweep.

    Args:
        sweep: what.
        prefix: of the names of its figures.
        group: the heading that they stand under.
    """
    makers: list[Callable[[Sweep], Section | None]] = [throughput_part]
    if sweep.closed and sweep.factor == CUSTOMERS:
        makers.append(law_part)
    makers += [stations_part, processors_part, phases_part]
    if sweep.closed:
        makers += [response_law_part, model_part]
    found = [made for make in makers if (made := make(sweep)) is not None]
    return [_placed(section, prefix, group) for section in found]


def _placed(section: Section, prefix: str, group: str) -> Section:
    """The section with names that no other sweep has, under its heading."""

    def named(figures: Figures) -> Figures:
        return Figures(f"{prefix}-{figures.key}", figures.fields, figures.rows, figures.total)

    return Section(
        section.title,
        section.meaning,
        named(section.figures),
        # Ids within the plots of a page are shared.
        _unshared(section.plot, prefix),
        section.caption,
        section.folded,
        tuple(named(each) for each in section.more),
        group,
    )


def _unshared(plot: str | None, prefix: str) -> str | None:
    """A plot whose ids begin with the sweep's name: two plots of one kind have the same otherwise."""
    if plot is None:
        return None
    return re.sub(r'(\bid="|url\(#|href="#)', lambda found: f"{found[1]}{prefix}-", plot)
