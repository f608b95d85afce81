"""How long a command goes on trying: --retry-for and --try-timeout, which each command with a --url has.

A process runs one command, so what its options say is kept here until the command makes its client.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any

from telesto.cli.common.durations import duration_option

if TYPE_CHECKING:
    from telesto.client import ClientOptions

RETRY_FOR_VARIABLE = "TELESTO_RETRY_FOR"
TRY_TIMEOUT_VARIABLE = "TELESTO_TRY_TIMEOUT"
CONNECT_TRIES = 5
"""Within a second where nothing listens: a command's user waits for the first connection."""
TRIES_MAX = 1_000_000
"""With --retry-for the time decides, not the number of tries."""

_OPTIONS: dict[str, Any] = {
    "retry_for": Annotated[
        float | None,
        duration_option(
            "--retry-for",
            least=0.001,
            variable=RETRY_FOR_VARIABLE,
            help="Keep trying for this long when the service cannot be reached or is too busy. Default: "
            "about two seconds for the first connection, then 30 s for each request.",
        ),
    ],
    "try_timeout": Annotated[
        float | None,
        duration_option(
            "--try-timeout",
            least=0.001,
            variable=TRY_TIMEOUT_VARIABLE,
            help="Try again, on another connection, when there is no answer for this long. Default: 10 s.",
        ),
    ],
}
_given: dict[str, float | None] = {}


def with_patience(command: Callable[..., Any]) -> Callable[..., Any]:
    """Gives a command the two options, if it has a --url."""
    signature = inspect.signature(command, eval_str=True)
    if "url" not in signature.parameters:
        return command

    @wraps(command)
    def run(**values: Any) -> Any:
        _given.update({name: values.pop(name) for name in _OPTIONS})
        return command(**values)

    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        parameters.append(parameter)
        if parameter.name == "url":
            parameters += [
                inspect.Parameter(name, parameter.kind, default=None, annotation=option)
                for name, option in _OPTIONS.items()
            ]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def patient(options: ClientOptions | None = None) -> ClientOptions:
    """The options of the command's client, as patient as its user said."""
    from telesto.client import ClientOptions

    options = options or ClientOptions()
    if (try_timeout := _given.get("try_timeout")) is not None:
        options = replace(options, try_timeout=try_timeout, connect_timeout=try_timeout)
    if (retry_for := _given.get("retry_for")) is not None:
        return replace(options, call_timeout=retry_for, max_tries=TRIES_MAX)
    return replace(options, connect_tries=CONNECT_TRIES)
