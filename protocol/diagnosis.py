"""Says what is wrong with a payload or with a packet's values, once a codec has found that something is.

The generated codecs are written for speed and know no more than that a payload or a packet is not in order.
This module walks over the same fields again, by their layout, and names the first that is at fault.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from telesto.protocol.errors import (
    InvalidParameterError,
    MalformedPacketError,
    TelestoError,
    UnsupportedFieldError,
)

_FORMATS = {
    "i8": ">b",
    "i16": ">h",
    "i32": ">i",
    "i64": ">q",
    "u8": ">B",
    "u16": ">H",
    "u32": ">I",
    "u64": ">Q",
}
_MUST_UNDERSTAND = 0x8000
_FRAME_LENGTH_MAX = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct or packet with their types as the specification writes them.

    ``tagged`` holds (name, type) by tag; only an extensible struct has a tagged section.
    """

    fields: tuple[tuple[str, str], ...]
    tagged: Mapping[int, tuple[str, str]]
    extensible: bool

    @property
    def all_fields(self) -> tuple[tuple[str, str, bool], ...]:
        """(name, type, whether it may be left out) of all fields."""
        fixed = tuple((name, type_, False) for name, type_ in self.fields)
        return fixed + tuple((name, type_, True) for name, type_ in self.tagged.values())


class Diagnosis:
    """Explains failures of the codecs whose layouts and enums it is given."""

    def __init__(self, layouts: Mapping[str, Layout], enums: Mapping[str, type[IntEnum]]) -> None:
        self.layouts = layouts
        self.enums = enums

    def of_payload(self, packet: str, payload: bytes) -> TelestoError:
        """Returns the error to raise for a payload that is not one of this packet."""
        walk = _PayloadWalk(self, payload)
        try:
            walk.struct(packet, packet)
            walk.end(packet)
        except (MalformedPacketError, UnsupportedFieldError) as error:
            error.method = packet
            return error
        return MalformedPacketError(f"{packet}: the payload does not have its fields", method=packet)

    def of_packet(self, name: str, packet: object, packet_id: object, error: Exception) -> Exception:
        """Returns what to raise for a packet that cannot be encoded: ``error`` if no value is at fault."""
        try:
            self._check_fixed(f"{name}: packet id", "u32", packet_id)
            self._check_struct(name, name, packet)
        except InvalidParameterError as invalid:
            invalid.method = name
            return invalid
        if isinstance(error, struct.error):
            details = f"{name}: the frame would be longer than {_FRAME_LENGTH_MAX} bytes"
            return InvalidParameterError(details, method=name)
        return error

    def _check_struct(self, where: str, name: str, value: object) -> None:
        if name not in [class_.__name__ for class_ in type(value).__mro__]:
            raise _invalid(where, f"must be a {name}", value)
        for field, type_, optional in self.layouts[name].all_fields:
            content = getattr(value, field)
            if not (optional and content is None):
                self._check(f"{where}.{field}", type_, content)

    def _check(self, where: str, type_: str, value: Any) -> None:
        if type_.startswith("optional<"):
            if value is not None:
                self._check(where, type_[9:-1], value)
        elif type_.startswith("list<"):
            self._check_list(where, type_[5:-1], value)
        elif type_ == "string":
            _check_string(where, value)
        elif type_ == "bytes":
            if not isinstance(value, bytes | bytearray):
                raise _invalid(where, "must be bytes", value)
        elif type_ in self.layouts:
            self._check_struct(where, type_, value)
        else:
            self._check_fixed(where, type_, value)

    def _check_list(self, where: str, item_type: str, value: Any) -> None:
        try:
            items = list(value)
        except TypeError:
            raise _invalid(where, "must be a list", value) from None
        for index, item in enumerate(items):
            self._check(f"{where}[{index}]", item_type, item)

    def _check_fixed(self, where: str, type_: str, value: Any) -> None:
        if type_ == "bool":
            return
        if type_ in self.enums:
            if value not in list(self.enums[type_]):
                raise _invalid(where, f"must be a {type_}", value)
            return
        try:
            struct.pack(_FORMATS[type_], value)
        except struct.error:
            raise _invalid(where, f"must be a number that fits {type_}", value) from None


def _check_string(where: str, value: Any) -> None:
    if not isinstance(value, str):
        raise _invalid(where, "must be a string", value)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise _invalid(where, "cannot be encoded in UTF-8", value) from None
    if size > 0xFFFF:
        raise InvalidParameterError(f"{where}: {size} bytes in UTF-8, the longest string has 65535")


def _invalid(where: str, rule: str, value: object) -> InvalidParameterError:
    shown = repr(value)
    return InvalidParameterError(f"{where}: {rule}, not {shown if len(shown) <= 80 else shown[:77] + '...'}")


class _PayloadWalk:
    """Reads a payload by its layout, as a codec does, but slowly and with the place in mind."""

    def __init__(self, diagnosis: Diagnosis, payload: bytes, start: int = 0) -> None:
        self._layouts = diagnosis.layouts
        self._enums = diagnosis.enums
        self._diagnosis = diagnosis
        self._payload = payload
        self._at = 0
        self._start = start

    def end(self, where: str) -> None:
        """Checks that nothing is left."""
        if left := len(self._payload) - self._at:
            raise MalformedPacketError(f"{where}: {left} bytes left over at byte {self._start + self._at}")

    def struct(self, where: str, name: str) -> None:
        """Passes over a struct or packet."""
        layout = self._layouts[name]
        for field, type_ in layout.fields:
            self.value(f"{where}.{field}", type_)
        if layout.extensible:
            self._tagged_section(where, layout)

    def value(self, where: str, type_: str) -> None:
        """Passes over a value."""
        if type_.startswith("optional<"):
            if self._flag(where):
                self.value(where, type_[9:-1])
        elif type_.startswith("list<"):
            self._list(where, type_[5:-1])
        elif type_ == "string":
            self._string(where)
        elif type_ == "bytes":
            self._take(where, self._number(where, "u32"))
        elif type_ == "bool":
            self._flag(where)
        elif type_ in self._layouts:
            self.struct(where, type_)
        elif type_ in self._enums:
            self._enum(where, type_)
        else:
            self._number(where, type_)

    def _take(self, where: str, size: int) -> bytes:
        left = len(self._payload) - self._at
        if size > left:
            place = self._start + self._at
            raise MalformedPacketError(f"{where}: {size} bytes expected at byte {place}, {left} left")
        self._at += size
        return self._payload[self._at - size : self._at]

    def _number(self, where: str, type_: str) -> int:
        form = _FORMATS[type_]
        (number,) = struct.unpack(form, self._take(where, struct.calcsize(form)))
        return int(number)

    def _flag(self, where: str) -> bool:
        flag = self._number(where, "u8")
        if flag > 1:
            place = self._start + self._at - 1
            raise MalformedPacketError(f"{where}: byte {place} must be 0 or 1, not {flag}")
        return flag == 1

    def _enum(self, where: str, name: str) -> None:
        value = self._number(where, "u8")
        if value not in list(self._enums[name]):
            raise MalformedPacketError(f"{where}: {value} is not a {name}")

    def _string(self, where: str) -> None:
        try:
            self._take(where, self._number(where, "u16")).decode()
        except UnicodeDecodeError as error:
            raise MalformedPacketError(f"{where}: not UTF-8: {error.reason}") from None

    def _list(self, where: str, item_type: str) -> None:
        count = self._number(where, "u32")
        left = len(self._payload) - self._at
        if count * self._size_min(item_type) > left:
            raise MalformedPacketError(f"{where}: {count} items cannot be in the {left} bytes left")
        for index in range(count):
            self.value(f"{where}[{index}]", item_type)

    def _size_min(self, type_: str) -> int:
        """The least number of bytes that a value takes."""
        if type_.startswith("optional<") or type_ == "bool" or type_ in self._enums:
            return 1
        if type_.startswith("list<") or type_ == "bytes":
            return 4
        if type_ == "string":
            return 2
        if type_ in self._layouts:
            layout = self._layouts[type_]
            return sum(self._size_min(field) for _, field in layout.fields) + layout.extensible
        return struct.calcsize(_FORMATS[type_])

    def _tagged_section(self, where: str, layout: Layout) -> None:
        count = self._number(f"{where}: number of tagged fields", "u8")
        seen: set[int] = set()
        for _ in range(count):
            tag = self._number(f"{where}: tag", "u16")
            size = self._number(f"{where}: size of tag {tag}", "u32")
            content = self._take(f"{where}: tag {tag}", size)
            if tag in layout.tagged:
                self._tagged_field(where, tag, layout, content, seen)
            elif tag & _MUST_UNDERSTAND:
                raise UnsupportedFieldError(f"{where}: tag 0x{tag:04x} must be understood and is not known")

    def _tagged_field(self, where: str, tag: int, layout: Layout, content: bytes, seen: set[int]) -> None:
        name, type_ = layout.tagged[tag]
        if tag in seen:
            raise MalformedPacketError(f"{where}.{name}: tag {tag} comes twice")
        seen.add(tag)
        walk = _PayloadWalk(self._diagnosis, content, self._start + self._at - len(content))
        walk.value(f"{where}.{name}", type_)
        walk.end(f"{where}.{name}")
