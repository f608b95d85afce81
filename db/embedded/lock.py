"""One owner for each data directory: a lock file that the kernel releases when its holder ends."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from telesto.db.embedded.errors import DataDirectoryError, DataDirectoryInUseError

LOCK_FILE = "owner.lock"


class DirectoryLock:
    """An exclusive ``flock`` on a file in the data directory, which names the holder's process."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock without waiting.

        Raises DataDirectoryInUseError if another holder (also in this process) has it, DataDirectoryError if
        the lock file belongs to another user.
        """
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = _holder(descriptor)
            os.close(descriptor)
            raise DataDirectoryInUseError(self._data_dir, holder) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        self._descriptor = descriptor

    def _open(self) -> int:
        path = self._data_dir / LOCK_FILE
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise DataDirectoryError(
                self._data_dir, f"was last used by user {path.stat().st_uid}; start the service as that user"
            ) from error

    def release(self) -> None:
        """Release the lock if it is held."""
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        os.ftruncate(descriptor, 0)
        # Unlocked explicitly: a forked child may still have the descriptor open.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _holder(descriptor: int) -> int | None:
    text = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else None
