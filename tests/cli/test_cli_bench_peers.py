"""`telesto bench peers`: what it is asked is checked before anything starts."""

from __future__ import annotations

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


def test_help_names_the_options(tmp_path: Path) -> None:
    text = CommandLine(tmp_path).output("bench", "peers", "--help").decode()
    for option in ("--only", "--seconds", "--repetitions", "--work", "--json", "--install", "--directory"):
        assert option in text
