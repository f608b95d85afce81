"""The arguments of a task: checked against the signature of its function, and carried as JSON."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from typing import Any

_PLAIN = (str, int, float, bool, list, dict, type(None))


class Plain:
    """Takes the values of JSON as they are; with the methods of pydantic's TypeAdapter that are used here."""

    def __init__(self, annotation: Any) -> None:
        self._types = tuple(typing.get_origin(part) or part for part in _parts(annotation))
        if unknown := [kind for kind in self._types if kind not in (*_PLAIN, Any)]:
            raise TypeError(f"{unknown[0]!r} is no type of JSON: install pydantic for it")

    def validate_python(self, value: Any, /, *, strict: bool | None = None) -> Any:
        """Returns the value. Raises ValueError when it is of another type."""
        types = (*self._types, int) if float in self._types else self._types
        known = bool in types or not isinstance(value, bool)
        if Any in types or (known and isinstance(value, types)):
            return value
        raise ValueError(f"{type(value).__name__} instead of {' or '.join(t.__name__ for t in self._types)}")

    def dump_python(self, value: Any, /, *, mode: str) -> Any:
        """Returns the value."""
        return value


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The types of which a value may be."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or str(type(annotation)) == "<class 'types.UnionType'>":
        return typing.get_args(annotation)
    return (type(None),) if annotation is None else (annotation,)


def _values(annotation: Any) -> Any:
    """What converts the values of a parameter: a TypeAdapter, or Plain where pydantic is not installed."""
    try:
        from pydantic import TypeAdapter
    except ImportError:
        return Plain(annotation)
    return TypeAdapter(annotation)


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
            self._values = {each.name: _values(hints.get(each.name, Any)) for each in parameters}
        except Exception as error:
            raise TypeError(f"task {task!r}: the types of its parameters: {error}") from error

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def encode(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the arguments of a call as JSON has them. Raises TypeError when they do not fit."""
        try:
            bound = self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"task {self._task!r}: {error}") from None
        encoded = {}
        for name, value in bound.items():
            values = self._values[name]
            try:
                encoded[name] = values.dump_python(values.validate_python(value, strict=True), mode="json")
                json.dumps(encoded[name], allow_nan=False)
            except (TypeError, ValueError) as error:
                raise TypeError(f"task {self._task!r}: {name} does not fit: {error}") from error
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
                decoded[name] = self._values[name].validate_python(value)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return decoded
