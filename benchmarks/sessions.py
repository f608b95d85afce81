"""What a generator needs of a message queue, and Telesto's way of giving it.

Another system is compared by writing another class with the same three methods.
"""

from typing import Protocol, Self

from telesto.client import AsyncTelestoClient, Delivery, TelestoClient


class Session(Protocol):
    """One client's connection to a queue."""

    async def put(self, body: bytes) -> None:
        """Put one message; return once it is durable."""

    async def take(self) -> bytes | None:
        """Take one message; None when none came within the time."""

    async def close(self) -> None:
        """Confirm what was taken and leave."""


class TelestoSession:
    """A session through the asyncio client."""

    def __init__(self, client: AsyncTelestoClient, queue_id: int, priority: int, timeout_s: float) -> None:
        self._client = client
        self._queue_id = queue_id
        self._priority = priority
        self._timeout_s = timeout_s

    @classmethod
    async def open(
        cls,
        url: str,
        name: str,
        queue_id: int,
        priority: int,
        timeout_s: float,
        delivery: Delivery = "once",
        state_dir: str | None = None,
    ) -> Self:
        """Connect as the client `name`, new or known."""
        client = AsyncTelestoClient(url, delivery=delivery, state_dir=state_dir)
        await client.connect(name=name, existing="use")
        return cls(client, queue_id, priority, timeout_s)

    async def put(self, body: bytes) -> None:
        """Put one message; return once it is durable."""
        await self._client.put_message(self._queue_id, body, priority=self._priority)

    async def take(self) -> bytes | None:
        """Take one message; None when none came within the time."""
        message = await self._client.retrieve_message(self._queue_id, timeout=self._timeout_s)
        return None if message is None else message.body

    async def close(self) -> None:
        """Confirm what was taken and leave."""
        await self._client.close()


class BlockingSession:
    """A session through the blocking client, for a generator with one lane: it stops the loop."""

    def __init__(self, client: TelestoClient, queue_id: int, priority: int, timeout_s: float) -> None:
        self._client = client
        self._queue_id = queue_id
        self._priority = priority
        self._timeout_s = timeout_s

    @classmethod
    def open(
        cls, url: str, name: str, queue_id: int, priority: int, timeout_s: float, state_dir: str | None
    ) -> Self:
        """Connect as the client `name`, new or known."""
        client = TelestoClient(url, state_dir=state_dir)
        client.connect(name=name, existing="use")
        return cls(client, queue_id, priority, timeout_s)

    async def put(self, body: bytes) -> None:
        """Put one message; return once it is durable."""
        self._client.put_message(self._queue_id, body, priority=self._priority)

    async def take(self) -> bytes | None:
        """Take one message; None when none came within the time."""
        message = self._client.retrieve_message(self._queue_id, timeout=self._timeout_s)
        return None if message is None else message.body

    async def close(self) -> None:
        """Confirm what was taken and leave."""
        self._client.close()
