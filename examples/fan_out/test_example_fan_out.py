"""Every subscriber gets every tick, also the one that was killed and comes back."""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from programs import Program
from telesto import TelestoClient


def ticks(file: Path) -> list[tuple[int, str, int]]:
    """Read what a subscriber keeps."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        return database.execute("SELECT number, product, price FROM ticks ORDER BY number").fetchall()


def test_a_subscriber_that_was_killed_catches_up(
    start: Callable[..., Program], telesto_client: TelestoClient, tmp_path: Path
) -> None:
    chart, alarm = tmp_path / "chart.db", tmp_path / "alarm.db"
    charting = start("price_book.py", "chart", str(chart))
    alarming = start("price_book.py", "alarm", str(alarm))
    charting.wait_for("chart is there")
    alarming.wait_for("alarm is there")

    assert start("exchange.py").finish("wheat 210\nrye 180\n") == ["1: wheat 210", "2: rye 180"]
    charting.wait_for("chart has 2")
    alarming.wait_for("alarm has 2")
    charting.kill()

    start("exchange.py").finish("wheat 212\nrye 181\n")
    alarming.wait_for("alarm has 4")
    start("price_book.py", "chart", str(chart)).wait_for("chart has 4: rye 181")

    every = [(1, "wheat", 210), (2, "rye", 180), (3, "wheat", 212), (4, "rye", 181)]
    assert ticks(chart) == every
    assert ticks(alarm) == every
    assert [(topic.name, topic.subscribers) for topic in telesto_client.topics()] == [("prices", 2)]


def test_a_subscriber_that_is_told_to_end_goes_on_where_it_was(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    file = tmp_path / "chart.db"
    charting = start("price_book.py", "chart", str(file))
    charting.wait_for("chart is there")
    start("exchange.py").finish("wheat 210\n")
    charting.wait_for("chart has 1")
    assert charting.stop() == []

    start("exchange.py").finish("wheat 211\n")
    charting = start("price_book.py", "chart", str(file))
    assert charting.wait_for("chart has") == "chart has 2: wheat 211"
    assert charting.stop() == []
