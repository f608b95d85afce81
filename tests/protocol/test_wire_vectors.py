"""Every vector, read whole, byte by byte and with other bytes behind it; every packet and error has one."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from telesto.protocol.errors import TelestoError, UnknownMethodError
from telesto.protocol.framing import Frame, FrameDecoder
from telesto.protocol.packets import MAX_FRAME_DEFAULT, MAX_FRAME_UNIDENTIFIED, PACKETS
from wire_objects import OBJECTS
from wire_reference import REFERENCE

DIRECTORY = Path(__file__).parents[2] / "protocol" / "vectors"
SPECIAL = {"malformed", "tolerated"}
Case = dict[str, Any]


def load(name: str) -> list[Case]:
    cases: list[Case] = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    return cases


GOOD_CASES = [
    case for path in sorted(DIRECTORY.glob("*.json")) if path.stem not in SPECIAL for case in load(path.stem)
]
TOLERATED_CASES = load("tolerated")
MALFORMED_CASES = load("malformed")
PING = bytes.fromhex("00000007 0001 00000063 00")


def case_id(case: Case) -> str:
    return f"{case['packet']}: {case['name']}"


def expected(case: Case) -> tuple[int, int, Any]:
    packet = OBJECTS.packet(case["packet"], case["fields"])
    return REFERENCE.packets[case["packet"]]["id"], case["packet_id"], packet


def decode(frame: Frame) -> tuple[int, int, Any]:
    packet = PACKETS.get(frame.method_id)
    if packet is None:
        raise UnknownMethodError(f"method id {frame.method_id}")
    return frame.method_id, frame.packet_id, packet.decode(frame.payload)


def read(data: bytes, max_frame: int = MAX_FRAME_DEFAULT, piece: int = 0) -> list[tuple[int, int, Any]]:
    decoder = FrameDecoder(max_frame)
    pieces = [data[at : at + piece] for at in range(0, len(data), piece)] if piece else [data]
    return [decode(frame) for part in pieces for frame in decoder.feed(part)]


@pytest.mark.parametrize("case", GOOD_CASES, ids=case_id)
def test_the_reference_encoder_gives_the_frame(case: Case) -> None:
    assert REFERENCE.frame(case["packet"], case["packet_id"], case["fields"]).hex() == case["frame"]


@pytest.mark.parametrize("case", GOOD_CASES, ids=case_id)
def test_the_packet_is_encoded_as_the_frame(case: Case) -> None:
    packet = OBJECTS.packet(case["packet"], case["fields"])
    assert packet.encode(case["packet_id"]).hex() == case["frame"]


@pytest.mark.parametrize("case", GOOD_CASES + TOLERATED_CASES, ids=case_id)
@pytest.mark.parametrize("piece", [0, 1, 3])
def test_the_frame_is_decoded_to_the_packet(case: Case, piece: int) -> None:
    assert read(bytes.fromhex(case["frame"]), piece=piece) == [expected(case)]


@pytest.mark.parametrize("case", GOOD_CASES + TOLERATED_CASES, ids=case_id)
@pytest.mark.parametrize("piece", [0, 1])
def test_bytes_behind_the_frame_do_not_matter(case: Case, piece: int) -> None:
    frame = bytes.fromhex(case["frame"])
    ping = (1, 0x63, OBJECTS.packet("Ping", {}))
    assert read(frame + PING + PING[:5], piece=piece) == [expected(case), ping]


@pytest.mark.parametrize("case", GOOD_CASES + TOLERATED_CASES, ids=case_id)
def test_the_packet_has_the_fields_of_the_case(case: Case) -> None:
    [(_, _, packet)] = read(bytes.fromhex(case["frame"]))
    assert OBJECTS.fields(case["packet"], packet) == case["fields"]


@pytest.mark.parametrize("case", MALFORMED_CASES, ids=case_id)
@pytest.mark.parametrize("piece", [0, 1])
def test_the_malformed_frame_is_refused(case: Case, piece: int) -> None:
    with pytest.raises(TelestoError) as caught:
        read(bytes.fromhex(case["frame"]), MAX_FRAME_UNIDENTIFIED, piece)
    assert caught.value.code is not None
    assert caught.value.code.name == case["error"]
    if case["packet"]:
        assert case["packet"] in caught.value.details


@pytest.mark.parametrize(
    "case", [case for case in MALFORMED_CASES if case["error"] != "FRAME_TOO_LARGE"], ids=case_id
)
def test_a_malformed_payload_leaves_the_stream_usable(case: Case) -> None:
    frames = FrameDecoder(MAX_FRAME_UNIDENTIFIED).feed(bytes.fromhex(case["frame"]) + PING)
    assert [frame.packet_id for frame in frames] == [5, 0x63]


def test_every_packet_has_a_vector() -> None:
    assert {case["packet"] for case in GOOD_CASES} == set(REFERENCE.packets)


def test_every_error_has_a_vector() -> None:
    cases = {case["name"]: case["fields"] for case in load("errors")}
    in_spec = {error["name"]: (error["code"], error["class"]) for error in REFERENCE.errors}
    assert {name: (fields["code"], fields["error_class"]) for name, fields in cases.items()} == in_spec


def values(type_: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The value of a field with the name of its struct or enum, and all that are in it."""
    if type_.startswith("list<"):
        for item in value:
            yield from values(type_[5:-1], item)
    elif type_.startswith("optional<"):
        if value is not None:
            yield from values(type_[9:-1], value)
    elif type_ in REFERENCE.structs:
        yield type_, value
        yield from values_of_fields(REFERENCE.structs[type_], value)
    elif type_ in REFERENCE.enums:
        yield type_, value


def values_of_fields(entry: dict[str, Any], fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for field in [*entry["fields"], *entry.get("tagged", [])]:
        if field["name"] in fields:
            yield from values(field["type"], fields[field["name"]])


VALUES = [
    found
    for case in GOOD_CASES
    for found in values_of_fields(REFERENCE.packets[case["packet"]], case["fields"])
]


def test_every_tagged_field_has_a_vector_with_and_without_it() -> None:
    contents = [*VALUES, *((case["packet"], case["fields"]) for case in GOOD_CASES)]
    for name, entry in (REFERENCE.packets | REFERENCE.structs).items():
        for tagged in entry.get("tagged", []):
            there = {tagged["name"] in fields for found, fields in contents if found == name}
            assert there == {True, False}, (name, tagged["name"])


def test_every_value_of_an_enum_has_a_vector() -> None:
    wanted = {(enum, name) for enum, names in REFERENCE.enums.items() for name in names}
    assert wanted - {(name, value) for name, value in VALUES if isinstance(value, str)} == set()


def test_frames_written_down_byte_by_byte() -> None:
    """Anchors the reference encoder, which wrote the vectors, to the rules as a person reads them."""
    read_message = (
        "00000038"  # 56 bytes follow
        "0033" "00000009"  # ReadMessage, packet id 9
        "0000000000000002"  # number 2
        "00000001" "0000000000000001"  # confirmed: one item, 1
        "0000000000000007" "0000000000000000"  # queue 7, any sender
        "02" "000003e8" "0000000a" "00000000"  # by time, 1 s, 10 messages, no limit in bytes
        "00"  # no tagged fields
    )  # fmt: skip
    fields = {"number": 2, "confirmed": [1], "queue_id": 7, "sender_id": 0, "mode": "TIME", "wait_ms": 1000}
    fields |= {"max_messages": 10, "max_bytes": 0}
    assert OBJECTS.packet("ReadMessage", fields).encode(9).hex() == read_message
    assert REFERENCE.frame("ReadMessage", 9, fields).hex() == read_message
    create_queue = (
        "00000026" "0021" "00000001"  # 38 bytes follow; CreateQueue, packet id 1
        "0000000000000001" "00000000"  # number 1, nothing confirmed
        "0002" "c3bc"  # a string of two bytes in UTF-8
        "01" "0001" "00000008" "0000000000000005"  # settings: one tagged field: tag 1, 8 bytes, 5
        "00"  # no tagged fields of the packet
    )  # fmt: skip
    bounded = {"number": 1, "confirmed": [], "queue_name": "ü", "settings": {"max_messages": 5}}
    assert OBJECTS.packet("CreateQueue", bounded).encode(1).hex() == create_queue
    assert REFERENCE.frame("CreateQueue", 1, bounded).hex() == create_queue
