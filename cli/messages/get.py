"""`telesto get`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url

Wait = Annotated[
    float,
    duration_option("--wait", "-w", help="Wait up to this time in total for messages."),
]
Count = Annotated[
    int | None,
    typer.Option("--count", "-n", min=1, help="Take at most this many. Default: 1; with --follow no limit."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Keep waiting for messages until Ctrl-C.")]
ByTime = Annotated[
    bool, typer.Option("--by-time", help="Take the oldest message first, whatever its priority.")
]
Sender = Annotated[
    int | None,
    typer.Option(
        "--sender", metavar="ID", min=1, help="Take only messages that the client with this id put."
    ),
]


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
    """Take messages from a queue and print their bodies unchanged, each followed by a newline.

    Telesto confirms a message after it is written, not before. If this command is interrupted or killed, the
    messages that were not written are delivered again, marked redelivered. The exit code is 4 if there was no
    message.
    """
    from telesto.cli.messages.get_messages import GetPlan, get_messages
    from telesto.cli.messages.taking import TakePlan

    plan = TakePlan(wait, count, follow)
    return get_messages(GetPlan(url, client_name, queue, plan, by_time, sender, as_json))
