"""Series, histograms, samples and figures that follow from records."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hdrh.histogram import HdrHistogram

from telesto.benchmarks.load.recorder import Operation, Recorder, Records, read_records
from telesto.benchmarks.load.settings import Window
from telesto.benchmarks.results.analysis import Figures, analyse
from telesto.benchmarks.results.tables import ROW_GROUP, Tables

BEGIN = 5000.0


def read_table(directory: Path, name: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = pq.read_table(directory / f"{name}.parquet").to_pylist()
    return rows


def recorded(path: Path, moments: list[float], operation: Operation = Operation.PUT) -> list[Records]:
    """An operation that took 10 ms, 5 of them in the service, ended at each moment."""
    with Recorder(path) as recorder:
        for number, moment in enumerate(moments):
            ended = BEGIN + moment
            recorder.add(operation, 3, number, ended - 0.010, ended - 0.005, ended, priority=5, age=0.02)
    return [read_records(path)]


def analysed(
    path: Path, records: list[Records], window: Window, sample_every: int = 1
) -> tuple[Figures, dict[str, list[dict[str, Any]]]]:
    """The figures, and the tables that were written."""
    with Tables(path) as tables:
        figures = analyse(records, BEGIN, window, sample_every, tables)
    return figures, {name: read_table(path, name) for name in ("throughput", "histograms", "samples")}


def test_operations_count_in_the_second_in_which_they_ended(tmp_path: Path) -> None:
    moments = [0.1, 2.5, 0.9, 1.0, 2.0, 2.999, 7.5]
    figures, tables = analysed(tmp_path, recorded(tmp_path / "records", moments), Window(1.0, 3.0))
    assert [tuple(row.values()) for row in tables["throughput"]] == [
        (0, "put", 2),
        (1, "put", 1),
        (2, "put", 3),
        (7, "put", 1),
    ]
    assert figures.rates == {"put": 2.0}
    assert figures.messages_per_s == 2.0
    latencies = figures.latencies["put"]
    assert {name: latencies[name].count for name in latencies} == {"latency": 4, "service": 4, "age": 4}
    assert latencies["latency"].p50_ms == pytest.approx(10, rel=0.002)
    assert latencies["service"].p99_ms == pytest.approx(5, rel=0.002)
    assert latencies["age"].max_ms == pytest.approx(20, rel=0.002)


def test_histograms_of_seconds_merge_to_all(tmp_path: Path) -> None:
    moments = [number / 100 for number in range(500)]
    records = recorded(tmp_path / "records", moments)
    _, tables = analysed(tmp_path, [*records, *records], Window(0.0, 5.0))
    encoded = [row["encoded"] for row in tables["histograms"] if row["measure"] == "latency"]
    assert len(encoded) == 5
    assert sum(HdrHistogram.decode(each).get_total_count() for each in encoded) == 1000


def test_what_was_handed_over_counts_as_messages(tmp_path: Path) -> None:
    put = recorded(tmp_path / "put", [0.5] * 10)
    taken = recorded(tmp_path / "taken", [0.5] * 4, Operation.TAKE)
    figures, _ = analysed(tmp_path, put + taken, Window(0.0, 1.0))
    assert figures.messages_per_s == 4


def test_every_so_many_th_request_is_sampled(tmp_path: Path) -> None:
    records = recorded(tmp_path / "records", [0.25 * number for number in range(10)])
    _, tables = analysed(tmp_path, records, Window(0.0, 1.0), sample_every=4)
    samples = tables["samples"]
    assert [sample["sequence"] for sample in samples] == [0, 4, 8]
    assert samples[1] == {
        "since_s": 1.0,
        "operation": "put",
        "slot": 3,
        "stream": 0,
        "sequence": 4,
        "priority": 5,
        "latency_s": pytest.approx(0.01, rel=1e-3),
        "service_s": pytest.approx(0.005, rel=1e-3),
        "age_s": pytest.approx(0.02, rel=1e-3),
        "redelivered": False,
    }


def test_a_run_in_which_nothing_happened_has_no_figures(tmp_path: Path) -> None:
    figures, tables = analysed(tmp_path, recorded(tmp_path / "records", []), Window(0.0, 1.0))
    assert tables == {"throughput": [], "histograms": [], "samples": []}
    assert figures == Figures()


def test_tables_are_written_while_they_grow(tmp_path: Path) -> None:
    rows = [(second, "put", second % 7) for second in range(3 * ROW_GROUP + 5)]
    with Tables(tmp_path) as tables:
        for start in range(0, len(rows), 1000):
            tables.add("throughput", rows[start : start + 1000])
        grown = (tmp_path / "throughput.parquet").stat().st_size
    assert grown > 0
    assert [tuple(row.values()) for row in read_table(tmp_path, "throughput")] == rows
    assert read_table(tmp_path, "waits") == []
