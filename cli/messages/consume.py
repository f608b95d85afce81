"""`telesto consume`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url

Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="End after this many messages. Default: at Ctrl-C.")
]
Wait = Annotated[
    float | None,
    duration_option("--wait", "-w", least=0.1, help="End when no message has come for this time."),
]
Credit = Annotated[
    int | None,
    typer.Option(
        min=1, help="Hold at most this many messages. Default: as many as are handled in about a second."
    ),
]
Exec = Annotated[
    str | None,
    typer.Option(
        "--exec",
        metavar="COMMAND",
        help="Run this command in a shell for each message; it reads the body from its standard input.",
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=1000,
        help="Run this many commands at a time, at most one for each partition. Default: 1. Needs --exec.",
    ),
]


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
    """Consume a queue, sharing it with other consumers: print each body, or run a command for it.

    Telesto acknowledges a message when it is written, or when its command has ended with exit status 0.
    Otherwise the message is delivered again, to this consumer or to another one. Written to a pipe does not
    mean read: what stands in the pipe when its reader ends (| head -1) or crashes is lost. To have a message
    acknowledged when it was processed, use --exec. A command finds TELESTO_MESSAGE_ID, TELESTO_PARTITION_KEY
    (if the message has one) and TELESTO_ATTEMPT in its environment.

    Ctrl-C and SIGTERM give back the messages that were not begun and wait for the running commands; a second
    signal ends those too.

    The exit code is 4 if there was no message, 8 if a command failed, 9 if the command cannot be
    run at all, 130 or 143 if Ctrl-C or SIGTERM ended it (also in order), and 1 if the service refused
    something, such as a queue that does not exist.
    """
    from telesto.cli.messages.consume_exec import ExecPlan, consume_by_commands
    from telesto.cli.messages.consume_print import PrintPlan, consume_by_printing
    from telesto.cli.terminal.failures import usage_error

    if command is None:
        if concurrency is not None:
            raise usage_error("--concurrency needs a command: --exec COMMAND")
        return consume_by_printing(PrintPlan(url, client_name, queue, count, wait, credit, as_json))
    if not command.strip():
        raise usage_error("the command of --exec is empty")
    if as_json:
        raise usage_error("--json and --exec exclude each other: a command reads the body as it is")
    at_once = concurrency or 1
    plan = ExecPlan(url, client_name, queue, count, wait, credit, command, at_once)
    return consume_by_commands(plan)
