"""An encoder of the wire, written by hand from the rules in docs/reference/protocol.md, to check the code.

It reads the specification itself, byte for byte in the plainest way, and shares no code with the generator or
with telesto.protocol. Fields are as in the vectors: bytes are hex strings, enums names, structs objects.

Run as a script it prints a frame in hex, for a new vector:
    python tests/protocol/wire_reference.py Pong 7 '{}'
"""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

SPEC_PATH = Path(__file__).parents[2] / "protocol" / "spec" / "telesto.toml"
SIGNED = {"i8": 1, "i16": 2, "i32": 4, "i64": 8}
UNSIGNED = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
NUMBERED_FIELDS = [{"name": "number", "type": "u64"}, {"name": "confirmed", "type": "list<u64>"}]


class Reference:
    """The specification, and frames encoded by it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.packets = {packet["name"]: packet for packet in document["packet"]}
        self.structs = {struct["name"]: struct for struct in document["struct"]}
        self.enums = {
            enum["name"]: {value["name"]: value["value"] for value in enum["values"]}
            for enum in document["enum"]
        }
        self.errors = document["error"]

    def frame(self, packet: str, packet_id: int, fields: dict[str, Any]) -> bytes:
        method_id = self.packets[packet]["id"]
        rest = method_id.to_bytes(2, "big") + packet_id.to_bytes(4, "big") + self.payload(packet, fields)
        return len(rest).to_bytes(4, "big") + rest

    def payload(self, packet: str, fields: dict[str, Any]) -> bytes:
        entry = self.packets[packet]
        assert set(fields) <= {field["name"] for field in self.fields(packet) + self.tagged(packet)}
        encoded = [self.value(field["type"], fields[field["name"]]) for field in self.fields(packet)]
        return b"".join(encoded) + self.section(entry, fields)

    def fields(self, packet: str) -> list[dict[str, Any]]:
        """The fields of a packet that are always there."""
        entry = self.packets[packet]
        return (NUMBERED_FIELDS if entry.get("numbered") else []) + entry["fields"]

    def tagged(self, packet: str) -> list[dict[str, Any]]:
        return list(self.packets[packet].get("tagged", []))

    def section(self, entry: dict[str, Any], fields: dict[str, Any]) -> bytes:
        """The tagged section."""
        there = [tagged for tagged in entry.get("tagged", []) if fields.get(tagged["name"]) is not None]
        encoded = [len(there).to_bytes(1, "big")]
        for tagged in there:
            content = self.value(tagged["type"], fields[tagged["name"]])
            encoded += [tagged["tag"].to_bytes(2, "big"), len(content).to_bytes(4, "big"), content]
        return b"".join(encoded)

    def value(self, type_: str, value: Any) -> bytes:
        if type_.startswith("list<"):
            items = [self.value(type_[5:-1], item) for item in value]
            return len(items).to_bytes(4, "big") + b"".join(items)
        if type_.startswith("optional<"):
            return b"\x00" if value is None else b"\x01" + self.value(type_[9:-1], value)
        if type_ in SIGNED:
            return int(value).to_bytes(SIGNED[type_], "big", signed=True)
        if type_ in UNSIGNED:
            return int(value).to_bytes(UNSIGNED[type_], "big")
        if type_ == "bool":
            return {False: b"\x00", True: b"\x01"}[value]
        if type_ == "string":
            text = value.encode("utf-8")
            return len(text).to_bytes(2, "big") + text
        if type_ == "bytes":
            content = bytes.fromhex(value)
            return len(content).to_bytes(4, "big") + content
        if type_ in self.enums:
            return self.enums[type_][value].to_bytes(1, "big")
        return self.struct(type_, value)

    def struct(self, name: str, value: dict[str, Any]) -> bytes:
        entry = self.structs[name]
        encoded = b"".join(self.value(field["type"], value[field["name"]]) for field in entry["fields"])
        return encoded + self.section(entry, value) if entry.get("extensible") else encoded


def load_document() -> dict[str, Any]:
    return tomllib.loads(SPEC_PATH.read_text(encoding="utf-8"))


REFERENCE = Reference(load_document())

if __name__ == "__main__":
    print(REFERENCE.frame(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])).hex())
