"""The generator refuses a specification that breaks a rule, and says which entry and which rule."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.codegen.loading import SpecError, build, load
from wire_reference import SPEC_PATH, load_document

Document = dict[str, Any]
Change = Callable[[Document], object]
DOCUMENT = load_document()


def entry(document: Document, section: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(table for table in document[section] if table["name"] == name)
    return found


def packet(which: str, **changes: Any) -> Change:
    return lambda document: entry(document, "packet", which).update(changes)


def struct(which: str, **changes: Any) -> Change:
    return lambda document: entry(document, "struct", which).update(changes)


def setting(which: str, **changes: Any) -> Change:
    """Changes a setting of queues; None takes a key away."""

    def change(document: Document) -> None:
        tagged = entry(document, "struct", "QueueSettings")["tagged"]
        table = next(table for table in tagged if table["name"] == which)
        table.update(changes)
        for key, value in changes.items():
            if value is None:
                del table[key]

    return change


def without(section: str, name: str, key: str) -> Change:
    return lambda document: entry(document, section, name).pop(key)


def field(type_: str = "i64", name: str = "new_field", doc: str = "A field.", **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "doc": doc, **more}


def new_packet(**changes: Any) -> Change:
    plain = {"name": "NewPacket", "id": 0x7E, "sender": "server", "doc": "A packet.", "fields": []}
    return lambda document: document["packet"].append(
        {**plain, "unsolicited": True, "allowed": ["IDENTIFIED"], **changes}
    )


def error(which: str, **changes: Any) -> Change:
    return lambda document: entry(document, "error", which).update(changes)


def retired(**lists: Any) -> Change:
    return lambda document: document["retired"].update(lists)


MISTAKES: list[tuple[Change, str]] = [
    (lambda document: document.update(packets=[]), r"unknown section \[packets\]"),
    (lambda document: document["protocol"].pop("magic"), r"\[protocol\]: magic is missing"),
    (
        lambda document: document["protocol"].update(minor="0"),
        r"\[protocol\]: minor is missing or not a number",
    ),
    (without("packet", "Ping", "doc"), "packet Ping: doc is missing"),
    (packet("Ping", doc="  "), "packet Ping: doc must be"),
    (packet("Ping", doc="no full stop"), "packet Ping: doc must be"),
    (packet("Ping", colour="red"), "packet Ping: unknown key colour"),
    (without("packet", "Ping", "right"), "packet Ping: right belongs to a client's packet, and a client's"),
    (packet("Pong", right="none"), "packet Pong: right belongs to a client's packet, and a client's"),
    (packet("Ping", right="some"), "packet Ping: right must be none, own, visible, monitor or a table"),
    (packet("Ping", right={}), "packet Ping: right must be none, own, visible, monitor or a table"),
    (
        packet("PutMessage", right={"post": "queue_ids"}),
        "right 'post': for queue_ids it must be",
    ),
    (
        packet("PutMessage", right={"clients": "queue_ids"}),
        "right 'clients': for queue_ids it",
    ),
    (
        packet("RegisterClient", right={"put": "client_name"}),
        "right 'put': for client_name it must",
    ),
    (packet("PutMessage", right={"put": "queue_id"}), "PutMessage: right 'put': there is no field queue_id"),
    (
        packet("PutMessage", right={"put": "message"}),
        "right 'put': message names nothing that",
    ),
    (packet("PutMessages", right={"put": "letters.queue_id"}), "right 'put': there is no struct at letters"),
    (packet("Ping", name="ping"), "packet ping: name must be like PutMessage"),
    (packet("Ping", id=2), "packets: id 0x02 is used twice"),
    (packet("Ping", id=0x7E), "packet Ping: a client's packet has an odd id, not 0x7e"),
    (packet("Ping", id=0), "packet Ping: id must be 1 to 65535, not 0"),
    (packet("Ping", id=True), "packet Ping: id must be 1 to 65535, not True"),
    (packet("Ping", sender="both"), "packet Ping: sender must be client or server"),
    (packet("Ping", response="Pang"), "packet Ping: response 'Pang' is not a packet that the server sends"),
    (packet("Ping", response="Hello"), "packet Ping: response 'Hello' is not a packet that the server sends"),
    (packet("Ping", response="HelloResponse"), "packet Ping: the response's id must be 0x02, not 0x08"),
    (packet("Ping", allowed=[]), "packet Ping: it is allowed in no state"),
    (packet("Ping", allowed=["AWAKE"]), "packet Ping: there is no state AWAKE"),
    (packet("Ping", leads_to="ASLEEP"), "packet Ping: there is no state ASLEEP"),
    (packet("Ping", mode="ADMIN"), "packet Ping: there is no client mode ADMIN"),
    (packet("Ping", numbered=True), "packet Ping: record belongs to a numbered request"),
    (without("packet", "Ack", "record"), "packet Ack: record belongs to a numbered request"),
    (error("QUEUE_FULL", seen=["Nowhere"]), "error QUEUE_FULL: there is no packet or struct Nowhere"),
    (error("QUEUE_FULL", number="lost"), "error QUEUE_FULL: number must be used, kept, none, not 'lost'"),
    (error("QUEUE_FULL", recorded="perhaps"), "error QUEUE_FULL: recorded must be yes, no, in doubt"),
    (error("QUEUE_FULL", number="none"), "error QUEUE_FULL: it refuses no numbered request"),
    (packet("Ping", unsolicited=True), "packet Ping: only the server sends unsolicited packets"),
    (packet("GoAway", id=0xF1), "packet GoAway: a server's packet has an even id, not 0xf1"),
    (packet("Pong", numbered=True), "packet Pong: number, response and mode belong to a client's packet"),
    (packet("Pong", allowed=["IDENTIFIED"]), "packet Pong: an answer belongs to its request"),
    (
        packet("Pong", unsolicited=True, allowed=["IDENTIFIED"]),
        "packet Pong: it must either answer a request or be",
    ),
    (packet("GoAway", allowed=[]), "packet GoAway: it is allowed in no state"),
    (
        new_packet(unsolicited=False, allowed=[]),
        "packet NewPacket: it must either answer a request or be unsolicited",
    ),
    (packet("Success", id=4), "packet Success: must be there, with id 0x03"),
    (packet("Error", name="Failure"), "packet Error: must be there, with id 0x05"),
    (new_packet(name="Queue"), "specification: name Queue is used twice"),
    (packet("Pong", fields=[field("i65")]), "packet Pong, field new_field: type 'i65' is unknown here"),
    (packet("Pong", fields=[field("list<list<i64>>")]), "list<list<i64>>: lists and optionals cannot hold"),
    (packet("Pong", fields=[field("optional<list<i64>>")]), "lists and optionals cannot hold one another"),
    (
        packet("Pong", fields=[field(name="newField")]),
        "packet Pong, field newField: name must be like queue_id",
    ),
    (packet("Pong", fields=[field(name="class")]), "packet Pong, field class: name must be like queue_id"),
    (packet("Pong", fields=[field(name="encode")]), "field encode: the generated code uses the name itself"),
    (packet("Pong", fields=[field(), field()]), "packet Pong: field new_field is used twice"),
    (packet("Pong", fields=[field(doc="")]), "packet Pong, field new_field: doc must be"),
    (packet("PutMessage", fields=[field(name="number")]), "packet PutMessage: field number is used twice"),
    (
        struct("Queue", fields=[field("Message")]),
        "struct Queue, field new_field: type 'Message' is unknown here",
    ),
    (struct("Queue", fields=[field("Queue")]), "struct Queue, field new_field: type 'Queue' is unknown here"),
    (struct("Queue", fields=[]), "struct Queue: a struct has at least one field"),
    (
        struct("PutResult", tagged=[field(tag=1)]),
        "struct PutResult: only an extensible struct can have tagged",
    ),
    (
        struct("Queue", tagged=[field(tag=0)]),
        "struct Queue, tagged field new_field: tag must be 1 to 65535, not 0",
    ),
    (struct("Queue", tagged=[field()]), "struct Queue, tagged field new_field: tag is missing"),
    (struct("Queue", tagged=[field("optional<i64>", tag=1)]), "a tagged field is optional as it is"),
    (struct("Queue", tagged=[field(tag=1), field(tag=1, name="other")]), "struct Queue: tag 1 is used twice"),
    (
        struct("Queue", tagged=[field(tag=tag, name=f"tag_{tag}") for tag in range(1, 257)]),
        "struct Queue: a tagged section holds at most 255 fields",
    ),
    (
        lambda document: document["enum"][0].update(values=[]),
        "enum ClientMode: an enum has at least one value",
    ),
    (
        lambda document: document["enum"][0]["values"][0].update(value=2),
        "enum ClientMode: value 2 is used twice",
    ),
    (
        lambda document: document["enum"][0]["values"][0].update(value=256),
        "value FULL: value must be 0 to 255",
    ),
    (
        lambda document: document["enum"][0]["values"][0].update(name="full"),
        "value full: name must be like READ_ONLY",
    ),
    (lambda document: document["state"][0].update(name="Awaiting"), "state Awaiting: name must be like"),
    (
        lambda document: document["state"].append(document["state"][0]),
        "states: name AWAITING_HELLO is used twice",
    ),
    (error("QUEUE_FULL", code=7), "errors: code 7 is used twice"),
    (error("QUEUE_FULL", code=1000), "error QUEUE_FULL: code must be 0 to 999, not 1000"),
    (error("QUEUE_FULL", name="IO_ERROR"), "errors: name IO_ERROR is used twice"),
    (error("QUEUE_FULL", exception="InternalError"), "errors: exception InternalError is used twice"),
    (error("QUEUE_FULL", exception="QueueFull"), "error QUEUE_FULL: exception must be like QueueFullError"),
    (error("QUEUE_FULL", **{"class": "FUNNY"}), "there is no error class FUNNY"),
    (retired(packet_ids=[0x31]), "packet PutMessage: id 0x31 is retired"),
    (retired(error_codes=[25]), "error QUEUE_FULL: code 25 is retired"),
    (retired(enum_values={"ReadMode": [2]}), "ReadMode: 2 is retired"),
    (retired(tags={"QueueSettings": [1]}), "QueueSettings: 1 is retired"),
    (retired(packets=[]), r"\[retired\]: unknown key packets"),
    (setting("lease_ms", help=None), "queue setting lease_ms: help is missing"),
    (setting("lease_ms", colour="red"), "queue setting lease_ms: unknown key colour"),
    (setting("lease_ms", type="string"), "lease_ms: it must be a number, a flag or an enum"),
    (setting("lease_ms", default=None), "lease_ms: it has either a default or a meaning of being without it"),
    (setting("lease_ms", without="never"), "lease_ms: it has either a default or a meaning of being without"),
    (setting("lease_ms", unit="s"), "lease_ms: unit must be ms, days, queue, not 's'"),
    (setting("lease_ms", least=30_001), "lease_ms: default must be 30001 to 86400000, not 30000"),
    (setting("lease_ms", least=86_400_001), "lease_ms: least must be .* to 86400000, not 86400001"),
    (setting("lease_ms", most=1 << 63), "lease_ms: most must be .*, not 9223372036854775808"),
    (setting("history_days", most=65_536), "history_days: most must be 0 to 65535, not 65536"),
    (setting("expires_ms", least=0), "expires_ms: 0 takes it away, so least must be above 0"),
    (setting("bury_expired", least=0), "bury_expired: only a number has a range and a unit"),
    (setting("bury_expired", default=1), "bury_expired: default must be true or false, not 1"),
    (setting("bury_expired", off=None), "bury_expired: off belongs to a flag, and a flag has one"),
    (setting("history", off="gone"), "history: off belongs to a flag, and a flag has one"),
    (setting("history", default="SOME"), "history: HistoryMode has no value SOME"),
]


def test_the_specification_is_accepted() -> None:
    spec = load(SPEC_PATH)
    assert {packet.name for packet in spec.packets} == {table["name"] for table in DOCUMENT["packet"]}
    assert [field.name for field in spec.struct("PutMessage").fields[:2]] == ["number", "confirmed"]


@pytest.mark.parametrize(
    ("change", "message"), MISTAKES, ids=lambda part: part if isinstance(part, str) else ""
)
def test_a_mistake_is_refused(change: Change, message: str) -> None:
    document = copy.deepcopy(DOCUMENT)
    change(document)
    with pytest.raises(SpecError, match=message):
        build(document)


def test_what_is_not_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "telesto.toml"
    path.write_text("[protocol\n")
    with pytest.raises(SpecError, match=r"telesto\.toml"):
        load(path)
