"""The report of a service: its sections put together, and the figures at the top."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor

from telesto.benchmarks.pages.page import Finding, Report
from telesto.benchmarks.pages.section import Kind, Section, shown
from telesto.benchmarks.service_report import queues
from telesto.benchmarks.service_report import sections as service_parts
from telesto.benchmarks.service_report.audit_section import audit_part, findings_of
from telesto.benchmarks.service_report.contents import Contents

PARTS: tuple[Callable[[Contents], Section], ...] = (
    service_parts.traffic_part,
    service_parts.contents_part,
    service_parts.residence_part,
    service_parts.waits_part,
    audit_part,
    service_parts.consumers_part,
    service_parts.partitions_part,
    service_parts.topics_part,
    service_parts.clients_part,
    service_parts.attempts_part,
    service_parts.endings_part,
    service_parts.dead_part,
)
"""The sections, in the order of the page."""


def put_together(contents: Contents, pool: Executor, step: Callable[[], None]) -> Report:
    """Reckon all sections, some at a time."""

    def reckon(part: Callable[[Contents], Section]) -> Section:
        section = part(contents)
        step()
        return section

    sections = list(pool.map(reckon, PARTS))
    by_key = {section.figures.key: section for section in sections}
    moment = f"{contents.taken_at:%Y-%m-%d %H:%M:%S %Z}".strip()
    return Report(
        title="Telesto: report of the service",
        subtitle=f"{contents.where}, as it was at {moment}",
        summary=_summary(contents, by_key),
        findings=_findings(by_key),
        sections=sections,
        footer=(
            "All tables are of one moment (one snapshot of the database).",
            "Percentiles are exact to a rank of 1/10000. docs/reports.md has the formulas and where they "
            "come from.",
        ),
    )


def _summary(contents: Contents, sections: dict[str, Section]) -> list[tuple[str, str]]:
    totals = queues.totals(contents.present, contents.tables["history"], contents.taken_at).collect()[0]
    return [
        ("queues", shown(sections["queues"].figures.total, Kind.COUNT)),
        ("messages there", shown(totals["alive"], Kind.COUNT)),
        ("oldest message", shown(totals["oldest_s"], Kind.SECONDS)),
        ("processed, in the history", shown(totals["processed"], Kind.COUNT)),
        ("dead letters", shown(totals["dead"], Kind.COUNT)),
        ("consumers", shown(sections["consumers"].figures.total, Kind.COUNT)),
        ("topics", shown(sections["topics"].figures.total, Kind.COUNT)),
    ]


def _findings(sections: dict[str, Section]) -> list[Finding]:
    findings = findings_of(sections["audit"])
    if not sections["traffic"].figures.rows:
        findings.append(
            Finding("note", "There is no message, and the history is empty: there is little to report.")
        )
    return findings
