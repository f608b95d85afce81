"""`telesto bench peers`: what it is asked is checked before anything starts."""

import json
from pathlib import Path

import pytest

from command_line import CommandLine


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--only", "carrier-pigeon"], "--only carrier-pigeon: there are telesto, "),
        (["--work", "sleep"], "--work sleep: there are put, end-to-end, latency"),
        (["--repetitions", "0"], "--repetitions"),
        (["--directory", "/no/such/place"], "/no/such/place"),
    ],
)
def test_bad_options_are_refused(tmp_path: Path, arguments: list[str], said: str) -> None:
    assert said in CommandLine(tmp_path).error(2, "bench", "peers", *arguments)


def test_a_comparison_prints_its_table_and_writes_its_figures(tmp_path: Path, data_dir: Path) -> None:
    size = ("--seconds", "0.2", "--repetitions", "1", "--directory", str(data_dir.parent))
    figures = tmp_path / "figures.json"
    result = CommandLine(tmp_path).run(
        "bench", "peers", "--only", "telesto-many", "--work", "put", *size, "--json", str(figures)
    )
    assert result.returncode == 0, result.stderr.decode()
    text = result.stdout.decode()
    assert "Durable puts" in text
    assert "Telesto's audits" in text
    assert b"put, repetition 1 of 1: telesto-many:" in result.stderr
    assert set(json.loads(figures.read_text())["runs"]["put"]) == {"telesto", "telesto-many"}
    assert list(data_dir.parent.iterdir()) == [], "nothing stays"


def test_help_names_the_options(tmp_path: Path) -> None:
    text = CommandLine(tmp_path).output("bench", "peers", "--help").decode()
    for option in ("--only", "--seconds", "--repetitions", "--work", "--json", "--install", "--directory"):
        assert option in text
