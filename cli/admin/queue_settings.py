"""The settings of a queue on the command line: one option for each setting in the specification."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator
from enum import IntEnum, StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.common.durations import shown as shown_duration
from telesto.protocol.queue_settings import QUEUE_SETTINGS, QueueSetting

if TYPE_CHECKING:
    from telesto.client import QueueSettings

#: The value that removes an optional setting.
NONE = "none"
_SETTINGS = {setting.client_name: setting for setting in QUEUE_SETTINGS.values()}


def with_queue_settings(*, update: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Gives a command an option for each setting, in place of its parameter `settings`.

    That parameter receives the given settings as the client takes them. `none` removes an optional setting
    in an update.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in _SETTINGS}
            settings = {
                name: _value(_SETTINGS[name], value) for name, value in given.items() if value is not None
            }
            command(settings=settings, **values)

        parameters = list(_parameters(command, update=update))
        signature = inspect.Signature(parameters, return_annotation=None)
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


def _parameters(command: Callable[..., None], *, update: bool) -> Iterator[inspect.Parameter]:
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        if parameter.name != "settings":
            yield parameter
            continue
        for name, setting in _SETTINGS.items():
            annotation = _option(setting, update=update)
            yield inspect.Parameter(name, parameter.kind, default=None, annotation=annotation)


def _option(setting: QueueSetting, *, update: bool) -> Any:
    """The option of a setting, as typer reads it."""
    name = "--" + setting.client_name.replace("_", "-")
    if setting.type is bool:
        off = "--" + setting.off.replace("_", "-")
        return Annotated[bool | None, typer.Option(f"{name}/{off}", help=_help(setting, update=update))]
    if issubclass(setting.type, IntEnum):
        return Annotated[
            _choices(setting.type) | None, typer.Option(name, help=_help(setting, update=update))
        ]
    if setting.unit == "ms":
        option = duration_option(
            name,
            least=setting.least / 1000,
            most=setting.most / 1000,
            other=NONE if update and setting.without else None,
            help=_help(setting, update=update),
        )
        return Annotated[float | None, option]
    metavar = "QUEUE" if setting.unit == "queue" else "N"
    if setting.unit == "queue" or (update and setting.without):
        metavar = f"{metavar}|{NONE}"
        return Annotated[str | None, typer.Option(name, metavar=metavar, help=_help(setting, update=update))]
    return Annotated[
        int | None,
        typer.Option(
            name,
            metavar=metavar,
            min=setting.least,
            max=None if setting.most == _MOST else setting.most,
            help=_help(setting, update=update),
        ),
    ]


#: A bound that comes only from the type is not shown.
_MOST = (1 << 63) - 1


def _help(setting: QueueSetting, *, update: bool) -> str:
    if setting.without and update:
        return f"{setting.help.removesuffix('.')}; {NONE}: {setting.without}."
    if setting.unit == "ms" and setting.default is not None:
        return f"{setting.help} Default: {shown_duration(setting.default / 1000)}."
    return f"{setting.help} Default: {setting.without or _shown(_plain(setting.default))}."


def _choices(enum: type[IntEnum]) -> Any:
    """The values of an enum as the user writes them."""
    return StrEnum(enum.__name__, {member.name: member.name.lower() for member in enum})


def _value(setting: QueueSetting, given: Any) -> Any:
    """The value of an option as the client takes it. Raises CommandError."""
    if isinstance(given, StrEnum) and issubclass(setting.type, IntEnum):
        return setting.type[given.name]
    if not isinstance(given, str):
        return given
    if given == NONE:
        return None
    return given if setting.unit == "queue" else _number(setting, given)


def _number(setting: QueueSetting, text: str) -> int:
    from telesto.cli.terminal.failures import usage_error

    if not text.isascii() or not text.isdigit() or int(text) == 0:
        option = "--" + setting.client_name.replace("_", "-")
        raise usage_error(f"{option}: {text!r} is neither a number above 0 nor {NONE}")
    return int(text)


def as_dict(settings: QueueSettings) -> dict[str, Any]:
    """The settings as JSON has them; the dead letter queue by its name, or by its id if it is deleted."""
    return {name: _plain(value) for name, value in dataclasses.asdict(settings).items()}


def as_properties(settings: QueueSettings) -> dict[str, int | str]:
    """The settings as people read them."""
    shown: dict[str, int | str] = {}
    for name, value in dataclasses.asdict(settings).items():
        duration = _SETTINGS[name].unit == "ms" and value is not None
        shown[name] = shown_duration(value) if duration else _shown(_plain(value))
    if settings.late_after is None:
        third = max(1, round(settings.lease * 1000) // 3) / 1000
        shown["late_after"] = f"{shown_duration(third)} (a third of lease)"
    if isinstance(settings.dead_letter_queue, int):
        shown["dead_letter_queue"] = f"{settings.dead_letter_queue} (deleted)"
    return shown


def _plain(value: Any) -> Any:
    return value.name.lower() if isinstance(value, IntEnum) else value


def _shown(value: bool | int | str | None) -> int | str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value
