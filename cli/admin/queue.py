"""`telesto queue create|list|show|update|delete|purge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from telesto.cli.admin.queue_settings import (
    NONE,
    History,
    HistoryDays,
    as_dict,
    as_properties,
    number_or_none,
)
from telesto.cli.common import output
from telesto.cli.common.options import DEFAULT_URL, ClientName, Json, Url, Yes

if TYPE_CHECKING:
    from telesto.client import Queue, TelestoClient

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue, 1 to 255 characters.")]


def register(root: typer.Typer) -> None:
    """Add the commands to the command line."""
    group = typer.Typer(no_args_is_help=True, help="Create, list, show, change, empty and delete queues.")
    group.command("create")(create)
    group.command("list")(list_queues)
    group.command("show")(show)
    group.command("update")(update)
    group.command("delete")(delete)
    group.command("purge")(purge)
    root.add_typer(group, name="queue")


DedupWindow = Annotated[
    int | None,
    typer.Option(
        "--dedup-window-ms",
        metavar="MS",
        min=1_000,
        max=7 * 24 * 3_600_000,
        help="How long the queue remembers a dedup key. Default: 300000.",
    ),
]


Lease = Annotated[
    int | None,
    typer.Option(
        "--lease-ms",
        metavar="MS",
        min=100,
        max=24 * 3_600_000,
        help="How long a consumer may work on a message. Default: 30000.",
    ),
]
MaxAttempts = Annotated[
    int | None,
    typer.Option(
        "--max-attempts",
        metavar="N",
        min=1,
        max=1_000_000,
        help="A message that has failed this often becomes a dead letter. Default: 5.",
    ),
]
Backoff = Annotated[
    int | None,
    typer.Option(
        "--backoff-ms",
        metavar="MS",
        min=0,
        max=24 * 3_600_000,
        help="How long a message waits after its first failed attempt; each further failure doubles that. "
        "Default: 1000.",
    ),
]
BackoffMax = Annotated[
    int | None,
    typer.Option(
        "--backoff-max-ms",
        metavar="MS",
        min=0,
        max=24 * 3_600_000,
        help="The longest wait after a failed attempt. Default: 60000.",
    ),
]
BuryExpired = Annotated[
    bool | None,
    typer.Option(
        "--bury-expired/--drop-expired",
        help="Whether expired messages become dead letters. Default: no.",
    ),
]
LateLimit = Annotated[
    int | None,
    typer.Option(
        "--late-limit",
        metavar="N",
        min=0,
        max=1000,
        help="A consumer loses its partitions after this many late answers within the window; 0: never. "
        "Default: 3.",
    ),
]
LateWindow = Annotated[
    int | None,
    typer.Option(
        "--late-window-ms",
        metavar="MS",
        min=100,
        max=24 * 3_600_000,
        help="The window in which late answers count, and how long other consumers then keep the partitions. "
        "Default: 60000.",
    ),
]
FailLimit = Annotated[
    int | None,
    typer.Option(
        "--fail-limit",
        metavar="N",
        min=0,
        max=1000,
        help="A consumer has to join again after this many failures in a row; 0: never. Default: 0.",
    ),
]
DeadLetterQueue = Annotated[
    str | None,
    typer.Option(
        "--dead-letter-queue",
        metavar="QUEUE|none",
        help="The queue that receives the dead letters. Default: none; they stay here, see telesto dead.",
    ),
]


def create(
    name: Name,
    max_messages: Annotated[
        int | None,
        typer.Option(
            "--max-messages",
            metavar="N",
            min=1,
            help="Refuse messages when the queue holds this many. Default: no limit.",
        ),
    ] = None,
    dedup_window_ms: DedupWindow = None,
    lease_ms: Lease = None,
    max_attempts: MaxAttempts = None,
    backoff_ms: Backoff = None,
    backoff_max_ms: BackoffMax = None,
    expires_ms: Annotated[
        int | None,
        typer.Option(
            "--expires-ms",
            metavar="MS",
            min=1,
            help="A message expires after this time. Default: never.",
        ),
    ] = None,
    bury_expired: BuryExpired = None,
    dead_letter_queue: DeadLetterQueue = None,
    late_after_ms: Annotated[
        int | None,
        typer.Option(
            "--late-after-ms",
            metavar="MS",
            min=1,
            max=24 * 3_600_000,
            help="A consumer's answer is late after this time. Default: a third of the lease.",
        ),
    ] = None,
    late_limit: LateLimit = None,
    late_window_ms: LateWindow = None,
    fail_limit: FailLimit = None,
    history: History = None,
    history_days: HistoryDays = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Create a queue."""
    from telesto.cli.common.connection import connected
    from telesto.cli.common.exit_codes import ExitCode
    from telesto.cli.common.failures import CommandError
    from telesto.client import QueueNameNotUniqueError

    with connected(url, client_name) as client:
        try:
            queue = client.create_queue(
                name,
                max_messages=max_messages,
                dedup_window_ms=dedup_window_ms,
                lease_ms=lease_ms,
                max_attempts=max_attempts,
                backoff_ms=backoff_ms,
                backoff_max_ms=backoff_max_ms,
                expires_ms=expires_ms,
                bury_expired=bury_expired,
                dead_letter_queue=_dead_letter_queue(client, dead_letter_queue),
                late_after_ms=late_after_ms,
                late_limit=late_limit,
                late_window_ms=late_window_ms,
                fail_limit=fail_limit,
                history=None if history is None else history.mode(),
                history_days=history_days,
            )
        except QueueNameNotUniqueError as error:
            raise CommandError(f"a queue named {name!r} exists already", ExitCode.REFUSED) from error
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": queue.name})
    else:
        output.print_line(f"created the queue {queue.name} (id {queue.queue_id})")


def _dead_letter_queue(client: TelestoClient, name: str | None) -> int | None:
    """The id of the queue that is to receive dead letters; None for none."""
    from telesto.cli.common.connection import find_queue

    return None if name is None or name == NONE else find_queue(client, name).queue_id


def _name(client: TelestoClient, queue_id: int | None) -> str | None:
    """The name of the queue that receives dead letters; None without one, or if it was deleted."""
    from telesto.client import QueueNotExistingError

    try:
        return None if queue_id is None else client.get_queue_by_id(queue_id).name
    except QueueNotExistingError:
        return None


def list_queues(url: Url = DEFAULT_URL, client_name: ClientName = None, as_json: Json = False) -> None:
    """List the queues. Columns: id, messages that wait, name."""
    from telesto.cli.common.connection import connected

    with connected(url, client_name) as client:
        rows = [(queue, _depth(client, queue)) for queue in client.get_queues()]
    if as_json:
        for queue, depth in rows:
            output.print_json({"queue_id": queue.queue_id, "name": queue.name, "depth": depth})
    elif rows or not output.is_terminal():
        output.print_table(
            ("id", "waiting", "name"), [(queue.queue_id, depth, queue.name) for queue, depth in rows]
        )
    else:
        output.print_line("There are no queues yet. Create one with: telesto queue create NAME")


def show(name: Name, url: Url = DEFAULT_URL, client_name: ClientName = None, as_json: Json = False) -> None:
    """Show what a queue holds and its settings."""
    from telesto.cli.common.connection import connected, find_queue

    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        statistics = client.queue_statistics(queue.queue_id)
        settings = client.queue_settings(queue.queue_id)
        dead_letter_queue = _name(client, settings.dead_letter_queue)
    if as_json:
        output.print_json(
            {
                "queue_id": queue.queue_id,
                "name": queue.name,
                "depth": statistics.depth,
                "directed_depth": statistics.directed_depth,
                "ready": statistics.ready,
                "delayed": statistics.delayed,
                "backing_off": statistics.backing_off,
                "keyed": statistics.keyed,
                "leased": statistics.leased,
                "dead": statistics.dead,
                "oldest_age": statistics.oldest_age,
                "exact": statistics.exact,
                "put_total": statistics.put_total,
                "taken_total": statistics.taken_total,
                **as_dict(settings, dead_letter_queue),
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
            **as_properties(settings, dead_letter_queue),
        }
    )


def update(
    name: Name,
    max_messages: Annotated[
        str | None,
        typer.Option(
            "--max-messages",
            metavar="N|none",
            help="Refuse messages when the queue holds this many; none: no limit.",
        ),
    ] = None,
    dedup_window_ms: DedupWindow = None,
    lease_ms: Lease = None,
    max_attempts: MaxAttempts = None,
    backoff_ms: Backoff = None,
    backoff_max_ms: BackoffMax = None,
    expires_ms: Annotated[
        str | None,
        typer.Option(
            "--expires-ms",
            metavar="MS|none",
            help="A message that is put from now on expires after this time; none: never.",
        ),
    ] = None,
    bury_expired: BuryExpired = None,
    dead_letter_queue: DeadLetterQueue = None,
    late_after_ms: Annotated[
        str | None,
        typer.Option(
            "--late-after-ms",
            metavar="MS|none",
            help="A consumer's answer is late after this time; none: a third of the lease.",
        ),
    ] = None,
    late_limit: LateLimit = None,
    late_window_ms: LateWindow = None,
    fail_limit: FailLimit = None,
    history: History = None,
    history_days: HistoryDays = None,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Change settings of a queue; settings that are not given stay as they are."""
    from telesto.cli.common.connection import connected, find_queue
    from telesto.cli.common.failures import usage_error

    changed: dict[str, Any] = {}
    if max_messages is not None:
        changed["max_messages"] = number_or_none("--max-messages", max_messages)
    if dedup_window_ms is not None:
        changed["dedup_window_ms"] = dedup_window_ms
    if lease_ms is not None:
        changed["lease_ms"] = lease_ms
    if max_attempts is not None:
        changed["max_attempts"] = max_attempts
    if backoff_ms is not None:
        changed["backoff_ms"] = backoff_ms
    if backoff_max_ms is not None:
        changed["backoff_max_ms"] = backoff_max_ms
    if expires_ms is not None:
        changed["expires_ms"] = number_or_none("--expires-ms", expires_ms)
    if bury_expired is not None:
        changed["bury_expired"] = bury_expired
    if late_after_ms is not None:
        changed["late_after_ms"] = number_or_none("--late-after-ms", late_after_ms)
    if late_limit is not None:
        changed["late_limit"] = late_limit
    if late_window_ms is not None:
        changed["late_window_ms"] = late_window_ms
    if fail_limit is not None:
        changed["fail_limit"] = fail_limit
    if history is not None:
        changed["history"] = history.mode()
    if history_days is not None:
        changed["history_days"] = history_days
    if not changed and dead_letter_queue is None:
        raise usage_error("no setting to change is given; see: telesto queue update --help")
    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        if dead_letter_queue is not None:
            changed["dead_letter_queue"] = _dead_letter_queue(client, dead_letter_queue)
        client.update_queue(queue.queue_id, **changed)
        settings = client.queue_settings(queue.queue_id)
        dead_letters = _name(client, settings.dead_letter_queue)
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": name, **as_dict(settings, dead_letters)})
    else:
        output.print_line(f"changed the queue {name}")


def delete(
    name: Name,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Delete a queue and its messages."""
    from telesto.cli.common.asking import ask
    from telesto.cli.common.connection import connected, find_queue

    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        ask(yes, f"Delete the queue {name} and the {_messages(_depth(client, queue))} in it?")
        client.delete_queue(queue.queue_id)
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": name})
    else:
        output.print_line(f"deleted the queue {name}")


def purge(
    name: Name,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    client_name: ClientName = None,
    as_json: Json = False,
) -> None:
    """Remove all messages that wait in a queue; the queue stays."""
    from telesto.cli.common.asking import ask
    from telesto.cli.common.connection import connected, find_queue

    with connected(url, client_name) as client:
        queue = find_queue(client, name)
        ask(yes, f"Remove {_messages(_depth(client, queue))} from the queue {name}?")
        removed = client.purge_queue(queue.queue_id)
    if as_json:
        output.print_json({"queue_id": queue.queue_id, "name": name, "removed": removed})
    else:
        output.print_line(f"removed {_messages(removed)} from {name}")


def _depth(client: TelestoClient, queue: Queue) -> int:
    """Messages that wait in a queue; 0 for one that was deleted since it was listed."""
    from telesto.client import QueueNotExistingError

    try:
        return client.queue_statistics(queue.queue_id).depth
    except QueueNotExistingError:
        return 0


def _messages(count: int) -> str:
    return f"{count} message" if count == 1 else f"{count} messages"
