"""Client types that ask and answer."""

from __future__ import annotations

import time

from telesto.benchmarks.workloads.envelope import open_envelope
from telesto.benchmarks.workloads.lane import ClientType, Lane
from telesto.benchmarks.workloads.operations import Operation
from telesto.client import Message
from telesto.protocol.errors import TelestoError


class Asker(ClientType):
    """Puts a request, for its partner or for anyone of a pool, and waits for the response."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, intended: float) -> None:
        """Ask once."""
        lane = self._lane
        priority = lane.priority()
        identity, body = lane.body(intended, priority)
        receiver = lane.receiver()
        sent = time.monotonic()
        try:
            response = await lane.client.send_request_response_message(
                lane.queue_id, body, priority=priority, receiver_id=receiver, timeout=lane.wait_s()
            )
        except TelestoError as error:
            await lane.failed(Operation.REQUEST, error, identity)
            return
        if response is None:
            # The request was put all the same; whether somebody answers it later the balance shows.
            lane.sent(Operation.PUT, identity, intended, sent, priority)
            if time.monotonic() < lane.end:
                lane.recorder.failed(Operation.REQUEST, "no response in time")
            return
        lane.sent(Operation.REQUEST, identity, intended, sent, priority)
        lane.came(Operation.RESPONSE, response.body, sent, redelivered=response.redelivered)


class Answerer(ClientType):
    """Takes requests and answers each with a message of the same size."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane

    async def turn(self, _intended: float) -> None:
        """Wait for a request and answer it."""
        lane = self._lane
        sent = time.monotonic()
        try:
            request = await lane.client.retrieve_message(lane.queue_id, timeout=lane.wait_s())
        except TelestoError as error:
            await lane.failed(Operation.TAKE, error)
            return
        if request is not None:
            lane.came(Operation.TAKE, request.body, sent, redelivered=request.redelivered)
            await self._answer(request)

    async def _answer(self, request: Message) -> None:
        lane = self._lane
        priority = open_envelope(request.body).priority
        sent = time.monotonic()
        identity, body = lane.body(sent, priority)
        try:
            await lane.client.reply(request, body)
        except TelestoError as error:
            await lane.failed(Operation.REPLY, error, identity)
        else:
            lane.sent(Operation.REPLY, identity, sent, sent, priority)
