"""Options that several commands have in common."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from telesto.cli.common import completion
from telesto.cli.terminal.failures import usage_error

DEFAULT_URL = "telesto://127.0.0.1:7001"
DEFAULT_DATA_DIRECTORY = Path("telesto-data")
STATE_DIR_VARIABLE = "TELESTO_STATE_DIR"
DATABASE_URL_VARIABLE = "TELESTO_DATABASE_URL"

Url = Annotated[
    str,
    typer.Option(
        "--url",
        envvar="TELESTO_URL",
        metavar="URL",
        help="The service: telesto://host:port, or several with commas: telesto://host:port,host:port.",
    ),
]

ClientName = Annotated[
    str | None,
    typer.Option(
        "--client",
        metavar="NAME",
        autocompletion=completion.clients,
        help="Act as the client with this name, created if necessary; it continues where its last run "
        "ended. Default: a temporary client, deleted at the end.",
    ),
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]

Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

Like = Annotated[
    str | None,
    typer.Option(
        "--like",
        metavar="PATTERN",
        help="List only those whose name is like this: * stands for any characters, ? for one.",
    ),
]

Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="List at most this many.")]

QueueName = Annotated[
    str, typer.Argument(metavar="QUEUE", help="The name of the queue.", autocompletion=completion.queues)
]


def is_explicit(context: typer.Context, parameter: str) -> bool:
    """Whether a parameter was given on the command line, and not by a variable or a default."""
    source = context.get_parameter_source(parameter)
    return source is not None and source.name == "COMMANDLINE"


STATE_DIR_GIVEN: list[str] = []
"""The --state-dir of this process's command line, if any: it wins over what a URL says."""


def note_state_dir(context: typer.Context, value: str | None) -> str | None:
    """The callback of --state-dir, which commands and what they start read in its variable."""
    if value is not None:
        os.environ[STATE_DIR_VARIABLE] = value
        if is_explicit(context, "_state_dir"):
            STATE_DIR_GIVEN.append(value)
    return value


def _one_database(context: typer.Context, value: Any) -> Any:
    """Let an explicit --data-dir win over TELESTO_DATABASE_URL, also for what reads that later.

    What is on the command line is processed first.
    """
    if is_explicit(context, "data_dir"):
        if is_explicit(context, "database_url"):
            raise usage_error("--data-dir and --database-url each name a database; give one of them")
        for name in [name for name in os.environ if name.upper() == DATABASE_URL_VARIABLE]:
            del os.environ[name]
    return value


def _database_url(context: typer.Context, value: str | None) -> str | None:
    _one_database(context, value)
    return None if is_explicit(context, "data_dir") else value


DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar=DATABASE_URL_VARIABLE,
        metavar="URL",
        callback=_database_url,
        help="The PostgreSQL database: postgresql://user:password@host:port/name.",
    ),
]

DataDirectory = Annotated[
    Path,
    typer.Option(
        "--data-dir",
        envvar="TELESTO_DATA_DIR",
        metavar="DIRECTORY",
        callback=_one_database,
        help="Without a database URL: the data directory of an embedded PostgreSQL.",
    ),
]
