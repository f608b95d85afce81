"""A comparison finds what would break clients of a release, and the specification keeps what was released.

Nothing is released yet, so the comparison is tried on a made-up specification.
"""

import copy
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from tools.codegen.compatibility import incompatibilities
from tools.codegen.loading import build
from wire_reference import SPEC_PATH, load_document

Document = dict[str, Any]
Change = Callable[[Document], object]
RELEASED = sorted((SPEC_PATH.parent / "released").glob("*.toml"))
MADE_UP = """
[protocol]
name = "parcels"
magic = 0x50415243
major = 1
minor = 3
default_port = 7777
max_frame_unidentified = 64
max_frame_least = 128
max_frame_default = 1024

[retired]
packet_ids = []
error_codes = []
enum_values = {}
tags = {}

[[state]]
name = "NEW"
doc = "At first."

[[state]]
name = "OPEN"
doc = "After Open."

[[enum]]
name = "ErrorClass"
doc = "What holds after an error."
values = [{ name = "REJECTED", value = 1, doc = "No." }, { name = "RETRYABLE", value = 2, doc = "Later." }]

[[enum]]
name = "ClientMode"
doc = "What a client may do."
values = [{ name = "ALL", value = 1, doc = "All." }, { name = "LOOK", value = 2, doc = "Look." }]

[[struct]]
name = "Stamp"
doc = "A small one, which cannot grow."
fields = [{ name = "value", type = "i64", doc = "What it is worth." }]

[[struct]]
name = "Parcel"
doc = "One that can grow."
extensible = true
fields = [{ name = "weight", type = "u32", doc = "In grams." }]
tagged = [{ tag = 1, name = "note", type = "string", doc = "A note." }]

[[packet]]
name = "Success"
id = 0x03
sender = "server"
doc = "Done."
fields = []

[[packet]]
name = "Error"
id = 0x05
sender = "server"
doc = "Not done."
fields = [{ name = "code", type = "u16", doc = "Why." }]

[[packet]]
name = "Open"
id = 0x07
sender = "client"
right = "none"
response = "Success"
allowed = ["NEW"]
leads_to = "OPEN"
doc = "Begins."
fields = []

[[packet]]
name = "Send"
id = 0x11
sender = "client"
right = "none"
response = "SendResponse"
allowed = ["OPEN"]
numbered = true
record = "What it cost."
mode = "ALL"
doc = "Sends a parcel."
fields = [
  { name = "place", type = "i64", doc = "To where." },
  { name = "parcel", type = "Parcel", doc = "What." },
]
tagged = [{ tag = 1, name = "speed", type = "i64", doc = "How fast." }]

[[packet]]
name = "SendResponse"
id = 0x12
sender = "server"
doc = "What it cost."
fields = [{ name = "stamps", type = "list<Stamp>", doc = "The stamps." }]

[[packet]]
name = "Look"
id = 0x13
sender = "client"
right = "none"
response = "Success"
allowed = ["NEW", "OPEN"]
mode = "LOOK"
doc = "Looks."
fields = [{ name = "place", type = "i64", doc = "Where." }]

[[packet]]
name = "Bell"
id = 0x20
sender = "server"
unsolicited = true
allowed = ["OPEN"]
doc = "Rings."
fields = []

[[error]]
code = 7
name = "TOO_HEAVY"
class = "REJECTED"
exception = "TooHeavyError"
seen = ["Error"]
number = "used"
recorded = "yes"
doc = "It is too heavy."
"""
FIRST: Document = tomllib.loads(MADE_UP)


def entry(document: Document, section: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(table for table in document[section] if table["name"] == name)
    return found


def fields(name: str, section: str = "packet") -> Callable[[Document], list[dict[str, Any]]]:
    return lambda document: entry(document, section, name)["fields"]


def update(section: str, which: str, **changes: Any) -> Change:
    return lambda document: entry(document, section, which).update(changes)


def remove(section: str, name: str) -> Change:
    return lambda document: document[section].remove(entry(document, section, name))


NEW_FIELD = {"name": "new_field", "type": "i64", "doc": "A field."}
TAG_GIVEN_UP = {"tags": {"Send": [1]}}

INCOMPATIBLE: dict[str, tuple[Change, str]] = {
    "a field removed": (lambda d: fields("Send")(d).pop(), "packet Send: the fields were"),
    "a field added": (lambda d: fields("Look")(d).append(NEW_FIELD), "packet Look: the fields were"),
    "a field moved": (lambda d: fields("Send")(d).reverse(), "packet Send: the fields were"),
    "a field retyped": (lambda d: fields("Send")(d)[0].update(type="u64"), "packet Send: the fields were"),
    "a field renamed": (lambda d: fields("Send")(d)[0].update(name="where"), "packet Send: the fields were"),
    "a field of a struct retyped": (
        lambda d: fields("Stamp", "struct")(d)[0].update(type="u64"),
        "struct Stamp: the fields were",
    ),
    "a struct no longer extensible": (
        update("struct", "Parcel", extensible=False),
        "struct Parcel: extensible was True and is False",
    ),
    "a struct made extensible": (
        update("struct", "Stamp", extensible=True),
        "struct Stamp: extensible was None and is True",
    ),
    "a struct removed": (remove("struct", "Stamp"), "struct Stamp: is gone"),
    "a packet removed": (remove("packet", "Look"), "packet Look: is gone"),
    "a packet's id changed": (update("packet", "Look", id=0x71), "packet Look: id was 19 and is 113"),
    "a packet renamed": (update("packet", "Look", name="Peek"), "packet Look: is gone"),
    "another response": (
        update("packet", "Look", response="SendResponse"),
        "packet Look: response was Success and is SendResponse",
    ),
    "a request made numbered": (update("packet", "Look", numbered=True), "packet Look: numbered was None"),
    "a request that asks for more": (
        update("packet", "Look", mode="ALL"),
        "packet Look: mode was LOOK and is ALL",
    ),
    "a state less": (update("packet", "Look", allowed=["OPEN"]), "packet Look: is no longer allowed in NEW"),
    "another state after it": (
        update("packet", "Open", leads_to="NEW"),
        "packet Open: leads_to was OPEN and is NEW",
    ),
    "a state removed": (remove("state", "NEW"), "state NEW: is gone"),
    "an enum value changed": (
        lambda d: entry(d, "enum", "ClientMode")["values"][0].update(value=9),
        "enum ClientMode: ALL was 1 and is 9",
    ),
    "an enum value removed": (
        lambda d: entry(d, "enum", "ClientMode")["values"].pop(),
        "enum ClientMode: LOOK was 2 and is None",
    ),
    "an enum removed": (remove("enum", "ClientMode"), "enum ClientMode: ALL was 1 and is None"),
    "an error's code changed": (update("error", "TOO_HEAVY", code=99), "error TOO_HEAVY: code 7 is gone"),
    "an error renamed": (
        update("error", "TOO_HEAVY", name="HEAVY"),
        "error TOO_HEAVY, code 7: name was TOO_HEAVY and is HEAVY",
    ),
    "an error of another class": (
        update("error", "TOO_HEAVY", **{"class": "RETRYABLE"}),
        "error TOO_HEAVY, code 7: class was REJECTED and is RETRYABLE",
    ),
    "a tag reused": (
        lambda d: entry(d, "packet", "Send")["tagged"][0].update(name="colour"),
        "packet Send: tag 1 is used again for something else than speed: i64",
    ),
    "a tag retyped": (
        lambda d: entry(d, "packet", "Send")["tagged"][0].update(type="u64"),
        "packet Send: tag 1 is used again",
    ),
    "a tag removed": (
        update("packet", "Send", tagged=[]),
        "packet Send: tag 1 .speed. is gone and not retired",
    ),
    "a tag of a struct removed": (
        update("struct", "Parcel", tagged=[]),
        "struct Parcel: tag 1 .note. is gone and not retired",
    ),
    "another magic": (lambda d: d["protocol"].update(magic=1), r"\[protocol\]: magic was"),
    "a lower minor version": (
        lambda d: d["protocol"].update(minor=2),
        r"\[protocol\]: minor went down from 3",
    ),
}

INCOMPATIBLE["a higher least frame"] = (
    lambda d: d["protocol"].update(max_frame_least=129),
    r"\[protocol\]: max_frame_least went up from 128 to 129",
)

COMPATIBLE: dict[str, Change] = {
    "nothing": lambda d: None,
    "a doc": update("packet", "Look", doc="Another sentence."),
    "a tagged field": update("packet", "Look", tagged=[{**NEW_FIELD, "tag": 1}]),
    "a tagged field of a struct": lambda d: entry(d, "struct", "Parcel")["tagged"].append(
        {**NEW_FIELD, "tag": 15}
    ),
    "a tag given up": lambda d: (
        entry(d, "packet", "Send")["tagged"].pop(0),
        d["retired"].update(TAG_GIVEN_UP),
    ),
    "a packet more": lambda d: d["packet"].append(
        {**entry(d, "packet", "Bell"), "name": "Notice", "id": 0x7E}
    ),
    "an error more": lambda d: d["error"].append(
        {**d["error"][-1], "code": 99, "name": "NEW", "exception": "NewError"}
    ),
    "a state more": update("packet", "Send", allowed=["NEW", "OPEN"]),
    "a minor version more": lambda d: d["protocol"].update(minor=4),
}


def test_the_specification_keeps_what_was_released() -> None:
    for path in RELEASED:
        assert incompatibilities(tomllib.loads(path.read_text(encoding="utf-8")), load_document()) == []


def test_a_released_specification_is_named_by_its_version() -> None:
    for path in RELEASED:
        protocol = tomllib.loads(path.read_text(encoding="utf-8"))["protocol"]
        assert path.stem == f"{protocol['major']}.{protocol['minor']}"


@pytest.mark.parametrize("case", INCOMPATIBLE)
def test_an_incompatible_change_is_found(case: str) -> None:
    change, message = INCOMPATIBLE[case]
    document = copy.deepcopy(FIRST)
    change(document)
    assert any(re.match(message, problem) for problem in incompatibilities(FIRST, document))


@pytest.mark.parametrize("case", COMPATIBLE)
def test_a_compatible_change_is_let_pass(case: str) -> None:
    document = copy.deepcopy(FIRST)
    COMPATIBLE[case](document)
    build(document)
    assert incompatibilities(FIRST, document) == []


@pytest.mark.parametrize(
    ("then", "now", "missing"),
    [
        ({"packet_ids": [0x71]}, {"packet_ids": []}, "113 is missing in packet_ids"),
        ({"error_codes": [50, 51]}, {"error_codes": [51]}, "50 is missing in error_codes"),
        ({"tags": {"Look": [4]}}, {"tags": {}}, "4 is missing in tags.Look"),
        ({"enum_values": {"ClientMode": [3]}}, {}, "3 is missing in enum_values.ClientMode"),
    ],
)
def test_what_was_retired_stays_retired(then: Document, now: Document, missing: str) -> None:
    released, current = copy.deepcopy(FIRST), copy.deepcopy(FIRST)
    released["retired"], current["retired"] = then, now
    assert incompatibilities(released, current) == [f"[retired]: {missing}"]


def test_another_major_version_promises_nothing() -> None:
    document = copy.deepcopy(FIRST)
    document["protocol"]["major"] = 2
    document["packet"] = []
    assert incompatibilities(FIRST, document) == []
