"""`telesto client list|show|delete`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common import completion
from telesto.cli.common.options import DEFAULT_URL, Json, Like, Limit, Url, Yes
from telesto.cli.terminal import output

if TYPE_CHECKING:
    from telesto.client import ClientFigures, TelestoClient

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The name of the client.", autocompletion=completion.clients)
]


def list_clients(
    like: Like = None, limit: Limit = None, url: Url = DEFAULT_URL, as_json: Json = False
) -> None:
    """List the clients, by rising id, each with the process that was it last."""
    from telesto.cli.common.connection import connected
    from telesto.cli.messages.message_lines import as_fields, moment

    with connected(url, None) as client:
        found = client.clients(like, limit=limit)
    output.print_list(
        found,
        (
            output.Column("id", lambda one: one.client_id),
            output.Column("name", lambda one: one.name, cut=True),
            output.Column("temporary", lambda one: "yes" if one.temporary else "no"),
            output.Column("connected (UTC)", lambda one: moment(one.session_at)),
            output.Column("process", lambda one: one.process, cut=True),
            output.Column("unconfirmed", lambda one: one.unconfirmed),
            output.Column("topics", lambda one: one.subscriptions),
        ),
        as_json=as_json,
        as_dict=as_fields,
        empty="No client is called so.",
    )


def show(name: Name, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Show a client: which process was it last, from where and since when, and what it holds."""
    from telesto.cli.common.connection import connected
    from telesto.cli.messages.message_lines import as_fields, moment

    with connected(url, None) as client:
        found = _find(client, name)
    if as_json:
        output.print_json(as_fields(found))
        return
    output.print_properties(
        {
            "name": found.name,
            "id": found.client_id,
            "mode": found.mode.name.lower(),
            "temporary": "yes" if found.temporary else "no",
            "connected last (UTC)": moment(found.session_at),
            "process": found.process,
            "library": found.library,
            "address": found.address,
            "unconfirmed messages": found.unconfirmed,
            "subscriptions": found.subscriptions,
        }
    )


def delete(name: Name, yes: Yes = False, url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """Delete a client: its subscriptions end, and what it has not confirmed goes back to the queues.

    A process that is this client now is fenced: its calls fail.
    """
    from telesto.cli.common.connection import connected
    from telesto.cli.messages.message_lines import moment
    from telesto.cli.terminal.asking import ask
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError
    from telesto.client import ClientMode

    with connected(url, None) as client:
        found = _find(client, name)
    if found.mode is ClientMode.READ_ONLY:
        raise CommandError(
            f"{name} is a READ_ONLY client, which may not delete itself; SQL deletes it: "
            f"SELECT telesto.delete_client({found.client_id})",
            ExitCode.REFUSED,
        )
    process = f" by {found.process}" if found.process else ""
    ask(
        yes,
        f"Delete the client {name}? It was connected last at {moment(found.session_at)} UTC{process}, has "
        f"{found.unconfirmed} unconfirmed messages and subscribes to {found.subscriptions} topics.",
    )
    with connected(url, name) as client:
        client.delete_client()
    if as_json:
        output.print_json({"client_id": found.client_id, "name": name})
    else:
        output.print_line(f"deleted the client {name}")


def _find(client: TelestoClient, name: str) -> ClientFigures:
    from telesto.cli.terminal.exit_codes import ExitCode
    from telesto.cli.terminal.failures import CommandError

    for found in client.clients(name):
        if found.name == name:  # a name may have characters that stand for others
            return found
    raise CommandError(f"there is no client {name!r}; telesto client list shows them", ExitCode.REFUSED)


HELP = "List, show and delete clients."
SUBCOMMANDS = {"list": list_clients, "show": show, "delete": delete}
