"""A generator for consumers: a process with producers, consumers, or both, of one queue.

Producers put one message after the other, so many in flight on each connection, or one at a time with pauses
between. Consumers acknowledge each message as they take it. Bodies begin with the moment of their put, which
is how long a delivery took when it is subtracted.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import count
from typing import Final

from telesto.benchmarks.buckets import Buckets
from telesto.benchmarks.worker import Gate, Plan, Result, run_worker
from telesto.client import AsyncConsumer, AsyncTelestoClient, Message

MOMENT: Final = struct.Struct(">d")
WAIT_S: Final = 0.2
"""How long a consumer waits for a message before it looks whether its time is up."""


@dataclass(frozen=True, slots=True)
class ConsumerPlan:
    """What one generator does.

    Attributes:
        credit: messages that a consumer may have at a time.
        keys: how many partition keys the producers use in turn; 0 for messages without a key.
        pace_s: a producer pauses so long between two puts; 0 for none. Then delays are kept.
    """

    urls: list[str]
    queue_id: int
    seconds: float
    producers: int = 0
    in_flight: int = 1
    keys: int = 0
    pace_s: float = 0.0
    consumers: int = 0
    credit: int = 256
    body_bytes: int = 200

    def as_plan(self) -> Plan:
        """Return the plan as a worker receives it."""
        return asdict(self)


class OrderWatch:
    """Notices a message that comes after a later one of its partition, unless it comes again."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], int] = {}
        self.wrong: list[str] = []

    def see(self, message: Message) -> None:
        """A consumer was given a message."""
        if message.partition_key is None or message.redelivered:
            return
        partition = message.sender_id, message.partition_key
        last = self._last.get(partition, 0)
        if message.message_id <= last:
            self.wrong.append(f"partition {message.partition_key}: {message.message_id} after {last}")
        self._last[partition] = message.message_id


class ConsumerWorker:
    """One generator."""

    def __init__(self, plan: ConsumerPlan) -> None:
        self._plan = plan
        self._numbers = count()
        self._puts = Buckets(plan.seconds)
        self._acks = Buckets(plan.seconds)
        self._put = self._acked = 0
        self._delays: list[tuple[float, float]] = []
        self._order = OrderWatch()

    async def run(self, gate: Gate) -> Result:
        """Connects, waits for the moment, works until the end."""
        plan = self._plan
        producers = [await self._connect("producer", index) for index in range(plan.producers)]
        consumers = [await self._connect("consumer", index) for index in range(plan.consumers)]
        began = await gate.wait()
        self._puts.began = self._acks.began = began
        end = began + plan.seconds
        await asyncio.gather(
            *(self._produce(client, end) for client in producers for _ in range(plan.in_flight)),
            *(self._consume(client, end) for client in consumers),
        )
        await _close([*producers, *consumers])
        return {
            "puts": self._puts.counts,
            "acks": self._acks.counts,
            "put": self._put,
            "acked": self._acked,
            "delays": self._delays,
            "wrong": self._order.wrong,
        }

    async def _connect(self, role: str, index: int) -> AsyncTelestoClient:
        urls = self._plan.urls
        client = AsyncTelestoClient(urls[index % len(urls)])
        await client.connect(name=f"{role}-{time.monotonic_ns()}-{index}")
        return client

    async def _produce(self, client: AsyncTelestoClient, end: float) -> None:
        plan = self._plan
        filling = b"x" * max(0, plan.body_bytes - MOMENT.size)
        while time.monotonic() < end:
            key = f"key-{next(self._numbers) % plan.keys}" if plan.keys else None
            body = MOMENT.pack(time.monotonic()) + filling
            await client.put_message(plan.queue_id, body, partition_key=key)
            self._put += 1
            self._puts.count()
            if plan.pace_s:
                await asyncio.sleep(plan.pace_s)

    async def _consume(self, client: AsyncTelestoClient, end: float) -> None:
        async with client.consume(self._plan.queue_id, credit=self._plan.credit) as consumer:
            await self._acknowledge(consumer, end)
        self._acked -= consumer.lost

    async def _acknowledge(self, consumer: AsyncConsumer, end: float) -> None:
        paced = bool(self._plan.pace_s)
        while (now := time.monotonic()) < end:
            leased = await consumer.get(WAIT_S)
            if leased is None:
                continue
            async with leased:
                self._order.see(leased.message)
                if paced:
                    now = time.monotonic()
                    self._delays.append((now, now - MOMENT.unpack_from(leased.body)[0]))
            self._acked += 1
            self._acks.count()


async def _close(clients: Iterable[AsyncTelestoClient]) -> None:
    for client in clients:
        await client.close()


async def work(plan: Plan, gate: Gate) -> Result:
    """Carry a plan out."""
    return await ConsumerWorker(ConsumerPlan(**plan)).run(gate)


if __name__ == "__main__":
    run_worker(work)
