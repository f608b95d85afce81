"""Client types that put into queues and read from them, and the one that does nothing."""

from __future__ import annotations

import asyncio
import time

from telesto.benchmarks.load.bodies import partition_key_of
from telesto.benchmarks.load.operations import Operation
from telesto.benchmarks.load.slot import ClientType, Slot
from telesto.protocol.errors import TelestoError


class Putter(ClientType):
    """Puts a message: to one of its peers by chance, or to anyone."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, intended: float) -> None:
        """Put one message."""
        await self.put(intended)

    async def put(self, intended: float) -> bool:
        """Put one message; tell whether that was done."""
        slot = self._slot
        priority = slot.priority()
        identity, body = slot.body(intended, priority)
        receiver = slot.receiver()
        key = partition_key_of(identity, slot.plan.keys) if slot.plan.keys else None
        sent = time.monotonic()
        try:
            await slot.client.put_message(
                slot.queue_id, body, priority=priority, receiver_id=receiver, partition_key=key
            )
        except TelestoError as error:
            await slot.failed(Operation.PUT, error, identity)
            return False
        slot.sent(Operation.PUT, identity, intended, sent, priority)
        return True


class Reader(ClientType):
    """Takes what there is, as many messages at a time as the plan says."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, _intended: float) -> None:
        """Wait for messages and take them."""
        slot = self._slot
        sent = time.monotonic()
        wait_s = 0.0 if slot.plan.exhaustible else slot.wait_s()
        try:
            messages = await slot.client.retrieve_messages(
                slot.queue_id, max_messages=slot.plan.read_batch, timeout=wait_s
            )
        except TelestoError as error:
            await slot.failed(Operation.TAKE, error)
            return
        for message in messages:
            slot.came(Operation.TAKE, message.body, sent, redelivered=message.redelivered)
        if not messages and slot.plan.exhaustible:
            slot.done = True


class PutReader(ClientType):
    """Puts a message and takes one, so that a queue always holds one for whoever takes."""

    def __init__(self, slot: Slot) -> None:
        self._putter = Putter(slot)
        self._reader = Reader(slot)

    async def run_once(self, intended: float) -> None:
        """Put one, take one."""
        if await self._putter.put(intended):
            await self._reader.run_once(intended)


class Idle(ClientType):
    """Is connected, and does nothing."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, intended: float) -> None:
        """Rest until the end."""
        await asyncio.sleep(self._slot.end - intended)
