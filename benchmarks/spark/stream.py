"""The history as it grows: `spark.readStream.format("telesto")`.

Rows become visible when their transaction commits, not in the order of any column. A reader that asks for
larger values than the largest so far would miss rows that were written earlier and committed later. So a
batch reads the rows of the transactions below `pg_snapshot_xmin`: all of those have ended, and get no more
rows. The next batch continues from there. A transaction that stays open delays the stream; nothing is lost.

After a failover or a restored backup, transaction numbers may be used again. So an offset also holds the
identity of the database system and its timeline. A batch that would continue on another one is refused,
unless the option says that the new primary had everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import psycopg
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

from telesto.benchmarks.spark.errors import SourceError
from telesto.benchmarks.spark.snapshot import connected, require_readable
from telesto.benchmarks.spark.tables import Table

FORMAT = "telesto"
PARTS = 4
"""A batch is divided into this many parts, unless the option `parts` says otherwise."""
BATCH_ROWS = 5_000
"""Rows that a part holds in memory at a time."""

FAIL, CONTINUE = "fail", "continue"

SCHEMA = (
    "message_id bigint, queue_id bigint, sender_id bigint, receiver_id bigint, context bigint, "
    "client_id bigint, session bigint, number bigint, consumer_id bigint, time_of_arrival timestamp, "
    "handed_over_at timestamp, ended_at timestamp, transaction_id bigint, ending string, put_through int, "
    "handed_over_through int, attempt int, priority smallint, redelivered boolean, reason string, "
    "body binary"
)
COLUMNS = dict(column.split() for column in SCHEMA.split(", "))
"""The columns of the history, and their types in Spark."""
TABLE = Table("history", {name: name for name in COLUMNS}, tuple(COLUMNS))
"""What a stream reads."""

# The timeline of a primary is in the name of its log; a standby has that of the log it last received.
_STANDING = """
SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
       (SELECT system_identifier::text FROM pg_control_system()),
       CASE WHEN pg_is_in_recovery()
            THEN (SELECT greatest(min_recovery_end_timeline, timeline_id)
                  FROM pg_control_recovery(), pg_control_checkpoint())
            ELSE ('x' || lpad(substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8), 8, '0'))::bit(32)::int
       END
"""
_SELECTED = ", ".join(f"{name}::text" if kind == "string" else name for name, kind in COLUMNS.items())
ROWS = f"""
SELECT {_SELECTED} FROM telesto.history
WHERE transaction_id >= %s AND transaction_id < %s
"""


@dataclass(frozen=True, slots=True)
class Standing:
    """The progress of a server.

    Attributes:
        transaction_id: all transactions below have ended.
        system: the identity of its database system.
        timeline: rises with each promotion.
    """

    transaction_id: int
    system: str
    timeline: int

    @classmethod
    def of(cls, connection: psycopg.Connection) -> Standing:
        """Query a server."""
        row = connection.execute(_STANDING).fetchone()
        assert row is not None
        return cls(*row)


@dataclass
class Transactions(InputPartition):
    """The rows of the transactions from `first` to before `end`, on a server that has reached `standing`."""

    first: int
    end: int
    standing: Standing


class HistoryDataSource(DataSource):
    """The history of a service as a stream.

    Options: `url`, the database; `parts`, the number of parts of a batch; `newTimeline`, `fail` (the default)
    or `continue`, what to do if a standby was promoted since the last batch.
    """

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> str:
        """The columns of the history."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> HistoryReader:  # noqa: N802 - Spark's name
        """Read it batch by batch."""
        return HistoryReader(dict(self.options))


class HistoryReader(DataSourceStreamReader):
    """Reads the history as one stream."""

    def __init__(self, options: dict[str, str]) -> None:
        given = {name.lower(): value for name, value in options.items()}
        if "url" not in given:
            raise SourceError('the stream needs its database: .option("url", "postgresql://...")')
        self._url = given["url"]
        self._parts = _positive(given.get("parts", str(PARTS)))
        self._new_timeline = given.get("newtimeline", FAIL)
        if self._new_timeline not in (FAIL, CONTINUE):
            raise SourceError(f"newTimeline is {FAIL} or {CONTINUE}, not {self._new_timeline!r}")

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset before all rows of the history."""
        with connected(self._url) as connection:
            require_readable(connection, [TABLE])
            now = Standing.of(connection)
        return asdict(replace(now, transaction_id=0))

    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        """The offset after all ended transactions; arguments of later releases of Spark do not matter."""
        with connected(self._url) as connection:
            require_readable(connection, [TABLE])
            return asdict(Standing.of(connection))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Divide a batch. Raises SourceError if the database is not that of the last batch."""
        first, last = Standing(**start), Standing(**end)
        self._require_same(first, last)
        count = max(0, last.transaction_id - first.transaction_id)
        parts = min(self._parts, count)
        limits = [first.transaction_id + count * index // max(1, parts) for index in range(parts + 1)]
        return [Transactions(low, high, last) for low, high in pairwise(limits)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a part, some rows at a time. Raises SourceError if the server lags behind the batch."""
        assert isinstance(partition, Transactions)
        with connected(self._url) as connection, connection.transaction():
            settle(connection)
            self._require_reached(Standing.of(connection), partition.standing)
            with connection.cursor(name="history") as rows:
                rows.execute(ROWS.encode(), (partition.first, partition.end))
                while batch := rows.fetchmany(BATCH_ROWS):
                    yield _as_arrow(batch)

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the database does not track its readers."""

    def stop(self) -> None:
        """Do nothing: each step has its own connection."""

    def _require_same(self, before: Standing, now: Standing) -> None:
        if before.system != now.system:
            raise SourceError(
                f"the stream was begun on the database system {before.system}, and this is {now.system}: "
                "its transactions have other numbers; begin a new stream"
            )
        if before.timeline != now.timeline and self._new_timeline == FAIL:
            raise SourceError(
                f"a standby was promoted since the last micro-batch (timeline {before.timeline} to "
                f"{now.timeline}): if it lacked commits of its primary, their numbers are used again. Where "
                f"it had all of them (synchronous replication), go on with newTimeline={CONTINUE}; otherwise "
                "begin a new stream"
            )
        if now.transaction_id < before.transaction_id:
            raise SourceError(
                f"the server has come to transaction {now.transaction_id}, and the stream to "
                f"{before.transaction_id}: it is a standby that lags, or was put back to an earlier state"
            )

    def _require_reached(self, now: Standing, wanted: Standing) -> None:
        # With several servers, this one may not be the one that reported the progress.
        if now.system != wanted.system or now.timeline < wanted.timeline:
            raise SourceError("this server does not belong to the cluster with which the micro-batch began")
        if now.transaction_id < wanted.transaction_id:
            raise SourceError(
                f"the server is at transaction {now.transaction_id}, and the micro-batch needs "
                f"{wanted.transaction_id}: it is a standby that lags behind; repeat the stream later"
            )


def settle(connection: psycopg.Connection) -> None:
    """Make a transaction read one snapshot, and find the rows of a batch by their transactions."""
    connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
    # The statistics of a fast-growing table may be wrong.
    connection.execute("SET LOCAL enable_seqscan = off")


def _as_arrow(rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = {
        "bigint": pa.int64(),
        "int": pa.int32(),
        "smallint": pa.int16(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    fields = [pa.field(name, kinds[kind]) for name, kind in COLUMNS.items()]
    columns = [
        pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), fields, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise SourceError(f"parts is a number from 1, not {text!r}")
    return number
