"""What producers and readers have in common: their task, their stop, their history."""

import asyncio
import contextlib
import faulthandler
import itertools
import json
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from telesto.client import AsyncTelestoClient, ClientOptions, RecoveredPut, TelestoClient
from telesto.protocol.errors import ErrorClass, TelestoError

from ..service.processes import end_with_parent
from .bodies import read_body
from .history import DONE, DOUBT, REFUSED, Began, Ended, Recorder, Recovered

_CONNECT_AGAIN_S = 0.05
#: What ends by itself has ended after so many looks, also on a busy machine.
_LOOKS = 200
_LOOK_S = 0.05


@dataclass
class Task:
    """What a client process has to do.

    Attributes:
        history: directory of the histories.
        name: the client's name.
        run: which of the processes under this name.
        url: where the service is.
        seed: of everything that the process leaves to chance.
        style: which of the ways to work.
        state_dir: where it keeps a durable state; None without one.
        queue_ids: the queues to use.
        receiver_ids: the clients to which single messages are sent.
        sender_ids: the clients whose messages are asked for at times.
        topics: the topics to use.
        partitions: the keys of the partitions to use, the first ones more than the others.
        delayed_share: how many messages are delayed, of all.
        options: of the client.
        pause_s: mean pause between two calls.
        body_bytes_max: length of the longest bodies.
    """

    history: str
    name: str
    run: int
    url: str
    seed: int
    style: str
    state_dir: str | None = None
    queue_ids: list[int] = field(default_factory=list)
    receiver_ids: list[int] = field(default_factory=list)
    sender_ids: list[int] = field(default_factory=list)
    topics: list[str] = field(default_factory=list)
    partitions: list[str] = field(default_factory=list)
    delayed_share: float = 0.0
    options: dict[str, Any] = field(default_factory=dict)
    pause_s: float = 0.005
    body_bytes_max: int = 40_000


class ClientProcess:
    """One process of a client.

    Attributes:
        stopping: the process was asked to end.
    """

    def __init__(self) -> None:
        end_with_parent()
        faulthandler.register(signal.SIGUSR1)
        self.task = Task(**json.loads(sys.argv[1]))
        self.recorder = Recorder(Path(self.task.history), self.task.name, self.task.run)
        self.random = random.Random(f"{self.task.seed} {self.task.name} {self.task.run}")
        self.stopping = False
        self._numbers = itertools.count(1)
        signal.signal(signal.SIGTERM, self._stop)

    def number(self) -> int:
        """Returns the number of the next call, for any thread."""
        return next(self._numbers)

    def in_threads(self, count: int, work: Callable[[TelestoClient], None], client: TelestoClient) -> None:
        """Does work in several threads at the same time."""
        threads = [threading.Thread(target=work, args=(client,)) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def pause_s(self) -> float:
        """Returns how long to pause between two calls."""
        return self.random.expovariate(1 / self.task.pause_s) if self.task.pause_s else 0.0

    def run_blocking(self, work: Callable[[TelestoClient], None], *, auto_confirm: bool = True) -> None:
        """Connects, works and closes with the blocking client."""
        client = TelestoClient(
            self.task.url,
            state_dir=self.task.state_dir,
            options=self._options(auto_confirm),
            name=self.task.name,
        )
        signal.signal(signal.SIGUSR2, lambda *_: _show(client))
        while not self.stopping:
            try:
                client.connect()
            except TelestoError:
                time.sleep(_CONNECT_AGAIN_S)
                continue
            self._began(client)
            self._recover(client)
            work(client)
        self._recover(client)
        client.close()
        for _ in range(_LOOKS):
            if not (left := _threads() + _connections()):
                break
            time.sleep(_LOOK_S)
        self._ended(left)

    def run_asyncio(
        self, work: Callable[[AsyncTelestoClient], Awaitable[None]], *, auto_confirm: bool = True
    ) -> None:
        """Connects, works and closes with the asyncio client."""
        asyncio.run(self._run_asyncio(work, auto_confirm))

    async def _run_asyncio(
        self, work: Callable[[AsyncTelestoClient], Awaitable[None]], auto_confirm: bool
    ) -> None:
        client = AsyncTelestoClient(
            self.task.url,
            state_dir=self.task.state_dir,
            options=self._options(auto_confirm),
            name=self.task.name,
        )
        signal.signal(signal.SIGUSR2, lambda *_: _show(client))
        while not self.stopping:
            try:
                await client.connect()
            except TelestoError:
                await asyncio.sleep(_CONNECT_AGAIN_S)
                continue
            self._began(client)
            await self._recover_asyncio(client)
            await work(client)
        await self._recover_asyncio(client)
        await client.close()
        for _ in range(_LOOKS):
            if not (left := _tasks() + _connections()):
                break
            await asyncio.sleep(_LOOK_S)
        self._ended(left)

    def _recover(self, client: TelestoClient) -> None:
        """Writes down what became of puts of which no call told."""
        while self.task.state_dir is not None:
            try:
                for put in client.recovered_puts():
                    self._recovered(put)
                return
            except TelestoError:
                if client.session is None:
                    return
                time.sleep(_CONNECT_AGAIN_S)

    async def _recover_asyncio(self, client: AsyncTelestoClient) -> None:
        while self.task.state_dir is not None:
            try:
                async for put in client.recovered_puts():
                    self._recovered(put)
                return
            except TelestoError:
                if client.session is None:
                    return
                await asyncio.sleep(_CONNECT_AGAIN_S)

    def _recovered(self, put: RecoveredPut) -> None:
        self.recorder.write(
            Recovered,
            key=read_body(put.message.body)[0],
            queue_id=put.queue_id or 0,
            topic=put.topic or "",
            outcome=DONE if put.error is None else outcome_of(put.error),
            message_id=put.message_id or 0,
            error="" if put.error is None else type(put.error).__name__,
        )

    def _options(self, auto_confirm: bool) -> ClientOptions:
        return ClientOptions(**self.task.options, auto_confirm=auto_confirm)

    def _began(self, client: TelestoClient | AsyncTelestoClient) -> None:
        assert client.client_id is not None
        # Beside a read there may be others: a cancelled one is under way until the service has heard of it.
        ordered = self.task.style not in ("threads", "concurrent", "cancelling")
        self.recorder.write(Began, client_id=client.client_id, ordered=ordered)
        print("connected", flush=True)

    def _ended(self, leaks: list[str]) -> None:
        self.recorder.write(Ended, leaks=leaks)

    def _stop(self, _number: int, _frame: object) -> None:
        self.stopping = True


def _tasks() -> list[str]:
    """The tasks of the running loop that are left, besides the one that asks."""
    return [f"task {task.get_name()}" for task in asyncio.all_tasks() - {asyncio.current_task()}]


def _threads() -> list[str]:
    """The threads that are left, besides the main one.

    Python lists one that it did not start itself for ever, as a dummy, once that has waited for an event.
    """
    left = [thread.name for thread in threading.enumerate()[1:]]
    return [f"thread {name}" for name in left if not name.startswith("Dummy-")]


def _connections() -> list[str]:
    """The connections over the network that this process has."""
    peers = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(int(descriptor))) as sock:
            if sock.family == socket.AF_INET:
                peers.append(f"connection to {sock.getpeername()}")
    return peers


def _show(client: TelestoClient | AsyncTelestoClient) -> None:
    """Says what state a client is in that seems to hang; without bodies."""
    shown: set[int] = set()
    left: list[object] = [client]
    while left:
        part = left.pop()
        if id(part) in shown:
            continue
        shown.add(id(part))
        state = {name: value for name, value in vars(part).items() if not isinstance(value, bytes)}
        print(type(part).__name__, {name: str(value)[:200] for name, value in state.items()}, file=sys.stderr)
        parts = (value for value in state.values() if type(value).__module__.startswith("telesto.client."))
        left += [value for value in parts if hasattr(value, "__dict__")]


def outcome_of(error: TelestoError) -> str:
    """Returns what an error says about the request."""
    if error.error_class in (ErrorClass.REJECTED, ErrorClass.RETRYABLE):
        return REFUSED
    return DOUBT
