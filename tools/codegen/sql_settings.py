"""The settings of a queue as SQL users give them to procedures: durations as intervals, a queue by name."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tools.codegen.model import QueueSetting

_WIDTH = 120
_TYPES = {"ms": "interval", "queue": "text"}


def _type(setting: QueueSetting) -> str:
    if setting.unit in _TYPES:
        return _TYPES[setting.unit]
    if setting.type.kind == "enum":
        return "text"
    return "boolean" if setting.type.name == "bool" else "bigint"


def _comment(setting: QueueSetting) -> str:
    """What a setting does and may be, in half a sentence."""
    text = setting.help.partition("; see telesto")[0].removesuffix(".")
    text = text[:1].lower() + text[1:]
    if setting.values and setting.unit != "queue":
        text += f"; {setting.client_values}"
    if setting.type.kind == "enum":
        text += ", by its name in small letters"
    if setting.without:
        nothing = "''" if setting.unit == "queue" else "0"
        text += f"; {nothing}: {setting.without.replace('lease_ms', 'lease')}"
    return text


def parameters(settings: Sequence[QueueSetting], *, default: bool = True, last: bool = True) -> str:
    """Returns the parameters of a procedure, each with its comment; there may be others behind them."""
    declared = [
        f"{setting.client_name} {_type(setting)}"
        + (" DEFAULT NULL" if default else "")
        + ("" if last and setting is settings[-1] else ",")
        for setting in settings
    ]
    width = max(map(len, declared)) + 2
    lines = []
    for declaration, setting in zip(declared, settings, strict=True):
        comment = textwrap.wrap(_comment(setting), _WIDTH - 4 - width - len("-- "))
        lines.append(f"    {declaration:{width}}-- {comment[0]}")
        lines += [f"    {'':{width}}-- {line}" for line in comment[1:]]
    return "\n".join(lines) + "\n"


def call(settings: Sequence[QueueSetting]) -> str:
    """Returns the declaration of a variable with the settings that are given, as the columns have them."""
    begin = "    wanted constant jsonb := telesto.setting_columns("
    names = textwrap.wrap(", ".join(setting.client_name for setting in settings), _WIDTH - len(begin) - 2)
    return begin + f"\n{'':{len(begin)}}".join(names) + ");\n"


def rows(settings: Sequence[QueueSetting]) -> str:
    """Returns a row for each setting: its column, what is given for it, and whether 0 takes it away."""
    values = (
        f"        ('{setting.name}', {_value(setting)}, {str(bool(setting.without)).lower()})"
        for setting in settings
    )
    return ",\n".join(values) + "\n"


def _value(setting: QueueSetting) -> str:
    name = setting.client_name
    if setting.unit == "queue":
        return f"telesto.queue_for_dead_letters({name})"
    if _type(setting) in ("text", "boolean"):
        return f"to_jsonb({name})"
    least = 0 if setting.without else setting.least
    if setting.unit == "ms":
        number = f"telesto.in_milliseconds('{name}', {name}, {least}, {setting.most})"
    else:
        number = f"telesto.in_range('{name}', {name}, {least}, {setting.most})"
    return f"to_jsonb({number})"
