"""How values look in ``repr``: what is not as usual, and the beginning of what is long."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import Any

#: How many bytes of a body are shown.
SHOWN = 60


def shown(value: object) -> str:
    """Returns a value as ``repr`` does, but cuts what is long and says how long it is."""
    if isinstance(value, (bytes, str)) and len(value) > SHOWN:
        return f"{value[:SHOWN]!r}... ({len(value)} {'bytes' if isinstance(value, bytes) else 'characters'})"
    return repr(value)


def show_fields(self: Any) -> str:
    """Is ``__repr__`` of a dataclass: leaves out what is None or empty of names, or has its default."""
    said = []
    for field in fields(self):
        value = getattr(self, field.name)
        if (
            not field.repr
            or value is None
            or value == {}
            or (field.default is not MISSING and value == field.default)
        ):
            continue
        said.append(f"{field.name}={shown(value)}")
    return f"{type(self).__name__}({', '.join(said)})"
