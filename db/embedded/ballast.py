"""A file that reserves space: when the disk is full, it is removed so that PostgreSQL can continue.

PostgreSQL needs space for reading a queue too, for its log and for the rows that it writes; without any it
cannot even start. The space of this file is enough to recover after a crash and to take messages out, which
frees more: recovery repeats what tables grew by, and needs another file of its log (16 MiB) before it can
remove the old ones.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

SIZE_BYTES = 128 * 1024 * 1024
#: On a small disk the file takes at most this part of it (1 / PART_OF_DISK).
PART_OF_DISK = 6
#: The file is created if this many times its size is free.
PLENTY = 3


class Ballast:
    """The file at `path`, created and removed as the disk fills."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def release(self) -> bool:
        """Remove the file if the disk is full; tell whether it was."""
        # Nothing depends on the file, and problems of the disk show elsewhere.
        with suppress(OSError):
            free, size = self._look()
            if free < size // 2 and self._path.exists():
                self._path.unlink()
                return True
        return False

    def adjust(self) -> bool:
        """The same; also create the file if there is plenty of space."""
        if self.release():
            return True
        with suppress(OSError):
            free, size = self._look()
            if free > PLENTY * size and not self._path.exists():
                self._make(size)
        return False

    def _look(self) -> tuple[int, int]:
        """The free space, and the size that the file should have."""
        found = os.statvfs(self._path.parent)
        size = min(SIZE_BYTES, found.f_blocks * found.f_frsize // PART_OF_DISK)
        return found.f_bavail * found.f_frsize, size

    def _make(self, size: int) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            self._path.unlink()
            raise
        finally:
            os.close(descriptor)
