"""A client that puts to topics: one after the other, with a numbering of its own, or many at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from telesto.client import AsyncTelestoClient, NewTopicMessage, TelestoClient, TopicPutResult
from telesto.protocol.errors import TelestoError

from .bodies import make_body
from .client_process import ClientProcess
from .history import DONE, PublishBegan, PublishEnded, read_histories
from .recorded_call import AnyClient, RecordedCall, outcome_after

_LARGE_SHARE = 0.02
_SMALL_BYTES = 200
_CANCELLED_SHARE = 0.03
_WINDOW = 8
_MANY_MAX = 20


class Call(RecordedCall):
    """One put, of a message or several to one topic, and its history."""

    def __init__(self, publisher: Publisher, topic: str, keys: Sequence[str], sequence: int = 0) -> None:
        super().__init__(publisher.recorder, publisher.number())
        self._keys = keys
        self.topic = topic
        self.sequence = sequence
        self.bodies = [make_body(key, publisher.size()) for key in keys]

    def began(self, client: AnyClient) -> None:
        """Writes that the call begins."""
        for key in self._keys:
            self.record(client, PublishBegan, key=key, topic=self.topic, sequence=self.sequence)

    def returned(self, client: AnyClient, results: Sequence[TopicPutResult]) -> None:
        """Writes what became of each message."""
        for key, result in zip(self._keys, results, strict=True):
            if result.error is None:
                self._write(client, key, DONE, message_number=result.number or 0)
            else:
                self._failed(client, key, result.error)

    def raised(self, client: AnyClient, error: BaseException) -> None:
        """Writes that the call failed."""
        for key in self._keys:
            self._failed(client, key, error)

    def _failed(self, client: AnyClient, key: str, error: BaseException) -> None:
        self._write(client, key, outcome_after(error), error=type(error).__name__)

    def _write(self, client: AnyClient, key: str, outcome: str, **values: object) -> None:
        self.record(client, PublishEnded, key=key, topic=self.topic, outcome=outcome, **values)


class Publisher(ClientProcess):
    """Puts until it is stopped."""

    def run(self) -> None:
        """Works in the style of the task."""
        match self.task.style:
            case "blocking":
                self.run_blocking(self._put_in_turn)
            case "numbering":
                self.run_blocking(self._put_numbered)
            case _:
                self.run_asyncio(self._put_at_once)

    def size(self) -> int:
        """Returns the length of a body's filling; some are large."""
        large = self.random.random() < _LARGE_SHARE
        return self.random.randint(0, self.task.body_bytes_max if large else _SMALL_BYTES)

    def _call(self, messages: int = 1) -> Call:
        key = f"{self.task.name}.{self.task.run}.{self.number()}"
        keys = [f"{key}.{index}" for index in range(messages)]
        return Call(self, self.random.choice(self.task.topics), keys)

    # --- blocking ----------------------------------------------------------------------------

    def _put_in_turn(self, client: TelestoClient) -> None:
        while not self.stopping and client.session is not None:
            self._put_one(client, self._call())
            time.sleep(self.pause_s())

    def _put_numbered(self, client: TelestoClient) -> None:
        """Puts with sequences to one topic, which go on where the last process may have ended."""
        topic = self.task.topics[0]
        sequence = max(self._last_sequence(), 1)
        while not self.stopping and client.session is not None:
            call = Call(self, topic, [f"{self.task.name}.{sequence}"], sequence)
            if self._put_one(client, call):
                sequence += 1
            time.sleep(self.pause_s())

    def _last_sequence(self) -> int:
        return max(
            (
                event.sequence
                for event in read_histories(Path(self.task.history), self.task.name)
                if isinstance(event, PublishBegan)
            ),
            default=0,
        )

    def _put_one(self, client: TelestoClient, call: Call) -> bool:
        call.began(client)
        try:
            number = client.topic(call.topic).put(call.bodies[0], sequence=call.sequence or None)
        except TelestoError as error:
            call.raised(client, error)
            return False
        call.returned(client, [TopicPutResult(number)])
        return True

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
        many = self.random.random() < 0.3
        call = self._call(self.random.randint(2, _MANY_MAX) if many else 1)
        call.began(client)
        try:
            results = await client.topic(call.topic).put_many(map(NewTopicMessage, call.bodies))
        except (TelestoError, asyncio.CancelledError) as error:
            call.raised(client, error)
        else:
            call.returned(client, results)


if __name__ == "__main__":
    Publisher().run()
