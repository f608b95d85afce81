"""Locks between the processes of one machine: files that the kernel unlocks when their holder dies."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path

from telesto.client.errors import NameInUseError

#: How often a file is opened again when another process has just removed or replaced it.
_TRIES = 100
#: How much of a file is read to learn who has it, in bytes.
_SIGNED_MAX = 128


class HeldError(Exception):
    """Another process, or another client of this one, has the lock.

    Attributes:
        holder: the process that has it, for people.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def lock_file(path: Path) -> int:
    """Locks a file, and creates it if there is none. Closing the returned descriptor unlocks it.

    Raises HeldError and OSError.
    """
    for _ in range(_TRIES):
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_at(descriptor, path):
                _sign(descriptor)
                return descriptor
        except BlockingIOError:
            held_by = _holder(descriptor)
            os.close(descriptor)
            raise HeldError(held_by) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    raise OSError(f"{str(path)!r} was replaced {_TRIES} times")


def _take_file(path: Path) -> int:
    """Replaces a file by a new one that is locked, whoever has locked the old one. Raises OSError."""
    beside = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sign(descriptor)
        beside.replace(path)
    except BaseException:
        os.close(descriptor)
        with suppress(OSError):
            beside.unlink()
        raise
    return descriptor


def _sign(descriptor: int) -> None:
    with suppress(OSError):  # on a full disk: it is locked all the same
        os.truncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()} {_host()}\n".encode(), 0)


def _holder(descriptor: int) -> str:
    signed = os.pread(descriptor, _SIGNED_MAX, 0).decode("utf-8", "replace").strip()
    pid, _, host = signed.partition(" ")
    if host != _host():  # a container that shares the directory; its processes have other numbers
        return f"process {pid} on {host}" if host else f"process {pid or 'unknown'}"
    if pid == str(os.getpid()):
        return f"another client of this process ({pid})"
    return f"process {pid}"


def _host() -> str:
    return socket.gethostname()


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return False


class NameLock:
    """Locks a client of a service, so that one process of this user and machine has it at a time.

    Where the directory of the locks cannot be used, nothing is locked: the second process with one name then
    fences the first.
    """

    def __init__(self) -> None:
        self._key: str | None = None
        self._path = Path()
        self._descriptor: int | None = None
        self._process = 0

    def acquire(self, incarnation: str, client: str | int, *, take_over: bool) -> None:
        """Locks a client, by its name or id; does nothing if it is locked by this object already.

        Args:
            incarnation: identifies the service's database.
            client: the client's name, or its id.
            take_over: takes the lock from who has it.

        Raises NameInUseError.
        """
        key = hashlib.sha256(f"{incarnation}\0{client!r}".encode()).hexdigest()[:32]
        if key == self._key:
            return
        self.release()
        try:
            path = _directory() / f"{key}.lock"
            descriptor = _take_file(path) if take_over else lock_file(path)
        except HeldError as error:
            raise _in_use(client, error.holder) from None
        except OSError:
            return
        with suppress(OSError):  # cleaners of temporary directories keep files with the sticky bit
            os.fchmod(descriptor, 0o1600)
        self._key, self._path, self._descriptor, self._process = key, path, descriptor, os.getpid()

    def release(self) -> None:
        """Unlocks the client. A forked child only closes its descriptor: the parent keeps the lock."""
        descriptor, self._descriptor, self._key = self._descriptor, None, None
        if descriptor is None:
            return
        with suppress(OSError):
            if self._process == os.getpid() and _is_at(descriptor, self._path):
                self._path.unlink()
        os.close(descriptor)


def _directory() -> Path:
    """Returns the directory of the locks, which is this user's alone. Raises OSError."""
    user = os.geteuid()
    # Not tempfile.gettempdir, which ends at the working directory: no other process would look there.
    path = Path(os.path.abspath(os.environ.get("TMPDIR") or "/tmp")) / f"telesto-{user}"
    with suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user or status.st_mode & 0o022:
        raise PermissionError(f"{str(path)!r} is not a directory of this user alone")
    return path


def _in_use(client: str | int, holder: str) -> NameInUseError:
    who = f"client {client}" if isinstance(client, int) else f"the client's name {client!r}"
    own = "worker" if isinstance(client, int) else client
    return NameInUseError(
        f"{who} is in use on this machine by {holder}; a client is for one process at a time: give each "
        f"process a name of its own, such as {own + '-{pid}'!r} or {own + '-{random}'!r}, or end the session "
        'of the other one by existing="take_over"'
    )
