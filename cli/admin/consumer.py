"""`telesto consumer list`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.common import completion
from telesto.cli.common.options import DEFAULT_URL, Json, Url
from telesto.cli.terminal import output

OptionalQueue = Annotated[
    str | None,
    typer.Argument(
        metavar="[QUEUE]", help="Only the consumers of this queue.", autocompletion=completion.queues
    ),
]


def list_consumers(queue: OptionalQueue = None, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the consumers of a queue, or of all queues, by rising id.

    A consumer is ready, paused (it has no credit) or slow (others are served first).
    """
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.messages.message_lines import as_fields, moment

    with connected(url, None) as client:
        found = client.consumers(None if queue is None else find_queue(client, queue))
    output.print_list(
        found,
        (
            output.Column("id", lambda one: one.consumer_id),
            output.Column("queue", lambda one: one.queue, cut=True),
            output.Column("client", lambda one: one.client, cut=True),
            output.Column("middleware", lambda one: one.middleware_id),
            output.Column("since (UTC)", lambda one: moment(one.joined_at)),
            output.Column("messages", lambda one: one.leases),
            output.Column("state", lambda one: "paused" if one.paused else "slow" if one.slow else "ready"),
        ),
        as_json=as_json,
        as_dict=as_fields,
        empty="There are no consumers." if queue is None else f"{queue} has no consumers.",
    )


HELP = "List consumers."
SUBCOMMANDS = {"list": list_consumers}
