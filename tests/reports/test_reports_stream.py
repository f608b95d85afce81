"""The history as a stream: nothing is lost, whatever the order of commits, and nothing comes twice."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from pyspark.sql import SparkSession

from telesto.benchmarks.reports.archive import CHECKPOINT, add_to_archive
from telesto.benchmarks.reports.errors import SourceError
from telesto.benchmarks.reports.stream import HistoryReader

WRITERS, TURNS = 4, 40


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
        stream.turn()
        assert sorted(stream.read) == sorted(
            message_id for future in writing for message_id in future.result()
        )


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
        assert add_to_archive(spark, database_url, place) == 2
        end_message(writer, 3)
        writer.commit()
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
