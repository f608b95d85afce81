"""Frames with the settings of a queue, for the vectors: with each setting, and with none."""

from __future__ import annotations

import json
import struct
from typing import Any

from tools.codegen.model import EnumType, QueueSetting, Spec

_ANSWER = "GetQueueSettingsResponse"
_NO_TAGGED_FIELDS = b"\x00"


def setting_vectors(spec: Spec) -> str:
    """Returns the file of vectors."""
    given = {setting.name: _value(spec, setting) for setting in spec.queue_settings}
    cases = [
        _case(spec, "every setting of a queue", 52, given),
        _case(spec, "no setting of a queue", 53, {}),
    ]
    return json.dumps(cases, indent=2) + "\n"


def _value(spec: Spec, setting: QueueSetting) -> Any:
    """A value that is not the usual one, as the vectors have it."""
    if setting.type.kind == "enum":
        return next(value.name for value in _enum(spec, setting).values if value.name != setting.default)
    if setting.type.name == "bool":
        return not setting.default
    return setting.least if setting.least != setting.default else setting.most


def _case(spec: Spec, name: str, packet_id: int, given: dict[str, Any]) -> dict[str, Any]:
    packet = next(packet for packet in spec.packets if packet.name == _ANSWER)
    fields = [_field(spec, setting, given[setting.name]) for setting in spec.queue_settings if given]
    payload = bytes([len(fields)]) + b"".join(fields) + _NO_TAGGED_FIELDS
    frame = struct.pack(">HI", packet.id, packet_id) + payload
    return {
        "name": name,
        "packet": _ANSWER,
        "packet_id": packet_id,
        "fields": {"settings": given},
        "frame": (struct.pack(">I", len(frame)) + frame).hex(),
    }


def _field(spec: Spec, setting: QueueSetting, value: Any) -> bytes:
    if setting.type.kind == "enum":
        value = next(known.value for known in _enum(spec, setting).values if known.name == value)
    content = struct.pack(f">{setting.type.code}", value)
    return struct.pack(">HI", setting.tag, len(content)) + content


def _enum(spec: Spec, setting: QueueSetting) -> EnumType:
    return next(enum for enum in spec.enums if enum.name == setting.type.name)
