"""The client type that consumes: messages are pushed to it, and it acknowledges each."""

from __future__ import annotations

import asyncio
import time

from telesto.benchmarks.workloads.envelope import open_envelope
from telesto.benchmarks.workloads.lane import ClientType, Lane
from telesto.benchmarks.workloads.operations import Operation
from telesto.client import AsyncConsumer, AsyncLeasedMessage
from telesto.protocol.errors import TelestoError


class Consumer(ClientType):
    """Takes what is pushed and acknowledges it at once, without waiting for one before it takes the next."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        self._consumer: AsyncConsumer | None = None
        self._acks: set[asyncio.Task[None]] = set()

    async def turn(self, _intended: float) -> None:
        """Wait for a message; its acknowledgement goes its own way."""
        lane = self._lane
        sent = time.monotonic()
        try:
            if self._consumer is None:
                self._consumer = lane.client.consume(lane.queue_id, credit=lane.plan.credit)
            leased = await self._consumer.get(timeout=lane.wait_s())
        except TelestoError as error:
            await lane.failed(Operation.DELIVERY, error)
            return
        if leased is None:
            return
        lane.came(Operation.DELIVERY, leased.body, sent, redelivered=leased.message.redelivered)
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
            self._lane.recorder.failed(Operation.ACK, type(error).__name__)
            self._lane.recorder.doubtful_takes.append(open_envelope(leased.body).identity)
        else:
            self._lane.came(Operation.ACK, leased.body, sent, redelivered=leased.message.redelivered)
