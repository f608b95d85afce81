"""The settings of a queue between the wire and the database: a setting is a tag, a column and a line here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.packets import CreateQueue, GetQueueSettingsResponse, HistoryMode, UpdateQueue


@dataclass(frozen=True, slots=True)
class QueueSetting:
    """A setting of a queue; its name is that of the tagged field and of the column.

    Attributes:
        least, most: the range of a number.
        removable: a queue may be without it, and UpdateQueue takes it away by 0.
        enum: what the wire has; the column holds the name in small letters.
    """

    least: int = 1
    most: int = (1 << 63) - 1
    removable: bool = False
    enum: type[IntEnum] | None = None

    def stored(self, value: Any) -> object:
        """What the column holds for a value of the wire."""
        if isinstance(value, IntEnum):
            return value.name.lower()
        return None if self.removable and value == 0 else value

    def shown(self, value: Any) -> Any:
        """The value of the wire for what the column holds; None when the queue is without it."""
        return self.enum[value.upper()] if self.enum and value is not None else value


#: The longest time that a message may be delayed or wait.
TEN_YEARS_MS = 10 * 365 * 24 * 3600 * 1_000

QUEUE_SETTINGS: Mapping[str, QueueSetting] = {
    "max_messages": QueueSetting(removable=True),
    "dedup_window_ms": QueueSetting(least=1_000, most=7 * 24 * 3600 * 1_000),
    "lease_ms": QueueSetting(least=100, most=24 * 3600 * 1_000),
    "max_attempts": QueueSetting(most=1_000_000),
    "backoff_ms": QueueSetting(least=0, most=24 * 3600 * 1_000),
    "backoff_max_ms": QueueSetting(least=0, most=24 * 3600 * 1_000),
    "expires_ms": QueueSetting(most=TEN_YEARS_MS, removable=True),
    "bury_expired": QueueSetting(least=0, most=1),
    "dead_letter_queue": QueueSetting(removable=True),
    "late_after_ms": QueueSetting(most=24 * 3600 * 1_000, removable=True),
    "late_limit": QueueSetting(least=0, most=1_000),
    "late_window_ms": QueueSetting(least=100, most=24 * 3600 * 1_000),
    "fail_limit": QueueSetting(least=0, most=1_000),
    "history": QueueSetting(enum=HistoryMode),
    "history_days": QueueSetting(most=366),
}


def check_settings(packet: CreateQueue | UpdateQueue) -> None:
    """Checks the settings that a request gives. Raises InvalidParameterError."""
    updating = isinstance(packet, UpdateQueue)
    for name, value in _given(packet):
        setting = QUEUE_SETTINGS[name]
        least = 0 if updating and setting.removable else setting.least
        if setting.enum is None and not least <= value <= setting.most:
            rule = f"{least} to {setting.most}"
            raise InvalidParameterError(f"{name}: {value} is not allowed; it must be {rule}")


def settings_json(packet: CreateQueue | UpdateQueue) -> str:
    """The settings that a request gives, as the procedures take them."""
    return json.dumps({name: QUEUE_SETTINGS[name].stored(value) for name, value in _given(packet)})


def settings_answer(stored: str) -> GetQueueSettingsResponse:
    """The answer for the settings as the procedure gives them."""
    columns = json.loads(stored)
    return GetQueueSettingsResponse(
        **{name: setting.shown(columns[name]) for name, setting in QUEUE_SETTINGS.items()}
    )


def _given(packet: CreateQueue | UpdateQueue) -> list[tuple[str, Any]]:
    values = ((name, getattr(packet, name)) for name in QUEUE_SETTINGS)
    return [(name, value) for name, value in values if value is not None]
