"""The report of a service, from a database to a directory."""

import csv
import threading
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from telesto.benchmarks.pages.page import PAGE, Report, write_report
from telesto.benchmarks.pages.section import Field, Figures, Kind, Row, Section
from telesto.benchmarks.service_report.audit import findings_of
from telesto.benchmarks.service_report.report import STEPS, service_report
from telesto.benchmarks.spark import reading
from telesto.benchmarks.spark.errors import SourceError
from telesto.benchmarks.spark.snapshot import APPLICATION
from telesto.benchmarks.spark.tables import TABLES

PUT, READ, LETTERS = 7, 3, 2
MOVED = STEPS + 10
"""More messages than are moved while a report is made."""


def ignore(_warning: str) -> None:
    """Nobody is there to be warned."""


@pytest.fixture
def service(database_url: str) -> Iterator[psycopg.Connection]:
    """A database in which a client has put, and read, some messages."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def use(service: psycopg.Connection) -> None:
    """Put PUT messages, read READ of them, and let LETTERS die."""
    service.execute("SELECT telesto.create_queue('orders')")
    client = service.execute("SELECT telesto.request_id('alice')").fetchone()
    queue = service.execute("SELECT queue_id FROM telesto.get_queue_id('orders')").fetchone()
    assert client is not None
    assert queue is not None
    for index in range(PUT):
        key = "one" if index == 0 else None
        service.execute(
            "SELECT telesto.put_message(%s, %s, 'body', partition_key => %s)", (*client, *queue, key)
        )
    service.execute("SELECT telesto.place_staged(100)")
    for _ in range(READ):
        service.execute("SELECT telesto.read_message_by_priority(%s, %s)", (*client, *queue))
    service.execute(
        """
        INSERT INTO telesto.dead_letters
            (queue_id, message_id, receiver_id, sender_id, client_id, session, number, time_of_arrival,
             handed_over_at, attempt, priority, redelivered, reason, body)
        SELECT %s, -i, 0, %s, 1, 1, 1, now(), now(), 5, 5, true, 'failed', 'body'
        FROM generate_series(1, %s) AS i
        """,
        (*queue, *client, LETTERS),
    )


def figures(report: Report, key: str) -> list[dict[str, object]]:
    (section,) = (section for section in report.sections if section.figures.key == key)
    names = [field.name for field in section.figures.fields]
    return [dict(zip(names, row, strict=True)) for row in section.figures.rows]


class TestWhole:
    def test_an_empty_service_is_reported_as_empty(
        self, spark: SparkSession, database_url: str, tmp_path: Path
    ) -> None:
        steps: list[None] = []
        report = service_report(spark, database_url, warn=ignore, step=lambda: steps.append(None))
        assert len(steps) == STEPS
        assert any("history is empty" in finding.text for finding in report.findings)
        assert all(
            section.figures.rows == () for section in report.sections if section.figures.key != "audit"
        )
        write_report(report, tmp_path / "report")
        assert "No data." in (tmp_path / "report" / PAGE).read_text()

    def test_what_happened_is_in_the_page_and_in_the_figures(
        self, spark: SparkSession, database_url: str, service: psycopg.Connection, tmp_path: Path
    ) -> None:
        use(service)
        report = service_report(spark, database_url, warn=ignore)
        (orders,) = figures(report, "queues")
        assert orders["queue"] == "orders"
        assert (orders["waiting"], orders["in_partitions"]) == (PUT - READ - 1, 1)
        assert orders["dead"] == LETTERS
        (residence,) = figures(report, "residence")
        assert residence["messages"] == READ
        (alice,) = figures(report, "clients")
        assert (alice["client"], alice["put"], alice["processed"]) == ("alice", PUT, READ)
        assert [row["found"] for row in figures(report, "audit")] == [0, 0, 0, 0]
        assert [finding.tone for finding in report.findings] == ["good"]
        assert dict(report.summary)["messages there"] == str(PUT - READ)

        write_report(report, tmp_path / "report")
        written = {path.name for path in (tmp_path / "report").iterdir()}
        plots = {f"{section.figures.key}.svg" for section in report.sections if section.plot is not None}
        assert written == {PAGE, *(f"{section.figures.key}.csv" for section in report.sections), *plots}
        assert plots
        with (tmp_path / "report" / "queues.csv").open(newline="") as file:
            (row,) = csv.DictReader(file)
        assert row["waiting"] == str(PUT - READ - 1)
        assert (tmp_path / "report" / PAGE).read_text().count("<svg") == 5

    def test_what_breaks_a_guarantee_is_told_from_what_asks_for_an_explanation(self) -> None:
        names = ("check", "question", "found", "broken", "examples")
        fields = tuple(Field(name, name, Kind.TEXT) for name in names)
        rows = (("loss", "lost ones", 2, "yes", "queue 1"), ("order", "odd ones", 1, "no", "message 3"))

        def tones(*kept: Row) -> list[str]:
            figures = Figures("audit", fields, kept, len(kept))
            return [finding.tone for finding in findings_of(Section("", "", figures))]

        assert tones(*rows) == ["bad", "note"]
        assert tones(rows[1]) == ["good", "note"]
        assert tones() == ["good"]


class TestOneMoment:
    """Messages move from table to table while those are read one after the other."""

    def report_while_messages_move(
        self, spark: SparkSession, url: str, service: psycopg.Connection
    ) -> tuple[Report, int]:
        """Whenever a table has been read one more message is; return how many were before all."""
        use(service)
        client = service.execute("SELECT telesto.request_id('mover')").fetchone()
        queue = service.execute("SELECT queue_id FROM telesto.get_queue_id('orders')").fetchone()
        assert client is not None
        assert queue is not None
        for _ in range(MOVED):
            service.execute("SELECT telesto.put_message(%s, %s, 'body')", (*client, *queue))
        service.execute("SELECT telesto.place_staged(1000)")
        lock = threading.Lock()

        def move() -> None:
            with lock:
                service.execute("SELECT telesto.read_message_by_priority(%s, %s)", (*client, *queue))

        report = service_report(spark, url, warn=ignore, step=move)
        history = service.execute("SELECT count(*) FROM telesto.history").fetchone()
        assert history is not None
        assert history[0] >= READ + len(TABLES), "messages have moved meanwhile"
        return report, READ

    def test_a_report_shows_each_where_it_was_at_the_beginning(
        self, spark: SparkSession, database_url: str, service: psycopg.Connection
    ) -> None:
        report, processed = self.report_while_messages_move(spark, database_url, service)
        summary = dict(report.summary)
        assert summary["processed, in the history"] == str(processed)
        assert summary["messages there"] == str(PUT - READ + MOVED)
        assert [row["found"] for row in figures(report, "audit")] == [0, 0, 0, 0]

    def test_without_the_snapshot_it_would_not(
        self,
        spark: SparkSession,
        database_url: str,
        service: psycopg.Connection,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # That the test above can fail.
        properties = reading.properties_of
        unset = {"sessionInitStatement": "SELECT 1"}
        monkeypatch.setattr(reading, "properties_of", lambda snapshot: properties(snapshot) | unset)
        report, processed = self.report_while_messages_move(spark, database_url, service)
        assert dict(report.summary)["processed, in the history"] != str(processed)
        assert any(row["found"] for row in figures(report, "audit"))


class TestFailures:
    def test_a_database_that_goes_away_in_the_middle_leaves_no_report(
        self, spark: SparkSession, database_url: str, service: psycopg.Connection
    ) -> None:
        def end_all() -> None:
            service.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = %s AND datname = current_database()",
                (APPLICATION,),
            )

        with pytest.raises(SourceError, match="before everything was read"):
            service_report(spark, database_url, warn=ignore, step=end_all)
