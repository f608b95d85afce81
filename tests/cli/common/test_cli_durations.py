"""Lengths of time on the command line are read and shown."""

from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from telesto.cli.common.durations import duration_option, shown


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        *[
            ("30", 30.0),
            ("0.25", 0.25),
            (".5", 0.5),
            ("0", 0.0),
            ("500ms", 0.5),
            ("30s", 30.0),
            ("5m", 300.0),
        ],
        *[("5min", 300.0), ("1.5h", 5400.0), ("7d", 604_800.0), (" 2 h ", 7200.0), ("never", "never")],
    ],
)
def test_a_duration_is_seconds_or_has_a_unit(given: str, seconds: object) -> None:
    assert option(other="never").parser(given) == seconds


def option(**bounds: object) -> typer.models.OptionInfo:
    made: typer.models.OptionInfo = duration_option("--wait", help="Wait so long.", **bounds)
    return made


@pytest.mark.parametrize("wrong", ["", "s", "-1", "1e3", "nan", "inf", "5x", "1h30m", "\u0665s", "5 0"])
def test_what_is_no_duration_is_told_with_what_is(wrong: str) -> None:
    with pytest.raises(
        typer.BadParameter, match="is no duration: seconds, or such as 500ms, 30s, 5m, 2h, 7d"
    ):
        option().parser(wrong)


@pytest.mark.parametrize(("wrong", "said"), [("99ms", "0.1 s to 5 min"), ("6m", "0.1 s to 5 min")])
def test_the_bounds_are_told(wrong: str, said: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{wrong}' is out of the range: {said}"):
        option(least=0.1, most=300).parser(wrong)


def test_a_default_stays() -> None:
    app = typer.Typer()
    waits = Annotated[float, duration_option("--wait", help="Wait so long.")]

    @app.command()
    def wait(seconds: waits = 2.5) -> None:
        print(seconds)

    assert CliRunner().invoke(app, []).output == "2.5\n"
    assert CliRunner().invoke(app, ["--wait", "2m"]).output == "120.0\n"


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        *[(0, "0 s"), (0.001, "0.001 s"), (0.25, "0.25 s"), (1, "1 s"), (59.5, "59.5 s"), (60, "1 min")],
        *[(90, "90 s"), (3600, "1 h"), (5400, "90 min"), (86_400, "1 d"), (1e6, "1,000,000 s")],
        *[(315_360_000, "3,650 d"), (10.0, "10 s"), (100.0, "100 s")],
    ],
)
def test_a_duration_is_shown_in_its_largest_whole_unit(seconds: float, said: str) -> None:
    assert shown(seconds) == said
