"""Servers as sources: a standby that is read, promoted, or gone in the middle, and the archive of each."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

from faults.run import remove_directory, scratch_directory
from faults.service.pair import Pair
from faults.service.standby import Node
from telesto.benchmarks.pages.page import Report
from telesto.benchmarks.service_report.report import service_report
from telesto.benchmarks.spark.archive import add_to_archive
from telesto.benchmarks.spark.errors import SnapshotEndedError, SourceError
from telesto.db import schema

WAIT_S = 120.0
ENDED = """
INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, client_id, time_of_arrival,
                             handed_over_at, ended_at, drop_on, ending, attempt, priority, redelivered)
SELECT i, 1, 1, 0, 2, now(), now(), now(), '2000-01-01', 'confirmed', 1, 5, false
FROM generate_series(%s::bigint, %s::bigint) AS i
"""


class Servers:
    """A primary and its standby, whose proxies live in a thread of their own."""

    def __init__(self, directory: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.pair = Pair(directory / "data")

    def do(self, work: Coroutine[Any, Any, Any]) -> None:
        """Have the pair do something; return when it is done."""
        asyncio.run_coroutine_threadsafe(work, self._loop).result(WAIT_S)

    def end_messages(self, first: int, last: int) -> None:
        """Write rows of the history on the primary; return when the standby shows them."""
        with psycopg.connect(self.pair.primary_url, autocommit=True) as primary:
            primary.execute("SET synchronous_commit = remote_apply")
            primary.execute(ENDED, (first, last))

    def close(self) -> None:
        """End the servers and the thread."""
        self.do(self.pair.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def servers(spark: SparkSession) -> Iterator[Servers]:
    """A pair that is in step; without Spark there is no use for it."""
    directory = scratch_directory()
    servers = Servers(directory)
    try:
        servers.do(servers.pair.start())
        schema.upgrade(servers.pair.primary_url)
        yield servers
    finally:
        servers.close()
        remove_directory(directory)


def processed(report: Report) -> str:
    return dict(report.summary)["processed, in the history"]


def archived(spark: SparkSession, place: Path) -> list[int]:
    return sorted(row["message_id"] for row in spark.read.parquet(str(place)).collect())


def test_a_standby_is_read_until_it_is_gone_and_its_promotion_is_not_passed_over(
    spark: SparkSession, servers: Servers, tmp_path: Path
) -> None:
    pair, warnings = servers.pair, list[str]()
    place = tmp_path / "archive"
    servers.end_messages(1, 3)

    # Of the two, the standby is read, and holding its snapshot asks for no warning.
    report = service_report(spark, pair.url, warn=warnings.append, hold_warning_s=0.0)
    assert "the standby" in report.subtitle
    assert processed(report) == "3"
    assert warnings == []

    # The archive goes on from one server to the other as long as nobody was promoted.
    assert add_to_archive(spark, pair.follower.url, str(place)) == 3
    servers.end_messages(4, 5)
    assert add_to_archive(spark, pair.primary_url, str(place)) == 2
    assert add_to_archive(spark, pair.follower.url, str(place)) == 0

    # A promotion is refused, and gone on with when told to: the new primary had all commits.
    servers.end_messages(6, 6)
    servers.do(pair.leader.kill())
    servers.do(pair.promote())
    with pytest.raises(SourceError, match="a standby was promoted"):
        add_to_archive(spark, pair.primary_url, str(place))
    assert archived(spark, place) == [1, 2, 3, 4, 5]
    assert add_to_archive(spark, pair.primary_url, str(place), new_timeline="continue") == 1
    assert archived(spark, place) == [1, 2, 3, 4, 5, 6]

    # The only server that is left dies, while the tables are being read.
    assert_gone_in_the_middle(spark, servers, pair.leader)


def assert_gone_in_the_middle(spark: SparkSession, servers: Servers, node: Node) -> None:
    """Kill a server when the first table has been read: there is no report, and the reason is told."""
    killed = threading.Event()

    def kill() -> None:
        if not killed.is_set():
            killed.set()
            servers.do(node.kill())

    with pytest.raises(SnapshotEndedError, match="before everything was read"):
        service_report(spark, node.url, warn=lambda _: None, step=kill)
    assert killed.is_set()
