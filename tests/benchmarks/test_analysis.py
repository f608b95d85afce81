"""Series, histograms, samples and figures that follow from records."""

from __future__ import annotations

from pathlib import Path

import pytest

from telesto.benchmarks.harness.analysis import Window, analyse
from telesto.benchmarks.harness.histograms import decode, merge
from telesto.benchmarks.workloads.operations import Operation
from telesto.benchmarks.workloads.recorder import Recorder, Records, read_records

BEGIN = 5000.0


def recorded(path: Path, moments: list[float], operation: Operation = Operation.PUT) -> list[Records]:
    """An operation that took 10 ms, 5 of them in the service, ended at each moment."""
    with Recorder(path) as recorder:
        for number, moment in enumerate(moments):
            ended = BEGIN + moment
            recorder.add(operation, 3, number, ended - 0.010, ended - 0.005, ended, priority=5, age=0.02)
    return [read_records(path)]


def test_operations_count_in_the_second_in_which_they_ended(tmp_path: Path) -> None:
    moments = [0.1, 2.5, 0.9, 1.0, 2.0, 2.999, 7.5]
    analysis = analyse(recorded(tmp_path / "records", moments), BEGIN, Window(1.0, 3.0), 1)
    assert analysis.throughput == [(0, "put", 2), (1, "put", 1), (2, "put", 3), (7, "put", 1)]
    assert analysis.figures.rates == {"put": 2.0}
    assert analysis.figures.messages_per_s == 2.0
    latencies = analysis.figures.latencies["put"]
    assert {name: latencies[name].count for name in latencies} == {"latency": 4, "service": 4, "age": 4}
    assert latencies["latency"].p50_ms == pytest.approx(10, rel=0.002)
    assert latencies["service"].p99_ms == pytest.approx(5, rel=0.002)
    assert latencies["age"].max_ms == pytest.approx(20, rel=0.002)


def test_histograms_of_seconds_merge_to_all(tmp_path: Path) -> None:
    moments = [number / 100 for number in range(500)]
    records = recorded(tmp_path / "records", moments)
    analysis = analyse([*records, *records], BEGIN, Window(0.0, 5.0), 1)
    encoded = [row[4] for row in analysis.histograms if row[2] == "latency"]
    assert len(encoded) == 5
    assert merge(decode(str(each)) for each in encoded).get_total_count() == 1000


def test_what_was_handed_over_counts_as_messages(tmp_path: Path) -> None:
    put = recorded(tmp_path / "put", [0.5] * 10)
    taken = recorded(tmp_path / "taken", [0.5] * 4, Operation.TAKE)
    analysis = analyse(put + taken, BEGIN, Window(0.0, 1.0), 100)
    assert analysis.figures.messages_per_s == 4


def test_every_so_many_th_request_is_sampled(tmp_path: Path) -> None:
    records = recorded(tmp_path / "records", [0.25 * number for number in range(10)])
    samples = analyse(records, BEGIN, Window(0.0, 1.0), 4).samples
    assert [sample[4] for sample in samples] == [0, 4, 8]
    since, operation, lane, stream, _, priority, latency, service, age, redelivered = samples[1]
    assert (since, operation, lane, stream, priority, redelivered) == (1.0, "put", 3, 0, 5, False)
    assert (latency, service, age) == pytest.approx((0.01, 0.005, 0.02), rel=1e-3)


def test_a_run_in_which_nothing_happened_has_no_figures(tmp_path: Path) -> None:
    analysis = analyse(recorded(tmp_path / "records", []), BEGIN, Window(0.0, 1.0), 1)
    assert (analysis.throughput, analysis.histograms, analysis.samples) == ([], [], [])
    assert analysis.figures.messages_per_s == 0
