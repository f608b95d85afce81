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
        "--history", help="What the queue keeps of finished messages. Default: metadata, without bodies."
    ),
]
HistoryDays = Annotated[
    int | None,
    typer.Option(
        "--history-days", metavar="N", min=1, max=366, help="For how many days it keeps that. Default: 7."
    ),
]


def as_dict(settings: QueueSettings, dead_letter_queue: str | None) -> dict[str, bool | int | str | None]:
    """The settings as JSON has them, the dead letter queue by its name, as in the option, and by its id."""
    shown = {name: _plain(value) for name, value in dataclasses.asdict(settings).items()}
    return shown | {
        "dead_letter_queue": dead_letter_queue,
        "dead_letter_queue_id": settings.dead_letter_queue,
    }


def as_properties(settings: QueueSettings, dead_letter_queue: str | None) -> dict[str, int | str]:
    """The settings as people read them."""
    shown = {name: _shown(_plain(value)) for name, value in dataclasses.asdict(settings).items()}
    if settings.late_after_ms is None:
        shown["late_after_ms"] = f"{max(1, settings.lease_ms // 3)} (a third of lease_ms)"
    if settings.dead_letter_queue is not None:
        shown["dead_letter_queue"] = dead_letter_queue or f"{settings.dead_letter_queue} (deleted)"
    return shown


def number_or_none(option: str, text: str) -> int | None:
    """Read a number above 0, or that the queue is to be without it. Raises CommandError."""
    from telesto.cli.common.failures import usage_error

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
