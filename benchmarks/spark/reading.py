"""Tables as data frames, read over JDBC by several sessions in one snapshot.

A table is shared out by where its rows lie (`ctid`): no index is needed, no column can be skewed, and each
part is one scan of a range of blocks. In a snapshot every row lies in one place.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from telesto.benchmarks.spark.session import CLASS
from telesto.benchmarks.spark.snapshot import APPLICATION, Server, Snapshot
from telesto.benchmarks.spark.tables import PLACE, Table

FETCH_ROWS = 10_000
"""Rows for each round trip. Never 0: Spark then reads outside of a transaction, so outside of the snapshot,
and the driver takes a whole table into memory."""
PART_BYTES = 32 << 20
"""How much of a table one part covers, at least."""
PARTS_MAX = 256
GROUPED_PARTS_MAX = 8
"""Of a table that the database groups: what it gives is small, whatever the table is."""
# What libpq and the driver call by the same name.
_SAME_NAME = ("sslmode", "sslrootcert", "options")


def read_table(spark: SparkSession, snapshot: Snapshot, table: Table, parts: int | None = None) -> DataFrame:
    """Return a table as it is in the snapshot; it is read when the frame is used, while the snapshot is held.

    Args:
        spark: where.
        snapshot: as of when.
        table: what.
        parts: how many sessions' work it is; None: chosen from the size of the table.
    """
    where, properties = jdbc_url(snapshot.server), properties_of(snapshot)
    rows = f"({table.query}) AS {table.name}"
    if table.restricted:
        return spark.read.jdbc(where, rows, properties=properties)
    blocks, size = snapshot.size_of(table)
    if table.grouped_by:
        # The condition has to be met before the groups are made, so each part is a query of its own.
        chosen = parts if parts is not None else min(GROUPED_PARTS_MAX, parts_of(size))
        queries = [f"({table.grouped(places)}) AS {table.name}" for places in block_ranges(blocks, chosen)]
        groups = [spark.read.jdbc(where, query, properties=properties) for query in queries]
        frame = reduce(DataFrame.unionByName, groups)
    else:
        ranges = block_ranges(blocks, parts if parts is not None else parts_of(size))
        frame = spark.read.jdbc(where, rows, predicates=ranges, properties=properties).drop(PLACE)
    return frame.withColumns({name: F.timestamp_micros(name) for name in table.times})


def parts_of(size: int) -> int:
    """Into how many parts a table of `size` bytes is shared out."""
    return min(PARTS_MAX, max(1, -(-size // PART_BYTES)))


def block_ranges(blocks: int, parts: int) -> list[str]:
    """Conditions that each hold for one range of blocks, and together for every row; the last has no end."""
    parts = max(1, min(parts, blocks))
    starts = [blocks * index // parts for index in range(parts)]
    ranges = [f"{PLACE} >= '({start},0)'::tid" for start in starts]
    ends = [f" AND {PLACE} < '({start},0)'::tid" for start in starts[1:]]
    return [begin + end for begin, end in zip(ranges, [*ends, ""], strict=True)]


def jdbc_url(server: Server) -> str:
    """Where the server is, as JDBC writes it."""
    host = f"[{server.host}]" if ":" in server.host else server.host
    return f"jdbc:postgresql://{host}:{server.port}/{server.database}"


def properties_of(snapshot: Snapshot) -> dict[str, str]:
    """The settings of a connection that reads in the snapshot.

    With a fetch size Spark switches autocommit off, so that the statement for the beginning opens the
    transaction in which Spark then reads, and the snapshot is the transaction's.
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
