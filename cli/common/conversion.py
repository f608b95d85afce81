"""Starts commands without pydantic, which typer imports to convert values.

The import takes 0.1 s of CPU, as long as the rest of most commands, and typer needs it even for a value that
is not given. No public interface of typer avoids it. Only the versions of typer that this was written for are
changed; with any other one commands start later, and tests/cli/common/test_cli_usage.py fails.
"""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import typer
from typer.core import TyperArgument, TyperOption

TYPER_VERSION = "0.29."
"""How the versions of typer begin that are changed."""


@cache
def skip_needless_conversions() -> None:
    """Make typer convert only values that are not of their type yet."""
    if typer.__version__.startswith(TYPER_VERSION):
        _change(TyperArgument)
        _change(TyperOption)


def _change(kind: Any) -> None:
    make_converter = kind.get_runtime_param

    def get_runtime_param(parameter: Any) -> Any:
        def coerce(value: Any, **places: Any) -> Any:
            described = parameter.type_descriptor
            many = parameter.multiple or parameter.nargs == -1
            if value is None:
                return () if many else None
            text = described.annotation is str and described.parameter_info.parser is None
            if value is parameter.default or (text and not many and isinstance(value, str)):
                return value
            return make_converter(parameter).coerce(value, **places)

        return SimpleNamespace(coerce=coerce)

    kind.get_runtime_param = get_runtime_param
