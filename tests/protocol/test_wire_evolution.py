"""The specification keeps what every release promised; and the comparison finds what would not."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.codegen.compatibility import incompatibilities
from tools.codegen.loading import build
from wire_reference import SPEC_PATH, load_document

Document = dict[str, Any]
Change = Callable[[Document], object]
RELEASED = sorted((SPEC_PATH.parent / "released").glob("*.toml"))
FIRST = tomllib.loads((SPEC_PATH.parent / "released" / "1.0.toml").read_text(encoding="utf-8"))


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
TAG_GIVEN_UP = {"tags": {"CreateQueue": [1]}}

INCOMPATIBLE: dict[str, tuple[Change, str]] = {
    "a field removed": (lambda d: fields("ReadMessage")(d).pop(), "packet ReadMessage: the fields were"),
    "a field added": (lambda d: fields("Ping")(d).append(NEW_FIELD), "packet Ping: the fields were"),
    "a field moved": (lambda d: fields("ReadMessage")(d).reverse(), "packet ReadMessage: the fields were"),
    "a field retyped": (
        lambda d: fields("ReadMessage")(d)[0].update(type="u64"),
        "packet ReadMessage: the fields were",
    ),
    "a field renamed": (
        lambda d: fields("ReadMessage")(d)[0].update(name="queue"),
        "packet ReadMessage: the fields were",
    ),
    "a field of a struct retyped": (
        lambda d: fields("Message", "struct")(d)[0].update(type="u64"),
        "struct Message: the fields were",
    ),
    "a struct no longer extensible": (
        update("struct", "Queue", extensible=False),
        "struct Queue: extensible was True and is False",
    ),
    "a struct made extensible": (
        update("struct", "PutResult", extensible=True),
        "struct PutResult: extensible was None and is True",
    ),
    "a struct removed": (remove("struct", "Message"), "struct Message: is gone"),
    "a packet removed": (remove("packet", "ReadMessage"), "packet ReadMessage: is gone"),
    "a packet's id changed": (
        update("packet", "ReadMessage", id=0x71),
        "packet ReadMessage: id was 51 and is 113",
    ),
    "a packet renamed": (update("packet", "Ping", name="Echo"), "packet Ping: is gone"),
    "another response": (
        update("packet", "DeleteQueue", response="Pong"),
        "packet DeleteQueue: response was Success and is Pong",
    ),
    "a request made numbered": (
        update("packet", "Release", numbered=True),
        "packet Release: numbered was None",
    ),
    "a request that asks for more": (
        update("packet", "ReadMessage", mode="FULL"),
        "packet ReadMessage: mode was READ_ONLY and is FULL",
    ),
    "a state less": (
        update("packet", "Confirm", allowed=["IDENTIFIED"]),
        "packet Confirm: is no longer allowed in DRAINING",
    ),
    "another state after it": (
        update("packet", "Hello", leads_to="IDENTIFIED"),
        "packet Hello: leads_to was AWAITING_IDENTITY and is IDENTIFIED",
    ),
    "a state removed": (remove("state", "DRAINING"), "state DRAINING: is gone"),
    "an enum value changed": (
        lambda d: entry(d, "enum", "ReadMode")["values"][0].update(value=9),
        "enum ReadMode: PRIORITY was 1 and is 9",
    ),
    "an enum value removed": (
        lambda d: entry(d, "enum", "ReadMode")["values"].pop(),
        "enum ReadMode: TIME was 2 and is None",
    ),
    "an enum removed": (remove("enum", "ReadMode"), "enum ReadMode: PRIORITY was 1 and is None"),
    "an error's code changed": (update("error", "QUEUE_FULL", code=99), "error QUEUE_FULL: code 25 is gone"),
    "an error renamed": (
        update("error", "QUEUE_FULL", name="FULL_QUEUE"),
        "error QUEUE_FULL, code 25: name was QUEUE_FULL and is FULL_QUEUE",
    ),
    "an error of another class": (
        update("error", "QUEUE_FULL", **{"class": "RETRYABLE"}),
        "error QUEUE_FULL, code 25: class was REJECTED and is RETRYABLE",
    ),
    "a tag reused": (
        lambda d: entry(d, "packet", "CreateQueue")["tagged"][0].update(name="max_bytes"),
        "packet CreateQueue: tag 1 is used again for something else than max_messages: i64",
    ),
    "a tag retyped": (
        lambda d: entry(d, "packet", "CreateQueue")["tagged"][0].update(type="u64"),
        "packet CreateQueue: tag 1 is used again",
    ),
    "a tag removed": (
        update("packet", "CreateQueue", tagged=[]),
        "packet CreateQueue: tag 1 .max_messages. is gone and not retired",
    ),
    "another magic": (lambda d: d["protocol"].update(magic=1), r"\[protocol\]: magic was"),
    "a lower minor version": (
        lambda d: d["protocol"].update(minor=-1),
        r"\[protocol\]: minor went down from 0",
    ),
}

COMPATIBLE: dict[str, Change] = {
    "nothing": lambda d: None,
    "a doc": update("packet", "Ping", doc="Another sentence."),
    "a tagged field": update("packet", "Ping", tagged=[{**NEW_FIELD, "tag": 1}]),
    "a tagged field of a struct": lambda d: entry(d, "struct", "Message")["tagged"].append(
        {**NEW_FIELD, "tag": 15}
    ),
    "a tag given up": lambda d: (
        entry(d, "packet", "CreateQueue")["tagged"].pop(0),
        d["retired"].update(TAG_GIVEN_UP),
    ),
    "a packet more": lambda d: d["packet"].append(
        {**entry(d, "packet", "GoAway"), "name": "Notice", "id": 0x7E}
    ),
    "an error more": lambda d: d["error"].append(
        {**d["error"][-1], "code": 99, "name": "NEW", "exception": "NewError"}
    ),
    "a state more": update("packet", "DeleteQueue", allowed=["IDENTIFIED", "DRAINING"]),
    "a minor version more": lambda d: d["protocol"].update(minor=1),
}


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_the_specification_keeps_what_was_released(path: Path) -> None:
    released = tomllib.loads(path.read_text(encoding="utf-8"))
    assert incompatibilities(released, load_document()) == []


@pytest.mark.parametrize("path", RELEASED, ids=lambda path: path.stem)
def test_a_released_specification_is_named_by_its_version(path: Path) -> None:
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
        ({"tags": {"Ping": [4]}}, {"tags": {}}, "4 is missing in tags.Ping"),
        ({"enum_values": {"ReadMode": [3]}}, {}, "3 is missing in enum_values.ReadMode"),
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
