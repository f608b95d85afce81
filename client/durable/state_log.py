"""The file of a client's durable state: a log of changes, each written and flushed as one, with a checksum.

A crash in the middle of a write leaves a last record that is not whole: it is passed over, for nothing went
on before its flush. A record that is not whole with whole ones behind it was damaged later, and is refused:
what it said may have been that a put is done. Each file has a marker of its own, drawn by chance, before each
of its records, so neither an earlier file's remains nor a message's body can pass for a record.

When a log has grown it is replaced by one that holds only what still counts. Space is taken, and filled with
zeros, ahead of the records: a flush that need not record a new length costs half.
"""

from __future__ import annotations

import os
import secrets
import struct
import zlib
from pathlib import Path

from telesto.client.calls.state import StateChanges, StoredState
from telesto.client.durable import state_codec
from telesto.client.errors import StateDamagedError, StateWriteError

#: How many bytes the file grows by at a time.
CHUNK_BYTES = 256 * 1024
#: A log is not replaced before it is as long as this, in bytes.
LOG_BYTES_MIN = 1024 * 1024
#: It is replaced once it has grown to this many times the length that it began with.
LOG_GROWTH = 2

_MAGIC = b"telesto state 1\n"
_MARKER_BYTES = 8
_HEADER_BYTES = len(_MAGIC) + _MARKER_BYTES
#: The length of what follows, and the checksum of it and of the length.
_LENGTHS = struct.Struct(">II")
_RECORD_HEAD_BYTES = _MARKER_BYTES + _LENGTHS.size


class StateLog:
    """An open state file; the caller sees to it that no other process has it open.

    Attributes:
        stored: what it holds.
        end: where its records end, in bytes.
        replace_at: it is replaced once its end is behind this.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file; makes it if there is none. Raises StateDamagedError and StateWriteError."""
        self._path = path
        self._file = -1
        self._marker = b""
        self.end = self._size = self.replace_at = 0
        self._broken = False
        self.stored = StoredState()
        try:
            self._new_path.unlink(missing_ok=True)
            if path.exists():
                self._open()
            else:
                self._replace()
        except OSError as error:
            self.close()
            raise _cannot_write(path, error) from error
        except BaseException:
            self.close()
            raise

    def write(self, changes: StateChanges) -> None:
        """Writes the changes, all or none; they are durable on return. Raises StateWriteError."""
        try:
            if self._broken:
                self._replace(changes)
            else:
                self._append(changes)
        except OSError as error:
            raise _cannot_write(self._path, error) from error
        self.stored.apply(changes)
        if self.end > self.replace_at:
            self._compact()

    def close(self) -> None:
        """Closes the file. Closing again does nothing."""
        descriptor, self._file = self._file, -1
        if descriptor >= 0:
            os.close(descriptor)

    @property
    def _new_path(self) -> Path:
        return self._path.with_name(self._path.name + ".new")

    # ------------------------------------------------------------------ reading

    def _open(self) -> None:
        self._file = os.open(self._path, os.O_RDWR)
        data = self._path.read_bytes()
        if data[: len(_MAGIC)] != _MAGIC or len(data) < _HEADER_BYTES:
            raise damaged(self._path, "it does not begin like a client's state")
        self._marker = data[len(_MAGIC) : _HEADER_BYTES]
        self.end, self._size = _HEADER_BYTES, len(data)
        while (payload := _record(data, self.end, self._marker)) is not None:
            try:
                self.stored.apply(state_codec.decode(payload))
            except ValueError as error:
                raise damaged(self._path, f"a record makes no sense: {error}") from error
            self.end += _RECORD_HEAD_BYTES + len(payload)
        if self.end == _HEADER_BYTES:
            raise damaged(self._path, "its first record is not whole")
        if _holds_record(data, self.end + 1, self._marker):
            raise damaged(self._path, f"the record at byte {self.end} has a wrong checksum")
        if not self.stored.is_of_one_client():
            raise damaged(self._path, "its entries belong to several clients")
        self.replace_at = max(LOG_BYTES_MIN, LOG_GROWTH * self.end)

    # ------------------------------------------------------------------ writing

    def _append(self, changes: StateChanges) -> None:
        record = _make_record(state_codec.encode(changes), self._marker)
        try:
            if self.end + len(record) > self._size:
                self._size = _extend(self._file, self._size, self.end + len(record))
            _write_all(self._file, record, self.end)
            os.fdatasync(self._file)
        except BaseException:
            self._take_back(len(record))
            raise
        self.end += len(record)

    def _take_back(self, size: int) -> None:
        """The record may have come to be in the file; its caller is told that it is not."""
        self._broken = True
        try:
            _write_all(self._file, bytes(min(size, _RECORD_HEAD_BYTES)), self.end)
        except OSError:
            return  # what could not be written cannot be there, or the file is lost as a whole

    def _compact(self) -> None:
        try:
            self._replace()
        except OSError:
            # Whatever is wrong, the next write meets it; the log as it is holds everything.
            self.replace_at = self.end + LOG_BYTES_MIN

    def _replace(self, changes: StateChanges | None = None) -> None:
        """Puts a new file in the place of the old one, with all that counts and these changes."""
        all_of_it = StoredState()
        all_of_it.apply(self.stored.as_changes())
        if changes is not None:
            all_of_it.apply(changes)
        marker = secrets.token_bytes(_MARKER_BYTES)
        content = _MAGIC + marker
        content += _make_record(state_codec.encode(all_of_it.as_changes()), marker)
        new = os.open(self._new_path, os.O_CREAT | os.O_TRUNC | os.O_RDWR, 0o600)
        try:
            size = _extend(new, 0, len(content))
            _write_all(new, content, 0)
            os.fsync(new)
        except BaseException:
            os.close(new)
            raise
        # Until all of this is done and durable, what is written may end up in a file that is not found again.
        self._broken = True
        self._new_path.rename(self._path)
        self.close()
        self._file, self._marker, self.end, self._size = new, marker, len(content), size
        self.replace_at = max(LOG_BYTES_MIN, LOG_GROWTH * self.end)
        flush_directory(self._path.parent)
        self._broken = False


def damaged(path: Path, reason: str) -> StateDamagedError:
    """Makes the error for a file that is no state or a damaged one."""
    return StateDamagedError(
        f"{str(path)!r} is not a client's state, or is damaged ({reason}); nothing in it was changed. "
        "Restore it, or move its directory away to begin anew: which of the client's last puts were done is "
        "then not known any more, and messages that it had not finished come again"
    )


def _cannot_write(path: Path, error: Exception) -> StateWriteError:
    return StateWriteError(f"the client's state {str(path)!r} cannot be written: {error}")


def _make_record(payload: bytes, marker: bytes) -> bytes:
    return marker + _LENGTHS.pack(len(payload), _checksum(payload)) + payload


def _record(data: bytes, place: int, marker: bytes) -> bytes | None:
    """Returns the payload of the record at a place; None when there is no whole one."""
    start = place + _RECORD_HEAD_BYTES
    if len(data) < start or not data.startswith(marker, place):
        return None
    length, checksum = _LENGTHS.unpack_from(data, place + _MARKER_BYTES)
    payload = data[start : start + length]
    return payload if len(payload) == length and _checksum(payload) == checksum else None


def _holds_record(data: bytes, place: int, marker: bytes) -> bool:
    """Tells whether a whole record stands somewhere at or behind a place."""
    while (place := data.find(marker, place)) >= 0:
        if _record(data, place, marker) is not None:
            return True
        place += 1
    return False


def _checksum(payload: bytes) -> int:
    return zlib.crc32(payload, zlib.crc32(len(payload).to_bytes(4, "big")))


def _extend(file: int, size: int, least: int) -> int:
    """Fills the file with zeros from its size on, up to a multiple of the chunk; returns its new size."""
    new_size = -(-least // CHUNK_BYTES) * CHUNK_BYTES
    _write_all(file, bytes(new_size - size), size)
    return new_size


def _write_all(file: int, data: bytes, place: int) -> None:
    written = 0
    while written < len(data):
        written += os.pwrite(file, data[written:], place + written)


def flush_directory(path: Path) -> None:
    """Makes durable what files the directory has."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
