"""`telesto get`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.options import DEFAULT_URL, ClientName, Json, QueueName, Url

Wait = Annotated[
    float,
    typer.Option("--wait", "-w", metavar="SECONDS", min=0, help="Wait so long, in all, if there is nothing."),
]
Count = Annotated[
    int | None, typer.Option("--count", "-n", min=1, help="At most so many. Default: 1, all with --follow.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Go on and wait for what comes, until Ctrl-C.")]
ByTime = Annotated[bool, typer.Option("--by-time", help="The oldest first, whatever its priority.")]
Sender = Annotated[
    int | None, typer.Option("--sender", metavar="ID", min=1, help="Only what this client put.")
]


def register(root: typer.Typer) -> None:
    """Add the command to the command line."""
    root.command("get")(get)


def get(
    queue: QueueName,
    wait: Wait = 0.0,
    count: Count = None,
    follow: Follow = False,
    by_time: ByTime = False,
    sender: Sender = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> int:
    """Take messages from a queue and print their bodies as they are, a newline after each.

    A message is confirmed after it was written, not before: if this command is interrupted or killed, what
    was not written comes again, marked redelivered. The exit code is 4 when there was nothing.
    """
    from telesto.cli.get_messages import GetPlan, get_messages
    from telesto.cli.taking import TakePlan

    plan = TakePlan(wait, count, follow)
    return get_messages(GetPlan(url, client_name, queue, plan, by_time, sender, as_json))
