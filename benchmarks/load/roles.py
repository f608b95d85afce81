"""The behaviour of clients: put and read, request and respond, publish and subscribe, consume."""

from __future__ import annotations

import asyncio
import time

from telesto.benchmarks.load.bodies import open_envelope, partition_key_of
from telesto.benchmarks.load.recorder import Operation
from telesto.benchmarks.load.slot import ClientType, Slot
from telesto.client import AsyncConsumer, AsyncLeasedMessage, Message, RequestTimeoutError
from telesto.protocol.errors import TelestoError


class Putter(ClientType):
    """Puts a message: to one of its peers at random, or to any client."""

    async def run_once(self, intended: float) -> None:
        """Put one message."""
        await self.put(intended)

    async def put(self, intended: float) -> bool:
        """Put one message; tell whether it succeeded."""
        slot = self._slot
        priority = slot.priority()
        identity, body = slot.body(intended, priority)
        receiver = slot.receiver()
        key = partition_key_of(identity, slot.settings.keys) if slot.settings.keys else None
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
    """Takes the messages that there are, as many at a time as the plan says."""

    async def run_once(self, _intended: float) -> None:
        """Wait for messages and take them."""
        slot = self._slot
        sent = time.monotonic()
        drains = slot.settings.workload == "drain"
        wait_s = 0.0 if drains else slot.wait_s()
        try:
            messages = await slot.client.queue(slot.queue_id).get_many(
                max_messages=slot.settings.read_batch, timeout=wait_s
            )
        except TelestoError as error:
            await slot.failed(Operation.TAKE, error)
            return
        for message in messages:
            slot.came(Operation.TAKE, message.body, sent, redelivered=message.redelivered)
        if not messages and drains:
            slot.done = True


class PutReader(ClientType):
    """Puts a message and takes one, so that a queue always has a message for every reader."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self._putter = Putter(slot)
        self._reader = Reader(slot)

    async def run_once(self, intended: float) -> None:
        """Put one, take one."""
        if await self._putter.put(intended):
            await self._reader.run_once(intended)


class Idle(ClientType):
    """Is connected, and does nothing."""

    async def run_once(self, intended: float) -> None:
        """Wait for the end."""
        await asyncio.sleep(self._slot.end - intended)


#: Lifetime of a response, in seconds: longer than a run, because the audit looks for each of them. A response
#: by ``reply`` would expire soon after its requester has given up.
KEPT_S = 30 * 86_400.0


class Requester(ClientType):
    """Puts a request, for its partner or for anyone of a pool, and waits for the response."""

    async def run_once(self, intended: float) -> None:
        """Request once."""
        slot = self._slot
        priority = slot.priority()
        identity, body = slot.body(intended, priority)
        receiver = slot.receiver()
        sent = time.monotonic()
        try:
            response = await slot.client.send_request_response_message(
                slot.queue_id, body, priority=priority, receiver_id=receiver, timeout=slot.wait_s()
            )
        except RequestTimeoutError:
            # It was put nevertheless, and was delivered or has expired.
            slot.recorder.doubtful.append(identity)
            if time.monotonic() < slot.end:
                slot.recorder.failed(Operation.REQUEST, "no response in time")
            return
        except TelestoError as error:
            await slot.failed(Operation.REQUEST, error, identity)
            return
        slot.sent(Operation.REQUEST, identity, intended, sent, priority)
        slot.came(Operation.RESPONSE, response.body, sent, redelivered=response.redelivered)


class Responder(ClientType):
    """Takes requests and answers each with a message of the same size."""

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
                correlation_id=request.correlation_id,
                expires=KEPT_S,
            )
        except TelestoError as error:
            await slot.failed(Operation.REPLY, error, identity)
        else:
            slot.sent(Operation.REPLY, identity, sent, sent, priority)


class Publisher(ClientType):
    """Puts messages to its topic."""

    async def run_once(self, intended: float) -> None:
        """Put one message."""
        slot = self._slot
        identity, body = slot.body(intended)
        sent = time.monotonic()
        try:
            await slot.client.topic(slot.topic).put(body)
        except TelestoError as error:
            await slot.failed(Operation.PUBLISH, error, identity)
        else:
            slot.sent(Operation.PUBLISH, identity, intended, sent)


class Subscriber(ClientType):
    """Gets the messages of its topic, several at a time; its subscription exists before the run."""

    async def run_once(self, _intended: float) -> None:
        """Wait for messages and get them."""
        slot = self._slot
        sent = time.monotonic()
        try:
            messages = await slot.client.topic(slot.topic).get_many(
                max_messages=slot.settings.fetch_batch, timeout=slot.wait_s()
            )
        except TelestoError as error:
            await slot.failed(Operation.GET, error)
            return
        for message in messages:
            slot.came(Operation.GET, message.body, sent)


class Consumer(ClientType):
    """Takes pushed messages and acknowledges each, without waiting for one before it takes the next."""

    def __init__(self, slot: Slot) -> None:
        super().__init__(slot)
        self._consumer: AsyncConsumer | None = None
        self._acks: set[asyncio.Task[None]] = set()

    async def run_once(self, _intended: float) -> None:
        """Wait for a message; acknowledge it in a task of its own."""
        slot = self._slot
        sent = time.monotonic()
        try:
            if self._consumer is None:
                self._consumer = slot.client.queue(slot.queue_id).consume(credit=slot.settings.credit)
            leased = await self._consumer.get(timeout=slot.wait_s())
        except TelestoError as error:
            await slot.failed(Operation.DELIVERY, error)
            return
        if leased is None:
            return
        slot.came(Operation.DELIVERY, leased.body, sent, redelivered=leased.message.redelivered)
        task = asyncio.create_task(self._ack(leased))
        self._acks.add(task)
        task.add_done_callback(self._acks.discard)

    async def finish(self) -> None:
        """Wait for the acknowledgements in flight, and leave."""
        await asyncio.gather(*self._acks)
        if self._consumer is not None:
            await self._consumer.close()

    async def _ack(self, leased: AsyncLeasedMessage) -> None:
        sent = time.monotonic()
        try:
            await leased.ack()
        except TelestoError as error:
            self._slot.recorder.failed(Operation.ACK, type(error).__name__)
            self._slot.recorder.doubtful_takes.append(open_envelope(leased.body).identity)
        else:
            self._slot.came(Operation.ACK, leased.body, sent, redelivered=leased.message.redelivered)
