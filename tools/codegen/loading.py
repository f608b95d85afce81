"""Reads the specification and checks it; every complaint names the entry that it is about."""

from __future__ import annotations

import keyword
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.codegen.model import (
    QUEUE_SETTINGS,
    EnumType,
    Error,
    Field,
    Packet,
    QueueSetting,
    Spec,
    State,
    Struct,
    Value,
)
from tools.codegen.rights import needed_rights
from tools.codegen.types import FIXED, Type, parse

Table = Mapping[str, Any]

_CAMEL = re.compile(r"[A-Z][a-z0-9]+([A-Z][a-z0-9]+)*")
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_UPPER = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*")

_CONSTANTS = (
    "magic",
    "major",
    "minor",
    "default_port",
    "max_frame_unidentified",
    "max_frame_least",
    "max_frame_default",
)
_SECTIONS = {"protocol", "retired", "state", "enum", "struct", "packet", "error"}
_KEYS = {
    "state": ({"name", "doc"}, set[str]()),
    "enum": ({"name", "doc", "values"}, set[str]()),
    "value": ({"name", "value", "doc"}, set[str]()),
    "struct": ({"name", "doc", "fields"}, {"extensible", "tagged"}),
    "field": ({"name", "type", "doc"}, set[str]()),
    "tagged field": ({"tag", "name", "type", "doc"}, set[str]()),
    "queue setting": (
        {"tag", "name", "type", "doc", "help"},
        {"unit", "least", "most", "default", "without", "off"},
    ),
    "packet": (
        {"name", "id", "sender", "doc", "fields"},
        {
            "response",
            "allowed",
            "leads_to",
            "numbered",
            "record",
            "mode",
            "unsolicited",
            "answered",
            "tagged",
            "rare",
            "right",
        },
    ),
    "error": (
        {"code", "name", "class", "exception", "doc", "seen", "number", "recorded"},
        {"unless"},
    ),
}

#: Answers of every request that has no response of its own; the only odd ids that the server sends.
_COMMON_ANSWERS = {"Success": 0x03, "Error": 0x05}
_NUMBERED = (
    ("number", "u64", "The request's number in this session, one more than the last one's."),
    ("confirmed", "list<u64>", "Numbers of this session whose answers the application has taken."),
)
_UNITS = ("ms", "days", "queue")
_ERROR_VALUES = {"number": ("used", "kept", "none"), "recorded": ("yes", "no", "in doubt")}
#: Names of the generated classes' own methods.
_RESERVED_NAMES = {"encode", "decode"}


class SpecError(Exception):
    """The specification breaks a rule of its own; the message names the entry and the rule."""


def load(path: Path) -> Spec:
    """Reads and checks the specification; raises SpecError."""
    try:
        return build(tomllib.loads(path.read_text(encoding="utf-8")))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path}: {error}") from None


def build(document: Table) -> Spec:
    """Checks a parsed specification; raises SpecError."""
    if unknown := set(document) - _SECTIONS:
        raise SpecError(f"unknown section [{sorted(unknown)[0]}]")
    states = tuple(_state(table) for table in document.get("state", []))
    enums = tuple(_enum(table) for table in document.get("enum", []))
    structs = _structs(document.get("struct", []), {enum.name for enum in enums})
    packets = tuple(
        _packet(table, {enum.name for enum in enums}, {struct.name: struct for struct in structs})
        for table in document.get("packet", [])
    )
    errors = tuple(_error(table) for table in document.get("error", []))
    by_name = {struct.name: struct for struct in (*structs, *packets)}
    spec = Spec(_constants(document), states, enums, structs, packets, errors, by_name)
    _check_unique_names(spec)
    _check_packets(spec)
    _check_settings(spec)
    _check_errors(spec)
    _check_retired(spec, document.get("retired", {}))
    return spec


def _constants(document: Table) -> dict[str, int]:
    table = document.get("protocol", {})
    for name in _CONSTANTS:
        if not isinstance(table.get(name), int):
            raise SpecError(f"[protocol]: {name} is missing or not a number")
    return {name: table[name] for name in _CONSTANTS}


def _check_keys(kind: str, table: Table, owner: str = "") -> str:
    """Checks the keys of an entry and returns how to call it."""
    where = f"{owner}{kind} {table.get('name', '(without a name)')}"
    required, optional = _KEYS[kind]
    if missing := required - set(table):
        raise SpecError(f"{where}: {sorted(missing)[0]} is missing")
    if unknown := set(table) - required - optional:
        raise SpecError(f"{where}: unknown key {sorted(unknown)[0]}")
    doc = table["doc"]
    if not isinstance(doc, str) or not doc.strip() or not doc.strip().endswith("."):
        raise SpecError(f"{where}: doc must be one or more sentences")
    return where


def _check_name(where: str, name: str, style: re.Pattern[str], example: str) -> None:
    if not style.fullmatch(name) or keyword.iskeyword(name):
        raise SpecError(f"{where}: name must be like {example}")


def _check_range(where: str, what: str, value: Any, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise SpecError(f"{where}: {what} must be {low} to {high}, not {value!r}")


def _check_unique(where: str, what: str, values: Iterable[Any]) -> None:
    for value, times in Counter(values).items():
        if times > 1:
            raise SpecError(f"{where}: {what} {value} is used twice")


def _state(table: Table) -> State:
    where = _check_keys("state", table)
    _check_name(where, table["name"], _UPPER, "AWAITING_HELLO")
    return State(table["name"], table["doc"])


def _enum(table: Table) -> EnumType:
    where = _check_keys("enum", table)
    _check_name(where, table["name"], _CAMEL, "ClientMode")
    values = tuple(_value(where, value) for value in table["values"])
    if not values:
        raise SpecError(f"{where}: an enum has at least one value")
    _check_unique(where, "name", (value.name for value in values))
    _check_unique(where, "value", (value.value for value in values))
    return EnumType(table["name"], table["doc"], values)


def _value(where: str, table: Table) -> Value:
    where = _check_keys("value", table, f"{where}, ")
    _check_name(where, table["name"], _UPPER, "READ_ONLY")
    _check_range(where, "value", table["value"], 0, 255)
    return Value(table["name"], table["value"], table["doc"])


def _structs(tables: Iterable[Table], enums: set[str]) -> tuple[Struct, ...]:
    structs: list[Struct] = []
    for table in tables:
        where = _check_keys("struct", table)
        _check_name(where, table["name"], _CAMEL, "NewMessage")
        known = {struct.name for struct in structs}
        fields = _fields(where, table["fields"], enums, known)
        read = _setting if table["name"] == QUEUE_SETTINGS else _tagged_field
        tagged = _tagged(where, table.get("tagged", []), enums, known, read)
        if not fields and not tagged:
            raise SpecError(f"{where}: a struct has at least one field")
        extensible = table.get("extensible", False)
        if tagged and not extensible:
            raise SpecError(f"{where}: only an extensible struct can have tagged fields")
        _check_unique(where, "field", (field.name for field in (*fields, *tagged)))
        structs.append(Struct(table["name"], table["doc"], fields, tagged, extensible))
    return tuple(structs)


def _fields(where: str, tables: Iterable[Table], enums: set[str], structs: set[str]) -> tuple[Field, ...]:
    return tuple(_field(where, "field", table, enums, structs) for table in tables)


def _tagged(
    where: str,
    tables: Iterable[Table],
    enums: set[str],
    structs: set[str],
    read: Callable[[str, Table, set[str], set[str]], Field] | None = None,
) -> tuple[Field, ...]:
    fields = tuple((read or _tagged_field)(where, table, enums, structs) for table in tables)
    for field in fields:
        _check_range(f"{where}, tagged field {field.name}", "tag", field.tag, 1, 0xFFFF)
        if field.type.kind == "optional":
            raise SpecError(f"{where}, tagged field {field.name}: a tagged field is optional as it is")
    _check_unique(where, "tag", (field.tag for field in fields))
    if len(fields) > 255:
        raise SpecError(f"{where}: a tagged section holds at most 255 fields")
    return fields


def _tagged_field(where: str, table: Table, enums: set[str], structs: set[str]) -> Field:
    return _field(where, "tagged field", table, enums, structs)


def _setting(where: str, table: Table, enums: set[str], structs: set[str]) -> QueueSetting:
    """A setting of a queue, with a sentence of its range and what holds unless it is given."""
    field = _field(where, "queue setting", table, enums, structs)
    where = f"{where}, queue setting {field.name}"
    if field.type.kind not in ("fixed", "enum"):
        raise SpecError(f"{where}: it must be a number, a flag or an enum")
    if ("default" in table) == ("without" in table):
        raise SpecError(f"{where}: it has either a default or a meaning of being without it")
    if table.get("unit", "ms") not in _UNITS:
        raise SpecError(f"{where}: unit must be {', '.join(_UNITS)}, not {table['unit']!r}")
    number = field.type.kind == "fixed" and field.type.name != "bool"
    if not number and {"least", "most", "unit", "without"} & set(table):
        raise SpecError(f"{where}: only a number has a range and a unit, or can be missing")
    if field.type.name == "bool" and not isinstance(table["default"], bool):
        raise SpecError(f"{where}: default must be true or false, not {table['default']!r}")
    if ("off" in table) != (field.type.name == "bool"):
        raise SpecError(f"{where}: off belongs to a flag, and a flag has one")
    least, most = 0, 1
    if number:
        low, high = _range(field.type)
        least, most = table.get("least", low), table.get("most", high)
        _check_range(where, "most", most, low, high)
        _check_range(where, "least", least, low, most)
        if "default" in table:
            _check_range(where, "default", table["default"], least, most)
        elif least < 1:
            raise SpecError(f"{where}: 0 takes it away, so least must be above 0")
    setting = QueueSetting(
        name=field.name,
        type=field.type,
        doc=field.doc,
        tag=field.tag,
        meaning=field.doc,
        help=table["help"],
        least=least,
        most=most,
        open=number and "most" not in table,
        unit=table.get("unit", ""),
        default=table.get("default"),
        without=table.get("without", ""),
        off=table.get("off", ""),
    )
    values, usual = setting.values, setting.usual
    rule = (
        f"{values[:1].upper()}{values[1:]}; unless it is given: {usual}."
        if values
        else f"Unless it is given: {usual}."
    )
    return replace(setting, doc=f"{field.doc} {rule}")


def _range(type_: Type) -> tuple[int, int]:
    """The numbers that a type of fixed size holds."""
    bits = 8 * FIXED[type_.name][1]
    return (0, (1 << bits) - 1) if type_.name.startswith("u") else (-(1 << bits - 1), (1 << bits - 1) - 1)


def _field(where: str, kind: str, table: Table, enums: set[str], structs: set[str]) -> Field:
    where = _check_keys(kind, table, f"{where}, ")
    _check_name(where, table["name"], _SNAKE, "queue_id")
    if table["name"] in _RESERVED_NAMES:
        raise SpecError(f"{where}: the generated code uses the name itself")
    try:
        type_ = parse(table["type"], enums, structs)
    except ValueError as error:
        raise SpecError(f"{where}: {error}") from None
    return Field(table["name"], type_, table["doc"], table.get("tag", 0))


def _packet(table: Table, enums: set[str], by_name: dict[str, Struct]) -> Packet:
    where = _check_keys("packet", table)
    _check_name(where, table["name"], _CAMEL, "PutMessage")
    _check_range(where, "id", table["id"], 1, 0xFFFF)
    if table["sender"] not in ("client", "server"):
        raise SpecError(f"{where}: sender must be client or server")
    structs = set(by_name)
    fields = _fields(where, table["fields"], enums, structs)
    if table.get("numbered", False):
        numbered = (Field(name, parse(text, enums, structs), doc) for name, text, doc in _NUMBERED)
        fields = (*numbered, *fields)
    tagged = _tagged(where, table.get("tagged", []), enums, structs)
    _check_unique(where, "field", (field.name for field in (*fields, *tagged)))
    packet = Packet(
        name=table["name"],
        doc=table["doc"],
        fields=fields,
        tagged=tagged,
        extensible=True,
        id=table["id"],
        sender=table["sender"],
        response=table.get("response"),
        allowed=tuple(table.get("allowed", [])),
        leads_to=table.get("leads_to"),
        numbered=table.get("numbered", False),
        mode=table.get("mode"),
        unsolicited=table.get("unsolicited", False),
        record=table.get("record", ""),
        answered=table.get("answered", True),
        rare=table.get("rare", False),
    )
    right = table.get("right")
    if packet.is_request != (right is not None):
        raise SpecError(f"{where}: right belongs to a client's packet, and a client's packet has one")
    if right is None:
        return packet
    try:
        rights = needed_rights(packet, right, by_name)
    except ValueError as error:
        raise SpecError(f"{where}: {error}") from None
    return replace(packet, rights=rights, scope="" if rights else str(right))


def _error(table: Table) -> Error:
    where = _check_keys("error", table)
    _check_name(where, table["name"], _UPPER, "QUEUE_FULL")
    _check_range(where, "code", table["code"], 0, 999)
    exception = table["exception"]
    if not _CAMEL.fullmatch(exception) or not exception.endswith("Error"):
        raise SpecError(f"{where}: exception must be like QueueFullError")
    for key, known in _ERROR_VALUES.items():
        if table[key] not in known:
            raise SpecError(f"{where}: {key} must be {', '.join(known)}, not {table[key]!r}")
    return Error(
        code=table["code"],
        name=table["name"],
        error_class=table["class"],
        exception=exception,
        doc=table["doc"],
        seen=tuple(table["seen"]),
        number=table["number"],
        recorded=table["recorded"],
        unless=table.get("unless", ""),
    )


def _check_unique_names(spec: Spec) -> None:
    names = [enum.name for enum in spec.enums] + [struct.name for struct in (*spec.structs, *spec.packets)]
    _check_unique("specification", "name", names)
    _check_unique("states", "name", (state.name for state in spec.states))


def _check_packets(spec: Spec) -> None:
    _check_unique("packets", "id", (f"0x{packet.id:02x}" for packet in spec.packets))
    for name, packet_id in _COMMON_ANSWERS.items():
        if name not in spec.by_name or getattr(spec.by_name[name], "id", None) != packet_id:
            raise SpecError(f"packet {name}: must be there, with id 0x{packet_id:02x}")
    packets = {packet.name: packet for packet in spec.packets}
    for packet in spec.packets:
        if packet.is_request:
            _check_request(packet, packets, spec)
        else:
            _check_from_server(packet, packets, spec)


def _check_request(packet: Packet, packets: Mapping[str, Packet], spec: Spec) -> None:
    where = f"packet {packet.name}"
    if packet.id % 2 == 0:
        raise SpecError(f"{where}: a client's packet has an odd id, not 0x{packet.id:02x}")
    if packet.unsolicited:
        raise SpecError(f"{where}: only the server sends unsolicited packets")
    if packet.numbered != bool(packet.record):
        raise SpecError(f"{where}: record belongs to a numbered request, and a numbered request has one")
    if packet.answered:
        _check_response(where, packet, packets)
    elif packet.response or packet.numbered or packet.leads_to:
        raise SpecError(f"{where}: without an answer there is no response, number or new state")
    _check_states(where, packet, spec)
    modes = {value.name for enum in spec.enums if enum.name == "ClientMode" for value in enum.values}
    if packet.mode is not None and packet.mode not in modes:
        raise SpecError(f"{where}: there is no client mode {packet.mode}")


def _check_response(where: str, packet: Packet, packets: Mapping[str, Packet]) -> None:
    response = packets.get(packet.response or "")
    if response is None or response.is_request:
        raise SpecError(f"{where}: response {packet.response!r} is not a packet that the server sends")
    if response.name != "Success" and response.id != packet.id + 1:
        raise SpecError(f"{where}: the response's id must be 0x{packet.id + 1:02x}, not 0x{response.id:02x}")


def _check_states(where: str, packet: Packet, spec: Spec) -> None:
    if not packet.allowed:
        raise SpecError(f"{where}: it is allowed in no state")
    states = {state.name for state in spec.states}
    for state in (*packet.allowed, *filter(None, [packet.leads_to])):
        if state not in states:
            raise SpecError(f"{where}: there is no state {state}")


def _check_from_server(packet: Packet, packets: Mapping[str, Packet], spec: Spec) -> None:
    where = f"packet {packet.name}"
    if packet.id % 2 and packet.name not in _COMMON_ANSWERS:
        raise SpecError(f"{where}: a server's packet has an even id, not 0x{packet.id:02x}")
    if packet.numbered or packet.response or packet.mode:
        raise SpecError(f"{where}: number, response and mode belong to a client's packet")
    if not packet.answered:
        raise SpecError(f"{where}: only a client's packet can go without an answer")
    if packet.unsolicited:
        _check_states(where, packet, spec)
    elif packet.allowed or packet.leads_to:
        raise SpecError(f"{where}: an answer belongs to its request, not to a state")
    answers = any(other.response == packet.name for other in packets.values())
    if packet.unsolicited == (answers or packet.name in _COMMON_ANSWERS):
        raise SpecError(f"{where}: it must either answer a request or be unsolicited")


def _check_settings(spec: Spec) -> None:
    for setting in spec.queue_settings:
        for enum in spec.enums:
            known = [value.name for value in enum.values]
            if enum.name == setting.type.name and setting.default not in known:
                raise SpecError(f"queue setting {setting.name}: {enum.name} has no value {setting.default}")


def _check_errors(spec: Spec) -> None:
    _check_unique("errors", "code", (error.code for error in spec.errors))
    _check_unique("errors", "name", (error.name for error in spec.errors))
    _check_unique("errors", "exception", (error.exception for error in spec.errors))
    classes = {value.name for enum in spec.enums if enum.name == "ErrorClass" for value in enum.values}
    for error in spec.errors:
        if error.error_class not in classes:
            raise SpecError(f"error {error.name}: there is no error class {error.error_class}")
        for name in error.seen:
            if name not in spec.by_name:
                raise SpecError(f"error {error.name}: there is no packet or struct {name}")
        if error.number == "none" and error.recorded != "no":
            raise SpecError(f"error {error.name}: it refuses no numbered request, so nothing is recorded")


def _check_retired(spec: Spec, retired: Table) -> None:
    if unknown := set(retired) - {"packet_ids", "error_codes", "enum_values", "tags"}:
        raise SpecError(f"[retired]: unknown key {sorted(unknown)[0]}")
    for packet in spec.packets:
        if packet.id in retired.get("packet_ids", []):
            raise SpecError(f"packet {packet.name}: id 0x{packet.id:02x} is retired")
    for error in spec.errors:
        if error.code in retired.get("error_codes", []):
            raise SpecError(f"error {error.name}: code {error.code} is retired")
    for enum in spec.enums:
        _check_retired_in(enum.name, retired.get("enum_values", {}), (value.value for value in enum.values))
    for struct in (*spec.structs, *spec.packets):
        _check_retired_in(struct.name, retired.get("tags", {}), (field.tag for field in struct.tagged))


def _check_retired_in(name: str, retired: Table, used: Iterable[int]) -> None:
    for number in used:
        if number in retired.get(name, []):
            raise SpecError(f"{name}: {number} is retired")
