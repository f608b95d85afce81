"""`telesto middleware list`."""

from __future__ import annotations

from telesto.cli.common.options import DEFAULT_URL, Json, Url
from telesto.cli.terminal import output


def list_middlewares(url: Url = DEFAULT_URL, as_json: Json = False) -> None:
    """List the running middlewares, by rising id."""
    from telesto.cli.common.connection import connected
    from telesto.cli.messages.message_lines import as_fields, moment

    with connected(url, None) as client:
        found = client.middlewares()
    output.print_list(
        found,
        (
            output.Column("id", lambda one: one.middleware_id),
            output.Column("address", lambda one: one.address, cut=True),
            output.Column("release", lambda one: one.version),
            output.Column("started (UTC)", lambda one: moment(one.started_at)),
            output.Column("last heartbeat (UTC)", lambda one: moment(one.heartbeat_at)),
            output.Column("consumers", lambda one: one.consumers),
        ),
        as_json=as_json,
        as_dict=as_fields,
        empty="There are no middlewares.",
    )


HELP = "List middlewares."
SUBCOMMANDS = {"list": list_middlewares}
