"""The text of the demonstration: where it comes from and how it is cut into lines.

A line keeps its end, so that all lines joined are the file again, whatever bytes it holds.
"""

from __future__ import annotations

import gzip
import hashlib
import shutil
import zlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error

LINE_BYTES_MAX = 1 << 20
"""A longer line is shipped in pieces of so many bytes, each counted as a line."""

SYSTEM_LOG = Path("/var/log/dpkg.log")
CHANGELOGS = "/usr/share/doc/*/changelog.Debian.gz"
OWN_TEXTS = ("CHANGELOG.md", "README.md", "LICENSE")


@dataclass(frozen=True)
class Text:
    """A text ready to be shipped.

    `path` is the plain file, `origin` what the user sees, `digests` the digest of each line.
    """

    path: Path
    origin: str
    size_bytes: int
    digests: array[int]


def prepare_text(file: Path | None, directory: Path) -> Text:
    """Copy `file`, or the default text, into `directory` (unzipped) and take the digest of every line.

    Raises CommandError when the file is missing or cannot be read.
    """
    origin = file if file is not None else default_text()
    path = directory / "text"
    try:
        _copy_plain(origin, path)
        digests = array("Q", (digest(line) for line in lines_of(path)))
    except OSError as error:
        raise usage_error(f"cannot read {str(origin)!r}: {error.strerror}; name a readable file") from error
    return Text(path, str(origin), path.stat().st_size, digests)


def default_text() -> Path:
    """The largest readable text among the package log, the packages' changelogs and Telesto's own texts."""
    candidates = [SYSTEM_LOG, *Path("/").glob(CHANGELOGS.lstrip("/")), *_own_texts()]
    sizes = [(_plain_size(path), path) for path in candidates]
    size, path = max(sizes, key=lambda pair: pair[0], default=(0, SYSTEM_LOG))
    if size == 0:
        raise CommandError("found no text to ship; name a file: telesto demo FILE", ExitCode.USAGE)
    return path


def lines_of(path: Path) -> Iterator[bytes]:
    """The lines of a file with their ends; a line beyond LINE_BYTES_MAX comes in pieces."""
    with path.open("rb") as file:
        while line := file.readline(LINE_BYTES_MAX):
            yield line


def digest(line: bytes) -> int:
    """A digest of 64 bits that tells lines apart."""
    return int.from_bytes(hashlib.blake2b(line, digest_size=8).digest(), "big")


def _own_texts() -> list[Path]:
    root = Path(__file__).resolve().parent.parent
    return [root / name for name in OWN_TEXTS]


def _plain_size(path: Path) -> int:
    """The size of the text when unzipped, in bytes; 0 when it cannot be read."""
    try:
        with path.open("rb") as file:
            if path.suffix != ".gz":
                return path.stat().st_size
            file.seek(-4, 2)  # the last four bytes of a gzip file are the size of its content
            return int.from_bytes(file.read(4), "little")
    except OSError:
        return 0


def _copy_plain(origin: Path, path: Path) -> None:
    if origin.suffix == ".gz" and _unzip(origin, path):
        return
    with origin.open("rb") as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)


def _unzip(origin: Path, path: Path) -> bool:
    """Unzip a file; False when it only has the name of a zipped one."""
    try:
        with gzip.open(origin) as source, path.open("wb") as target:
            shutil.copyfileobj(source, target)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        return False
    return True
