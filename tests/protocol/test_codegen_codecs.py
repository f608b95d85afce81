"""The generator's codecs for types and combinations that the protocol does not use yet."""

import copy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telesto.protocol.errors import InvalidParameterError, MalformedPacketError, UnsupportedFieldError
from tools.codegen.loading import build
from tools.codegen.rendering import render
from wire_objects import Objects
from wire_reference import Reference, load_document
from wire_strategies import packet_fields

ROOT = Path(__file__).parents[2]
MODULE = "telesto_generated_for_a_test"
FIXED = ["bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "ReadMode"]
SINGLE = [*FIXED, "string", "bytes", "OperationRef", "NewMessage", "Extended", "Nested"]
HEADER_SIZE = 10


def fields(types: list[str], **more: int) -> list[dict[str, Any]]:
    return [{"name": f"field_{at}", "type": type_, "doc": "A field."} for at, type_ in enumerate(types)]


def tagged(types: list[str]) -> list[dict[str, Any]]:
    return [
        {"tag": at if at % 2 else 0x8000 + at, "name": f"tagged_{at}", "type": type_, "doc": "A field."}
        for at, type_ in enumerate(types, 1)
    ]


def packet(name: str, id_: int, **more: Any) -> dict[str, Any]:
    plain = {"name": name, "id": id_, "sender": "server", "unsolicited": True, "allowed": ["IDENTIFIED"]}
    return {**plain, "doc": "A packet.", **more}


def extended_document() -> dict[str, Any]:
    document = copy.deepcopy(load_document())
    extended = {"name": "Extended", "doc": "A struct.", "extensible": True, "fields": fields(["u8"])}
    nested = {"name": "Nested", "doc": "A struct.", "extensible": True}
    document["struct"] += [
        {**extended, "tagged": tagged(["i64", "string", "OperationRef", "list<u16>"])},
        {**nested, "fields": fields(["Extended", "optional<Extended>", "list<Extended>", "string"])},
    ]
    names = [
        "self",
        "payload",
        "at",
        "size",
        "parts",
        "tags",
        "count",
        "content",
        "found",
        "value",
        "failure",
        "place",
    ]
    named = [
        {"name": name, "type": "optional<string>", "doc": "A field."} for name in names if name != "self"
    ]
    document["packet"] += [
        packet("Singles", 0x1000, fields=fields(SINGLE)),
        packet("Optionals", 0x1002, fields=fields([f"optional<{type_}>" for type_ in SINGLE])),
        packet("Lists", 0x1004, fields=fields([f"list<{type_}>" for type_ in SINGLE])),
        packet(
            "Tagged", 0x1006, fields=[], tagged=tagged([*SINGLE, *(f"list<{type_}>" for type_ in SINGLE)])
        ),
        packet(
            "Mixed", 0x1008, fields=fields(["bool", "optional<bool>", "optional<ReadMode>", "u8", "string"])
        ),
        packet("Names", 0x100A, fields=named),
        packet(
            "Structs", 0x100C, fields=fields(["Nested", "Nested", "list<Nested>"]), tagged=tagged(["Nested"])
        ),
    ]
    flat = document["packet"][-7:]
    document["packet"] += [
        {**packet, "name": f"Rare{packet['name']}", "id": packet["id"] + 0x100, "rare": True}
        for packet in flat
    ]
    return document


NAMES = ["Singles", "Optionals", "Lists", "Tagged", "Mixed", "Names", "Structs"]
NAMES += [f"Rare{name}" for name in NAMES]
DOCUMENT = extended_document()
REFERENCE = Reference(DOCUMENT)


@pytest.fixture(scope="module")
def module() -> Iterator[ModuleType]:
    """The packets generated from the extended specification."""
    made = ModuleType(MODULE)
    sys.modules[MODULE] = made
    exec(render(build(DOCUMENT))["protocol/packets.py"], made.__dict__)
    yield made
    del sys.modules[MODULE]


def test_the_code_has_nothing_to_complain_about() -> None:
    source = render(build(DOCUMENT))["protocol/packets.py"]
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--quiet",
        "--stdin-filename",
        "protocol/packets.py",
        "-",
    ]
    done = subprocess.run(
        command, input=source, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60)
def test_codecs_agree_with_the_reference(module: ModuleType, name: str, data: st.DataObject) -> None:
    values = data.draw(packet_fields(name, REFERENCE))
    made = Objects(REFERENCE, module).packet(name, values)
    frame = made.encode(7)
    assert frame == REFERENCE.frame(name, 7, values)
    assert getattr(module, name).decode(frame[HEADER_SIZE:]) == made


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=10)
def test_a_payload_cut_short_is_malformed(module: ModuleType, name: str, data: st.DataObject) -> None:
    payload = REFERENCE.payload(name, data.draw(packet_fields(name, REFERENCE)))
    cuts = st.sets(st.integers(0, len(payload) - 1), max_size=30)
    for size in {*range(min(len(payload), 100)), *data.draw(cuts)}:
        with pytest.raises(MalformedPacketError) as caught:
            getattr(module, name).decode(payload[:size])
        assert "does not have its fields" not in caught.value.details


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60)
def test_a_disturbed_payload_gives_a_packet_or_a_finding(
    module: ModuleType, name: str, data: st.DataObject
) -> None:
    payload = bytearray(REFERENCE.payload(name, data.draw(packet_fields(name, REFERENCE))))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    finding = module.LAYOUTS.fault_of_payload(name, bytes(payload))
    if "does not have its fields" in finding.details:
        getattr(module, name).decode(bytes(payload))
    else:
        with pytest.raises((MalformedPacketError, UnsupportedFieldError)):
            getattr(module, name).decode(bytes(payload))


def test_a_tagged_field_is_a_keyword_and_may_be_left_out(module: ModuleType) -> None:
    assert module.Tagged().tagged_1 is None
    with pytest.raises(TypeError):
        module.Tagged(True)


def test_a_tagged_value_that_does_not_fit_is_named(module: ModuleType) -> None:
    with pytest.raises(
        InvalidParameterError, match=r"Tagged\.tagged_2: must be a number that fits i8, not 128"
    ):
        module.Tagged(tagged_2=128).encode(1)


def test_a_tag_must_hold_exactly_its_value(module: ModuleType) -> None:
    with pytest.raises(MalformedPacketError, match=r"Tagged\.tagged_1: 1 bytes left over at byte 8"):
        module.Tagged.decode(bytes.fromhex("01 0001 00000002 0100"))
