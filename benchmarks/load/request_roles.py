"""Client types that ask and answer."""

from __future__ import annotations

import time

from telesto.benchmarks.load.bodies import open_envelope
from telesto.benchmarks.load.operations import Operation
from telesto.benchmarks.load.slot import ClientType, Slot
from telesto.client import Message
from telesto.protocol.errors import TelestoError

#: How long a response may wait, in seconds: longer than a run, since the balance asks for each of them. That
#: of ``reply`` expires soon after its asker has given up.
KEPT_S = 30 * 86_400.0


class Requester(ClientType):
    """Puts a request, for its partner or for anyone of a pool, and waits for the response."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, intended: float) -> None:
        """Ask once."""
        slot = self._slot
        priority = slot.priority()
        identity, body = slot.body(intended, priority)
        receiver = slot.receiver()
        sent = time.monotonic()
        try:
            response = await slot.client.send_request_response_message(
                slot.queue_id, body, priority=priority, receiver_id=receiver, timeout=slot.wait_s()
            )
        except TelestoError as error:
            await slot.failed(Operation.REQUEST, error, identity)
            return
        if response is None:
            # It was put all the same, and was handed over, or has expired.
            slot.recorder.doubtful.append(identity)
            if time.monotonic() < slot.end:
                slot.recorder.failed(Operation.REQUEST, "no response in time")
            return
        slot.sent(Operation.REQUEST, identity, intended, sent, priority)
        slot.came(Operation.RESPONSE, response.body, sent, redelivered=response.redelivered)


class Responder(ClientType):
    """Takes requests and answers each with a message of the same size."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    async def run_once(self, _intended: float) -> None:
        """Wait for a request and answer it."""
        slot = self._slot
        sent = time.monotonic()
        try:
            request = await slot.client.retrieve_message(slot.queue_id, timeout=slot.wait_s())
        except TelestoError as error:
            await slot.failed(Operation.TAKE, error)
            return
        if request is not None:
            slot.came(Operation.TAKE, request.body, sent, redelivered=request.redelivered)
            await self._answer(request)

    async def _answer(self, request: Message) -> None:
        slot = self._slot
        priority = open_envelope(request.body).priority
        sent = time.monotonic()
        identity, body = slot.body(sent, priority)
        try:
            await slot.client.put_message(
                request.queue_id,
                body,
                priority=request.priority,
                receiver_id=request.sender_id,
                context=request.context,
                expires=KEPT_S,
            )
        except TelestoError as error:
            await slot.failed(Operation.REPLY, error, identity)
        else:
            slot.sent(Operation.REPLY, identity, sent, sent, priority)
