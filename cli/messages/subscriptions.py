"""The error message for a missing subscription."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError
from telesto.client import NotSubscribedError, TelestoClient


@contextmanager
def explained_subscription(client: TelestoClient, topic: str | None) -> Iterator[None]:
    """Turn NotSubscribedError about `topic` (None: any) into a CommandError with the command to subscribe."""
    try:
        yield
    except NotSubscribedError as error:
        name = client.name or ""
        what = "any topic" if topic is None else repr(topic)
        wanted = "TOPIC" if topic is None else shlex.quote(topic)
        raise CommandError(
            f"{name} does not subscribe to {what}; "
            f"subscribe with: telesto topic subscribe {wanted} --client {shlex.quote(name)}",
            ExitCode.REFUSED,
        ) from error
