"""The tables that say what a middleware must handle agree with the specification."""

import pytest

from telesto.protocol import packets
from telesto.protocol.packets import PACKETS, REQUESTS, ClientMode, ConnectionState
from wire_reference import REFERENCE, load_document

REQUEST_NAMES = [name for name, entry in REFERENCE.packets.items() if entry["sender"] == "client"]


def test_every_packet_is_found_by_its_id() -> None:
    assert {method_id: packet.__name__ for method_id, packet in PACKETS.items()} == {
        entry["id"]: name for name, entry in REFERENCE.packets.items()
    }
    assert all(method_id == packet.METHOD_ID for method_id, packet in PACKETS.items())


def test_every_request_is_there() -> None:
    assert [info.packet.__name__ for info in REQUESTS.values()] == REQUEST_NAMES


@pytest.mark.parametrize("name", REQUEST_NAMES)
def test_a_request_is_described_as_in_the_specification(name: str) -> None:
    entry = REFERENCE.packets[name]
    info = REQUESTS[entry["id"]]
    assert info.packet is getattr(packets, name)
    assert info.response is (getattr(packets, entry["response"]) if entry.get("answered", True) else None)
    assert {state.name for state in info.allowed} == set(entry["allowed"])
    assert info.leads_to == (ConnectionState[entry["leads_to"]] if "leads_to" in entry else None)
    assert info.numbered == entry.get("numbered", False)
    assert info.mode == (ClientMode[entry["mode"]] if "mode" in entry else None)


def test_only_numbered_requests_begin_with_number_and_confirmed() -> None:
    for info in REQUESTS.values():
        assert (info.packet.__slots__[:2] == ("number", "confirmed")) == info.numbered


def test_the_constants_are_those_of_the_specification() -> None:
    protocol = load_document()["protocol"]
    assert packets.MAGIC.to_bytes(4, "big") == b"TLST"
    assert (protocol["major"], protocol["minor"]) == (packets.PROTOCOL_MAJOR, packets.PROTOCOL_MINOR)
    assert protocol["default_port"] == packets.DEFAULT_PORT
    assert protocol["max_frame_unidentified"] == packets.MAX_FRAME_UNIDENTIFIED
    assert protocol["max_frame_least"] == packets.MAX_FRAME_LEAST
    assert protocol["max_frame_default"] == packets.MAX_FRAME_DEFAULT
