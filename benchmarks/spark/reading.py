"""Tables as data frames, read over JDBC by several connections in one snapshot.

A table is divided by the place of its rows (`ctid`): this needs no index, no column can be skewed, and each
part is one scan of a range of blocks. Within a snapshot every row stays in its place.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from telesto.benchmarks.spark.session import CLASS
from telesto.benchmarks.spark.snapshot import APPLICATION, Server, Snapshot
from telesto.benchmarks.spark.tables import PLACE, Table

FETCH_ROWS = 10_000
"""Rows for each round trip. Never 0: Spark then reads outside a transaction, so outside the snapshot, and the
driver loads a whole table into memory."""
PART_BYTES = 32 << 20
"""The least size of a part of a table."""
PARTS_MAX = 256
GROUPED_PARTS_MAX = 8
"""For a table that the database groups: its result is small, whatever the table's size."""
# Parameters with the same name in libpq and in the driver.
_SAME_NAME = ("sslmode", "sslrootcert", "options")


def read_table(spark: SparkSession, snapshot: Snapshot, table: Table, parts: int | None = None) -> DataFrame:
    """Return a table as of the snapshot; it is read when the frame is used, while the snapshot is held.

    `parts` is the number of connections that share the work; by default it follows from the size of the
    table.
    """
    where, properties = jdbc_url(snapshot.server), properties_of(snapshot)
    rows = f"({table.query}) AS {table.name}"
    if table.restricted:
        return spark.read.jdbc(where, rows, properties=properties)
    blocks, size = snapshot.size_of(table)
    if table.grouped_by:
        # The condition must apply before the grouping, so each part is a separate query.
        chosen = parts if parts is not None else min(GROUPED_PARTS_MAX, parts_of(size))
        queries = [f"({table.grouped(places)}) AS {table.name}" for places in block_ranges(blocks, chosen)]
        groups = [spark.read.jdbc(where, query, properties=properties) for query in queries]
        frame = reduce(DataFrame.unionByName, groups)
    else:
        ranges = block_ranges(blocks, parts if parts is not None else parts_of(size))
        frame = spark.read.jdbc(where, rows, predicates=ranges, properties=properties).drop(PLACE)
    return frame.withColumns({name: F.timestamp_micros(name) for name in table.times})


def parts_of(size: int) -> int:
    """The number of parts for a table of `size` bytes."""
    return min(PARTS_MAX, max(1, -(-size // PART_BYTES)))


def block_ranges(blocks: int, parts: int) -> list[str]:
    """Conditions for ranges of blocks that together cover every row; the last range has no end."""
    parts = max(1, min(parts, blocks))
    starts = [blocks * index // parts for index in range(parts)]
    ranges = [f"{PLACE} >= '({start},0)'::tid" for start in starts]
    ends = [f" AND {PLACE} < '({start},0)'::tid" for start in starts[1:]]
    return [begin + end for begin, end in zip(ranges, [*ends, ""], strict=True)]


def jdbc_url(server: Server) -> str:
    """The URL of the server, as JDBC writes it."""
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"jdbc:postgresql://{host}:{server.port}/{server.database}"


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """The settings of a connection that reads in the snapshot.

    With a fetch size Spark switches autocommit off. So the initial statement opens the transaction in which
    Spark then reads, and the snapshot belongs to it.
    """
    server = snapshot.server
    properties = {
        "driver": CLASS,
        "user": server.user,
        "password": server.password,
        "ApplicationName": APPLICATION,
        "tcpKeepAlive": "true",
        "fetchsize": str(FETCH_ROWS),
        "sessionInitStatement": (
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY; "
            f"SET TRANSACTION SNAPSHOT '{snapshot.name}'"
        ),
    }
    properties |= {name: server.parameters[name] for name in _SAME_NAME if name in server.parameters}
    return properties
