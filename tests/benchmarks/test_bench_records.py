"""Figures from records: only what was answered within the window counts."""

from pathlib import Path

import pytest

from telesto.benchmarks.records import (
    Record,
    Window,
    change_between_thirds,
    completed,
    latencies,
    percentile,
    series,
)


def record(*ended: float) -> Record:
    made = Record()
    for identity, moment in enumerate(ended):
        made.add(identity, moment - 0.25, moment)
    return made


def test_the_window_holds_its_beginning_and_not_its_end() -> None:
    made, window = record(9.9, 10.0, 11.5, 11.9, 12.0), Window(10.0, 12.0)
    assert completed(made, window) == 3
    assert series(made, window) == [1, 2]
    assert latencies(made, window) == pytest.approx([0.25] * 3)


def test_thirds_cover_the_window() -> None:
    thirds = Window(1.0, 4.0).thirds()
    assert thirds == [Window(1.0, 2.0), Window(2.0, 3.0), Window(3.0, 4.0)]


def test_a_batch_is_answered_at_one_moment() -> None:
    made = Record()
    made.add_batch([4, 5], began=1.0, ended=1.5)
    assert made.identities.tolist() == [4, 5]
    assert made.ended.tolist() == [1.5, 1.5]
    assert made.latencies.tolist() == [0.5, 0.5]


def test_a_record_survives_its_file(tmp_path: Path) -> None:
    made = record(1.0, 2.0)
    made.save(tmp_path / "record")
    loaded = Record.load(tmp_path / "record")
    assert loaded == made
    loaded.merge(made)
    assert loaded.ended.tolist() == [1.0, 2.0, 1.0, 2.0]


def test_percentiles() -> None:
    values = [float(value) for value in range(100)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([], 0.5)) == (50.0, 99.0, 0.0)


@pytest.mark.parametrize(
    ("counts", "change"),
    [([100] * 9, 0.0), ([100, 100, 100, 90, 80, 70, 60, 50, 50], -0.5), ([0, 0, 0], 0.0), ([5], 0.0)],
)
def test_the_last_third_is_compared_with_the_first(counts: list[int], change: float) -> None:
    assert change_between_thirds(counts) == pytest.approx(change)
