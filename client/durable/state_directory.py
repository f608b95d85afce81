"""The directory of a client's durable state: who has it, and its file.

The lock is the kernel's, so it ends with the process however that ends.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from telesto.client.calls.state import StateChanges, StoredState
from telesto.client.connection.name_lock import HeldError, lock_file
from telesto.client.durable.state_log import StateLog
from telesto.client.durable.stored_puts import call_of
from telesto.client.errors import StateInUseError, StateWriteError

LOCK_NAME = "telesto-state.lock"
FILE_NAME = "telesto-state.log"


class StateDirectory:
    """A state directory that this client has to itself until it closes it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the directory; makes it, for this user only, when there is none.

        Raises StateInUseError, StateWriteError, and StateDamagedError, also when it holds a put that this
        version cannot read.
        """
        self.path = Path(path).expanduser()
        self._busy = threading.Lock()
        self._lock: int | None = _lock(self.path)
        try:
            self._log = StateLog(self.path / FILE_NAME)
            for request in self.stored.requests.values():
                call_of(request)
        except BaseException:
            self._unlock()
            raise

    @property
    def stored(self) -> StoredState:
        """What the state holds."""
        return self._log.stored

    def write(self, changes: StateChanges) -> None:
        """Writes the changes, all or none; they are durable on return. Raises StateWriteError."""
        with self._busy:
            if self._lock is None:
                raise StateWriteError(f"the client's state {str(self.path)!r} is closed")
            self._log.write(changes)

    def close(self) -> None:
        """Lets go of it, so that another process may have it. Closing again does nothing."""
        with self._busy:
            self.forked()

    def forked(self) -> None:
        """Lets go of it in a child process, whatever the parent's threads were doing.

        The child has only copies of the descriptors, one of which would keep the lock when the parent ends.
        """
        self._log.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def _lock(path: Path) -> int:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return lock_file(path / LOCK_NAME)
    except HeldError as error:
        raise StateInUseError(
            f"the client's state {str(path)!r} is in use by {error.holder}; a state is for one client at a "
            "time: wait for its end, or use another directory with another client name"
        ) from None
    except OSError as error:
        raise StateWriteError(f"the client's state {str(path)!r} cannot be used: {error}") from error
