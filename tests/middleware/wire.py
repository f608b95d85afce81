"""A client on a raw socket, for tests of the middleware."""

from __future__ import annotations

import asyncio
import itertools
import os
import struct
from typing import Any

from faults.waiting import PATIENCE_S as PATIENCE_S
from faults.waiting import until as until
from telesto.protocol import packets
from telesto.protocol.framing import FrameDecoder
from telesto.protocol.packet import Packet

FULL = packets.ClientMode.FULL
READ_ONLY = packets.ClientMode.READ_ONLY
FOREVER_MS = 0xFFFF_FFFF


class Wire:
    """Sends packets and hands out their answers by packet id, whatever their order."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = FrameDecoder(1 << 30)
        self._packet_ids = itertools.count(1)
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self.unasked: asyncio.Queue[Any] = asyncio.Queue()
        self.client_id = 0
        self.session = 0
        self.greeting: packets.HelloResponse | None = None
        self._task = asyncio.create_task(self._receive())

    @classmethod
    async def open(cls, address: tuple[str, int]) -> Wire:
        return cls(*await asyncio.open_connection(*address))

    def number(self) -> int:
        return next(self._numbers)

    def resume(self) -> None:
        """Leaves a number out, as a client does that has seen a refusal for now."""
        next(self._numbers)

    def send(self, packet: Packet) -> asyncio.Future[Any]:
        """Sends a packet; the future gives its answer."""
        packet_id, answer = self.expect()
        self._writer.write(packet.encode(packet_id))
        answer.packet_id = packet_id  # type: ignore[attr-defined]
        return answer

    def expect(self) -> tuple[int, asyncio.Future[Any]]:
        """Takes a packet id and gives the future of its answer."""
        packet_id = next(self._packet_ids)
        answer = asyncio.get_running_loop().create_future()
        self._answers[packet_id] = answer
        return packet_id, answer

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def ask(self, packet: Packet) -> Any:
        """Sends a packet and waits for its answer."""
        # Python 3.11's wait_for forgets that it was cancelled when the answer comes at the same time.
        async with asyncio.timeout(PATIENCE_S):
            return await self.send(packet)

    async def hello(self, max_frame: int = 1 << 24) -> packets.HelloResponse:
        """Says hello, unless that was done."""
        if self.greeting is None:
            answer = await self.ask(hello(max_frame=max_frame))
            if not isinstance(answer, packets.HelloResponse):
                return answer  # type: ignore[no-any-return]
            self.greeting = answer
        return self.greeting

    async def register(self, name: str | None = None, mode: packets.ClientMode = FULL) -> Wire:
        """Says hello and registers a new client."""
        await self.hello()
        name = name or f"client-{os.urandom(8).hex()}"
        answer = await self.ask(packets.RegisterClient(name, mode, os.urandom(16)))
        assert isinstance(answer, packets.RegisterClientResponse), answer
        self.client_id, self.session = answer.client_id, answer.session
        return self

    async def identify(self, client_id: int) -> packets.IdentifyClientResponse:
        """Says hello and takes a client over."""
        await self.hello()
        answer = await self.ask(packets.IdentifyClient(client_id, ""))
        assert isinstance(answer, packets.IdentifyClientResponse), answer
        self.client_id, self.session = answer.client_id, answer.session
        return answer

    async def create_queue(
        self, name: str | None = None, max_messages: int | None = None, **settings: Any
    ) -> int:
        name = name or f"queue-{os.urandom(8).hex()}"
        answer = await self.ask(
            packets.CreateQueue(
                self.number(), [], name, packets.QueueSettings(max_messages=max_messages, **settings)
            )
        )
        assert isinstance(answer, packets.CreateQueueResponse), answer
        return answer.queue.queue_id

    def put(self, *queue_ids: int, **message: Any) -> asyncio.Future[Any]:
        return self.send(put(self.number(), *queue_ids, **message))

    async def put_one(self, queue_id: int, **message: Any) -> int:
        """Puts a message and returns its id."""
        answer = await asyncio.wait_for(self.put(queue_id, **message), PATIENCE_S)
        assert isinstance(answer, packets.PutMessageResponse), answer
        assert answer.results[0].error is None
        return answer.results[0].message_id

    def read(self, queue_id: int, **fields: Any) -> asyncio.Future[Any]:
        return self.send(read(self.number(), queue_id, **fields))

    async def read_now(self, queue_id: int, **fields: Any) -> list[packets.Message]:
        """Reads what is there."""
        answer = await asyncio.wait_for(self.read(queue_id, **fields), PATIENCE_S)
        assert isinstance(answer, packets.ReadMessageResponse), answer
        return answer.messages

    async def closed(self) -> None:
        """Returns when the middleware has closed the connection."""
        await asyncio.wait_for(asyncio.shield(self._task), PATIENCE_S)

    async def close(self) -> None:
        self._writer.transport.abort()
        await asyncio.gather(self._task, return_exceptions=True)

    def pause_reading(self) -> None:
        self._writer.transport.pause_reading()  # type: ignore[attr-defined]

    def resume_reading(self) -> None:
        self._writer.transport.resume_reading()  # type: ignore[attr-defined]

    async def drain(self) -> None:
        await self._writer.drain()

    async def _receive(self) -> None:
        try:
            while data := await self._reader.read(1 << 16):
                for frame in self._decoder.feed(data):
                    self._take(frame.method_id, frame.packet_id, frame.payload)
        except OSError:
            pass
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ConnectionError("the middleware closed the connection"))
                answer.exception()

    def _take(self, method_id: int, packet_id: int, payload: bytes) -> None:
        packet = packets.PACKETS[method_id].decode(payload)
        answer = self._answers.pop(packet_id, None)
        if answer is None:
            self.unasked.put_nowait(packet)
        elif not answer.done():
            answer.set_result(packet)


def hello(**fields: Any) -> packets.Hello:
    values: dict[str, Any] = {
        "magic": packets.MAGIC,
        "major": packets.PROTOCOL_MAJOR,
        "minor": packets.PROTOCOL_MINOR,
        "library": "test",
        "library_version": "1",
        "max_frame": 1 << 24,
        "capabilities": [],
    }
    return packets.Hello(**(values | fields))


def put(
    number: int,
    *queue_ids: int,
    body: bytes = b"body",
    priority: int = 5,
    receiver_id: int = 0,
    context: int | None = None,
    confirmed: list[int] | None = None,
    **tagged: Any,
) -> packets.PutMessage:
    message = packets.NewMessage(priority, receiver_id, body, context, **tagged)
    return packets.PutMessage(number, confirmed or [], message, list(queue_ids))


def read(
    number: int,
    queue_id: int,
    *,
    sender_id: int = 0,
    mode: packets.ReadMode = packets.ReadMode.PRIORITY,
    wait_ms: int = 0,
    max_messages: int = 1,
    max_bytes: int = 0,
    confirmed: list[int] | None = None,
) -> packets.ReadMessage:
    return packets.ReadMessage(
        number, confirmed or [], queue_id, sender_id, mode, wait_ms, max_messages, max_bytes
    )


def frame(method_id: int, packet_id: int, payload: bytes) -> bytes:
    return struct.pack(">IHI", len(payload) + 6, method_id, packet_id) + payload
