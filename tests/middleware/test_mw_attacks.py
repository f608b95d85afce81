"""A real process under clients that take what they can get: memory, budgets, descriptors."""

from __future__ import annotations

import asyncio
import re
import struct
from pathlib import Path

from telesto.protocol import packets
from test_mw_processes import running, until_serving
from wire import Wire, until

MIB = 1 << 20


def resident_mb(pid: int) -> int:
    """The memory of a process that is in use, in MiB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


def begun_frame(size: int) -> bytes:
    """The first bytes of a put of which more is announced than comes."""
    return struct.pack(">IHI", 16 * MIB, packets.PutMessage.METHOD_ID, 99) + bytes(size)


async def test_the_memory_of_connections_goes_with_them(database_url: str) -> None:
    async with running(database_url) as (process, port):
        first = await (await until_serving(port)).register()
        queue_id = await first.create_queue()

        async def hold(data: bytes) -> Wire:
            wire = await (await Wire.open(("127.0.0.1", port))).register()
            wire.write(data)
            await wire.drain()
            return wire

        start = resident_mb(process.pid)
        begun = begun_frame(15 * MIB)
        for _ in range(5):
            wires = [await hold(begun) for _ in range(10)]
            await until(lambda: resident_mb(process.pid) > start + 100)
            await asyncio.gather(*(wire.close() for wire in wires))
        await until(lambda: resident_mb(process.pid) < start + 100)
        # Whole frames, refused and taken.
        body = bytes(15 * MIB)
        for _ in range(5):
            assert isinstance(await first.put(queue_id + 1, body=body), packets.PutMessageResponse)
            assert await first.put_one(queue_id, body=body)
            assert len(await first.read_now(queue_id)) == 1
        await until(lambda: resident_mb(process.pid) < start + 100)
        await first.close()
