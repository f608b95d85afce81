"""Names in the generated code."""

from __future__ import annotations

import re

from tools.codegen.types import Type

_PYTHON = {"string": "str", "bytes": "bytes", "bool": "bool"}

#: What the generated functions call their own values, and what they import.
_RESERVED = frozenset(
    {
        *("self", "cls", "payload", "at", "parts", "size", "value", "failure"),
        *("struct", "len", "list", "map", "range", "str", "sum"),
        *("check_end", "read_byte_strings", "read_strings", "read_tags", "skip_tags"),
        *("write_byte_strings", "write_strings", "write_tagged"),
    }
)


def snake(name: str) -> str:
    """NewMessage as new_message."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def enum_table(name: str) -> str:
    """Name of the table that gives an enum's member by its value."""
    return f"_{snake(name).upper()}_BY_VALUE"


def python_type(type_: Type) -> str:
    """The Python type of a field."""
    if type_.kind == "list":
        return f"list[{python_type(type_.inner)}]"
    if type_.kind == "optional":
        return f"{python_type(type_.inner)} | None"
    if type_.kind in ("struct", "enum"):
        return type_.name
    return _PYTHON.get(type_.name, "int")


class Locals:
    """Gives out names of local variables, each once."""

    def __init__(self, *reserved: str) -> None:
        self._used = {*_RESERVED, *reserved}

    def take(self, name: str, owner: str = "") -> str:
        """Returns the name, or one that tells whose it is when it is taken already."""
        if name in self._used and owner:
            name = f"{owner}_{name}"
        while name in self._used:
            name += "_"
        self._used.add(name)
        return name
