"""Turns the fields of a vector into objects of the generated classes and back."""

from types import ModuleType
from typing import Any

from telesto.protocol import packets
from wire_reference import REFERENCE, Reference


class Objects:
    """Makes objects of one module's classes by one specification."""

    def __init__(self, reference: Reference = REFERENCE, module: ModuleType = packets) -> None:
        self._reference = reference
        self._module = module

    def packet(self, name: str, fields: dict[str, Any]) -> Any:
        entries = self._reference.fields(name)
        return self._make(name, entries, self._reference.tagged(name), fields)

    def fields(self, name: str, packet: Any) -> dict[str, Any]:
        entries = self._reference.fields(name) + self._reference.tagged(name)
        return self._take_apart(entries, packet)

    def _make(self, name: str, fields: list[Any], tagged: list[Any], values: dict[str, Any]) -> Any:
        positional = [self._to_object(field["type"], values[field["name"]]) for field in fields]
        keywords = {
            field["name"]: self._to_object(field["type"], values[field["name"]])
            for field in tagged
            if values.get(field["name"]) is not None
        }
        return getattr(self._module, name)(*positional, **keywords)

    def _to_object(self, type_: str, value: Any) -> Any:
        if type_.startswith("list<"):
            return [self._to_object(type_[5:-1], item) for item in value]
        if type_.startswith("optional<"):
            return None if value is None else self._to_object(type_[9:-1], value)
        if type_ == "bytes":
            return bytes.fromhex(value)
        if type_ in self._reference.enums:
            return getattr(self._module, type_)[value]
        if type_ in self._reference.structs:
            entry = self._reference.structs[type_]
            return self._make(type_, entry["fields"], entry.get("tagged", []), value)
        return value

    def _take_apart(self, fields: list[Any], value: Any) -> dict[str, Any]:
        taken = {
            field["name"]: self._to_json(field["type"], getattr(value, field["name"])) for field in fields
        }
        absent = [field["name"] for field in fields if "tag" in field and taken[field["name"]] is None]
        return {name: content for name, content in taken.items() if name not in absent}

    def _to_json(self, type_: str, value: Any) -> Any:
        if value is None:
            return None
        if type_.startswith("list<"):
            return [self._to_json(type_[5:-1], item) for item in value]
        if type_.startswith("optional<"):
            return self._to_json(type_[9:-1], value)
        if type_ == "bytes":
            return value.hex()
        if type_ in self._reference.enums:
            return value.name
        if type_ in self._reference.structs:
            entry = self._reference.structs[type_]
            return self._take_apart(entry["fields"] + entry.get("tagged", []), value)
        return value


OBJECTS = Objects()
