"""Encodes and decodes packets by their layouts, and says what is wrong with a payload or with a value.

Packets that are rare are encoded and decoded here, field by field. The others have generated codecs that are
written for speed and only notice that something is wrong; then the same walk over the fields names the first
one that is at fault.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NoReturn

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
_STRING_MAX = 0xFFFF


@dataclass(frozen=True, slots=True)
class Layout:
    """The fields of a struct or packet with their types as the specification writes them.

    Attributes:
        made: the class.
        fields: the types of the fields that are always there, by name, in order.
        tagged: (name, type) by tag; only an extensible struct has a tagged section.
    """

    made: type
    fields: Mapping[str, str]
    tagged: Mapping[int, tuple[str, str]]
    extensible: bool


class Layouts:
    """The layouts and enums of a protocol, by name."""

    def __init__(self, layouts: Mapping[str, Layout], enums: Mapping[str, type[IntEnum]]) -> None:
        self.layouts = layouts
        self.enums = enums

    def decode(self, name: str, payload: bytes) -> Any:
        """Reads a packet; raises MalformedPacketError or UnsupportedFieldError, which name the field."""
        walk = _PayloadWalk(self, payload)
        try:
            packet = walk.struct(name, name)
            walk.end(name)
        except (MalformedPacketError, UnsupportedFieldError) as error:
            error.method = name
            raise
        return packet

    def encode(self, name: str, method_id: int, packet: object, packet_id: object) -> bytes:
        """Returns the frame of a packet; raises InvalidParameterError, which names the field."""
        parts = [struct.pack(">H", method_id), *self._parts(name, packet, packet_id)]
        length = sum(map(len, parts))
        if length > _FRAME_LENGTH_MAX:
            raise _too_long(name)
        return b"".join((struct.pack(">I", length), *parts))

    def fault_of_payload(self, name: str, payload: bytes) -> TelestoError:
        """Returns the error to raise for a payload that is not one of this packet."""
        try:
            self.decode(name, payload)
        except (MalformedPacketError, UnsupportedFieldError) as error:
            return error
        return MalformedPacketError(f"{name}: the payload does not have its fields", method=name)

    def fault_of_packet(self, name: str, packet: object, packet_id: object, error: Exception) -> Exception:
        """Returns what to raise for a packet that cannot be encoded: ``error`` if no value is at fault."""
        try:
            self._parts(name, packet, packet_id)
        except InvalidParameterError as invalid:
            return invalid
        return _too_long(name) if isinstance(error, struct.error) else error

    def _parts(self, name: str, packet: object, packet_id: object) -> list[bytes]:
        """The packet id and the fields."""
        parts: list[bytes] = []
        try:
            self._write(f"{name}: packet id", "u32", packet_id, parts)
            self._write(name, name, packet, parts)
        except InvalidParameterError as invalid:
            invalid.method = name
            raise
        return parts

    def _write(self, where: str, type_: str, value: Any, parts: list[bytes]) -> None:
        """Encodes a value and checks that it fits."""
        if type_.startswith("optional<"):
            parts.append(b"\x00" if value is None else b"\x01")
            if value is not None:
                self._write(where, type_[9:-1], value, parts)
        elif type_.startswith("list<"):
            try:
                items = list(value)
            except TypeError:
                _refuse(where, "must be a list", value)
            parts.append(struct.pack(">I", len(items)))
            for index, item in enumerate(items):
                self._write(f"{where}[{index}]", type_[5:-1], item, parts)
        elif type_ == "string":
            if not isinstance(value, str):
                _refuse(where, "must be a string", value)
            try:
                encoded = value.encode()
            except UnicodeEncodeError:
                _refuse(where, "cannot be encoded in UTF-8", value)
            if len(encoded) > _STRING_MAX:
                raise InvalidParameterError(
                    f"{where}: {len(encoded)} bytes in UTF-8, the longest string has {_STRING_MAX}"
                )
            parts += (struct.pack(">H", len(encoded)), encoded)
        elif type_ == "bytes":
            if not isinstance(value, bytes | bytearray):
                _refuse(where, "must be bytes", value)
            parts += (struct.pack(">I", len(value)), bytes(value))
        elif type_ == "bool":
            parts.append(b"\x01" if value else b"\x00")
        elif type_ in self.layouts:
            self._write_struct(where, type_, value, parts)
        elif type_ in self.enums:
            if value not in list(self.enums[type_]):
                _refuse(where, f"must be a {type_}", value)
            parts.append(struct.pack(">B", int(value)))
        else:
            try:
                parts.append(struct.pack(_FORMATS[type_], value))
            except struct.error:
                _refuse(where, f"must be a number that fits {type_}", value)

    def _write_struct(self, where: str, name: str, value: object, parts: list[bytes]) -> None:
        layout = self.layouts[name]
        if not isinstance(value, layout.made):
            _refuse(where, f"must be a {name}", value)
        for field, type_ in layout.fields.items():
            self._write(f"{where}.{field}", type_, getattr(value, field), parts)
        if not layout.extensible:
            return
        section: list[bytes] = []
        count = 0
        for tag, (field, type_) in layout.tagged.items():
            if (content := getattr(value, field)) is not None:
                written: list[bytes] = []
                self._write(f"{where}.{field}", type_, content, written)
                section += (struct.pack(">HI", tag, sum(map(len, written))), *written)
                count += 1
        parts += (struct.pack(">B", count), *section)


def _too_long(name: str) -> InvalidParameterError:
    details = f"{name}: the frame would be longer than {_FRAME_LENGTH_MAX} bytes"
    return InvalidParameterError(details, method=name)


def _refuse(where: str, rule: str, value: object) -> NoReturn:
    shown = repr(value)
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    raise InvalidParameterError(f"{where}: {rule}, not {shown}") from None


class _PayloadWalk:
    """Reads a payload by its layout."""

    def __init__(self, layouts: Layouts, payload: bytes, start: int = 0) -> None:
        self._all = layouts
        self._payload = payload
        self._at = 0
        self._start = start

    def end(self, where: str) -> None:
        """Checks that nothing is left."""
        if left := len(self._payload) - self._at:
            raise MalformedPacketError(f"{where}: {left} bytes left over at byte {self._start + self._at}")

    def struct(self, where: str, name: str) -> Any:
        """Reads a struct or packet."""
        layout = self._all.layouts[name]
        values = [self.value(f"{where}.{field}", type_) for field, type_ in layout.fields.items()]
        return layout.made(*values, **(self._tagged_section(where, layout) if layout.extensible else {}))

    def value(self, where: str, type_: str) -> Any:
        """Reads a value."""
        if type_.startswith("optional<"):
            return self.value(where, type_[9:-1]) if self._flag(where) else None
        if type_.startswith("list<"):
            return self._list(where, type_[5:-1])
        if type_ == "string":
            return self._string(where)
        if type_ == "bytes":
            return self._take(where, self._number(where, "u32"))
        if type_ == "bool":
            return self._flag(where)
        if type_ in self._all.layouts:
            return self.struct(where, type_)
        if type_ in self._all.enums:
            return self._enum(where, type_)
        return self._number(where, type_)

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

    def _enum(self, where: str, name: str) -> IntEnum:
        value = self._number(where, "u8")
        try:
            return self._all.enums[name](value)
        except ValueError:
            raise MalformedPacketError(f"{where}: {value} is not a {name}") from None

    def _string(self, where: str) -> str:
        try:
            return self._take(where, self._number(where, "u16")).decode()
        except UnicodeDecodeError as error:
            raise MalformedPacketError(f"{where}: not UTF-8: {error.reason}") from None

    def _list(self, where: str, item_type: str) -> list[Any]:
        count = self._number(where, "u32")
        left = len(self._payload) - self._at
        if count * self._size_min(item_type) > left:
            raise MalformedPacketError(f"{where}: {count} items cannot be in the {left} bytes left")
        if item_type in _FORMATS:  # many at once: a request may confirm as many numbers as fit into a frame
            form = f">{count}{_FORMATS[item_type][1]}"
            return list(struct.unpack(form, self._take(where, struct.calcsize(form))))
        return [self.value(f"{where}[{index}]", item_type) for index in range(count)]

    def _size_min(self, type_: str) -> int:
        """The least number of bytes that a value takes."""
        if type_.startswith("optional<") or type_ == "bool" or type_ in self._all.enums:
            return 1
        if type_.startswith("list<") or type_ == "bytes":
            return 4
        if type_ == "string":
            return 2
        if type_ in self._all.layouts:
            layout = self._all.layouts[type_]
            return sum(map(self._size_min, layout.fields.values())) + layout.extensible
        return struct.calcsize(_FORMATS[type_])

    def _tagged_section(self, where: str, layout: Layout) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for _ in range(self._number(f"{where}: number of tagged fields", "u8")):
            tag = self._number(f"{where}: tag", "u16")
            size = self._number(f"{where}: size of tag {tag}", "u32")
            content = self._take(f"{where}: tag {tag}", size)
            if tag in layout.tagged:
                name, type_ = layout.tagged[tag]
                if name in values:
                    raise MalformedPacketError(f"{where}.{name}: tag {tag} comes twice")
                walk = _PayloadWalk(self._all, content, self._start + self._at - size)
                values[name] = walk.value(f"{where}.{name}", type_)
                walk.end(f"{where}.{name}")
            elif tag & _MUST_UNDERSTAND:
                raise UnsupportedFieldError(f"{where}: tag 0x{tag:04x} must be understood and is not known")
        return values
