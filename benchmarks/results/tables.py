"""The tables of a run's directory: their columns, and how they are written as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

_SINCE: Final = ("since_s", pa.float64())

SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "throughput": pa.schema(
        [("second", pa.int32()), ("operation", pa.string()), ("completed", pa.int64())],
    ),
    "histograms": pa.schema(
        [
            ("second", pa.int32()),
            ("operation", pa.string()),
            ("measure", pa.string()),
            ("count", pa.int64()),
            ("encoded", pa.string()),
        ]
    ),
    "samples": pa.schema(
        [
            _SINCE,
            ("operation", pa.string()),
            ("slot", pa.int64()),
            ("stream", pa.int64()),
            ("sequence", pa.int64()),
            ("priority", pa.int16()),
            ("latency_s", pa.float32()),
            ("service_s", pa.float32()),
            ("age_s", pa.float32()),
            ("redelivered", pa.bool_()),
        ]
    ),
    "tiers": pa.schema(
        [
            _SINCE,
            ("tier", pa.string()),
            ("process", pa.int32()),
            ("cpu_s", pa.float64()),
            ("memory_bytes", pa.int64()),
        ]
    ),
    "counters": pa.schema(
        [_SINCE, ("source", pa.string()), ("counter", pa.string()), ("value", pa.float64())],
    ),
    "waits": pa.schema(
        [
            _SINCE,
            ("backend_type", pa.string()),
            ("state", pa.string()),
            ("wait_event_type", pa.string()),
            ("wait_event", pa.string()),
            ("backends", pa.int32()),
        ]
    ),
    "metrics": pa.schema(
        [
            _SINCE,
            ("middleware", pa.int32()),
            ("metric", pa.string()),
            ("label", pa.string()),
            ("value", pa.float64()),
        ]
    ),
    "phases": pa.schema(
        [
            _SINCE,
            ("middleware", pa.int32()),
            ("number", pa.int64()),
            ("kind", pa.string()),
            ("tries", pa.int32()),
            ("client_us", pa.float64()),
            ("parse_us", pa.float64()),
            ("fifo_us", pa.float64()),
            ("database_us", pa.float64()),
            ("parked_us", pa.float64()),
            ("answer_us", pa.float64()),
            ("batch", pa.int32()),
            ("together", pa.int32()),
        ]
    ),
}


ROW_GROUP: Final = 20_000
"""So many rows are kept until they are written: a run of hours has more than fit into memory."""

Row = tuple[object, ...]


class Tables:
    """Writes all tables of a run into its directory, while they grow."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._rows: dict[str, list[Row]] = {name: [] for name in SCHEMAS}
        self._writers: dict[str, pq.ParquetWriter] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def add(self, name: str, rows: Iterable[Row]) -> None:
        """Add rows to a table."""
        waiting = self._rows[name]
        waiting.extend(rows)
        if len(waiting) >= ROW_GROUP:
            self._write(name)

    def close(self) -> None:
        """Write what is left; a table without rows is written too, so that readers find its columns."""
        for name in SCHEMAS:
            self._write(name)
        for writer in self._writers.values():
            writer.close()
        self._writers.clear()

    def _write(self, name: str) -> None:
        schema, rows = SCHEMAS[name], self._rows[name]
        if name not in self._writers:
            path = self._directory / f"{name}.parquet"
            self._writers[name] = pq.ParquetWriter(path, schema, compression="zstd")
        if rows:
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
            self._writers[name].write_table(pa.table(arrays, schema=schema))
            rows.clear()


def read_table(directory: Path, name: str) -> list[dict[str, object]]:
    """Return the rows of a table."""
    rows: list[dict[str, object]] = pq.read_table(directory / f"{name}.parquet").to_pylist()
    return rows
