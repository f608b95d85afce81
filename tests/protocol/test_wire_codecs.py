"""The generated codecs against the reference encoder, cut short, disturbed, and given what does not fit."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from telesto.protocol import packets
from telesto.protocol.errors import InvalidParameterError, MalformedPacketError, UnsupportedFieldError
from wire_objects import OBJECTS
from wire_reference import REFERENCE, SIGNED, UNSIGNED
from wire_strategies import packet_fields

NAMES = sorted(REFERENCE.packets)
HEADER_SIZE = 10
#: What the layouts say of a payload in which it finds nothing wrong.
NO_FINDING = "the payload does not have its fields"
PACKET_IDS = st.integers(0, 2**32 - 1)


def packet_class(name: str) -> type[packets.Packet]:
    return packets.PACKETS[REFERENCE.packets[name]["id"]]


def outcome(name: str, payload: bytes) -> Any:
    """The packet, or the error that decoding gives; any other exception fails the test."""
    try:
        return packet_class(name).decode(payload)
    except (MalformedPacketError, UnsupportedFieldError) as error:
        return error


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), packet_id=PACKET_IDS)
@settings(max_examples=60)
def test_encoding_agrees_with_the_reference_and_decoding_reverses_it(
    name: str, data: st.DataObject, packet_id: int
) -> None:
    fields = data.draw(packet_fields(name))
    packet = OBJECTS.packet(name, fields)
    frame = packet.encode(packet_id)
    assert frame == REFERENCE.frame(name, packet_id, fields)
    decoded = packet_class(name).decode(frame[HEADER_SIZE:])
    assert decoded == packet
    assert type(decoded) is type(packet)
    assert OBJECTS.fields(name, decoded) == fields


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=15)
def test_a_payload_cut_short_anywhere_is_malformed(name: str, data: st.DataObject) -> None:
    payload = REFERENCE.payload(name, data.draw(packet_fields(name)))
    for size in range(len(payload)):
        with pytest.raises(MalformedPacketError, match=name) as caught:
            packet_class(name).decode(payload[:size])
        assert NO_FINDING not in caught.value.details


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data(), more=st.binary(min_size=1, max_size=5))
@settings(max_examples=15)
def test_a_payload_with_bytes_left_over_is_malformed(name: str, data: st.DataObject, more: bytes) -> None:
    payload = REFERENCE.payload(name, data.draw(packet_fields(name)))
    with pytest.raises(MalformedPacketError, match="left over"):
        packet_class(name).decode(payload + more)


@pytest.mark.parametrize("name", NAMES)
@given(payload=st.binary(max_size=120))
@settings(max_examples=60)
def test_random_bytes_give_a_packet_or_a_finding(name: str, payload: bytes) -> None:
    found = outcome(name, payload)
    if isinstance(found, Exception):
        assert NO_FINDING not in str(found)


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=60)
def test_a_disturbed_payload_gives_a_packet_or_a_finding(name: str, data: st.DataObject) -> None:
    payload = bytearray(REFERENCE.payload(name, data.draw(packet_fields(name))))
    for _ in range(data.draw(st.integers(1, 3))):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    found = outcome(name, bytes(payload))
    if isinstance(found, Exception):
        assert NO_FINDING not in str(found)
    else:
        assert packet_class(name).decode(found.encode(1)[HEADER_SIZE:]) == found
        assert NO_FINDING in str(packets.LAYOUTS.fault_of_payload(name, bytes(payload)))


def test_a_finding_names_the_field_and_the_place() -> None:
    message = packets.NewMessage(5, 0, b"body", None)
    payload = packets.PutMessage(1, [], message, [7]).encode(1)[HEADER_SIZE:]
    with pytest.raises(MalformedPacketError) as caught:
        packets.PutMessage.decode(payload[:27])
    assert caught.value.details == "PutMessage.message.body: 4 bytes expected at byte 25, 2 left"
    assert caught.value.method == "PutMessage"
    listed = packets.GetQueuesResponse([packets.Queue(1, "a"), packets.Queue(2, "b")], False)
    disturbed = listed.encode(1)[HEADER_SIZE:].replace(b"\x00\x01b", b"\x00\x01\xff")
    with pytest.raises(MalformedPacketError, match=r"GetQueuesResponse\.queues\[1\]\.name: not UTF-8"):
        packets.GetQueuesResponse.decode(disturbed)


def list_fields() -> list[tuple[str, str, int]]:
    """(packet, field, position of its count) of each list that has only fields of fixed size before it."""
    sizes = SIGNED | UNSIGNED | {"bool": 1} | dict.fromkeys(REFERENCE.enums, 1)
    found = []
    for name in NAMES:
        at = 0
        for field in REFERENCE.fields(name):
            if field["type"].startswith("list<"):
                found.append((name, field["name"], at))
            if field["type"] not in sizes:
                break
            at += sizes[field["type"]]
    return found


@pytest.mark.parametrize(("name", "field", "at"), list_fields())
def test_a_count_beyond_the_payload_reserves_nothing(name: str, field: str, at: int) -> None:
    payload = bytes(at) + b"\xff\xff\xff\xff" + bytes(1000)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedPacketError, match=rf"{name}\.{field}: 4294967295 items cannot be"):
            packet_class(name).decode(payload)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


BAD_VALUES: dict[str, list[Any]] = {
    **{
        name: [-(1 << (8 * size - 1)) - 1, 1 << (8 * size - 1), "1", None, 1.5]
        for name, size in SIGNED.items()
    },
    **{name: [-1, 1 << (8 * size), "1", None, 1.5] for name, size in UNSIGNED.items()},
    "string": ["x" * 65536, "ä" * 32768, "\ud800", b"x", None],
    "bytes": ["text", None, 5, [b"x"]],
    "bool": [],
    **{name: [0, 99, None, "FULL"] for name in REFERENCE.enums},
    **{name: [None, 5, "x"] for name in REFERENCE.structs},
}


def bad_values(type_: str) -> list[Any]:
    if type_.startswith("list<"):
        return [None, 5, *([value] for value in bad_values(type_[5:-1]))]
    if type_.startswith("optional<"):
        return [value for value in bad_values(type_[9:-1]) if value is not None]
    return BAD_VALUES[type_]


def bad_cases() -> list[tuple[str, str, Any]]:
    return [
        (name, field["name"], value)
        for name in NAMES
        for field in REFERENCE.fields(name) + REFERENCE.tagged(name)
        for value in bad_values(field["type"])
        if not ("tag" in field and value is None)
    ]


def sample(name: str) -> Any:
    """A packet that can be encoded."""
    return OBJECTS.packet(name, {field["name"]: plain(field["type"]) for field in REFERENCE.fields(name)})


def plain(type_: str) -> Any:
    if type_.startswith("list<"):
        return []
    if type_.startswith("optional<"):
        return None
    if type_ in REFERENCE.enums:
        return next(iter(REFERENCE.enums[type_]))
    if type_ in REFERENCE.structs:
        return {field["name"]: plain(field["type"]) for field in REFERENCE.structs[type_]["fields"]}
    return {"string": "", "bytes": "", "bool": False}.get(type_, 1)


@pytest.mark.parametrize(("name", "field", "value"), bad_cases())
def test_a_value_that_does_not_fit_is_named(name: str, field: str, value: Any) -> None:
    packet = sample(name)
    packet.encode(1)
    setattr(packet, field, value)
    with pytest.raises(InvalidParameterError) as caught:
        packet.encode(1)
    assert caught.value.details.startswith(f"{name}.{field}")
    assert len(caught.value.details) < 250


@pytest.mark.parametrize("packet_id", [-1, 2**32, "1", None])
def test_a_packet_id_that_does_not_fit_is_named(packet_id: Any) -> None:
    with pytest.raises(InvalidParameterError, match="Ping: packet id"):
        packets.Ping().encode(packet_id)


def test_a_value_inside_a_struct_inside_a_list_is_named() -> None:
    message = packets.NewMessage(256, 0, b"", None)
    packet = packets.PutMessages(1, [], [packets.QueuedMessage(1, message)])
    with pytest.raises(
        InvalidParameterError, match=r"PutMessages\.messages\[0\]\.message\.priority: .* not 256"
    ):
        packet.encode(1)


def test_the_longest_string_and_list_that_fit() -> None:
    name = "x" * 65535
    assert packets.GetQueueId.decode(packets.GetQueueId(name).encode(1)[HEADER_SIZE:]).queue_name == name
    numbers = list(range(5000))
    payload = packets.DeleteClient(1, numbers).encode(1)[HEADER_SIZE:]
    assert packets.DeleteClient.decode(payload).confirmed == numbers


def test_a_programming_error_is_not_taken_for_a_bad_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that no value accounts for comes out as it is."""
    monkeypatch.setattr(packets, "_PACK_U32_U16_U32_U8", lambda *_: {}["missing"])
    with pytest.raises(KeyError, match="missing"):
        packets.Ping().encode(1)


@pytest.mark.parametrize("name", NAMES)
def test_a_packet_is_equal_to_another_of_its_class_and_fields_and_shows_them(name: str) -> None:
    fields = [field["name"] for field in REFERENCE.fields(name) + REFERENCE.tagged(name)]
    packet = sample(name)
    assert packet == sample(name)
    assert packet != next(sample(other) for other in NAMES if other != name)
    shown = ", ".join(f"{field}={getattr(packet, field)!r}" for field in fields)
    assert repr(packet) == f"{name}({shown})"
    for field in fields:
        changed = sample(name)
        setattr(changed, field, object())
        assert changed != packet
    with pytest.raises(TypeError):
        hash(packet)
    with pytest.raises(AttributeError):
        packet.no_field = 1
