"""Client types of topics: those who publish and those who subscribe."""

from __future__ import annotations

import time

from telesto.benchmarks.workloads.lane import ClientType, Lane
from telesto.benchmarks.workloads.operations import Operation
from telesto.protocol.errors import TelestoError


class Publisher(ClientType):
    """Puts messages to its topic."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, intended: float) -> None:
        """Put one message."""
        lane = self._lane
        identity, body = lane.body(intended)
        sent = time.monotonic()
        try:
            await lane.client.put(lane.topic, body)
        except TelestoError as error:
            await lane.failed(Operation.PUBLISH, error, identity)
        else:
            lane.sent(Operation.PUBLISH, identity, intended, sent)


class Subscriber(ClientType):
    """Follows its topic, several messages a get; its subscription is there before the run."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, _intended: float) -> None:
        """Wait for messages and get them."""
        lane = self._lane
        sent = time.monotonic()
        try:
            messages = await lane.client.get_messages(
                lane.topic, max_messages=lane.plan.fetch_batch, timeout=lane.wait_s()
            )
        except TelestoError as error:
            await lane.failed(Operation.GET, error)
            return
        for message in messages:
            lane.came(Operation.GET, message.body, sent)
