"""A client for the length of one command."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from telesto.cli import left_clients
from telesto.cli.exit_codes import ExitCode
from telesto.cli.failures import CommandError
from telesto.client import Queue, QueueNotExistingError, TelestoClient


@contextmanager
def connected(url: str, name: str | None) -> Iterator[TelestoClient]:
    """A connected client: the one called `name`, or a fresh one that is deleted at the end.

    A fresh client is on record while it is used, so that the next command can give back what it held if this
    process is killed. The record is made once the client exists and before it can take anything.
    """
    if name is not None:
        with TelestoClient(url) as client:
            client.connect(name=name, existing="use")
            yield client
        return
    left_clients.remove_left(url)
    fresh = _fresh_name()
    with TelestoClient(url) as client:
        client.connect(name=fresh)
        with left_clients.recorded(url, fresh) as forget:
            try:
                yield client
            finally:
                client.delete_client()
                forget()


def find_queue(client: TelestoClient, name: str) -> Queue:
    """The queue called `name`. Raises CommandError when there is none."""
    try:
        return client.get_queue_by_name(name)
    except QueueNotExistingError as error:
        raise CommandError(
            f"there is no queue {name!r}; create it with: telesto queue create {name}", ExitCode.REFUSED
        ) from error


def _fresh_name() -> str:
    return f"telesto-cli-{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(8)}"
