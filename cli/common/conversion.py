"""Values of options and arguments that need no conversion do not wait for pydantic.

Typer converts each value by pydantic, also one that is not given. Importing that takes as long as the rest of
most commands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from typer.core import TyperArgument, TyperOption


@cache
def spare_conversions() -> None:
    """Make typer convert only those values that are not of their type yet."""
    for kind in (TyperArgument, TyperOption):
        _spare(kind)


def _spare(kind: Any) -> None:
    make = kind.get_runtime_param
    kind.get_runtime_param = lambda parameter: _Conversion(parameter, make)


class _Conversion:
    """Converts the values of a parameter, as `make` does, which imports pydantic."""

    def __init__(self, parameter: Any, make: Any) -> None:
        self._parameter = parameter
        self._make = make

    def coerce(self, value: Any, **places: Any) -> Any:
        """The value as the command gets it."""
        parameter, described = self._parameter, self._parameter.type_descriptor
        many = parameter.multiple or parameter.nargs == -1
        if value is None:
            return () if many else None
        text = described.annotation is str and described.parameter_info.parser is None
        if value is parameter.default or (text and not many and isinstance(value, str)):
            return value
        return self._make(parameter).coerce(value, **places)
