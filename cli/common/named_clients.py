"""Named clients, which have a durable state: separate runs of the command line act as one client.

Each service and client has its own state, in the directory of `--state-dir` or TELESTO_STATE_DIR, by default
$XDG_STATE_HOME/telesto/states. A run continues where the last one ended, however it ended: puts in flight are
settled, and unwritten messages are delivered again.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from telesto.cli.common.connection_notices import watched
from telesto.cli.common.options import STATE_DIR_GIVEN, STATE_DIR_VARIABLE
from telesto.cli.common.patience import patient
from telesto.cli.common.service_errors import describe
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError
from telesto.client import (
    ClientOptions,
    OutcomeUnknownError,
    RecoveredPut,
    StateError,
    StateInUseError,
    StateWriteError,
    TelestoClient,
)
from telesto.client.arguments import check_name
from telesto.client.url import ServiceUrl, parse_url

NAME_CHARACTERS_MAX = 100
"""A longer name is cut and gets its checksum; a name may be longer than a directory's may be."""
RECOVERED_SHOWN_MAX = 10
"""At most this many puts of an earlier run are reported one by one."""


@contextmanager
def connected_as(url: str, name: str | None, options: ClientOptions | None) -> Iterator[TelestoClient]:
    """The client called `name`, or as the URL says, with its state; created if necessary."""
    service = parse_url(url)
    if name is not None:
        check_name("name", name)
    own = service.state_dir if not STATE_DIR_GIVEN else None
    directory = Path(own) if own else state_directory(service, name)
    with (
        TelestoClient(url, state_dir=directory, options=patient(options), name=name) as client,
        watched(client, url, lambda: client.connected),
    ):
        try:
            client.connect()
        except StateError as error:
            raise _explained(error, directory) from error
        _tell_of_recovered_puts(client)
        yield client


def state_directory(service: ServiceUrl, name: str | None) -> Path:
    """Where the state of a client of a service is kept."""
    root = os.environ.get(STATE_DIR_VARIABLE)
    if not root:
        home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
        root = str(Path(home) / "telesto" / "states")
    addresses = ",".join(sorted(map(str, service.addresses)))
    key = hashlib.sha256(addresses.encode()).hexdigest()[:16]
    return Path(root).expanduser() / key / _directory_name(service, name)


def _directory_name(service: ServiceUrl, name: str | None) -> str:
    name = name or service.name
    if name is None:
        return f"id={service.client_id}"
    quoted = quote(name, safe=" ")
    if len(quoted) <= NAME_CHARACTERS_MAX and name.strip("."):
        return quoted
    return f"{quoted[:NAME_CHARACTERS_MAX]}={hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _explained(error: StateError, directory: Path) -> CommandError:
    if isinstance(error, StateInUseError):
        return CommandError(describe(error), ExitCode.IN_USE)
    if isinstance(error, StateWriteError):
        return CommandError(
            f"{describe(error)}; another place can be given: --state-dir DIR or {STATE_DIR_VARIABLE}",
            ExitCode.REFUSED,
        )
    return CommandError(f"{describe(error)} (the state directory is {str(directory)!r})", ExitCode.REFUSED)


def _tell_of_recovered_puts(client: TelestoClient) -> None:
    """Report the puts of an earlier run of this client that was cut off."""
    count = 0
    for count, put in enumerate(client.recovered_puts(), 1):
        if count <= RECOVERED_SHOWN_MAX:
            output.print_error(_recovered_line(put))
    if count > RECOVERED_SHOWN_MAX:
        output.print_error(f"and {count - RECOVERED_SHOWN_MAX} more messages of that run")


def _recovered_line(put: RecoveredPut) -> str:
    where = put.topic if put.queue_id is None else f"queue {put.queue_id}"
    assert isinstance(put.message.body, bytes)
    what = f"an earlier run was cut off; its message of {len(put.message.body)} bytes for {where}"
    if put.error is None:
        return f"{what} is there, as message {put.message_id}"
    known = "is not known to be there" if isinstance(put.error, OutcomeUnknownError) else "was not put"
    return f"{what} {known}: {describe(put.error)}"
