"""`telesto message show|cancel`."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, Url
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError

if TYPE_CHECKING:
    from telesto.client import MessageRecord, Queue, TelestoClient

_STATES = {
    "READY": "waits in its queue",
    "DELAYED": "waits in its queue until its time comes",
    "HANDED_OVER": "handed over, not confirmed",
    "LEASED": "with a consumer, not acknowledged",
    "DEAD_LETTER": "is a dead letter",
    "CONFIRMED": "confirmed",
    "ACKNOWLEDGED": "acknowledged",
    "UNRECORDED": "handed over without a record",
    "RETURNED": "came back to its queue",
    "PURGED": "purged",
    "EXPIRED": "expired",
    "DEAD": "became a dead letter",
    "DELETED": "deleted with its queue",
    "CANCELLED": "cancelled",
}
"""The name of each state on a terminal."""

GONE = "a client that no longer exists, such as a temporary one"
"""Stands for the name of such a client."""

PREVIEW_LENGTH_MAX = 60

MessageId = Annotated[int, typer.Argument(metavar="ID", min=1, help="The id of the message.")]


def show(
    message_id: MessageId,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Look in this queue only.")
    ] = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Show who put a message and when, which clients had it, how it ended, or where it is now.

    Of finished messages Telesto knows what the queue keeps (telesto queue update --history). There is one
    block, with --json one object, for each hand-over that ended, for how the message ended, and for where it
    is now.
    """
    from telesto.cli.common.connection import connected, find_queue

    with connected(url, client_name) as client:
        found = None if queue is None else find_queue(client, queue)
        records = client.message_history(message_id, found).records
    for index, record in enumerate(records):
        if as_json:
            output.print_json({"message_id": message_id, **_as_dict(record)})
            continue
        if index:
            output.print_line("")
        output.print_properties({"message": message_id, **_as_properties(record)})


def _as_dict(record: MessageRecord) -> dict[str, object]:
    from telesto.cli.messages.message_lines import as_fields, body_fields

    shown = as_fields(record)
    del shown["body"]
    return shown if record.body is None else {**shown, **body_fields(record.body)}


def _as_properties(record: MessageRecord) -> dict[str, output.Cell]:
    """The fields for the terminal: each name and id stands alone, so that it can be pasted into a command."""
    from telesto.cli.messages.message_lines import headers_preview, preview

    shown: dict[str, output.Cell] = {
        "state": _STATES[record.state.name],
        "queue": record.queue_name,
        "queue id": record.queue_id,
        "put at": _time(record.put_at),
        "put by": record.sender_name or GONE,
        "sender id": record.sender_id,
        "put through": _through(record.put_through, record.put_address),
        "receiver id": "anyone" if record.receiver_id is None else record.receiver_id,
        "priority": record.priority,
    }
    if record.correlation_id is not None:
        shown["correlation id"] = record.correlation_id
    if record.client_id is not None and record.handed_over_at is not None:
        shown["handed over at"] = _time(record.handed_over_at)
        shown["handed over to"] = record.client_name or GONE
        shown["client id"] = record.client_id
        if record.consumer_id is not None:
            shown["consumer id"], shown["lease id"] = record.consumer_id, record.lease_id
        elif record.session:
            shown["session"], shown["request number"] = record.session, record.number
        shown["handed over through"] = _through(record.handed_over_through, record.handed_over_address)
    shown["attempts"] = record.attempt
    for label, moment in (("can be read from", record.due_at), ("lease ends", record.deadline)):
        if moment is not None:
            shown[label] = _time(moment)
    if record.ended_at is not None:
        shown["ended"] = _time(record.ended_at)
    if record.reason is not None:
        shown["reason"] = record.reason
    if record.headers:
        shown["headers"] = headers_preview(record.headers, 4 * PREVIEW_LENGTH_MAX)
    if record.body is not None:
        shown["body"] = preview(record.body, PREVIEW_LENGTH_MAX)
    return shown


def cancel(
    message_id: MessageId,
    queue: Annotated[
        str | None,
        typer.Option("--queue", metavar="QUEUE", help="The queue where it waits. Default: found by the id."),
    ] = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
) -> None:
    """Remove a message that waits in a queue, or for its time to come, so that nobody gets it."""
    from telesto.cli.common.connection import connected, find_queue

    with connected(url, client_name) as client:
        found = _queue_of(client, message_id) if queue is None else find_queue(client, queue)
        cancelled = found is not None and found.cancel(message_id)
    if found is None or not cancelled:
        raise CommandError(
            f"message {message_id} is not waiting{'' if found is None else f' in {found.name}'}; "
            f"see: telesto message show {message_id}",
            ExitCode.REFUSED,
        )
    output.print_line(f"cancelled message {message_id} in {found.name}")


def _queue_of(client: TelestoClient, message_id: int) -> Queue | None:
    """The queue where a message waits; None if it waits in none."""
    record = client.message_history(message_id).records[-1]
    if record.state.name not in ("READY", "DELAYED") or record.queue_name is None:
        return None
    return client.queue(record.queue_name)


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def _through(middleware_id: int | None, address: str | None) -> str:
    if middleware_id is None:
        return "SQL"
    return f"middleware {middleware_id}" if address is None else f"{address} (middleware {middleware_id})"


HELP = "Show what happened to a message; cancel it."
SUBCOMMANDS = {"show": show, "cancel": cancel}
