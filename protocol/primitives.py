"""What the generated codecs share: tables of precompiled structs, and the readers of what is rarely hot.

These readers signal bad input by ValueError, struct.error or LookupError, without saying what is wrong:
the codec then asks telesto.protocol.diagnosis, which does.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

#: Counts up to this are packed by a struct that is kept for each count.
KEPT_COUNT_MAX = 64

#: What reading a payload that does not have the fields of its packet may raise.
DECODE_ERRORS = (struct.error, LookupError, ValueError)
#: What packing values that do not fit their fields may raise.
ENCODE_ERRORS = (struct.error, LookupError, ValueError, TypeError, AttributeError, OverflowError)

BOOLS = (False, True)

_TAG = struct.Struct(">HI")
_MUST_UNDERSTAND = 0x8000


class Packers(dict[int, Callable[..., bytes]]):
    """By count, the function that packs so many numbers of one type."""

    def __init__(self, code: str) -> None:
        self._code = code
        super().__init__(
            (count, struct.Struct(f">{count}{code}").pack) for count in range(KEPT_COUNT_MAX + 1)
        )

    def __missing__(self, count: int) -> Callable[..., bytes]:
        return struct.Struct(f">{count}{self._code}").pack


class Unpackers(dict[int, Callable[[bytes, int], tuple[Any, ...]]]):
    """By count, the function that unpacks so many numbers of one type from a position on.

    The function raises struct.error before it reserves memory when the numbers are not all there.
    """

    def __init__(self, code: str) -> None:
        self._code = code
        super().__init__(
            (count, struct.Struct(f">{count}{code}").unpack_from) for count in range(KEPT_COUNT_MAX + 1)
        )

    def __missing__(self, count: int) -> Callable[[bytes, int], tuple[Any, ...]]:
        return struct.Struct(f">{count}{self._code}").unpack_from


def read_strings(payload: bytes, at: int, count: int) -> tuple[list[str], int]:
    """Reads so many strings; returns them and the position after them."""
    if 2 * count > len(payload) - at:
        raise ValueError("count")
    strings = []
    for _ in range(count):
        end = at + 2 + (payload[at] << 8 | payload[at + 1])
        strings.append(str(payload[at + 2 : end], "utf-8"))
        at = end
    return strings, at


def read_byte_strings(payload: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    """Reads so many byte strings; returns them and the position after them."""
    if 4 * count > len(payload) - at:
        raise ValueError("count")
    strings = []
    for _ in range(count):
        end = at + 4 + int.from_bytes(payload[at : at + 4], "big")
        strings.append(payload[at + 4 : end])
        at = end
    return strings, at


def write_strings(strings: list[str]) -> bytes:
    """Encodes a list of strings, without its count."""
    encoded = [string.encode() for string in strings]
    return b"".join([len(string).to_bytes(2, "big") + string for string in encoded])


def write_byte_strings(strings: list[bytes]) -> bytes:
    """Encodes a list of byte strings, without its count."""
    return b"".join([len(string).to_bytes(4, "big") + string for string in strings])


def write_tagged(tag: int, content: bytes) -> bytes:
    """Encodes one field of a tagged section."""
    return _TAG.pack(tag, len(content)) + content


def read_tags(payload: bytes, at: int, count: int, known: frozenset[int]) -> tuple[dict[int, bytes], int]:
    """Reads a tagged section behind its count; returns the known tags' contents and the position after."""
    found: dict[int, bytes] = {}
    for _ in range(count):
        tag, size = _TAG.unpack_from(payload, at)
        at += 6 + size
        if tag in known and tag not in found:
            found[tag] = payload[at - size : at]
        elif tag in known or tag & _MUST_UNDERSTAND:
            raise ValueError("tag")
    if at > len(payload):
        raise ValueError("size")
    return found, at


def skip_tags(payload: bytes, at: int, count: int) -> int:
    """Passes over a tagged section in which no tag is known; returns the position after it."""
    return read_tags(payload, at, count, frozenset())[1]


def check_end(payload: bytes, at: int, count: int) -> None:
    """Passes over the last tagged section of a payload, in which no tag is known; nothing may follow."""
    if read_tags(payload, at, count, frozenset())[1] != len(payload):
        raise ValueError("end")
