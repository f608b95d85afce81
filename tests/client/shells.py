"""Both clients under one blocking face, so that one suite runs over both."""

from __future__ import annotations

import asyncio
import inspect
import os
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from telesto.client import (
    AsyncQueue,
    AsyncSubscribedTopics,
    AsyncTelestoClient,
    ClientOptions,
    TelestoClient,
)

Open = Callable[..., Any]
#: No call of a test takes longer.
PATIENCE_S = 90.0


class LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(PATIENCE_S)

    @contextmanager
    def running(self) -> Iterator[LoopThread]:
        self._thread.start()
        try:
            yield self
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


class Blocked:
    """An asyncio client, or a queue or topic of it, whose methods block."""

    def __init__(self, thread: LoopThread, client: Any) -> None:
        self._thread = thread
        self.client = client

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self.client, name)
        if not inspect.ismethod(attribute):
            return self._blocking(attribute)

        def method(*args: Any, **kwargs: Any) -> Any:
            given = {name: inner(value) for name, value in kwargs.items()}
            result = attribute(*map(inner, args), **given)
            if inspect.isasyncgen(result):
                return self._iterate(result)
            return self._blocking(self._thread.run(result) if inspect.isawaitable(result) else result)

        return method

    def __enter__(self) -> Blocked:
        return self

    def __exit__(self, *error: Any) -> None:
        self._thread.run(self.client.__aexit__(*error))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Blocked) and bool(self.client == other.client)

    def __hash__(self) -> int:
        return hash(self.client)

    def __iter__(self) -> Iterator[Any]:
        return self._iterate(aiter(self.client))

    def _blocking(self, value: Any) -> Any:
        """What blocks instead of a queue or topic of the asyncio client."""
        if isinstance(value, (AsyncQueue, AsyncSubscribedTopics)):
            return Blocked(self._thread, value)
        return [self._blocking(each) for each in value] if isinstance(value, list) else value

    def serve_requests(self, handler: Callable[[Any], Any], **options: Any) -> None:
        async def handle(message: Any) -> Any:
            return await asyncio.to_thread(handler, message)

        self._thread.run(self.client.serve_requests(handle, **options))

    def run_consumer(self, handler: Callable[[Any], Any], **options: Any) -> None:
        async def handle(message: Any) -> Any:
            return await asyncio.to_thread(handler, message)

        self._thread.run(self.client.run_consumer(handle, **options))

    def consume(self, **options: Any) -> BlockedConsumer:
        return BlockedConsumer(self._thread, self.client.consume(**options))

    def _iterate(self, results: AsyncIterator[Any]) -> Iterator[Any]:
        end = object()

        async def following() -> Any:
            return await anext(results, end)

        while (result := self._thread.run(following())) is not end:
            yield result


def inner(value: Any) -> Any:
    """What the asyncio client takes instead of a queue that blocks."""
    if isinstance(value, Blocked):
        return value.client
    return [inner(each) for each in value] if isinstance(value, list) else value


class BlockedConsumer:
    """An asyncio consumer whose methods block."""

    def __init__(self, thread: LoopThread, consumer: Any) -> None:
        self._thread = thread
        self._consumer = consumer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def __enter__(self) -> BlockedConsumer:
        self._thread.run(self._consumer.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._thread.run(self._consumer.__aexit__(*error))

    def stop(self) -> None:
        async def stop() -> None:
            self._consumer.stop()

        self._thread.run(stop())

    def get(self, timeout: float | None = None) -> Any:
        leased = self._thread.run(self._consumer.get(timeout))
        return None if leased is None else BlockedLeased(self._thread, leased)

    def close(self) -> None:
        self._thread.run(self._consumer.close())

    def __iter__(self) -> Iterator[Any]:
        messages = aiter(self._consumer)
        end = object()

        async def following() -> Any:
            return await anext(messages, end)

        while (leased := self._thread.run(following())) is not end:
            yield BlockedLeased(self._thread, leased)


class BlockedLeased:
    """A message of such a consumer."""

    def __init__(self, thread: LoopThread, leased: Any) -> None:
        self._thread = thread
        self._leased = leased
        self.message = leased.message
        self.lease = leased.lease
        self.body = leased.body

    def __enter__(self) -> BlockedLeased:
        self._thread.run(self._leased.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self._thread.run(self._leased.__aexit__(*error))

    @property
    def held(self) -> bool:
        held: bool = self._leased.held
        return held

    def ack(self) -> None:
        self._thread.run(self._leased.ack())

    def acked_in_database(self) -> None:
        self._thread.run(self._leased.acked_in_database())

    def reject(self, reason: str) -> None:
        self._thread.run(self._leased.reject(reason))

    def nack(self, **options: Any) -> None:
        self._thread.run(self._leased.nack(**options))

    def touch(self) -> None:
        self._thread.run(self._leased.touch())


#: The bounds of each client.
_OPTIONS: WeakKeyDictionary[Any, ClientOptions] = WeakKeyDictionary()


def noted(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> list[Any]:
    """The first argument of each call of a method, once it is over, from now on."""
    arguments: list[Any] = []
    method = getattr(owner, name)

    def call_and_note(self: Any, argument: Any, *rest: Any) -> Any:
        result = method(self, argument, *rest)
        arguments.append(argument)
        return result

    monkeypatch.setattr(owner, name, call_and_note)
    return arguments


def hurry(client: Any, **limits: float) -> None:
    """Gives a client's calls less time from now on; to connect it needs longer, on a busy machine."""
    for name, seconds in limits.items():
        object.__setattr__(_OPTIONS[client], name, seconds)


#: Where states are flushed quickly, if there is such a place.
MEMORY_DISK = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextmanager
def opening(kind: str) -> Iterator[Open]:
    """Gives a function that opens a client of a kind; closes those that are open at the end."""
    opened: list[Any] = []
    with LoopThread().running() as thread, tempfile.TemporaryDirectory(dir=MEMORY_DISK) as states:

        def open_client(url: str, options: ClientOptions | None = None, **attributes: Any) -> Any:
            client: Any
            options = replace(options or ClientOptions())
            if kind.endswith("durable") and attributes.get("delivery") != "fast":
                attributes.setdefault("state_dir", f"{states}/{len(opened)}")
            if kind.startswith("blocking"):
                client = TelestoClient(url, options=options, **attributes)
            else:
                client = Blocked(thread, AsyncTelestoClient(url, options=options, **attributes))
            opened.append(client)
            _OPTIONS[client] = options
            return client

        try:
            yield open_client
        finally:
            for client in opened:
                client.close()
