"""`telesto queue create|declare|list|show|update|delete|purge`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telesto.cli.admin.queue_settings import as_dict, as_properties, with_queue_settings
from telesto.cli.common import completion
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, Like, Limit, Url, Yes
from telesto.cli.terminal import output

if TYPE_CHECKING:
    from telesto.client import Queue, TelestoClient

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue, 1 to 255 characters.")]
ExistingName = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the queue.", autocompletion=completion.queues)
]
Update = Annotated[bool, typer.Option("--update", help="Change the settings that differ.")]


@with_queue_settings(update=False)
def create(
    name: Name,
    settings: Mapping[str, Any],
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Create a queue."""
    from telesto.cli.common.connection import connected
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError
    from telesto.client import QueueNameNotUniqueError

    with connected(url, client_name) as client:
        try:
            queue = client.create_queue(name, **settings)
        except QueueNameNotUniqueError as error:
            raise CommandError(f"a queue named {name!r} exists already", ExitCode.REFUSED) from error
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": queue.name})
    else:
        output.print_line(f"created the queue {queue.name} (id {queue.queue_id})")


@with_queue_settings(update=False)
def declare(
    name: Name,
    settings: Mapping[str, Any],
    update: Update = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Create a queue unless it exists; then check that the given settings are its own."""
    from telesto.cli.common.connection import connected
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError
    from telesto.client import QueueSettingsDifferError

    with connected(url, client_name) as client:
        try:
            queue = client.declare_queue(name, update=update, **settings)
        except QueueSettingsDifferError as error:
            found = error.details.partition(";")[0]
            raise CommandError(f"{found}; --update changes it", ExitCode.REFUSED) from error
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": queue.name})
    else:
        output.print_line(f"the queue {queue.name} is there (id {queue.queue_id})")


def list_queues(
    like: Like = None,
    limit: Limit = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """List the queues, by rising id, and how many messages wait in each."""
    from telesto.cli.common.connection import connected

    with connected(url, client_name) as client:
        found = client.queues(like, limit=limit)
    output.print_list(
        found,
        (
            output.Column("id", lambda queue: queue.queue_id),
            output.Column("waiting", lambda queue: queue.depth),
            output.Column("name", lambda queue: queue.name, cut=True),
        ),
        as_json=as_json,
        as_dict=asdict,
        empty="There are no queues yet. Create one with: telesto queue create NAME"
        if like is None
        else f"No queue has a name like {like}.",
    )


def show(
    name: ExistingName, url: Url = DEFAULT_URL, client_name: ClientName = None, as_json: Json = False
) -> None:
    """Show the content and the settings of a queue."""
    from telesto.cli.common.connection import connected, find_queue

    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        statistics = queue.statistics()
        settings = queue.settings()
    if as_json:
        output.print_json(
            {
                "queue_id": queue.queue_id,
                "name": queue.name,
                **asdict(statistics),
                **as_dict(settings),
            }
        )
        return
    least, age = "" if statistics.exact else "at least ", statistics.oldest_age
    output.print_properties(
        {
            "name": queue.name,
            "id": queue.queue_id,
            "waiting": statistics.depth,
            "waiting for one receiver": statistics.directed_depth,
            "ready": least + str(statistics.ready),
            "delayed": least + str(statistics.delayed),
            "backing off": least + str(statistics.backing_off),
            "waiting behind their partition": least + str(statistics.keyed),
            "leased": least + str(statistics.leased),
            "dead letters": least + str(statistics.dead),
            "oldest has waited": "-" if age is None else f"{least}{age:.3f} s",
            "put in total": statistics.put_total,
            "taken in total": statistics.taken_total,
            **as_properties(settings),
        }
    )


@with_queue_settings(update=True)
def update(
    name: ExistingName,
    settings: Mapping[str, Any],
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Change settings of a queue; the others stay as they are."""
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.terminal.failures import usage_error

    if not settings:
        raise usage_error("no setting to change is given; see: telesto queue update --help")
    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        queue.update(**settings)
        changed = queue.settings()
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": name, **as_dict(changed)})
    else:
        output.print_line(f"changed the queue {name}")


def delete(
    name: ExistingName,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Delete a queue and its messages."""
    question = "Delete the queue {name} and the {messages} in it?"
    with _after_asking(yes, question, name, url, client_name) as (client, queue_id):
        client.delete_queue(queue_id)
    if as_json:
        output.print_json({"queue_id": queue_id, "name": name})
    else:
        output.print_line(f"deleted the queue {name}")


def purge(
    name: ExistingName,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Remove all waiting messages from a queue; the queue stays."""
    question = "Remove {messages} from the queue {name}?"
    with _after_asking(yes, question, name, url, client_name) as (client, queue_id):
        removed = client.queue(queue_id).purge()
    if as_json:
        output.print_json({"queue_id": queue_id, "name": name, "removed": removed})
    else:
        output.print_line(f"removed {_messages(removed)} from {name}")


@contextmanager
def _after_asking(
    yes: bool, question: str, name: str, url: str, client_name: str | None
) -> Iterator[tuple[TelestoClient, int]]:
    """Ask about a queue and the messages that wait in it; then give a client and the queue's id."""
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.terminal.asking import ask

    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        ask(yes, question.format(name=name, messages=_messages(_depth(client, queue))))
        yield client, queue.queue_id


def _depth(client: TelestoClient, queue: Queue) -> int:
    """Messages that wait in a queue; 0 for one that was deleted since it was listed."""
    from telesto.client import QueueNotExistingError

    try:
        return queue.statistics().depth
    except QueueNotExistingError:
        return 0


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"


HELP = "Create, list, show, change, empty and delete queues."
SUBCOMMANDS = {
    "create": create,
    "declare": declare,
    "list": list_queues,
    "show": show,
    "update": update,
    "delete": delete,
    "purge": purge,
}
