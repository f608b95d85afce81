"""The tables of a run's directory: their columns, and how they are written as Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

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
            ("lane", pa.int64()),
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


def write_table(directory: Path, name: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Write rows as the table `name`; one without rows is written too, so that readers find its columns."""
    schema = SCHEMAS[name]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    arrays = [pa.array(column, each.type) for column, each in zip(columns, schema, strict=True)]
    pq.write_table(pa.table(arrays, schema=schema), directory / f"{name}.parquet", compression="zstd")


def read_table(directory: Path, name: str) -> list[dict[str, object]]:
    """Return the rows of a table."""
    rows: list[dict[str, object]] = pq.read_table(directory / f"{name}.parquet").to_pylist()
    return rows
