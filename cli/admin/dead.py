"""`telesto dead list|show|redrive|delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, QueueName, Url, Yes
from telesto.cli.terminal import output

if TYPE_CHECKING:
    from telesto.client import DeadLetter, Queue

LIMIT = 20

MessageIds = Annotated[
    list[int] | None, typer.Argument(metavar="[MESSAGE_ID]...", help="The ids of the dead letters.", min=1)
]
All = Annotated[bool, typer.Option("--all", help="All dead letters of the queue.")]


def list_letters(
    queue: QueueName,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="List at most this many dead letters.")
    ] = LIMIT,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """List the dead letters of a queue, by rising id.

    Columns: id, time of death (UTC), reason, attempts, bytes, the beginning of the body.
    """
    from itertools import islice

    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.messages.message_lines import PREVIEW_LENGTH_MAX, moment, preview

    with connected(url, client_name) as client:
        found = find_queue(client, queue)
        letters = list(islice(found.dead_letters(), limit))
    output.print_list(
        letters,
        (
            output.Column("id", lambda letter: letter.message.message_id),
            output.Column("died (UTC)", lambda letter: moment(letter.died_at)),
            output.Column("reason", lambda letter: letter.reason),
            output.Column("attempts", lambda letter: letter.message.attempt),
            output.Column("bytes", lambda letter: len(letter.message.body)),
            output.Column("body", lambda letter: preview(letter.message.body, PREVIEW_LENGTH_MAX), cut=True),
        ),
        as_json=as_json,
        as_dict=_as_dict,
        empty=f"{queue} has no dead letters.",
    )


def show(
    queue: QueueName,
    message_id: Annotated[
        int, typer.Argument(metavar="MESSAGE_ID", min=1, help="The id of the dead letter.")
    ],
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Show one dead letter and the beginning of its body; --json prints the whole body."""
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.messages.message_lines import PREVIEW_LENGTH_MAX, moment, preview

    with connected(url, client_name) as client:
        letter = _find(find_queue(client, queue), message_id)
    if as_json:
        output.print_json(_as_dict(letter))
        return
    message = letter.message
    output.print_properties(
        {
            "id": message.message_id,
            "reason": letter.reason,
            "died (UTC)": moment(letter.died_at),
            "attempts": message.attempt,
            "last client id": letter.client_id or "none",
            "sender id": message.sender_id,
            "receiver id": message.receiver_id or "anyone",
            "priority": message.priority,
            "arrival (UTC)": moment(message.time_of_arrival),
            "bytes": len(message.body),
            "body": preview(message.body, 2 * PREVIEW_LENGTH_MAX),
        }
    )


def redrive(
    queue: QueueName,
    message_ids: MessageIds = None,
    all_letters: All = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Send dead letters back to their queue; their attempts start from zero.

    The exit code is 1 if one of the ids is not that of a dead letter of the queue; the others are sent back.
    """
    from telesto.cli.common.connection import connected, find_queue

    _check_which(message_ids, all_letters)
    with connected(url, client_name) as client:
        found = find_queue(client, queue)
        count = found.redrive(message_ids or None)
    if count or all_letters:
        if as_json:
            output.print_json({"queue_id": found.queue_id, "redriven": count})
        else:
            output.print_line(f"sent {_letters(count)} back to {queue}")
    _check_all_found(queue, message_ids, count)


def delete(
    queue: QueueName,
    message_ids: MessageIds = None,
    all_letters: All = False,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Delete dead letters permanently.

    The exit code is 1 if one of the ids is not that of a dead letter of the queue; the others are deleted.
    """
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.terminal.asking import ask

    _check_which(message_ids, all_letters)
    with connected(url, client_name) as client:
        found = find_queue(client, queue)
        which = "all dead letters" if all_letters else _letters(len(message_ids or ()))
        ask(yes, f"Delete {which} of the queue {queue}?")
        count = found.delete_dead_letters(message_ids or None)
    if count or all_letters:
        if as_json:
            output.print_json({"queue_id": found.queue_id, "deleted": count})
        else:
            output.print_line(f"deleted {_letters(count)} of {queue}")
    _check_all_found(queue, message_ids, count)


def _check_which(message_ids: list[int] | None, all_letters: bool) -> None:
    from telesto.cli.terminal.failures import usage_error

    if bool(message_ids) == all_letters:
        raise usage_error("give the ids of dead letters, or --all")


def _check_all_found(queue: str, message_ids: list[int] | None, count: int) -> None:
    """Raise CommandError if there were fewer dead letters than ids."""
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError

    given = sorted(set(message_ids or ()))
    missing = len(given) - count
    if missing <= 0:
        return
    if len(given) == 1:
        raise CommandError(f"{queue} has no dead letter {given[0]}", ExitCode.REFUSED)
    raise CommandError(f"{queue} has no dead letters of {missing} of the {len(given)} ids", ExitCode.REFUSED)


def _find(queue: Queue, message_id: int) -> DeadLetter:
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError

    for letter in queue.dead_letters(after_message_id=message_id - 1):
        if letter.message.message_id == message_id:
            return letter
        break
    raise CommandError(f"{queue.name} has no dead letter {message_id}", ExitCode.REFUSED)


def _as_dict(letter: DeadLetter) -> dict[str, object]:
    from telesto.cli.messages.message_lines import as_dict

    return {
        **as_dict(letter.message),
        "reason": letter.reason,
        "died_at": letter.died_at.isoformat(timespec="microseconds"),
        "client_id": letter.client_id,
    }


def _letters(count: int) -> str:
    return f"{count} dead letter" if count == 1 else f"{count} dead letters"


HELP = "List, show, send back and delete dead letters: messages that left a queue unprocessed."
SUBCOMMANDS = {"list": list_letters, "show": show, "redrive": redrive, "delete": delete}
