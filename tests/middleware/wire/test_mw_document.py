"""The takeover that docs/reference/protocol.md shows frame by frame happens so on a real middleware."""

import asyncio
import json
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packets import MAX_FRAME_DEFAULT, PACKETS, REQUESTS
from wire import PATIENCE_S

_PATH = Path(__file__).parents[3] / "protocol" / "vectors" / "takeover.json"
_SIZE_MAX = MAX_FRAME_DEFAULT - 65_536


def _plain(packet: Any) -> Any:
    """The packet without what differs from run to run."""
    if isinstance(packet, packets.HelloResponse):
        packet.middleware_id, packet.server_version = 1, ""
        packet.incarnation = None
    elif isinstance(packet, packets.RegisterClientResponse | packets.IdentifyClientResponse):
        packet.incarnation = ""
        for hand_over in getattr(packet, "hand_overs", ()):
            hand_over.message.time_of_arrival = 0
    elif isinstance(packet, packets.ReadMessageResponse):
        for message in packet.messages:
            message.time_of_arrival = 0
    return packet


def _decoded(frame: bytes) -> tuple[int, int, Any]:
    ((method_id, packet_id, payload),) = FrameDecoder(MAX_FRAME_DEFAULT).feed(frame)
    return method_id, packet_id, _plain(PACKETS[method_id].decode(payload))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(4)
    return length + await reader.readexactly(int.from_bytes(length, "big"))


@pytest.mark.settings(max_frame=MAX_FRAME_DEFAULT, max_body_bytes=_SIZE_MAX)
async def test_the_takeover_of_the_document_happens_so(server: MiddlewareServer) -> None:
    cases = json.loads(_PATH.read_text(encoding="utf-8"))
    assert {case["fate"] for case in cases} == {"arrives", "is lost", "is cut"}
    async with asyncio.timeout(PATIENCE_S):
        for _, on_connection in groupby(cases, key=lambda case: case["connection"]):
            reader, writer = await asyncio.open_connection(*server.address)
            for case in on_connection:
                frame = bytes.fromhex(case["frame"])
                if int.from_bytes(frame[4:6], "big") in REQUESTS:
                    writer.write(frame[: len(frame) // 2] if case["fate"] == "is cut" else frame)
                else:
                    # What is lost to the client is on its way all the same: so it is sure to have been done.
                    assert _decoded(await _frame(reader)) == _decoded(frame), case["name"]
            await writer.drain()
            writer.transport.abort()
