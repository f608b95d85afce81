"""Options that several commands have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from telesto.cli.common import completion

DEFAULT_URL = "telesto://127.0.0.1:7001"
DEFAULT_DATA_DIRECTORY = Path("telesto-data")
STATE_DIR_VARIABLE = "TELESTO_STATE_DIR"

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

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="TELESTO_DATABASE_URL",
        metavar="URL",
        help="The PostgreSQL database: postgresql://user:password@host:port/name.",
    ),
]
