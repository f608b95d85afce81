"""A client that puts: one after the other by the blocking client, or many at a time by the asyncio client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from telesto.client import AsyncTelestoClient, NewMessage, PutResult, TelestoClient
from telesto.protocol.errors import TelestoError

from .bodies import make_body
from .client_process import ClientProcess
from .history import DONE, PutBegan, PutEnded
from .recorded_call import AnyClient, RecordedCall, outcome_after

_PRIORITIES = (1, 5, 5, 10)
_LARGE_SHARE = 0.05
_DIRECTED_SHARE = 0.1
_KEYED_SHARE = 0.7
#: So many keys are hot, and so many messages under keys go to them.
_HOT_KEYS, _HOT_SHARE = 0.05, 0.4
_DELAY_S = (0.05, 1.0)
_CANCELLED_SHARE = 0.03
_WINDOW = 16
_THREADS = 4
_MANY_MAX = 30
_SMALL_BYTES = 400


class Call(RecordedCall):
    """One put, of a message or several, and its history."""

    def __init__(self, producer: Producer, queue_ids: Sequence[int], messages: int) -> None:
        chance = producer.random
        super().__init__(producer.recorder, producer.number())
        directed = producer.task.receiver_ids and chance.random() < _DIRECTED_SHARE
        self.priority = chance.choice(_PRIORITIES)
        self.receiver_id = chance.choice(producer.task.receiver_ids) if directed else None
        self.queue_ids = queue_ids
        task = producer.task
        self.keys = [f"{task.name}.{task.run}.{self._number}.{index}" for index in range(messages)]
        self.bodies = [make_body(key, producer.size()) for key in self.keys]
        self.partitions = [None if directed else producer.partition() for _ in self.keys]
        self.delay = chance.uniform(*_DELAY_S) if chance.random() < task.delayed_share else None
        self._names = [(key, queue_id) for key in self.keys for queue_id in queue_ids]

    def began(self, client: AnyClient) -> None:
        """Writes that the call begins."""
        partitions = dict(zip(self.keys, self.partitions, strict=True))
        for key, queue_id in self._names:
            self.record(
                client,
                PutBegan,
                key=key,
                queue_id=queue_id,
                priority=self.priority,
                receiver_id=self.receiver_id or 0,
                partition=partitions[key] or "",
            )

    def returned(self, client: AnyClient, results: Sequence[PutResult]) -> None:
        """Writes what became of each message."""
        for (key, queue_id), result in zip(self._names, results, strict=True):
            assert result.queue_id == queue_id
            if result.error is None:
                self._write(client, key, queue_id, DONE, message_id=result.message_id)
            else:
                self._failed(client, key, queue_id, result.error)

    def values(self) -> dict[str, Any]:
        """Returns what the call says about its one message."""
        return {
            "priority": self.priority,
            "receiver_id": self.receiver_id,
            "partition_key": self.partitions[0],
            "delay": self.delay,
        }

    def raised(self, client: AnyClient, error: BaseException) -> None:
        """Writes that the call failed."""
        for key, queue_id in self._names:
            self._failed(client, key, queue_id, error)

    def _failed(self, client: AnyClient, key: str, queue_id: int, error: BaseException) -> None:
        self._write(client, key, queue_id, outcome_after(error), error=type(error).__name__)

    def _write(self, client: AnyClient, key: str, queue_id: int, outcome: str, **values: object) -> None:
        self.record(client, PutEnded, key=key, queue_id=queue_id, outcome=outcome, **values)


class Producer(ClientProcess):
    """Puts until it is stopped."""

    def run(self) -> None:
        """Works in the style of the task."""
        match self.task.style:
            case "blocking":
                self.run_blocking(self._put_in_turn)
            case "threads":
                self.run_blocking(lambda client: self.in_threads(_THREADS, self._put_in_turn, client))
            case _:
                self.run_asyncio(self._put_at_once)

    def size(self) -> int:
        """Returns the length of a body's filling; some are large."""
        large = self.random.random() < _LARGE_SHARE
        return self.random.randint(0, self.task.body_bytes_max if large else _SMALL_BYTES)

    def partition(self) -> str | None:
        """Returns the key of the next message's partition; some are hot, some messages have none."""
        keys = self.task.partitions
        if not keys or self.random.random() >= _KEYED_SHARE:
            return None
        if self.random.random() < _HOT_SHARE:
            keys = keys[: max(1, round(len(keys) * _HOT_KEYS))]
        return self.random.choice(keys)

    def queue_id(self) -> int:
        """Returns the queue of the next put."""
        return self.random.choice(self.task.queue_ids)

    # --- blocking ----------------------------------------------------------------------------

    def _put_in_turn(self, client: TelestoClient) -> None:
        while not self.stopping and client.session is not None:
            call = Call(self, [self.queue_id()], 1)
            call.began(client)
            try:
                message_id = client.put_message(call.queue_ids[0], call.bodies[0], **call.values())
            except TelestoError as error:
                call.raised(client, error)
            else:
                call.returned(client, [PutResult(call.queue_ids[0], message_id)])
            time.sleep(self.pause_s())

    # --- asyncio -----------------------------------------------------------------------------

    async def _put_at_once(self, client: AsyncTelestoClient) -> None:
        window = asyncio.Semaphore(_WINDOW)
        async with asyncio.TaskGroup() as puts:
            while not self.stopping and (client.connected or client.session is not None):
                await window.acquire()
                put = puts.create_task(self._put(client))
                put.add_done_callback(lambda _: window.release())
                if self.random.random() < _CANCELLED_SHARE:
                    asyncio.get_running_loop().call_later(self.pause_s(), put.cancel)
                await asyncio.sleep(self.pause_s())

    async def _put(self, client: AsyncTelestoClient) -> None:
        kind = self.random.random()
        if kind < 0.8:
            call = Call(self, [self.queue_id()], 1)
        elif kind < 0.9:
            call = Call(self, self.task.queue_ids, 1)
        else:
            call = Call(self, [self.queue_id()], self.random.randint(2, _MANY_MAX))
        call.began(client)
        try:
            results = await self._send(client, call)
        except (TelestoError, asyncio.CancelledError) as error:
            call.raised(client, error)
        else:
            call.returned(client, results)

    async def _send(self, client: AsyncTelestoClient, call: Call) -> list[PutResult]:
        if len(call.bodies) > 1:
            messages = [
                NewMessage(body, call.priority, call.receiver_id, delay=call.delay, partition_key=partition)
                for body, partition in zip(call.bodies, call.partitions, strict=True)
            ]
            return await client.queue(call.queue_ids[0]).put_many(messages)
        if len(call.queue_ids) > 1:
            return await client.put_messages(call.queue_ids, call.bodies[0], **call.values())
        message_id = await client.put_message(call.queue_ids[0], call.bodies[0], **call.values())
        return [PutResult(call.queue_ids[0], message_id)]


if __name__ == "__main__":
    Producer().run()
