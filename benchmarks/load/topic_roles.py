"""Client types of topics: those who publish and those who subscribe."""

from __future__ import annotations

import time

from telesto.benchmarks.load.operations import Operation
from telesto.benchmarks.load.slot import ClientType, Slot
from telesto.protocol.errors import TelestoError


class Publisher(ClientType):
    """Puts messages to its topic."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, intended: float) -> None:
        """Put one message."""
        slot = self._slot
        identity, body = slot.body(intended)
        sent = time.monotonic()
        try:
            await slot.client.put(slot.topic, body)
        except TelestoError as error:
            await slot.failed(Operation.PUBLISH, error, identity)
        else:
            slot.sent(Operation.PUBLISH, identity, intended, sent)


class Subscriber(ClientType):
    """Follows its topic, several messages a get; its subscription is there before the run."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, _intended: float) -> None:
        """Wait for messages and get them."""
        slot = self._slot
        sent = time.monotonic()
        try:
            messages = await slot.client.get_messages(
                slot.topic, max_messages=slot.plan.fetch_batch, timeout=slot.wait_s()
            )
        except TelestoError as error:
            await slot.failed(Operation.GET, error)
            return
        for message in messages:
            slot.came(Operation.GET, message.body, sent)
