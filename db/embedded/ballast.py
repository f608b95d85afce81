"""A file that is there to be removed: when others have filled the disk, PostgreSQL can go on.

PostgreSQL needs space for reading a queue too, for its log and for the rows that it writes; without any it
cannot even start. What the file has held is enough to take messages out, after which there is more.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

SIZE_BYTES = 64 * 1024 * 1024
#: A small disk gives no more than this part of itself.
PART_OF_DISK = 10
#: The file is made when so many times its size are free.
PLENTY = 4


class Ballast:
    """The file at `path`, made and removed as the disk demands."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def release(self) -> bool:
        """Remove the file when the disk is full; tell whether that was so."""
        # Nothing depends on the file, and what is wrong with the disk shows elsewhere.
        with suppress(OSError):
            free, size = self._look()
            if free < size // 2 and self._path.exists():
                self._path.unlink()
                return True
        return False

    def adjust(self) -> bool:
        """The same; make the file when there is plenty."""
        if self.release():
            return True
        with suppress(OSError):
            free, size = self._look()
            if free > PLENTY * size and not self._path.exists():
                self._make(size)
        return False

    def _look(self) -> tuple[int, int]:
        """How much is free, and how large the file should be."""
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
