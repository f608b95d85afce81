"""The report of a live service: reads its tables in one snapshot, releases it, then makes the page."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from telesto.benchmarks.pages.page import Finding, Report
from telesto.benchmarks.pages.section import Kind, Section, shown
from telesto.benchmarks.service_report.audit import findings_of
from telesto.benchmarks.service_report.frames import Contents, present_messages, totals
from telesto.benchmarks.service_report.sections import PARTS
from telesto.benchmarks.spark.failures import explained_failures
from telesto.benchmarks.spark.reading import read_table
from telesto.benchmarks.spark.snapshot import HOLD_WARNING_S, Warn, held_snapshot
from telesto.benchmarks.spark.tables import TABLES, Table

AT_ONCE = 4
"""How many tables are read, and parts computed, concurrently: most are small."""

Step = Callable[[], None]
STEPS = len(TABLES) + len(PARTS)
"""How often `step` is called."""


def _put_together(contents: Contents, pool: Executor, step: Step) -> Report:
    """Compute all sections, some at a time."""

    def compute(part: Callable[[Contents], Section]) -> Section:
        section = part(contents)
        step()
        return section

    sections = list(pool.map(compute, PARTS))
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
            "Percentiles are exact to a rank of 1/10000. docs/how-to/reports.md has the formulas and where "
            "they come from.",
        ),
    )


def _summary(contents: Contents, sections: dict[str, Section]) -> list[tuple[str, str]]:
    counted = totals(contents.present, contents.tables["history"], contents.taken_at).collect()[0]
    return [
        ("queues", shown(sections["queues"].figures.total, Kind.COUNT)),
        ("messages there", shown(counted["alive"], Kind.COUNT)),
        ("oldest message", shown(counted["oldest_s"], Kind.SECONDS)),
        ("processed, in the history", shown(counted["processed"], Kind.COUNT)),
        ("dead letters", shown(counted["dead"], Kind.COUNT)),
        ("consumers", shown(sections["consumers"].figures.total, Kind.COUNT)),
        ("topics", shown(sections["topics"].figures.total, Kind.COUNT)),
    ]


def _findings(sections: dict[str, Section]) -> list[Finding]:
    findings = findings_of(sections["audit"])
    if not sections["traffic"].figures.rows:
        findings.append(
            Finding("note", "There are no messages, and the history is empty: there is little to report.")
        )
    return findings


def service_report(
    spark: SparkSession,
    url: str,
    *,
    warn: Warn,
    step: Step = lambda: None,
    hold_warning_s: float = HOLD_WARNING_S,
) -> Report:
    """Make the report of the service with its state in a database.

    Of several servers in `url`, a standby is preferred. `warn` receives messages for the user; `step` is
    called STEPS times. A busy primary that holds the snapshot for more than `hold_warning_s` seconds causes a
    warning. Raises psycopg.Error if the database cannot be reached or refuses, ReportError if it goes away,
    lacks what is to be read, or Spark fails.
    """
    contents = read_contents(spark, url, warn=warn, step=step, hold_warning_s=hold_warning_s)
    try:
        with explained_failures(), ThreadPoolExecutor(AT_ONCE) as pool:
            return _put_together(contents, pool, step)
    finally:
        for frame in contents.tables.values():
            frame.unpersist()


def read_contents(
    spark: SparkSession, url: str, *, warn: Warn, step: Step, hold_warning_s: float = HOLD_WARNING_S
) -> Contents:
    """Read all tables in one snapshot, which is released after that."""
    cancel = spark.sparkContext.cancelAllJobs
    with held_snapshot(url, TABLES.values(), warn, cancel, hold_warning_s) as snapshot:

        def read(table: Table) -> DataFrame:
            frame = read_table(spark, snapshot, table).persist(StorageLevel.DISK_ONLY)
            frame.count()
            step()
            return frame

        with explained_failures(snapshot), ThreadPoolExecutor(AT_ONCE) as pool:
            frames = list(pool.map(read, TABLES.values()))
        snapshot.check()
        tables = dict(zip(TABLES, frames, strict=True))
        server = snapshot.server
        kind = "standby" if snapshot.standby else "primary"
        where = f"{server.database} on {server.host}:{server.port}, the {kind}"
        return Contents(tables, present_messages(tables), snapshot.taken_at, where)
