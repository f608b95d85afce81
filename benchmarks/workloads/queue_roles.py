"""Client types that put into queues and read from them, and the one that does nothing."""

from __future__ import annotations

import asyncio
import time

from telesto.benchmarks.bodies import partition_key_of
from telesto.benchmarks.workloads.lane import ClientType, Lane
from telesto.benchmarks.workloads.operations import Operation
from telesto.protocol.errors import TelestoError


class Putter(ClientType):
    """Puts a message: to one of its peers by chance, or to anyone."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, intended: float) -> None:
        """Put one message."""
        await self.put(intended)

    async def put(self, intended: float) -> bool:
        """Put one message; tell whether that was done."""
        lane = self._lane
        priority = lane.priority()
        identity, body = lane.body(intended, priority)
        receiver = lane.receiver()
        key = partition_key_of(identity, lane.plan.keys) if lane.plan.keys else None
        sent = time.monotonic()
        try:
            await lane.client.put_message(
                lane.queue_id, body, priority=priority, receiver_id=receiver, partition_key=key
            )
        except TelestoError as error:
            await lane.failed(Operation.PUT, error, identity)
            return False
        lane.sent(Operation.PUT, identity, intended, sent, priority)
        return True


class Reader(ClientType):
    """Takes what there is, as many messages at a time as the plan says."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, _intended: float) -> None:
        """Wait for messages and take them."""
        lane = self._lane
        sent = time.monotonic()
        wait_s = 0.0 if lane.plan.exhaustible else lane.wait_s()
        try:
            messages = await lane.client.retrieve_messages(
                lane.queue_id, max_messages=lane.plan.read_batch, timeout=wait_s
            )
        except TelestoError as error:
            await lane.failed(Operation.TAKE, error)
            return
        for message in messages:
            lane.came(Operation.TAKE, message.body, sent, redelivered=message.redelivered)
        if not messages and lane.plan.exhaustible:
            lane.done = True


class PutReader(ClientType):
    """Puts a message and takes one, so that a queue always holds one for whoever takes."""

    def __init__(self, lane: Lane) -> None:
        self._putter = Putter(lane)
        self._reader = Reader(lane)

    async def turn(self, intended: float) -> None:
        """Put one, take one."""
        if await self._putter.put(intended):
            await self._reader.turn(intended)


class Idle(ClientType):
    """Is connected, and does nothing."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, intended: float) -> None:
        """Rest until the end."""
        await asyncio.sleep(self._lane.end - intended)
