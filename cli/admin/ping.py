"""`telesto ping`."""

from __future__ import annotations

from typing import Annotated

import typer

from telesto.cli.common.options import DEFAULT_URL, Json, Url
from telesto.cli.terminal import output


def ping(
    url: Url = DEFAULT_URL,
    count: Annotated[int, typer.Option("--count", "-c", min=1, help="Send this many pings.")] = 1,
    as_json: Json = False,
) -> None:
    """Send a ping to the service and print the round-trip time."""
    from telesto.cli.common.connection_notices import watched
    from telesto.cli.common.patience import patient
    from telesto.client import TelestoClient
    from telesto.client.url import without_password

    answered, shown = False, without_password(url)
    with TelestoClient(url, options=patient()) as client, watched(client, url, lambda: answered):
        for _ in range(count):
            seconds = client.ping()
            answered = True
            if as_json:
                output.print_json({"url": shown, "seconds": round(seconds, 6)})
            else:
                output.print_line(f"{shown} answered in {1000 * seconds:.3f} ms")
