"""`telesto consume`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.options import DEFAULT_URL, ClientName, Json, QueueName, Url

Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="End after so many. Default: until Ctrl-C.")
]
Wait = Annotated[
    float | None,
    typer.Option("--wait", "-w", metavar="SECONDS", min=0.1, help="End when nothing has come for so long."),
]
Credit = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Have at most so many messages at a time. Default: 256, with --exec four for each command.",
    ),
]
Exec = Annotated[
    str | None,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        help="Run this in a shell for each message, with the body on its standard input.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1, max=1000, help="Run so many commands at a time, of a partition one. Default: 1. With --exec."
    ),
]


def register(root: typer.Typer) -> None:
    """Add the command to the command line."""
    root.command("consume")(consume)


def consume(
    queue: QueueName,
    count: Count = None,
    wait: Wait = None,
    credit: Credit = None,
    command: Exec = None,
    concurrency: Concurrency = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> int:
    """Consume a queue, together with its other consumers: print each body, or run a command for it.

    A message is acknowledged after it was written, or its command has ended with 0. Otherwise it comes again,
    to this consumer or another one. A command finds TELESTO_MESSAGE_ID, TELESTO_PARTITION_KEY (if the message
    has one) and TELESTO_ATTEMPT in its environment. Ctrl-C gives back what was not begun and waits for the
    commands that run; once more ends those too. The exit code is 4 when there was nothing, 1 when a command
    failed.
    """
    from telesto.cli.consume_exec import ExecPlan, consume_by_commands
    from telesto.cli.consume_print import PrintPlan, consume_by_printing
    from telesto.cli.failures import usage_error

    if command is None:
        if concurrency is not None:
            raise usage_error("--concurrency is for commands; give one with --exec COMMAND")
        return consume_by_printing(PrintPlan(url, client_name, queue, count, wait, credit or 256, as_json))
    if not command.strip():
        raise usage_error("the command of --exec is empty")
    if as_json:
        raise usage_error("--json is for printing; a command of --exec gets the body as it is")
    at_once = concurrency or 1
    plan = ExecPlan(url, client_name, queue, count, wait, credit or 4 * at_once, command, at_once)
    return consume_by_commands(plan)
