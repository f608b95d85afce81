"""Tables read by several sessions in one snapshot, and what happens when that is not to be had."""

import re
import threading
from collections.abc import Iterator
from datetime import datetime

import psycopg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from faults.waiting import wait_until
from telesto.benchmarks.spark import reading, snapshot
from telesto.benchmarks.spark.errors import SnapshotEndedError, SourceError
from telesto.benchmarks.spark.failures import explained_failures
from telesto.benchmarks.spark.reading import PART_BYTES, block_ranges, parts_of, read_table
from telesto.benchmarks.spark.snapshot import held_snapshot
from telesto.benchmarks.spark.tables import TABLES, Table

ROWS = 64
MOVING = Table("moving", {"name": "name"}, ("name",))
WAIT_S = 60


#: Longer than the limit of the test, for a session of reports.
IDLE_FOR_LONG = """
SELECT pid FROM pg_stat_activity
WHERE application_name = %s AND datname = current_database()
  AND state = 'idle in transaction' AND clock_timestamp() - state_change > interval '100 ms'
"""


def ignore(_warning: str) -> None:
    """Nobody is there to be warned."""


@pytest.fixture
def writer(database_url: str) -> Iterator[psycopg.Connection]:
    """Another session, with a table of several blocks."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE telesto.moving (name int, padding text)")
        connection.execute(
            "INSERT INTO telesto.moving SELECT i, repeat('x', 1000) FROM generate_series(1, %s) AS i", (ROWS,)
        )
        yield connection


def move_all(writer: psycopg.Connection) -> None:
    """Every row goes to another place."""
    writer.execute("UPDATE telesto.moving SET name = name")


def read_while_all_moves(spark: SparkSession, url: str, writer: psycopg.Connection, parts: int) -> list[int]:
    """Read part after part; whenever one has been read, all rows move."""
    names: list[int] = []
    with held_snapshot(url, [MOVING], ignore) as held:
        frame = read_table(spark, held, MOVING, parts)
        assert frame.rdd.getNumPartitions() == parts
        for part in range(parts):
            rows = frame.where(F.spark_partition_id() == part).collect()
            names += [row["name"] for row in rows]
            move_all(writer)
    return sorted(names)


class TestParts:
    @pytest.mark.parametrize(("blocks", "parts"), [(0, 4), (1, 4), (7, 3), (1000, 16), (5, 1)])
    def test_every_block_is_in_one_range(self, blocks: int, parts: int) -> None:
        ranges = [
            [int(block) for block in re.findall(r"\((\d+),0\)", text)] for text in block_ranges(blocks, parts)
        ]
        assert 1 <= len(ranges) <= max(1, min(blocks, parts))
        assert ranges[0][0] == 0
        assert len(ranges[-1]) == 1
        assert [end for *_, end in ranges[:-1]] == [begin for begin, *_ in ranges[1:]]

    def test_large_tables_have_more_parts_up_to_a_bound(self) -> None:
        assert parts_of(0) == 1
        assert parts_of(PART_BYTES) == 1
        assert parts_of(PART_BYTES + 1) == 2
        assert parts_of(1 << 50) == reading.PARTS_MAX

    def test_a_part_is_a_scan_of_its_blocks(self, writer: psycopg.Connection) -> None:
        (first, *_) = block_ranges(8, 2)
        plan = writer.execute(
            f"EXPLAIN SELECT * FROM ({MOVING.query}) AS t WHERE {first}".encode()
        ).fetchall()
        assert "Tid Range Scan" in plan[0][0]


class TestTimes:
    def test_a_time_is_read_to_the_microsecond(
        self, spark: SparkSession, database_url: str, writer: psycopg.Connection
    ) -> None:
        """They are read as numbers; what the service writes is from this century."""
        times = [
            "2000-01-01 00:00:00.000001+00",
            "2026-03-29 00:59:59.999999+00",
            "2026-03-29 01:00:00.123457+00",
            "2099-12-31 23:59:59.999999+00",
        ]
        writer.execute("CREATE TABLE telesto.timed (ended_at timestamptz)")
        writer.execute("INSERT INTO telesto.timed SELECT unnest(%s::timestamptz[])", (times,))
        writer.execute("INSERT INTO telesto.timed VALUES (NULL)")
        timed = Table("timed", {"ended_at": "ended_at"}, ("ended_at",))
        with held_snapshot(database_url, [timed], ignore) as held:
            found = read_table(spark, held, timed)
            assert dict(found.dtypes) == {"ended_at": "timestamp"}
            rows = found.selectExpr("unix_micros(ended_at) AS us").collect()
        expected = [round(datetime.fromisoformat(time).timestamp() * 1_000_000) for time in times]
        assert sorted(row["us"] for row in rows if row["us"] is not None) == sorted(expected)
        assert sum(row["us"] is None for row in rows) == 1


class TestGroups:
    """Tables of which a report needs no row by itself are grouped by the database."""

    def fill(self, writer: psycopg.Connection) -> None:
        writer.execute(
            """
            INSERT INTO telesto.topic_messages (topic_id, number, sender_id, time_of_arrival, body)
            SELECT 1 + i % 2, i, 1, timestamptz '2026-01-01 00:00Z' + i * interval '1 s',
                   repeat('x', 500)::bytea
            FROM generate_series(1, 400) AS i
            """
        )

    @pytest.mark.parametrize("parts", [1, 3])
    def test_groups_of_parts_come_to_those_of_the_whole(
        self, spark: SparkSession, database_url: str, writer: psycopg.Connection, parts: int
    ) -> None:
        self.fill(writer)
        table = TABLES["topic_messages"]
        with held_snapshot(database_url, [table], ignore) as held:
            # Everything that is put after the snapshot is of another moment.
            writer.execute("DELETE FROM telesto.topic_messages WHERE topic_id = 1")
            rows = read_table(spark, held, table, parts).collect()
        assert len(rows) == 2 * parts, "what is read grows with the topics, not with their messages"
        for topic in (1, 2):
            mine = [row for row in rows if row["topic_id"] == topic]
            assert (sum(row["kept"] for row in mine), sum(row["bytes"] for row in mine)) == (200, 100_000)
        assert min(row["time_of_arrival"] for row in rows).minute == 0

    def test_the_database_groups_what_lies_in_a_range_of_blocks(self, writer: psycopg.Connection) -> None:
        self.fill(writer)
        (first, *_) = block_ranges(8, 2)
        query = TABLES["topic_messages"].grouped(first)
        plan = "\n".join(line for (line,) in writer.execute(f"EXPLAIN {query}".encode()))
        assert re.search(r"^(Group|Hash)Aggregate", plan)
        assert "Tid Range Scan on topic_messages" in plan


class TestOneSnapshot:
    def test_rows_that_move_are_read_once(
        self, spark: SparkSession, database_url: str, writer: psycopg.Connection
    ) -> None:
        assert read_while_all_moves(spark, database_url, writer, 4) == list(range(1, ROWS + 1))

    def test_without_a_fetch_size_they_would_not_be(
        self,
        spark: SparkSession,
        database_url: str,
        writer: psycopg.Connection,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        # What makes Spark read in a transaction; should it change its ways, this shows it.
        monkeypatch.setattr(reading, "FETCH_ROWS", 0)
        assert read_while_all_moves(spark, database_url, writer, 4) != list(range(1, ROWS + 1))

    def test_no_partition_of_the_history_can_go_meanwhile(
        self, database_url: str, writer: psycopg.Connection
    ) -> None:
        writer.execute("SET lock_timeout = '50ms'")
        with (
            held_snapshot(database_url, TABLES.values(), ignore),
            pytest.raises(psycopg.errors.LockNotAvailable),
        ):
            writer.execute("DROP TABLE telesto.history_floor")

    def test_a_member_of_the_readers_role_can_read_all(self, spark: SparkSession, database_url: str) -> None:
        url = f"{database_url}?options=-c%20role%3Dtelesto_reader"
        with held_snapshot(url, TABLES.values(), ignore) as held:
            for table in TABLES.values():
                assert read_table(spark, held, table).count() == 0, table.name


class TestFailures:
    def test_a_snapshot_that_ended_is_the_reason(
        self,
        spark: SparkSession,
        database_url: str,
        writer: psycopg.Connection,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr(snapshot, "CHECK_EVERY_S", 0.01)
        ended = threading.Event()
        with held_snapshot(database_url, [MOVING], ignore, ended.set) as held:
            frame = read_table(spark, held, MOVING, 2)
            end_sessions(writer)
            with (
                pytest.raises(SnapshotEndedError, match="before everything was read"),
                explained_failures(held),
            ):
                frame.collect()
            assert ended.wait(WAIT_S)
            with pytest.raises(SnapshotEndedError):
                held.check()

    def test_what_the_database_says_is_told(
        self, spark: SparkSession, database_url: str, writer: psycopg.Connection
    ) -> None:
        broken = Table("moving", {"name": "1 / (name - 7)"}, ("name",))
        with (
            held_snapshot(database_url, [broken], ignore) as held,
            pytest.raises(SourceError, match="division by zero"),
            explained_failures(held),
        ):
            read_table(spark, held, broken).collect()

    def test_a_database_of_an_older_release_is_refused(
        self, database_url: str, writer: psycopg.Connection
    ) -> None:
        writer.execute("ALTER TABLE telesto.dead_letters DROP COLUMN reason")
        with (
            pytest.raises(SourceError, match=r"dead_letters\.reason.*older release"),
            held_snapshot(database_url, TABLES.values(), ignore),
        ):
            pass

    def test_a_table_that_stays_locked_is_not_waited_for_for_ever(
        self, database_url: str, writer: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(snapshot, "LOCK_TIMEOUT_MS", 50)
        with writer.transaction():
            writer.execute("LOCK TABLE telesto.moving IN ACCESS EXCLUSIVE MODE")
            with (
                pytest.raises(psycopg.errors.LockNotAvailable),
                held_snapshot(database_url, [MOVING], ignore),
            ):
                pass


class TestHolding:
    def test_a_busy_primary_is_worth_a_warning(
        self, database_url: str, writer: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(snapshot, "CHECK_EVERY_S", 0.01)
        monkeypatch.setattr(snapshot, "BUSY_COMMITS_PER_S", 0.0)
        warnings: list[str] = []
        warned = threading.Event()

        def warn(text: str) -> None:
            warnings.append(text)
            warned.set()

        with held_snapshot(database_url, [MOVING], warn, hold_warning_s=0.0):
            assert warned.wait(WAIT_S)
        assert len(warnings) == 1
        assert "commits per second" in warnings[0]

    def test_no_limit_of_the_role_ends_it(self, database_url: str, writer: psycopg.Connection) -> None:
        url = f"{database_url}?options=-c%20idle_in_transaction_session_timeout%3D1ms"
        with held_snapshot(url, [MOVING], ignore) as held:
            wait_until(lambda: writer.execute(IDLE_FOR_LONG, (snapshot.APPLICATION,)).fetchone())
            held.check()

    def test_nothing_is_held_afterwards(self, database_url: str, writer: psycopg.Connection) -> None:
        with held_snapshot(database_url, [MOVING], ignore):
            pass
        writer.execute("SET lock_timeout = '10s'")
        writer.execute("DROP TABLE telesto.moving")


def end_sessions(writer: psycopg.Connection) -> None:
    """End the sessions of reports, those that hold a snapshot too."""
    writer.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE application_name = %s AND datname = current_database()",
        (snapshot.APPLICATION,),
    )
