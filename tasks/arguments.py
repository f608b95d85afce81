"""The arguments of a task: checked against the signature of its function, and carried as JSON."""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable, Mapping
from typing import Any

#: How much of a value a message shows, in characters.
_CUT = 60
_PLAIN = (str, int, float, bool, list, dict, type(None))


class Plain:
    """The values of a parameter that are those of JSON, as they are."""

    def __init__(self, annotation: Any) -> None:
        self._types = tuple(typing.get_origin(part) or part for part in _parts(annotation))
        if unknown := [kind for kind in self._types if kind not in (*_PLAIN, Any)]:
            raise TypeError(f"{unknown[0]!r} is no type of JSON: install pydantic for it")

    def read(self, value: Any) -> Any:
        """Returns the value. Raises ValueError, which says what it should be, when it is of another type."""
        types = (*self._types, int) if float in self._types else self._types
        known = bool in types or not isinstance(value, bool)
        if Any in types or (known and isinstance(value, types)):
            return value
        raise ValueError(f" should be {' or '.join(t.__name__ for t in self._types)}, not {_cut(value)}")

    encode = read


class Converted:
    """The values of a parameter that pydantic converts from and to JSON."""

    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter, ValidationError

        self._adapter, self._error = TypeAdapter(annotation), ValidationError

    def read(self, value: Any, *, strict: bool | None = None) -> Any:
        """Returns the value as the function takes it. Raises ValueError, which says what is wrong."""
        try:
            return self._adapter.validate_python(value, strict=strict)
        except self._error as error:
            first, *others = error.errors(include_url=False)
            place = "".join(f".{part}" for part in first["loc"])
            said = first["msg"].replace("Input should be", "should be", 1)
            said = f"{place}{' ' if said.startswith('should') else ': '}{said}"
            came = "" if first["type"] == "missing" else f", not {_cut(first['input'])}"
            more = f" (and {len(others)} more)" if others else ""
            raise ValueError(f"{said}{came}{more}") from None

    def encode(self, value: Any) -> Any:
        """Returns the value as JSON has it; it must be of the type, and not only convertible to it.

        Raises ValueError as ``read`` does.
        """
        read = self.read(value, strict=True)
        try:
            return self._adapter.dump_python(read, mode="json")
        except ValueError as error:
            raise ValueError(f" cannot be JSON: {error}") from None


def _cut(value: object) -> str:
    said = repr(value)
    return said if len(said) <= _CUT else f"{said[:_CUT]}..."


def _parts(annotation: Any) -> tuple[Any, ...]:
    """The types of which a value may be."""
    origin = typing.get_origin(annotation)
    if origin is typing.Union or str(type(annotation)) == "<class 'types.UnionType'>":
        return typing.get_args(annotation)
    return (type(None),) if annotation is None else (annotation,)


def _values(annotation: Any) -> Plain | Converted:
    """What reads and encodes the values of a parameter."""
    try:
        return Converted(annotation)
    except ImportError:
        return Plain(annotation)


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
            try:
                encoded[name] = self._values[name].encode(value)
            except ValueError as error:
                raise TypeError(f"task {self._task!r}: {name}{error}") from None
            try:
                json.dumps(encoded[name], allow_nan=False)
            except (TypeError, ValueError) as error:
                raise TypeError(f"task {self._task!r}: {name} cannot be JSON: {error}") from None
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
                decoded[name] = self._values[name].read(value)
            except ValueError as error:
                raise ValueError(f"{name}{error}") from None
        return decoded
