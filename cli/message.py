"""`telesto message show`."""

from __future__ import annotations

import dataclasses
from datetime import datetime
from enum import IntEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telesto.cli import output
from telesto.cli.options import DEFAULT_URL, ClientName, Json, Url

if TYPE_CHECKING:
    from telesto.client import MessageRecord

_STATES = {
    "READY": "waits in its queue",
    "DELAYED": "waits in its queue for its time",
    "HANDED_OVER": "handed over, not confirmed",
    "LEASED": "with a consumer, not acknowledged",
    "DEAD_LETTER": "dead letter",
    "CONFIRMED": "confirmed",
    "ACKNOWLEDGED": "acknowledged",
    "UNRECORDED": "handed over without a record",
    "RETURNED": "came back",
    "PURGED": "purged",
    "EXPIRED": "expired",
    "DEAD": "gone to the dead letters",
    "DELETED": "gone with its queue",
}
"""How each state is called on a terminal."""

PREVIEW_LENGTH_MAX = 60

MessageId = Annotated[int, typer.Argument(metavar="ID", min=1, help="The id of the message.")]


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Show what became of a message.")
    group.callback()(lambda: None)
    group.command("show")(show)
    root.add_typer(group, name="message")


def show(
    message_id: MessageId,
    queue: Annotated[
        str | None, typer.Option("--queue", metavar="QUEUE", help="Look in this queue only.")
    ] = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Show who put a message and when, to whom it was handed over, when it was confirmed, or where it is now.

    What is over is known as far as the queue keeps a history. JSON has one object for each hand-over that
    ended, for how the message ended, and for where it is now.
    """
    from telesto.cli.connection import connected, find_queue

    with connected(url, client_name) as client:
        queue_id = None if queue is None else find_queue(client, queue).queue_id
        records = client.message_history(message_id, queue_id).records
    for index, record in enumerate(records):
        if as_json:
            output.print_json({"message_id": message_id, **_as_dict(record)})
            continue
        if index:
            output.print_line("")
        output.print_properties({"message": message_id, **_as_properties(record)})


def _as_dict(record: MessageRecord) -> dict[str, object]:
    from telesto.cli.message_lines import body_fields

    shown = {
        field.name: _plain(getattr(record, field.name))
        for field in dataclasses.fields(record)
        if field.name != "body"
    }
    return shown if record.body is None else {**shown, **body_fields(record.body)}


def _plain(value: Any) -> object:
    if isinstance(value, IntEnum):
        return value.name.lower()
    return value.isoformat(timespec="microseconds") if isinstance(value, datetime) else value


def _as_properties(record: MessageRecord) -> dict[str, str | int]:
    from telesto.cli.message_lines import preview

    shown: dict[str, str | int] = {
        "state": _STATES[record.state.name],
        "queue": _named(record.queue_name, record.queue_id),
        "put": f"{_time(record.put_at)} by {_named(record.sender_name, record.sender_id)}"
        f"{_through(record.put_through, record.put_address)}",
        "receiver": "anyone" if record.receiver_id is None else record.receiver_id,
        "priority": record.priority,
    }
    if record.context is not None:
        shown["context"] = record.context
    if record.client_id is not None and record.handed_over_at is not None:
        shown["handed over"] = (
            f"{_time(record.handed_over_at)} to {_named(record.client_name, record.client_id)}"
            f"{_by_what(record)}{_through(record.handed_over_through, record.handed_over_address)}"
        )
    shown["attempts"] = record.attempt
    for label, moment in (("can be read", record.due_at), ("has it until", record.deadline)):
        if moment is not None:
            shown[label] = _time(moment)
    if record.ended_at is not None:
        shown["ended"] = _time(record.ended_at)
    if record.reason is not None:
        shown["reason"] = record.reason
    if record.body is not None:
        shown["body"] = preview(record.body, PREVIEW_LENGTH_MAX)
    return shown


def _by_what(record: MessageRecord) -> str:
    if record.consumer_id is not None:
        return f", consumer {record.consumer_id}, lease {record.lease_id}"
    return f", session {record.session}, number {record.number}" if record.session else ""


def _time(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f UTC")


def _named(name: str | None, number: int) -> str:
    return f"{number}" if name is None else f"{name} (id {number})"


def _through(middleware_id: int | None, address: str | None) -> str:
    if middleware_id is None:
        return " from SQL"
    return f" through {address or 'a middleware'} (middleware {middleware_id})"
