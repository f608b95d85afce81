"""A file that is there to be removed: when others have filled the disk, PostgreSQL can go on.

PostgreSQL needs space for reading a queue too, for its log and for the rows that it writes; without any it
cannot even start. What the file has held is enough to take messages out, after which there is more.
"""

from __future__ import annotations

import os
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

    def adjust(self) -> bool:
        """Remove the file when the disk is full, make it when there is plenty; tell of a removal."""
        try:
            found = os.statvfs(self._path.parent)
            free = found.f_bavail * found.f_frsize
            size = min(SIZE_BYTES, found.f_blocks * found.f_frsize // PART_OF_DISK)
            if self._path.exists():
                if free >= size // 2:
                    return False
                self._path.unlink()
                return True
            if free > PLENTY * size:
                self._make(size)
        except OSError:
            # Nothing depends on it, and what is wrong with the disk shows elsewhere.
            return False
        return False

    def _make(self, size: int) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, size)
        except OSError:
            self._path.unlink()
            raise
        finally:
            os.close(descriptor)
