"""Lengths of time on the command line, which are seconds or a number with a unit, and moments."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import typer

METAVAR = "DURATION"
_DURATION = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(ms|s|m|min|h|d)?", re.ASCII)
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_SHOWN = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000))


def duration_option(
    name: str,
    *names: str,
    help: str,
    least: float = 0.0,
    most: float | None = None,
    other: str | None = None,
    variable: str | None = None,
) -> Any:
    """An option that takes a length of time; its parameter is a float and gets seconds.

    Args:
        help: what it is for.
        least, most: the range, in seconds; None for none.
        other: a word that the option takes as well, and that the parameter gets as it is.
        variable: the environment variable that says it as well.
    """
    metavar = f"{METAVAR}|{other}" if other else METAVAR
    parser = _parser(least, most, other)
    return typer.Option(name, *names, metavar=metavar, parser=parser, envvar=variable, help=help)


def _parser(least: float, most: float | None, other: str | None) -> Callable[[Any], Any]:
    def duration(value: Any) -> Any:
        if not isinstance(value, str) or value == other:  # a default, or the other word
            return value
        parts = _DURATION.fullmatch(value.strip())
        if parts is None:
            word = f", or {other}" if other else ""
            raise typer.BadParameter(
                f"{value!r} is no duration: seconds, or such as 500ms, 30s, 5m, 2h, 7d{word}"
            )
        seconds = float(parts[1]) * _UNITS[parts[2] or "s"]
        if seconds < least or (most is not None and seconds > most):
            bounds = f"at least {shown(least)}" if most is None else f"{shown(least)} to {shown(most)}"
            raise typer.BadParameter(f"{value!r} is out of the range: {bounds}")
        return seconds

    return duration


def moment(value: str) -> datetime:
    """The parser of an option that takes a moment, in the machine's time zone unless it names one."""
    try:
        return datetime.fromisoformat(value.strip()).astimezone()
    except (ValueError, OverflowError):
        raise typer.BadParameter(
            f"{value!r} is not a moment; write 2026-12-24T18:00 or 2026-12-24T17:00Z"
        ) from None


def shown(seconds: float) -> str:
    """A length of time as people read it, in the largest unit of which it is a whole number."""
    milliseconds = round(seconds * 1000)
    for unit, length in _SHOWN:
        if milliseconds >= length and milliseconds % length == 0:
            return f"{milliseconds // length:,} {unit}"
    return f"{milliseconds / 1000:,.3f}".rstrip("0").rstrip(".") + " s"
