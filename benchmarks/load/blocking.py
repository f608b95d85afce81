"""The blocking client under the names that the client types call."""

from __future__ import annotations

from telesto.client import Delivery, Message, TelestoClient


class BlockingClient:
    """A blocking client for a process of its own: each call stops the event loop until it is answered."""

    def __init__(self, url: str, *, state_dir: str | None, delivery: Delivery) -> None:
        self._client = TelestoClient(url, state_dir=state_dir, delivery=delivery)

    async def connect(self, *, name: str, existing: str) -> None:
        """Connect as the client `name`, which is registered already."""
        assert existing == "use"
        self._client.connect(name=name, existing="use")

    async def put_message(
        self,
        queue_id: int,
        body: bytes,
        *,
        priority: int,
        receiver_id: int | None,
        partition_key: str | None,
    ) -> int:
        """Put one message."""
        return self._client.put_message(
            queue_id, body, priority=priority, receiver_id=receiver_id, partition_key=partition_key
        )

    async def retrieve_messages(self, queue_id: int, *, max_messages: int, timeout: float) -> list[Message]:  # noqa: ASYNC109 - the service does the waiting
        """Take messages; none when none came in time."""
        return self._client.retrieve_messages(queue_id, max_messages=max_messages, timeout=timeout)

    async def close(self) -> None:
        """Confirm what was taken and disconnect."""
        self._client.close()
