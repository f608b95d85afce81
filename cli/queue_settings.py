"""The settings of a queue on the command line."""

from __future__ import annotations

import dataclasses
from enum import IntEnum, StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from telesto.client import HistoryMode, QueueSettings

#: What takes a setting away that a queue may be without.
NONE = "none"


class HistoryChoice(StrEnum):
    """What a queue keeps of messages that are over."""

    NONE = "none"
    METADATA = "metadata"
    FULL = "full"

    def mode(self) -> HistoryMode:
        """The same as the client has it."""
        from telesto.client import HistoryMode

        return HistoryMode[self.name]


History = Annotated[
    HistoryChoice | None,
    typer.Option(
        "--history", help="What is kept of its messages once they are over. Default: metadata, no bodies."
    ),
]
HistoryDays = Annotated[
    int | None,
    typer.Option("--history-days", metavar="N", min=1, max=366, help="For how many days. Default: 7."),
]


def as_dict(settings: QueueSettings) -> dict[str, bool | int | str | None]:
    """The settings as JSON has them."""
    return {name: _plain(value) for name, value in dataclasses.asdict(settings).items()}


def as_properties(settings: QueueSettings) -> dict[str, int | str]:
    """The settings as people read them."""
    return {name: _shown(value) for name, value in as_dict(settings).items()}


def number_or_none(option: str, text: str) -> int | None:
    """Read a number above 0, or that the queue is to be without it. Raises CommandError."""
    from telesto.cli.failures import usage_error

    if text == NONE:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise usage_error(f"{option}: {text!r} is neither a number above 0 nor {NONE}")
    return int(text)


def _plain(value: Any) -> Any:
    return value.name.lower() if isinstance(value, IntEnum) else value


def _shown(value: bool | int | str | None) -> int | str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
