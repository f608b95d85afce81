"""`telesto browse`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url
from telesto.cli.terminal import output

PREVIEW_LENGTH_MAX = 60
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
    from telesto.cli.messages.message_lines import as_json_line, preview

    with connected(url, client_name) as client:
        found = find_queue(client, queue)
        messages = list(islice(found.browse(), limit))
    if as_json:
        for message in messages:
            output.write(as_json_line(message))
        return
    rows = [
        (
            message.message_id,
            message.time_of_arrival.strftime("%Y-%m-%d %H:%M:%S"),
            message.priority,
            message.sender_id,
            message.receiver_id,
            len(message.body),
            preview(message.body, PREVIEW_LENGTH_MAX),
        )
        for message in messages
    ]
    if rows or not output.is_terminal():
        output.print_table(("id", "arrival (UTC)", "priority", "sender", "receiver", "bytes", "body"), rows)
    else:
        output.print_line(f"No message waits in {queue} for this client.")
