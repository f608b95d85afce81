"""New clients that a killed command left behind.

Messages that a command took and did not confirm belong to its client until that client confirms them, gives
them back or is deleted. No other process knows a new client's name, so it is kept in a file of the user's
state directory, which is locked while the command runs. An unlocked file belongs to a killed command; the
next command for the same service deletes that client, and its messages go back to their queues.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from telesto.cli.common.connection_notices import impatient, watched
from telesto.cli.terminal import output
from telesto.client import TelestoClient, TelestoError

REMOVED_MAX = 16
"""One command deletes at most this many left clients, so that its user does not wait long."""


def state_directory() -> Path:
    """The directory of the records: $XDG_STATE_HOME/telesto/clients, by default in ~/.local/state."""
    home = os.environ.get("XDG_STATE_HOME") or Path("~/.local/state").expanduser()
    return Path(home) / "telesto" / "clients"


@contextmanager
def recorded(url: str, name: str) -> Iterator[Callable[[], None]]:
    """Record the client `name` of the service at `url`; the yielded function removes the record.

    If no record can be written, the client is used nevertheless, with a warning: if the command is killed,
    its messages come back only through the service's retention.
    """
    path = state_directory() / f"{_service_key(url)}.{name}"
    try:
        descriptor = _create_locked(path)
    except OSError as error:
        output.print_error(
            f"cannot record this run's client in {str(path.parent)!r} ({error.strerror}): if the command is "
            "killed, the messages that it has taken are not given back; --client NAME avoids that"
        )
        yield lambda: None
        return
    try:
        yield path.unlink
    finally:
        os.close(descriptor)


def remove_left(url: str) -> None:
    """Delete the clients that killed commands left at the service at `url`.

    If the service does not do it now, a later command asks again.
    """
    for path in _records(url)[:REMOVED_MAX]:
        try:
            _remove(url, path)
        except TelestoError:
            return


def _remove(url: str, path: Path) -> None:
    with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as record:
        fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _delete_client(url, path.name.partition(".")[2])
        path.unlink()


def _delete_client(url: str, name: str) -> None:
    # A name is random and used once, so it belongs to the client that was left. If the command was killed
    # before the client was created, or after it was deleted, this creates it, which does no harm.
    with TelestoClient(url, options=impatient(), name=name) as client, watched(url, lambda: client.connected):
        client.connect()
        client.delete_client()


def _records(url: str) -> list[Path]:
    try:
        return sorted(state_directory().glob(f"{_service_key(url)}.*"))
    except OSError:
        return []


def _create_locked(path: Path) -> int:
    """Create a file that is locked from the moment it has its name; return its descriptor."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unnamed = path.with_name(f".{path.name}")
    descriptor = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        unnamed.rename(path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _service_key(url: str) -> str:
    return hashlib.sha256(url.encode()).hexdigest()[:16]
