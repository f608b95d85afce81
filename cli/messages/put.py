"""`telesto put`."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.durations import duration_option, moment
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url

if TYPE_CHECKING:
    from telesto.client import PutResult, Queue

Body = Annotated[
    str | None,
    typer.Argument(
        metavar="BODY|-", help="The message (after -- if it begins with a dash); - reads standard input."
    ),
]
Lines = Annotated[
    Path | None,
    typer.Option(
        "--lines", metavar="FILE", help="Put each line of a file (- is standard input), without its newline."
    ),
]
File = Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Put a whole file as one message.")]
Priority = Annotated[int, typer.Option("--priority", "-p", min=1, max=10, help="1 lowest, 10 highest.")]
Receiver = Annotated[
    int | None,
    typer.Option(
        "--receiver", metavar="ID", min=1, help="Only the client with this id may read the message."
    ),
]
CorrelationId = Annotated[
    int | None,
    typer.Option("--correlation-id", metavar="N", help="A number that links a request and its response."),
]

DedupKey = Annotated[
    str | None,
    typer.Option(
        "--dedup-key",
        metavar="KEY",
        help="Store the message once: another put with this key within the queue's window has no effect.",
    ),
]
Delay = Annotated[
    float | None,
    duration_option("--delay", help="The message can be read after this time."),
]
At = Annotated[
    datetime | None,
    typer.Option(
        "--at",
        metavar="MOMENT",
        parser=moment,
        help="The message can be read from this moment: 2026-12-24T18:00, in this machine's time zone or in "
        "another one: 2026-12-24T18:00+01:00, 2026-12-24T17:00Z.",
    ),
]
Expires = Annotated[
    float | None,
    duration_option("--expires", help="The message expires after this time; with 0 it is not stored."),
]

PartitionKey = Annotated[
    str | None,
    typer.Option(
        "--partition-key",
        metavar="KEY",
        help="Only consumers get the message; messages with one key go to one consumer at a time, in order.",
    ),
]

Headers = Annotated[
    list[str] | None,
    typer.Option(
        "--header", metavar="NAME=VALUE", help="A header of the message; may be given several times."
    ),
]

Ids = Annotated[
    bool,
    typer.Option("--ids", help="Print the id of each message, one a line, and nothing else."),
]


def headers_of(given: list[str] | None) -> dict[str, str]:
    """The headers that options give. Raises CommandError for one that is none, and for a name twice."""
    from telesto.cli.terminal.failures import usage_error

    headers: dict[str, str] = {}
    for option in given or ():
        name, separator, value = option.partition("=")
        if not separator or not name:
            raise usage_error(f"--header takes NAME=VALUE, not {option!r}")
        if name in headers:
            raise usage_error(f"--header {name} is given twice")
        headers[name] = value
    return headers


def put(
    queue: QueueName,
    body: Body = None,
    lines: Lines = None,
    file: File = None,
    priority: Priority = 5,
    receiver: Receiver = None,
    correlation_id: CorrelationId = None,
    dedup_key: DedupKey = None,
    partition_key: PartitionKey = None,
    delay: Delay = None,
    at: At = None,
    expires: Expires = None,
    header: Headers = None,
    ids: Ids = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Put a message, or every line of a file, into a queue.

    With --lines it prints how many messages it put, and with --ids the id of each, in the order of the lines
    (with --json an object for each, as for a single message).

    Lines are put many at a time, and each 0.05 seconds after it was read at the latest, so an input that
    pauses holds back none. A line is read when its newline has come, or the input has ended.
    """
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.messages.put_lines import Destination, put_lines
    from telesto.cli.terminal import inputs
    from telesto.cli.terminal.failures import usage_error
    from telesto.client import NewMessage

    inputs.check_one_given(body, lines, file)
    headers = headers_of(header)
    if at is not None and delay is not None:
        raise usage_error("give either --at or --delay")
    message = NewMessage(
        b"", priority, receiver, correlation_id, dedup_key, delay, expires, partition_key, headers, at
    )
    if lines is not None:
        if dedup_key is not None:
            raise usage_error("--dedup-key names one message; --lines puts many")
        with inputs.opened(lines) as source, connected(url, client_name) as client:
            found = find_queue(client, queue)

            def put_bodies(bodies: list[bytes]) -> list[PutResult]:
                return found.put_many([replace(message, body=body) for body in bodies])

            show = partial(_show, found, ids, as_json) if ids else None
            put_lines(
                Destination(found.name, {"queue_id": found.queue_id}, put_bodies, show), source, as_json
            )
        return
    message.body = inputs.read_body(body, file)
    with connected(url, client_name) as client:
        found = find_queue(client, queue)
        result = found.put_many([message])[0]
        if result.error is not None:
            raise result.error
    _show(found, ids, as_json, result)


def _show(queue: Queue, ids: bool, as_json: bool, result: PutResult) -> None:
    from telesto.cli.terminal import output

    if as_json:
        output.print_json(
            {"queue_id": queue.queue_id, "message_id": result.message_id, "duplicate": result.duplicate}
        )
    elif ids:
        output.print_line(str(result.message_id))
    elif result.duplicate:
        output.print_line(f"{queue.name} already has this message, as message {result.message_id}")
    elif not result.message_id:
        output.print_line(f"put nothing into {queue.name}: the message has expired already")
    else:
        output.print_line(f"put message {result.message_id} into {queue.name}")
