"""Compares the specification with one that was released: what that one's users rely on must still be there.

Works on the parsed TOML, so that a released specification never has to pass today's checks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Table = Mapping[str, Any]

_PACKET_KEYS = ("id", "sender", "response", "numbered", "mode", "leads_to", "unsolicited")
_ERROR_KEYS = ("name", "class", "exception")
_PROTOCOL_KEYS = ("magic", "default_port")


def incompatibilities(released: Table, current: Table) -> list[str]:
    """Returns a sentence for each change that breaks what was released; nothing for another major version."""
    if released["protocol"]["major"] != current["protocol"]["major"]:
        return []
    return [
        *_protocol(released["protocol"], current["protocol"]),
        *_states(released, current),
        *_enums(released, current),
        *_structs(released, current),
        *_packets(released, current),
        *_errors(released, current),
        *_retired(released.get("retired", {}), current.get("retired", {})),
    ]


def _by(key: str, tables: list[Table]) -> dict[Any, Table]:
    return {table[key]: table for table in tables}


def _protocol(released: Table, current: Table) -> Iterator[str]:
    for key in _PROTOCOL_KEYS:
        if released[key] != current[key]:
            yield f"[protocol]: {key} was {released[key]} and is {current[key]}"
    for key in ("minor", "max_frame_unidentified"):
        if released[key] > current[key]:
            yield f"[protocol]: {key} went down from {released[key]} to {current[key]}"
    if released["max_frame_least"] < current["max_frame_least"]:
        went_up = f"from {released['max_frame_least']} to {current['max_frame_least']}"
        yield f"[protocol]: max_frame_least went up {went_up}"


def _states(released: Table, current: Table) -> Iterator[str]:
    names = _by("name", current["state"])
    for state in released["state"]:
        if state["name"] not in names:
            yield f"state {state['name']}: is gone"


def _enums(released: Table, current: Table) -> Iterator[str]:
    enums = _by("name", current["enum"])
    for enum in released["enum"]:
        values = _by("name", enums.get(enum["name"], {"values": []})["values"])
        for value in enum["values"]:
            now = values.get(value["name"], {}).get("value")
            if now != value["value"]:
                yield f"enum {enum['name']}: {value['name']} was {value['value']} and is {now}"


def _structs(released: Table, current: Table) -> Iterator[str]:
    structs = _by("name", current["struct"])
    for struct in released["struct"]:
        where = f"struct {struct['name']}"
        now = structs.get(struct["name"])
        if now is None:
            yield f"{where}: is gone"
        else:
            yield from _keys(where, ("extensible",), struct, now)
            yield from _fields(where, struct, now)
            yield from _tags(where, struct, now, current)


def _packets(released: Table, current: Table) -> Iterator[str]:
    packets = _by("name", current["packet"])
    for packet in released["packet"]:
        where = f"packet {packet['name']}"
        now = packets.get(packet["name"])
        if now is None:
            yield f"{where}: is gone"
            continue
        yield from _keys(where, _PACKET_KEYS, packet, now)
        for state in sorted(set(packet.get("allowed", [])) - set(now.get("allowed", []))):
            yield f"{where}: is no longer allowed in {state}"
        yield from _fields(where, packet, now)
        yield from _tags(where, packet, now, current)


def _keys(where: str, keys: tuple[str, ...], then: Table, now: Table) -> Iterator[str]:
    for key in keys:
        if then.get(key) != now.get(key):
            yield f"{where}: {key} was {then.get(key)} and is {now.get(key)}"


def _fields(where: str, then: Table, now: Table) -> Iterator[str]:
    before = [f"{field['name']}: {field['type']}" for field in then["fields"]]
    after = [f"{field['name']}: {field['type']}" for field in now["fields"]]
    if before != after:
        yield f"{where}: the fields were ({', '.join(before)}) and are ({', '.join(after)})"


def _tags(where: str, then: Table, now: Table, current: Table) -> Iterator[str]:
    retired = current.get("retired", {}).get("tags", {}).get(then["name"], [])
    tags = _by("tag", now.get("tagged", []))
    for field in then.get("tagged", []):
        tag = field["tag"]
        if tag not in tags and tag not in retired:
            yield f"{where}: tag {tag} ({field['name']}) is gone and not retired"
        elif tag in tags and any(tags[tag][key] != field[key] for key in ("name", "type")):
            yield f"{where}: tag {tag} is used again for something else than {field['name']}: {field['type']}"


def _errors(released: Table, current: Table) -> Iterator[str]:
    errors = _by("code", current["error"])
    for error in released["error"]:
        where = f"error {error['name']}"
        now = errors.get(error["code"])
        if now is None:
            yield f"{where}: code {error['code']} is gone"
        else:
            yield from _keys(f"{where}, code {error['code']}", _ERROR_KEYS, error, now)


def _retired(released: Table, current: Table) -> Iterator[str]:
    for key, numbers in released.items():
        now = current.get(key, type(numbers)())
        if isinstance(numbers, Mapping):
            yield from _retired(
                {f"{key}.{name}": of_name for name, of_name in numbers.items()},
                {f"{key}.{name}": of_name for name, of_name in now.items()},
            )
        else:
            for number in sorted(set(numbers) - set(now)):
                yield f"[retired]: {number} is missing in {key}"
