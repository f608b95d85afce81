"""The client type that consumes: messages are pushed to it, and it acknowledges each."""

from __future__ import annotations

import asyncio
import time

from telesto.benchmarks.load.bodies import open_envelope
from telesto.benchmarks.load.operations import Operation
from telesto.benchmarks.load.slot import ClientType, Slot
from telesto.client import AsyncConsumer, AsyncLeasedMessage
from telesto.protocol.errors import TelestoError


class Consumer(ClientType):
    """Takes what is pushed and acknowledges it at once, without waiting for one before it takes the next."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._consumer: AsyncConsumer | None = None
        self._acks: set[asyncio.Task[None]] = set()

    async def run_once(self, _intended: float) -> None:
        """Wait for a message; its acknowledgement goes its own way."""
        slot = self._slot
        sent = time.monotonic()
        try:
            if self._consumer is None:
                self._consumer = slot.client.consume(slot.queue_id, credit=slot.plan.credit)
            leased = await self._consumer.get(timeout=slot.wait_s())
        except TelestoError as error:
            await slot.failed(Operation.DELIVERY, error)
            return
        if leased is None:
            return
        slot.came(Operation.DELIVERY, leased.body, sent, redelivered=leased.message.redelivered)
        task = asyncio.create_task(self._ack(leased))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)

    async def finish(self) -> None:
        """Wait for the acknowledgements under way, and leave."""
        await asyncio.gather(*self._acks)
        if self._consumer is not None:
            await self._consumer.close()

    async def _ack(self, leased: AsyncLeasedMessage) -> None:
        sent = time.monotonic()
        try:
            await leased.ack()
        except TelestoError as error:
            self._slot.recorder.failed(Operation.ACK, type(error).__name__)
            self._slot.recorder.doubtful_takes.append(open_envelope(leased.body).identity)
        else:
            self._slot.came(Operation.ACK, leased.body, sent, redelivered=leased.message.redelivered)
