"""The arguments of a task: checked against the signature of its function, and carried as JSON."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

#: How much of a value a message shows, in characters.
_CUT = 60


def _read(adapter: TypeAdapter[Any], value: Any, *, strict: bool | None = None) -> Any:
    """Returns a value as the function takes it. Raises ValueError, which says what is wrong."""
    try:
        return adapter.validate_python(value, strict=strict)
    except ValidationError as error:
        first, *others = error.errors(include_url=False)
        place = "".join(f".{part}" for part in first["loc"])
        said = first["msg"].replace("Input should be", "should be", 1)
        said = f"{place}{' ' if said.startswith('should') else ': '}{said}"
        came = "" if first["type"] == "missing" else f", not {_cut(first['input'])}"
        more = f" (and {len(others)} more)" if others else ""
        raise ValueError(f"{said}{came}{more}") from None


def _encode(adapter: TypeAdapter[Any], value: Any) -> Any:
    """Returns a value as JSON has it. It must be of the type: one that could be converted is not enough.

    Raises ValueError, which says what is wrong.
    """
    read = _read(adapter, value, strict=True)
    try:
        encoded = adapter.dump_python(read, mode="json")
        json.dumps(encoded, allow_nan=False)
    except ValueError as error:
        raise ValueError(f" cannot be JSON: {error}") from None
    return encoded


def _cut(value: object) -> str:
    said = repr(value)
    return said if len(said) <= _CUT else f"{said[:_CUT]}..."


class Arguments:
    """What the function of a task may be called with."""

    def __init__(self, task: str, function: Callable[..., Any], given: int) -> None:
        """``given`` is how many of the first parameters are given by the worker, and not by messages."""
        self._task = task
        signature = inspect.signature(function)
        parameters = list(signature.parameters.values())[given:]
        for parameter in parameters:
            if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
                raise TypeError(f"task {task!r}: its parameters must have names, unlike {parameter}")
        self._signature = signature.replace(parameters=parameters)
        try:
            hints = typing.get_type_hints(function, include_extras=True)
            self._adapters: dict[str, TypeAdapter[Any]] = {
                each.name: TypeAdapter(hints.get(each.name, Any)) for each in parameters
            }
        except Exception as error:
            raise TypeError(f"task {task!r}: the types of its parameters: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._adapters

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call as JSON has them. Raises TypeError when they do not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"task {self._task!r}: {error}") from None
        encoded = {}
        for name, value in bound.items():
            try:
                encoded[name] = _encode(self._adapters[name], value)
            except ValueError as error:
                raise TypeError(f"task {self._task!r}: {name}{error}") from None
        return encoded

    def key(self, name: str, encoded: Mapping[str, Any]) -> str:
        """Returns what an argument says as a key. Raises TypeError unless it is a text or a whole number."""
        value = encoded[name] if name in encoded else self._signature.parameters[name].default
        if isinstance(value, bool) or not isinstance(value, (str, int)):
            raise TypeError(
                f"task {self._task!r}: {name} is a key: it must be a str or an int, not {value!r}"
            )
        return str(value)

    def decode(self, encoded: Any) -> dict[str, Any]:
        """Returns the arguments as the function takes them. Raises ValueError when they do not fit."""
        if not isinstance(encoded, dict):
            raise ValueError(f"the body is no JSON object but {type(encoded).__name__}")
        try:
            self._signature.bind(**encoded)
        except TypeError as error:
            raise ValueError(str(error)) from None
        decoded = {}
        for name, value in encoded.items():
            try:
                decoded[name] = _read(self._adapters[name], value)
            except ValueError as error:
                raise ValueError(f"{name}{error}") from None
        return decoded
