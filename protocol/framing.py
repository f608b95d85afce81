"""Splits a stream of bytes into frames, without I/O.

A frame is a length (u32, of what follows it), a method id (u16), a packet id (u32) and the payload. The
packets in telesto.protocol.packets encode whole frames; here is the other direction.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from telesto.protocol.errors import FrameTooLargeError

_LENGTH = struct.Struct(">I").unpack_from
_HEADER = struct.Struct(">IHI").unpack_from
_LENGTH_SIZE = 4
_HEADER_SIZE = 10
#: Method id and packet id, which the length counts.
_LENGTH_MIN = _HEADER_SIZE - _LENGTH_SIZE

#: What a frame counts in a call beside its bytes, for a short frame is work, too.
FRAME_COST: Final = 1024
#: More than any data.
UNBOUNDED: Final = 1 << 59


class Frame(NamedTuple):
    """A frame; the payload is what PACKETS[method_id].decode takes."""

    method_id: int
    packet_id: int
    payload: bytes


class FrameDecoder:
    """Takes bytes as they come and gives frames.

    It keeps the beginning of one frame at most: fewer than ``max_frame`` + 4 bytes between two calls; and,
    where a call could not take all frames, the rest of its data.

    Attributes:
        max_frame: the longest frame that is accepted, in bytes after the length field. It may be changed
            between two calls of feed, and then holds for a frame whose beginning is kept, too.
        waiting: how many bytes the last call left.
        error: why the stream cannot be read any further; None as long as it can.
    """

    __slots__ = ("_kept", "_needed", "_rest", "_rest_at", "error", "max_frame", "waiting")

    def __init__(self, max_frame: int) -> None:
        if max_frame < _LENGTH_MIN:
            raise ValueError(f"max_frame must be at least {_LENGTH_MIN}, not {max_frame}")
        self.max_frame = max_frame
        self.error: FrameTooLargeError | None = None
        self._kept = bytearray()
        #: So many bytes must be there before it is worth looking at them.
        self._needed = _LENGTH_SIZE
        #: Data that the last call left, from a place on. Nothing is kept then.
        self._rest = b""
        self._rest_at = self.waiting = 0

    @property
    def buffered(self) -> int:
        """How many bytes are kept; at the end of a stream, more than 0 means that it was cut short."""
        return len(self._kept)

    def feed(self, data: bytes | bytearray | memoryview, size: int = UNBOUNDED) -> list[Frame]:
        """Takes the next bytes and returns the frames that are complete now.

        Each frame counts its bytes and ``FRAME_COST``; once they come to ``size``, all that
        follows waits for the next call, which may come without data. Any size is enough for one frame.

        Raises FrameTooLargeError for a length beyond ``max_frame`` or below that of a header, before
        anything of that frame is kept. If frames before the bad one were completed by the same call, they
        are returned and the error is set in ``error`` and raised by the next call; so look at ``error``
        after handling the frames. A stream that had an error stays unusable: each further call raises it
        again.
        """
        if self.error is not None:
            raise self._copy_of(self.error)
        if type(data) is not bytes:
            data = bytes(data)
        at = 0
        if self._rest:
            at = self._rest_at
            if data:
                data, at = self._rest[at:] + data, 0
            else:
                data = self._rest
            self._rest = b""
            self._rest_at = self.waiting = 0
        frames: list[Frame] = []
        if self._kept:
            at = self._complete(data, frames)
            if frames:
                size -= FRAME_COST + len(frames[0].payload)
        if at < len(data):
            self._split(data, at, frames, size)
        if self.error is not None and not frames:
            raise self._copy_of(self.error)
        return frames

    def clear(self) -> None:
        """Forgets the beginning of a frame, whose end will not come."""
        self._kept = bytearray()
        self._needed = _LENGTH_SIZE
        self._rest = b""
        self._rest_at = self.waiting = 0

    def _complete(self, data: bytes, frames: list[Frame]) -> int:
        """Takes from the data what the frame lacks whose beginning is kept; returns how much that was.

        A large frame exists twice at most, here and as its payload, and is copied once.
        """
        kept = self._kept
        at = 0
        while at < len(data):
            taken = self._needed - len(kept)
            kept += data[at : at + taken]
            at = min(at + taken, len(data))
            if len(kept) < self._needed:
                break
            (length,) = _LENGTH(kept)
            if not _LENGTH_MIN <= length <= self.max_frame:
                self.error = self._refusal(length)
                self.clear()
                return len(data)
            self._needed = _LENGTH_SIZE + length
            if len(kept) == self._needed:
                _, method_id, packet_id = _HEADER(kept)
                with memoryview(kept) as view:
                    frames.append(Frame(method_id, packet_id, bytes(view[_HEADER_SIZE:])))
                self.clear()
                break
        return at

    def _split(self, data: bytes, at: int, frames: list[Frame], left: int) -> None:
        """Takes the complete frames off the data, up to a size, and keeps the rest."""
        new_frame = tuple.__new__  # half the cost of calling Frame
        size = len(data)
        last_header = size - _HEADER_SIZE
        max_frame = self.max_frame
        while at <= last_header:
            if left <= 0:
                self._rest, self._rest_at, self.waiting = data, at, size - at
                return
            length, method_id, packet_id = _HEADER(data, at)
            if not _LENGTH_MIN <= length <= max_frame:
                break
            end = at + _LENGTH_SIZE + length
            if end > size:
                break
            frames.append(new_frame(Frame, (method_id, packet_id, data[at + _HEADER_SIZE : end])))
            at = end
            left -= FRAME_COST + length
        if at < size:
            self._keep(data, at)

    def _keep(self, data: bytes, at: int) -> None:
        """Keeps the beginning of a frame, unless its length forbids it."""
        needed = _LENGTH_SIZE
        if len(data) - at >= _LENGTH_SIZE:
            (length,) = _LENGTH(data, at)
            if not _LENGTH_MIN <= length <= self.max_frame:
                self.error = self._refusal(length)
                return
            needed += length
        self._needed = needed
        self._kept += data[at:] if at else data

    @staticmethod
    def _copy_of(error: FrameTooLargeError) -> FrameTooLargeError:
        """An error to raise; the one that is kept would hold on to the data of each call by its traceback."""
        return FrameTooLargeError(error.details)

    def _refusal(self, length: int) -> FrameTooLargeError:
        if length < _LENGTH_MIN:
            return FrameTooLargeError(f"a frame of {length} bytes; a header alone has {_LENGTH_MIN}")
        return FrameTooLargeError(f"a frame of {length} bytes; at most {self.max_frame} are allowed")
