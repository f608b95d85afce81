"""Converts the settings of a queue between packets and the database. The specification declares them."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any

from telesto.protocol import packets
from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.queue_settings import QUEUE_SETTINGS, QueueSetting


def check_settings(settings: packets.QueueSettings, *, updating: bool = False) -> None:
    """Checks the settings that a request gives. Raises InvalidParameterError."""
    for setting, value in _given(settings):
        least = 0 if updating and setting.without else setting.least
        if setting.type is int and not least <= value <= setting.most:
            rule = f"{least} to {setting.most}"
            if setting.unit == "ms":
                rule += f" milliseconds ({least / 1000:,g} to {setting.most // 1000:,} seconds)"
            raise InvalidParameterError(f"{setting.name}: {value} is not allowed; it must be {rule}")


def settings_json(settings: packets.QueueSettings) -> str:
    """Returns the settings of a request as the JSON that the procedures take."""
    return json.dumps({setting.name: _stored(setting, value) for setting, value in _given(settings)})


def settings_answer(stored: str) -> packets.GetQueueSettingsResponse:
    """Makes the answer from the JSON of the procedure."""
    columns = json.loads(stored)
    shown = {name: _shown(setting, columns[name]) for name, setting in QUEUE_SETTINGS.items()}
    return packets.GetQueueSettingsResponse(packets.QueueSettings(**shown))


def _given(settings: packets.QueueSettings) -> list[tuple[QueueSetting, Any]]:
    values = ((setting, getattr(settings, name)) for name, setting in QUEUE_SETTINGS.items())
    return [(setting, value) for setting, value in values if value is not None]


def _stored(setting: QueueSetting, value: Any) -> object:
    """Returns the value of the column for that of a packet."""
    if isinstance(value, IntEnum):
        return value.name.lower()
    return None if setting.without and value == 0 else value


def _shown(setting: QueueSetting, value: Any) -> Any:
    """Returns the value of a packet for that of the column; None if the queue does not have the setting."""
    if issubclass(setting.type, IntEnum) and value is not None:
        return setting.type[value.upper()]
    return value
