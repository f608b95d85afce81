"""The audit as a section, and as sentences for the top of the page."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from telesto.benchmarks.pages.page import Finding
from telesto.benchmarks.pages.section import Field, Figures, Kind, Section, duration
from telesto.benchmarks.service_report import audit
from telesto.benchmarks.service_report.contents import Contents

EXAMPLES_MAX = 3


@dataclass(frozen=True, slots=True)
class _Check:
    name: str
    question: str
    found: DataFrame
    broken: bool
    """Whether anything found breaks a guarantee; otherwise it only asks for an explanation."""


def audit_part(contents: Contents) -> Section:
    """Look for loss, duplicates and order."""
    rows = tuple(_row(check) for check in _checks(contents))
    fields = (
        Field("check", "check", Kind.TEXT),
        Field("question", "what is looked for", Kind.TEXT),
        Field("found", "found", Kind.COUNT),
        Field("broken", "would break a guarantee", Kind.TEXT),
        Field("examples", "examples", Kind.TEXT),
    )
    return Section(
        "Audit: loss, duplicates, order",
        "What the tables of this one moment say about the guarantees. Only what the history keeps can be "
        "looked at: a queue without a history is seen by its totals alone.",
        Figures("audit", fields, rows, len(rows)),
    )


def findings_of(section: Section) -> list[Finding]:
    """The audit in a sentence or two."""
    broken = [row for row in section.figures.rows if row[2] and row[3] == "yes"]
    odd = [row for row in section.figures.rows if row[2] and row[3] == "no"]
    findings = [
        Finding("bad", f"The audit found {row[2]:,} cases of: {row[1]}; for example {row[4]}.")
        for row in broken
    ]
    if not broken:
        findings.append(Finding("good", "The audit found no message lost and none processed twice."))
    findings += [Finding("note", f"{row[2]:,} cases of: {row[1]}; for example {row[4]}.") for row in odd]
    return findings


def _checks(contents: Contents) -> list[_Check]:
    tables, present = contents.tables, contents.present
    history = tables["history"]
    tolerance = duration(audit.ORDER_TOLERANCE_S)
    return [
        _Check(
            "loss",
            "queues whose totals count other messages than are there",
            audit.depth_differences(tables, present),
            True,
        ),
        _Check("duplicates", "messages processed more than once", audit.processed_twice(history), True),
        _Check(
            "duplicates",
            "messages that were processed and are there nevertheless",
            audit.processed_and_present(history, present),
            True,
        ),
        _Check(
            "order",
            f"messages read more than {tolerance} before an older one of their queue and priority "
            "(as it must be when that one was delayed, or read by its sender)",
            audit.overtaking(history),
            False,
        ),
    ]


def _row(check: _Check) -> tuple[str, str, int, str, str]:
    examples = check.found.limit(EXAMPLES_MAX).collect()
    found = len(examples) if len(examples) < EXAMPLES_MAX else check.found.count()
    told = "; ".join(", ".join(f"{name} {value}" for name, value in row.asDict().items()) for row in examples)
    return check.name, check.question, found, "yes" if check.broken else "no", told
