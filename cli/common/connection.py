"""A client for the length of one command."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from telesto.cli.common import left_clients
from telesto.cli.common.connection_notices import impatient, watched
from telesto.cli.common.named_clients import connected_as
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error
from telesto.client import (
    ClientOptions,
    Queue,
    QueueNotExistingError,
    RejectedError,
    TelestoClient,
    TelestoError,
)
from telesto.client.url import parse_url


@contextmanager
def connected(url: str, name: str | None, options: ClientOptions | None = None) -> Iterator[TelestoClient]:
    """A connected client: the one called `name` or named in the URL, or a new one, deleted at the end.

    A new client is recorded in a file while it is used. If this process is killed, the next command gives
    back what the client held. The record is made after the client, and before it can take anything.
    """
    if name is not None or names_client(url):
        with connected_as(url, name, options) as client:
            yield client
        return
    left_clients.remove_left(url)
    fresh = _fresh_name()
    with (
        TelestoClient(url, options=impatient(options), name=fresh, existing="error") as client,
        watched(url, lambda: client.connected),
    ):
        client.connect()
        with left_clients.recorded(url, fresh) as forget:
            try:
                yield client
            except BaseException as error:
                if _service_answers_after(error):
                    with suppress(TelestoError):
                        _delete(client, forget)
                raise
            _delete(client, forget)


def _delete(client: TelestoClient, forget: Callable[[], None]) -> None:
    client.delete_client()
    forget()


def _service_answers_after(error: BaseException) -> bool:
    """Whether the service may still answer: not after a lost connection; the record remains then."""
    return not isinstance(error, TelestoError) or isinstance(error, RejectedError)


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


def _fresh_name() -> str:
    return f"telesto-cli-{socket.gethostname()}-{os.getpid()}-{os.urandom(8).hex()}"
