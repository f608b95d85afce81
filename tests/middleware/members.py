"""Consumers as tests of the wire use them."""

import asyncio

from telesto.protocol import packets
from telesto.protocol.packets import LeaseRef
from wire import PATIENCE_S, Wire


class Member:
    """A consumer of a wire, and what was pushed to it."""

    def __init__(self, wire: Wire, consumer_id: int) -> None:
        self.wire = wire
        self.consumer_id = consumer_id
        self.refs: dict[bytes, LeaseRef] = {}

    async def next(self, count: int) -> list[packets.Message]:
        """Waits for so many messages."""
        messages: list[packets.Message] = []
        while len(messages) < count:
            deliver = await asyncio.wait_for(self.wire.unasked.get(), PATIENCE_S)
            assert isinstance(deliver, packets.Deliver), deliver
            assert deliver.consumer_id == self.consumer_id
            for delivery in deliver.deliveries:
                message = delivery.message
                self.refs[message.body] = LeaseRef(self.consumer_id, delivery.lease_id, message.message_id)
                messages.append(message)
        assert len(messages) == count
        return messages

    async def bodies(self, count: int) -> list[bytes]:
        return [message.body for message in await self.next(count)]

    def begin(self, *bodies: bytes, begun: bool = True) -> None:
        """Says that the application is given messages, or was not after all; nothing answers that."""
        leases = [self.refs[body] for body in bodies]
        self.wire.write(packets.Begin(leases, begun).encode(0))

    async def ack(self, *bodies: bytes) -> list[int | None]:
        leases = [self.refs[body] for body in bodies]
        answer = await self.wire.ask(packets.Ack(self.wire.number(), [], leases))
        assert isinstance(answer, packets.AckResponse), answer
        assert [result.related_id for result in answer.results] == [lease.message_id for lease in leases]
        return [result.error for result in answer.results]

    async def nack(self, *bodies: bytes, failed: bool = False) -> list[int | None]:
        leases = [self.refs[body] for body in bodies]
        answer = await self.wire.ask(packets.Nack(self.wire.number(), [], leases, failed))
        assert isinstance(answer, packets.NackResponse), answer
        return [result.error for result in answer.results]

    async def lost(self) -> packets.LeaseLost:
        packet = await asyncio.wait_for(self.wire.unasked.get(), PATIENCE_S)
        assert isinstance(packet, packets.LeaseLost), packet
        return packet


async def join(wire: Wire, queue_id: int, messages: int = 10, size: int = 0) -> Member:
    answer = await wire.ask(packets.JoinQueue(queue_id, messages, size))
    assert isinstance(answer, packets.JoinQueueResponse), answer
    assert answer.lease_ms == 30_000
    return Member(wire, answer.consumer_id)


async def put_all(wire: Wire, queue_id: int, *bodies: bytes) -> None:
    await asyncio.gather(*(wire.put(queue_id, body=body) for body in bodies))


async def put_keyed(wire: Wire, queue_id: int, *names: str) -> None:
    """Puts messages whose partition is the first letter of the body."""
    messages = [
        packets.QueuedMessage(queue_id, packets.NewMessage(5, 0, name.encode(), None, partition_key=name[0]))
        for name in names
    ]
    answer = await wire.ask(packets.PutMessages(wire.number(), [], messages))
    assert isinstance(answer, packets.PutMessagesResponse)
