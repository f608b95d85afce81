"""`telesto put`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url

if TYPE_CHECKING:
    from telesto.client import NewMessage, PutResult, Queue, TelestoClient

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
Expires = Annotated[
    float | None,
    duration_option("--expires", least=0.001, help="The message expires after this time."),
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
    expires: Expires = None,
    header: Headers = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Put a message, or every line of a file, into a queue."""
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.messages.put_lines import Destination, put_lines
    from telesto.cli.terminal import inputs
    from telesto.cli.terminal.failures import usage_error
    from telesto.client import NewMessage

    inputs.check_one_given(body, lines, file)
    headers = headers_of(header)
    message = NewMessage(
        b"", priority, receiver, correlation_id, dedup_key, delay, expires, partition_key, headers
    )
    if lines is not None:
        if dedup_key is not None:
            raise usage_error("--dedup-key names one message; --lines puts many")
        with inputs.opened(lines) as source, connected(url, client_name) as client:
            found = find_queue(client, queue)

            def put_bodies(bodies: list[bytes]) -> list[PutResult]:
                return found.put_many([replace(message, body=body) for body in bodies])

            put_lines(Destination(found.name, {"queue_id": found.queue_id}, put_bodies), source, as_json)
        return
    message.body = inputs.read_body(body, file)
    with connected(url, client_name) as client:
        _put_one(client, find_queue(client, queue), message, as_json)


def _put_one(client: TelestoClient, queue: Queue, message: NewMessage, as_json: bool) -> None:
    from telesto.cli.terminal import output

    result = client.put_messages(
        [queue],
        message.body,
        priority=message.priority,
        receiver_id=message.receiver_id,
        correlation_id=message.correlation_id,
        dedup_key=message.dedup_key,
        partition_key=message.partition_key,
        delay=message.delay,
        expires=message.expires,
        headers=message.headers,
    )[0]
    if as_json:
        output.print_json(
            {"queue_id": queue.queue_id, "message_id": result.message_id, "duplicate": result.duplicate}
        )
    elif result.duplicate:
        output.print_line(f"{queue.name} already has this message, as message {result.message_id}")
    else:
        output.print_line(f"put message {result.message_id} into {queue.name}")
