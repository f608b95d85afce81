"""The history as a stream: nothing is lost, whatever the order of commits, and nothing comes twice."""

from __future__ import annotations

import json
import random
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from faults.waiting import wait_until
from telesto.benchmarks.spark.archive import CHECKPOINT, add_to_archive
from telesto.benchmarks.spark.errors import ReportError, SourceError
from telesto.benchmarks.spark.stream import ROWS, HistoryReader, settle

WRITERS, TURNS, STOPS = 4, 40, 3


@pytest.fixture
def writer(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url) as connection:
        yield connection


@pytest.fixture
def reader(database_url: str) -> HistoryReader:
    return HistoryReader({"url": database_url})


def end_message(connection: psycopg.Connection, message_id: int) -> None:
    """Write a row of the history, as whatever ends a message does."""
    connection.execute(
        """
        INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, time_of_arrival, ended_at,
                                     drop_on, ending, attempt, priority, redelivered)
        VALUES (%s, 1, 1, 0, now(), now(), '2000-01-01', 'confirmed', 1, 5, false)
        """,
        (message_id,),
    )


def others_are_over(database_url: str) -> None:
    """Waits until whatever has a transaction on this server by now, in any database, is over.

    Tests that run at the same time have databases of their own, but one server, whose transactions are
    counted together: one of theirs that is open holds the stream back, as it should.
    """
    with psycopg.connect(database_url, autocommit=True) as connection:
        number = scalar(connection, "SELECT pg_current_xact_id()::text::bigint")
        oldest = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        wait_until(lambda: scalar(connection, oldest) > number, 120)


class Stream:
    """What Spark does with a reader, turn by turn, and what came of it."""

    def __init__(self, reader: HistoryReader) -> None:
        self.reader = reader
        self.offset = reader.initialOffset()
        self.read: list[int] = []

    def turn(self) -> None:
        end = self.reader.latestOffset()
        for partition in self.reader.partitions(self.offset, end):
            for batch in self.reader.read(partition):
                self.read += batch.column("message_id").to_pylist()
        self.offset = end


class TestOrderOfCommits:
    def test_what_commits_late_is_not_passed_over(
        self, database_url: str, writer: psycopg.Connection, reader: HistoryReader
    ) -> None:
        stream = Stream(reader)
        end_message(writer, 1)
        with psycopg.connect(database_url, autocommit=True) as other:
            end_message(other, 2)
        stream.turn()
        assert stream.read == []
        writer.commit()
        others_are_over(database_url)
        stream.turn()
        assert sorted(stream.read) == [1, 2]
        stream.turn()
        assert sorted(stream.read) == [1, 2]

    def test_what_was_rolled_back_does_not_come(
        self, database_url: str, writer: psycopg.Connection, reader: HistoryReader
    ) -> None:
        stream = Stream(reader)
        end_message(writer, 1)
        writer.rollback()
        end_message(writer, 2)
        writer.commit()
        others_are_over(database_url)
        stream.turn()
        assert stream.read == [2]

    def test_nothing_is_lost_among_many_writers(self, database_url: str, reader: HistoryReader) -> None:
        stream = Stream(reader)
        barrier = threading.Barrier(WRITERS)

        def write(number: int) -> list[int]:
            rng = random.Random(number)
            mine = [number * 10_000 + turn for turn in range(TURNS)]
            with psycopg.connect(database_url) as connection:
                barrier.wait()
                for message_id in mine:
                    end_message(connection, message_id)
                    # One that leaves transactions open over several of the others' commits.
                    if rng.random() < 0.5:
                        connection.commit()
            return mine

        with ThreadPoolExecutor(WRITERS) as pool:
            writing = [pool.submit(write, number) for number in range(1, WRITERS + 1)]
            while not all(future.done() for future in writing):
                stream.turn()
        others_are_over(database_url)
        stream.turn()
        assert sorted(stream.read) == sorted(
            message_id for future in writing for message_id in future.result()
        )


class TestRestarts:
    """Spark notes a turn's offset, reads the turn, and after a crash reads the same turn again."""

    def test_a_turn_that_is_read_again_gives_the_same_whatever_was_committed_meanwhile(
        self, database_url: str, reader: HistoryReader
    ) -> None:
        noted = json.dumps(reader.initialOffset())
        read: list[int] = []
        rng = random.Random(5)
        with Writers(database_url) as writers:
            for _ in range(TURNS):
                writers.go_on(rng)
                end = json.dumps(reader.latestOffset())
                # The process dies with some of the parts read; another one begins, from what was noted.
                begun = rows_of(reader, noted, end, parts=rng.randrange(4))
                writers.go_on(rng)
                reader = HistoryReader({"url": database_url, "parts": str(rng.randrange(1, 5))})
                again = rows_of(reader, noted, end)
                assert set(begun) <= set(again)
                read += again
                noted = end
            committed = writers.finish()
        others_are_over(database_url)
        read += rows_of(reader, noted, json.dumps(reader.latestOffset()))
        assert sorted(read) == sorted(committed)
        assert len(committed) > TURNS

    def test_an_archive_that_is_stopped_again_and_again_holds_every_row_once(
        self, spark: SparkSession, database_url: str, tmp_path: Path
    ) -> None:
        place = str(tmp_path / "archive")
        rng = random.Random(7)
        with Writers(database_url) as writers, ThreadPoolExecutor(1) as pool:
            for _ in range(STOPS):
                writers.go_on(rng)
                adding = pool.submit(add_to_archive, spark, database_url, place)
                while not adding.done():
                    for query in spark.streams.active:
                        writers.go_on(rng)
                        query.stop()
                # A run that was stopped may say so; the next one goes on in any case.
                assert adding.exception() is None or isinstance(adding.exception(), ReportError)
            committed = writers.finish()
        others_are_over(database_url)
        add_to_archive(spark, database_url, place)
        archived = [row["message_id"] for row in spark.read.parquet(place).select("message_id").collect()]
        assert sorted(archived) == sorted(committed)


class Writers:
    """Transactions that end messages in savepoints and commit, or not, in another order than they began."""

    def __init__(self, database_url: str) -> None:
        self._open = [psycopg.connect(database_url) for _ in range(WRITERS)]
        self._uncommitted: list[list[int]] = [[] for _ in self._open]
        self._committed: list[int] = []
        self._message_id = 0

    def __enter__(self) -> Writers:
        return self

    def __exit__(self, *_: object) -> None:
        for connection in self._open:
            connection.close()

    def go_on(self, rng: random.Random) -> None:
        """Each does something: most write, some commit, few roll back."""
        for index in rng.sample(range(WRITERS), WRITERS):
            connection = self._open[index]
            self._message_id += 1
            connection.execute("SELECT")
            # So this is a savepoint within a transaction, with a number of its own.
            with connection.transaction():
                end_message(connection, self._message_id)
            self._uncommitted[index].append(self._message_id)
            if rng.random() < 0.4:
                self._end(index, rng.random() < 0.8)

    def finish(self) -> list[int]:
        """Commit what is open; return all messages whose end was committed."""
        for index in range(WRITERS):
            self._end(index, True)
        return self._committed

    def _end(self, index: int, commit: bool) -> None:
        connection, mine = self._open[index], self._uncommitted[index]
        self._uncommitted[index] = []
        if commit:
            connection.commit()
            self._committed += mine
        else:
            connection.rollback()


def rows_of(reader: HistoryReader, start: str, end: str, parts: int | None = None) -> list[int]:
    """The messages of a turn, or of its first parts."""
    partitions = reader.partitions(json.loads(start), json.loads(end))[:parts]
    batches = [batch for partition in partitions for batch in reader.read(partition)]
    return [message_id for batch in batches for message_id in batch.column("message_id").to_pylist()]


class TestPlan:
    """A turn reads the blocks in which its rows lie, and not the days of the history."""

    @pytest.mark.parametrize("analysed", [False, True])
    def test_a_turn_finds_its_rows_by_the_summaries_of_their_blocks(
        self, writer: psycopg.Connection, analysed: bool
    ) -> None:
        ids: list[int] = []
        for turn in range(6):
            writer.execute(MANY_ENDED, (turn * 20_000, (turn + 1) * 20_000 - 1))
            ids.append(scalar(writer, "SELECT pg_current_xact_id()::text::bigint"))
            writer.commit()
        scalar(writer, "SELECT brin_summarize_new_values('telesto.history_floor_transaction_id_idx')")
        writer.commit()
        if analysed:
            writer.execute("ANALYZE telesto.history")
            writer.commit()
        settle(writer)
        declared = f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) DECLARE c CURSOR FOR {ROWS}".encode()
        rows = writer.execute(declared, (ids[2], ids[3])).fetchall()
        plan = "\n".join(line for (line,) in rows)
        assert "Bitmap Index Scan on history_floor_transaction_id_idx" in plan
        assert "Seq Scan" not in plan
        blocks = scalar(writer, "SELECT pg_relation_size('telesto.history_floor') / 8192")
        (read,) = re.findall(r"Heap Blocks: lossy=(\d+)", plan)
        assert int(read) < blocks / 2


MANY_ENDED = """
INSERT INTO telesto.history (message_id, queue_id, sender_id, receiver_id, time_of_arrival, ended_at, drop_on,
                             ending, attempt, priority, redelivered)
SELECT i, 1, 1, 0, now(), now(), '2000-01-01', 'confirmed', 1, 5, false
FROM generate_series(%s::bigint, %s::bigint) AS i
"""


def scalar(connection: psycopg.Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])


class TestOffsets:
    def test_every_transaction_is_in_one_part(self, reader: HistoryReader) -> None:
        start = {**reader.initialOffset(), "transaction_id": 17}
        parts = reader.partitions(start, {**start, "transaction_id": 1000})
        limits = [(part.first, part.end) for part in parts]  # type: ignore[attr-defined]
        assert limits[0][0] == 17
        assert limits[-1][1] == 1000
        assert [end for _, end in limits[:-1]] == [first for first, _ in limits[1:]]
        assert reader.partitions(start, start) == []

    def test_another_database_is_refused(self, reader: HistoryReader) -> None:
        offset = reader.latestOffset()
        with pytest.raises(SourceError, match="begin a new stream"):
            reader.partitions({**offset, "system": "1"}, offset)

    def test_a_promotion_is_refused_unless_told(self, database_url: str, reader: HistoryReader) -> None:
        offset = reader.latestOffset()
        before = {**offset, "timeline": offset["timeline"] - 1, "transaction_id": 3}
        with pytest.raises(SourceError, match="newTimeline=continue"):
            reader.partitions(before, offset)
        told = HistoryReader({"url": database_url, "newTimeline": "continue"})
        assert told.partitions(before, offset)

    def test_a_server_that_is_put_back_is_refused(self, reader: HistoryReader) -> None:
        offset = reader.latestOffset()
        with pytest.raises(SourceError, match="lags, or was put back"):
            reader.partitions({**offset, "transaction_id": offset["transaction_id"] + 1}, offset)

    def test_a_server_that_is_not_so_far_is_not_read(self, reader: HistoryReader) -> None:
        start = reader.initialOffset()
        ahead = {**start, "transaction_id": reader.latestOffset()["transaction_id"] + 1_000_000}
        (part, *_) = reader.partitions(start, ahead)
        with pytest.raises(SourceError, match="standby that lags"):
            list(reader.read(part))

    @pytest.mark.parametrize("options", [{}, {"parts": "0"}, {"parts": "x"}, {"newTimeline": "maybe"}])
    def test_options_that_make_no_sense_are_refused(self, options: dict[str, str]) -> None:
        url = {"url": "postgresql://nobody@127.0.0.1:1/none"} if options else {}
        with pytest.raises(SourceError):
            HistoryReader({**url, **options})


class TestArchive:
    def test_an_archive_grows_by_what_is_new(
        self, spark: SparkSession, database_url: str, writer: psycopg.Connection, tmp_path: Path
    ) -> None:
        place = str(tmp_path / "archive")
        end_message(writer, 1)
        with psycopg.connect(database_url, autocommit=True) as other:
            end_message(other, 2)
        assert add_to_archive(spark, database_url, place) == 0
        writer.commit()
        others_are_over(database_url)
        assert add_to_archive(spark, database_url, place) == 2
        end_message(writer, 3)
        writer.commit()
        others_are_over(database_url)
        assert add_to_archive(spark, database_url, place) == 1
        assert add_to_archive(spark, database_url, place) == 0
        archived = spark.read.parquet(place).cache()
        assert sorted(row["message_id"] for row in archived.collect()) == [1, 2, 3]
        assert {row["ending"] for row in archived.collect()} == {"confirmed"}

        # As if this were another database than that of the last run.
        for offset in (tmp_path / "archive" / CHECKPOINT / "offsets").glob("[0-9]*"):
            offset.write_text(re.sub(r'"system": ?"\d+"', '"system": "1"', offset.read_text()))
        for checksum in (tmp_path / "archive" / CHECKPOINT / "offsets").glob(".*.crc"):
            checksum.unlink()
        end_message(writer, 4)
        writer.commit()
        with pytest.raises(SourceError, match="begin a new stream"):
            add_to_archive(spark, database_url, place)

    def test_a_database_that_cannot_be_reached_is_said_so(self, spark: SparkSession, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"connection failed|Connection refused"):
            add_to_archive(spark, "postgresql://nobody@127.0.0.1:1/none", str(tmp_path / "archive"))
