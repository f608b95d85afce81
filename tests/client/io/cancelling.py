"""Calls that are cancelled after some turns of the event loop, on a service in memory."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any

from fake_service import FakeService
from memory_transport import MemoryClient
from telesto.client import ClientOptions
from telesto.protocol.packets import NewMessage

#: More turns of the loop than any scenario takes.
TURNS_MAX = 60


class Scene:
    """A client, a queue with messages, and what the application was handed."""

    def __init__(self, auto_confirm: bool) -> None:
        self.service = FakeService(time.monotonic)
        self.client = MemoryClient(
            "telesto://memory", name="alice", options=ClientOptions(auto_confirm=auto_confirm)
        )
        self.client.use(self.service)
        self.queue_id = self.service.add_queue("orders")
        self.handed: list[bytes] = []

    async def __aenter__(self) -> Scene:
        await self.client.connect()
        for body in (b"1", b"2", b"3"):
            await self.client.put_message(self.queue_id, body)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    def put_soon(self, body: bytes) -> None:
        """Another client puts a message a little later."""
        asyncio.get_running_loop().call_soon(self._put, body)

    def respond_soon(self, queue_id: int) -> None:
        """Another client responds to a request as soon as there is one."""
        queue = self.service.queues[queue_id]
        if not queue.messages:
            asyncio.get_running_loop().call_soon(self.respond_soon, queue_id)
            return
        request = queue.messages.pop()
        self.service.put(999, queue_id, NewMessage(5, request.sender_id, b"!", request.context))
        self._flush()

    def _put(self, body: bytes) -> None:
        self.service.put(999, self.queue_id, NewMessage(5, 0, body, None))
        self._flush()

    def _flush(self) -> None:
        self.service.wake()
        for connection in list(self.service.connections):
            connection.transport.flush()  # type: ignore[attr-defined]


async def run_and_cancel(task: asyncio.Task[None], turns: int) -> bool:
    """Cancels a task after some turns of the loop; tells whether it was still running."""
    for _ in range(turns):
        await asyncio.sleep(0)
    running = not task.done()
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return running


class CancelledAt:
    """Awaits a coroutine in the same task, which is cancelled when it waits for the so-manieth time.

    Attributes:
        reached: it waited so often.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, None], wait: int) -> None:
        self._coroutine = coroutine
        self._wait = wait
        self.reached = False

    def __await__(self) -> Generator[Any, Any, None]:
        task = asyncio.current_task()
        assert task is not None
        steps = self._coroutine.__await__()
        go_on: Callable[[], Any] = partial(next, steps)
        for wait in itertools.count(1):
            try:
                awaited = go_on()
            except StopIteration:
                return
            if wait == self._wait:
                self.reached = True
                asyncio.get_running_loop().call_soon(task.cancel)
            try:
                yield awaited
            except BaseException as error:  # noqa: BLE001 - the coroutine decides what becomes of it
                go_on = partial(steps.throw, error)
            else:
                go_on = partial(next, steps)
