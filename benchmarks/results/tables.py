"""The tables of a run's directory: their columns, and how they are written as Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import pyarrow.parquet as pq

_COLUMNS: Final[Mapping[str, str]] = {
    "throughput": "second int32, operation string, completed int64",
    "histograms": "second int32, operation string, measure string, count int64, encoded string",
    "samples": "since_s float64, operation string, slot int64, stream int64, sequence int64, priority int16, "
    "latency_s float32, service_s float32, age_s float32, redelivered bool",
    "tiers": "since_s float64, tier string, process int32, cpu_s float64, memory_bytes int64",
    "counters": "since_s float64, source string, counter string, value float64",
    "waits": "since_s float64, backend_type string, state string, wait_event_type string, wait_event string, "
    "backends int32",
    "metrics": "since_s float64, middleware int32, metric string, label string, value float64",
    "phases": "since_s float64, middleware int32, number int64, kind string, tries int32, client_us float64, "
    "parse_us float64, fifo_us float64, database_us float64, parked_us float64, answer_us float64, "
    "batch int32, together int32",
}
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    name: pa.schema(
        [(column, pa.type_for_alias(kind)) for column, kind in map(str.split, columns.split(","))]
    )
    for name, columns in _COLUMNS.items()
}

ROW_GROUP: Final = 20_000
"""Rows that are held until they are written: a run of hours has more than fit into memory."""

Row = tuple[object, ...]


class Tables:
    """Writes all tables of a run into its directory as they grow."""

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
        """Write the rest. A table without rows is written too, so that readers find its columns."""
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
