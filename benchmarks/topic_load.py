"""A generator for topics: a process with publishers, subscribers, or both.

Publishers put one message after the other, so many in flight on each connection, or one at a time with
pauses between. Subscribers follow their topic: several messages a get as an iterator does, or one a get.
Bodies begin with the moment of their put, which is how long a delivery took when it is subtracted.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Iterable
from dataclasses import asdict, dataclass
from typing import Final

from telesto.benchmarks.buckets import Buckets
from telesto.benchmarks.worker import Gate, Plan, Result, run_worker
from telesto.client import AsyncTelestoClient, ClientOptions

GET_TIMEOUT_S: Final = 0.5
_MOMENT: Final = struct.Struct(">d")


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What one generator does; subscriptions exist already, of clients called `subscriber-NUMBER`.

    Attributes:
        pace_s: a publisher pauses so long between two puts; 0 for none.
        ahead: messages that a subscriber fetches at a time.
    """

    urls: list[str]
    topic: str
    seconds: float
    publishers: int = 0
    in_flight: int = 1
    pace_s: float = 0.0
    subscribers: tuple[str, ...] = ()
    ahead: int = 1
    body_bytes: int = 200

    def as_plan(self) -> Plan:
        """Return the plan as a worker receives it."""
        return asdict(self)


class TopicWorker:
    """One generator."""

    def __init__(self, plan: TopicPlan) -> None:
        self._plan = plan
        self._puts = Buckets(plan.seconds)
        self._deliveries = Buckets(plan.seconds)
        self._delays: list[tuple[float, float]] = []
        self._wrong: list[str] = []

    async def run(self, gate: Gate) -> Result:
        """Connects, waits for the moment, works until the end."""
        plan = self._plan
        publishers = [await self._connect(index, None) for index in range(plan.publishers)]
        subscribers = [await self._connect(index, name) for index, name in enumerate(plan.subscribers)]
        began = await gate.wait()
        self._puts.began = self._deliveries.began = began
        end = began + plan.seconds
        lanes: list[Awaitable[None]] = [
            self._publish(client, end) for client in publishers for _ in range(plan.in_flight)
        ]
        lanes += [self._follow(client, end) for client in subscribers]
        await asyncio.gather(*lanes)
        await _close([*publishers, *subscribers])
        return {
            "puts": self._puts.counts,
            "deliveries": self._deliveries.counts,
            "delays": self._delays,
            "wrong": self._wrong,
        }

    async def _connect(self, index: int, name: str | None) -> AsyncTelestoClient:
        urls = self._plan.urls
        client = AsyncTelestoClient(
            urls[index % len(urls)], options=ClientOptions(fetch_ahead=self._plan.ahead)
        )
        await client.connect(name=name or f"publisher-{time.monotonic_ns()}-{index}", existing="use")
        return client

    async def _publish(self, client: AsyncTelestoClient, end: float) -> None:
        filling = b"x" * max(0, self._plan.body_bytes - _MOMENT.size)
        while time.monotonic() < end:
            await client.put(self._plan.topic, _MOMENT.pack(time.monotonic()) + filling)
            self._puts.count()
            if self._plan.pace_s:
                await asyncio.sleep(self._plan.pace_s)

    async def _follow(self, client: AsyncTelestoClient, end: float) -> None:
        """Gets until the end; numbers have no gap and never come twice."""
        last = 0
        paced = bool(self._plan.pace_s)
        while time.monotonic() < end:
            async for message in client.subscription(self._plan.topic, timeout=GET_TIMEOUT_S):
                now = time.monotonic()
                self._deliveries.count()
                if last and message.number != last + 1:
                    self._wrong.append(f"{client.name}: {message.number} after {last}")
                last = message.number
                if paced:
                    self._delays.append((now, now - _MOMENT.unpack_from(message.body)[0]))
                if now >= end:
                    break


async def _close(clients: Iterable[AsyncTelestoClient]) -> None:
    for client in clients:
        await client.close()


async def work(plan: Plan, gate: Gate) -> Result:
    """Carry a plan out."""
    return await TopicWorker(TopicPlan(**(plan | {"subscribers": tuple(plan["subscribers"])}))).run(gate)


if __name__ == "__main__":
    run_worker(work)
