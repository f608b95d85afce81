"""`telesto browse`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url
from telesto.cli.terminal import output

LIMIT = 20


def browse(
    queue: QueueName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Show at most this many messages.")
    ] = LIMIT,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Show the messages of a queue that this client may read, without taking them, by rising id.

    Columns: id, arrival (UTC), priority, sender, receiver, bytes, the beginning of the body.
    """
    from itertools import islice

    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.messages.message_lines import PREVIEW_LENGTH_MAX, as_dict, moment, preview

    with connected(url, client_name) as client:
        found = find_queue(client, queue)
        messages = list(islice(found.browse(), limit))
    output.print_list(
        messages,
        (
            output.Column("id", lambda message: message.message_id),
            output.Column("arrival (UTC)", lambda message: moment(message.time_of_arrival)),
            output.Column("priority", lambda message: message.priority),
            output.Column("sender", lambda message: message.sender_id),
            output.Column("receiver", lambda message: message.receiver_id),
            output.Column("bytes", lambda message: len(message.body)),
            output.Column("body", lambda message: preview(message.body, PREVIEW_LENGTH_MAX), cut=True),
        ),
        as_json=as_json,
        as_dict=as_dict,
        empty=f"No message waits in {queue} for this client.",
    )
