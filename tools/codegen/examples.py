"""Frames of the vectors, written out byte by byte for the reference document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.codegen.model import Field, Packet, Spec, Struct
from tools.codegen.types import Type

_SIZES = {"string": 2, "bytes": 4, "list": 4, "optional": 1}
#: Bytes in one line of an example.
_BYTES_MAX = 16


@dataclass(frozen=True)
class Example:
    """A frame of a conversation.

    Attributes:
        name: what it is.
        connection: on which connection it is sent, counted from 1.
        packet: its packet.
        fate: "arrives", "is lost", or "is cut" when the connection breaks within it.
        lines: its bytes with their meaning; empty when the same frame was shown before.
    """

    name: str
    connection: int
    packet: Packet
    fate: str
    lines: list[str]


def conversation(spec: Spec, path: Path) -> list[Example]:
    """Reads a conversation from the vectors. Raises ValueError for a frame that is not its packet's."""
    packets = {packet.name: packet for packet in spec.packets}
    shown: set[str] = set()
    examples = []
    for case in json.loads(path.read_text(encoding="utf-8")):
        packet = packets[case["packet"]]
        lines = [] if case["frame"] in shown else _lines(spec, packet, bytes.fromhex(case["frame"]))
        shown.add(case["frame"])
        examples.append(Example(case["name"], case["connection"], packet, case["fate"], lines))
    return examples


def _lines(spec: Spec, packet: Packet, frame: bytes) -> list[str]:
    parts = list(_Reader(spec, frame).frame(packet))
    if b"".join(data for data, _ in parts) != frame:
        raise ValueError(f"{packet.name}: {frame.hex()} is no frame of it")
    width = max(len(data[:_BYTES_MAX]) for data, _ in parts) * 3
    lines = []
    for data, meaning in parts:
        for at in range(0, max(len(data), 1), _BYTES_MAX):
            piece = data[at : at + _BYTES_MAX].hex(" ")
            lines.append(f"{piece:{width}} {meaning if at == 0 else ''}".rstrip())
    return lines


class _Reader:
    """Reads a frame by the layout of its packet, and says what its bytes mean."""

    def __init__(self, spec: Spec, frame: bytes) -> None:
        self._spec = spec
        self._frame = frame
        self._at = 0

    def frame(self, packet: Packet) -> Iterator[tuple[bytes, str]]:
        length = self._take(4)
        yield length, f"length: {int.from_bytes(length, 'big')} bytes follow"
        yield self._take(2), f"method id: {packet.name}"
        packet_id = self._take(4)
        yield packet_id, f"packet id {int.from_bytes(packet_id, 'big')}"
        yield from self._struct("", packet)

    def _take(self, size: int) -> bytes:
        self._at += size
        return self._frame[self._at - size : self._at]

    def _number(self, size: int, *, signed: bool = False) -> tuple[bytes, int]:
        data = self._take(size)
        return data, int.from_bytes(data, "big", signed=signed)

    def _struct(self, where: str, struct: Struct) -> Iterator[tuple[bytes, str]]:
        for field in struct.fields:
            yield from self._value(f"{where}{field.name}", field.type)
        if struct.extensible:
            data, count = self._number(1)
            place = f"{where.removesuffix('.')}: " if where else ""
            yield data, f"{place}number of tagged fields: {count}"
            tags: dict[int, Field] = {field.tag: field for field in struct.tagged}
            for _ in range(count):
                data, tag = self._number(2)
                size, length = self._number(4)
                field = tags[tag]
                yield data + size, f"tag {tag}, {length} bytes"
                yield from self._value(f"{where}{field.name}", field.type)

    def _value(self, where: str, type_: Type) -> Iterator[tuple[bytes, str]]:
        if type_.kind == "struct":
            yield from self._struct(f"{where}.", self._spec.struct(type_.name))
        elif type_.kind == "enum":
            data, value = self._number(1)
            enum = next(enum for enum in self._spec.enums if enum.name == type_.name)
            name = next(known.name for known in enum.values if known.value == value)
            yield data, f"{where}: {name}"
        elif type_.is_fixed:
            data, value = self._number(type_.size, signed=type_.name.startswith("i"))
            yield data, f"{where}: {bool(value) if type_.name == 'bool' else value}".lower()
        else:
            yield from self._counted(where, type_)

    def _counted(self, where: str, type_: Type) -> Iterator[tuple[bytes, str]]:
        data, count = self._number(_SIZES[type_.kind])
        if type_.kind in ("string", "bytes"):
            yield data, f"{where}: {count} bytes"
            if content := self._take(count):
                yield content, f'"{content.decode()}"' if type_.kind == "string" else ""
            return
        if type_.kind == "optional":
            yield data, f"{where}: {'there' if count else 'nothing'}"
        else:
            yield data, f"{where}: {count} items" if count != 1 else f"{where}: 1 item"
        for index in range(count):
            yield from self._value(f"{where}[{index}]" if type_.kind == "list" else where, type_.inner)
