"""Which right of a user each request needs, as the specification says it."""

from __future__ import annotations

from collections.abc import Mapping

from tools.codegen.model import NeededRight, Packet, Struct

#: Requests that are about no name.
SCOPES = {
    "none": "Needs no right.",
    "own": "Needs no right: it is about what is the client's own.",
    "visible": "Needs no right: the answer has what the user may see.",
    "monitor": "Needs the tag `monitor`.",
}
_RIGHTS = ("configure", "put", "get", "admin")
#: What a field names, by the field's name.
_OBJECTS = {
    "queue_id": "QUEUE",
    "queue_ids": "QUEUE",
    "dead_letter_queue": "QUEUE",
    "queue_name": "NAME",
    "topic": "TOPIC",
    "subscription_id": "SUBSCRIPTION",
    "client_name": "CLIENT",
}


def needed_rights(packet: Packet, right: object, structs: Mapping[str, Struct]) -> tuple[NeededRight, ...]:
    """Reads the key `right` of a request; raises ValueError."""
    if isinstance(right, str):
        if right not in SCOPES:
            raise ValueError(f"right must be {', '.join(SCOPES)} or a table, not {right!r}")
        return ()
    if not isinstance(right, Mapping) or not right:
        raise ValueError(f"right must be {', '.join(SCOPES)} or a table, not {right!r}")
    return tuple(
        _needed(packet, names, path, structs)
        for names, paths in right.items()
        for path in ([paths] if isinstance(paths, str) else paths)
    )


def _needed(packet: Packet, names: str, path: str, structs: Mapping[str, Struct]) -> NeededRight:
    rights = tuple(names.split(" or "))
    path, _, condition = path.partition(" if ")
    *outer, last = path.split(".")
    what = _OBJECTS.get(last)
    if what is None:
        raise ValueError(f"right {names!r}: {last} names nothing that rights are about")
    known = ("clients",) if what == "CLIENT" else (*_RIGHTS, "see")
    for name in rights:
        if name not in known:
            raise ValueError(f"right {name!r}: for {path} it must be {', '.join(known)}")
    expression = _expression(packet, names, path, outer, last, structs)
    if condition:
        *outer, last = condition.split(".")
        _expression(packet, names, condition, outer, last, structs)
        expression = f"{expression} if packet.{condition} else ()"
    return NeededRight(rights, path, what, expression, condition)


def _expression(
    packet: Packet, names: str, path: str, outer: list[str], last: str, structs: Mapping[str, Struct]
) -> str:
    """The Python expression of all that the field has in a packet, each once."""
    owner: Struct = packet
    for name in outer:
        field = {field.name: field for field in owner.fields}.get(name)
        if field is None or field.type.innermost not in structs:
            raise ValueError(f"right {names!r}: there is no struct at {path}")
        owner = structs[field.type.innermost]
    field = {field.name: field for field in owner.all_fields}.get(last)
    if field is None:
        raise ValueError(f"right {names!r}: there is no field {path}")
    if outer and next(f for f in packet.fields if f.name == outer[0]).type.kind == "list":
        return f"{{element.{last} for element in packet.{outer[0]}}}"
    if field.type.kind == "list":
        return f"packet.{path}"
    return f"_given(packet.{path})" if field.tag else f"(packet.{path},)"


def sentence(packet: Packet) -> str:
    """What the document says of the right that a request needs."""
    if packet.scope:
        return SCOPES[packet.scope]
    parts = []
    for right in packet.rights:
        wanted = " or ".join("any right" if name == "see" else f"`{name}`" for name in right.names)
        condition = f" if `{right.condition}` is given" if right.condition else ""
        parts.append(f"{wanted} on what `{right.field}` names{condition}")
    return f"Needs {' and '.join(parts)}."
