"""A client for the length of one command."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from telesto.cli.common.connection_notices import watched
from telesto.cli.common.named_clients import connected_as
from telesto.cli.common.patience import patient
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error
from telesto.client import (
    ClientOptions,
    Queue,
    QueueNotExistingError,
    TelestoClient,
)
from telesto.client.url import parse_url


@contextmanager
def connected(url: str, name: str | None, options: ClientOptions | None = None) -> Iterator[TelestoClient]:
    """A connected client: the one called `name` or named in the URL, or a temporary one, deleted at the end.

    If this process is killed, the service deletes a temporary client some minutes later, and what it held
    goes back.
    """
    if name is not None or names_client(url):
        with connected_as(url, name, options) as client:
            yield client
        return
    with (
        TelestoClient(url, options=patient(options)) as client,
        watched(client, url, lambda: client.connected),
    ):
        client.connect()
        yield client


def find_queue(client: TelestoClient, name: str) -> Queue:
    """The queue called `name`. Raises CommandError when there is none."""
    try:
        return client.get_queue_by_name(name)
    except QueueNotExistingError as error:
        raise CommandError(
            f"there is no queue {name!r}; create it with: telesto queue create {shlex.quote(name)}",
            ExitCode.REFUSED,
        ) from error


def require_name(url: str, name: str | None) -> None:
    """Raise CommandError unless a client is named: a new one would lose its subscriptions at the end."""
    if name is None and not names_client(url):
        raise usage_error("a subscription belongs to a client; name it: --client NAME")


def names_client(url: str) -> bool:
    """Whether the URL itself names a client. Raises AddressError."""
    service = parse_url(url)
    return service.name is not None or service.client_id is not None
