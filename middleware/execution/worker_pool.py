"""The workers of a middleware, each for one kind of requests, each with its own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from telesto.middleware.common.logs import logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_loop import ClaimLoop
from telesto.middleware.consumers.claim_tracker import ClaimTracker
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.database.connections import DatabaseConnections
from telesto.middleware.database.disk import Disk
from telesto.middleware.execution.batch_worker import (
    BatchEffects,
    BatchWorker,
    BisectingExecutor,
    PutAndClaimExecutor,
)
from telesto.middleware.execution.single_worker import SingleWorker
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.procedures.confirm import ConfirmGroup
from telesto.middleware.procedures.fetch import FetchGroup
from telesto.middleware.procedures.leases import AckGroup
from telesto.middleware.procedures.publish import PublishGroup
from telesto.middleware.procedures.put import PutGroup
from telesto.middleware.procedures.take import TakeGroup, TakeSelectedGroup
from telesto.middleware.scheduling.dispatcher import CallPacing, Dispatcher, FairQueue
from telesto.middleware.scheduling.requests import Group, Kind
from telesto.middleware.scheduling.single_request import Handler

_log = logger("workers")

Run = Callable[[], Coroutine[Any, Any, None]]


class WorkerPool:
    """Makes the workers and runs them until it is closed.

    Attributes:
        claim_loop: the one that claims for consumers.
    """

    def __init__(
        self,
        *,
        settings: ServerSettings,
        dispatcher: Dispatcher,
        effects: BatchEffects,
        counters: Counters,
        tracer: Tracer,
        database: DatabaseConnections,
        disk: Disk,
        consumers: ConsumerRegistry,
        claims: ClaimTracker,
        handlers: Mapping[int, Handler],
        peers: Peers,
        on_failure: Callable[[], None],
    ) -> None:
        """``on_failure`` is called when a worker fails, which is a defect. The middleware should end then."""
        self._settings = settings
        self._dispatcher = dispatcher
        self._effects = effects
        self._counters = counters
        self._tracer = tracer
        self._database = database
        self._disk = disk
        self._claims = claims
        self._handlers = handlers
        self._peers = peers
        self._on_failure = on_failure
        self._pace = CallPacing(
            asyncio.get_running_loop().time,
            lambda: dispatcher.budget.requests,
            settings.crowd,
            settings.many_messages,
            settings.quick_call_ms / 1000,
            settings.call_wait_ms / 1000,
        )
        self._own_connections: list[DatabaseConnection] = []
        self._tasks: list[asyncio.Task[None]] = []
        connection = self._make_connection("claim", settings.lock_wait_ms)
        # What is claimed may be large at any time, and others that consume must not wait until it is sent.
        call = connection.call_for_much if settings.locked_answer_bytes else connection.call
        self.claim_loop = ClaimLoop(consumers, claims, call, disk, settings)

    @property
    def running(self) -> bool:
        """Whether all workers run."""
        return bool(self._tasks) and not any(task.done() for task in self._tasks)

    def start(self) -> None:
        """Starts the workers."""
        for name, run in (*self._runs(), ("claim", self.claim_loop.run)):
            task = asyncio.create_task(run(), name=name)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def close(self) -> None:
        """Ends each worker after its current call."""
        self._dispatcher.close()
        self.claim_loop.close()

    def cut_off(self) -> None:
        """Closes the workers' connections, so that calls under way are lost and the workers end."""
        for connection in self._own_connections:
            connection.cut_off()

    async def wait(self) -> None:
        """Returns when all workers have ended."""
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            _log.error("worker_failed", worker=task.get_name(), exc_info=task.exception())
            self._on_failure()

    def _runs(self) -> list[tuple[str, Run]]:
        settings = self._settings
        peers = self._peers
        locked = settings.locked_answer_bytes
        light_bytes = settings.max_answer_bytes // settings.max_batch // 2
        fetches = (settings.max_read_messages, settings.max_answer_bytes, light_bytes)
        if locked:
            light_bytes = min(light_bytes, locked // settings.max_batch // 2)
        answers = (settings.max_answer_bytes, locked, light_bytes)
        takes = (settings.max_read_messages, *answers, peers)
        groups: list[tuple[Kind, Group, int]] = [
            (Kind.PUT, PutGroup(peers), settings.put_workers),
            (Kind.TAKE, TakeGroup(*takes), settings.take_workers),
            (Kind.TAKE_SELECTED, TakeSelectedGroup(*takes), settings.selected_workers),
            (Kind.CONFIRM, ConfirmGroup(), settings.confirm_workers),
            (Kind.PUBLISH, PublishGroup(), settings.publish_workers),
            (Kind.FETCH, FetchGroup(*fetches), settings.fetch_workers),
            (Kind.ACK, AckGroup(), settings.ack_workers),
        ]
        runs = []
        for kind, group, count in groups:
            name = kind.name.lower()
            for number in range(1, count + 1):
                runs.append(self._batch_worker(f"{name} {number}", self._dispatcher.fair_queues[kind], group))
            if kind in self._dispatcher.busy_queues:
                runs.append(self._batch_worker(f"{name} apart", self._dispatcher.busy_queues[kind], group))
        singly = (
            (Kind.SINGLE, settings.single_workers),
            (Kind.BROWSE, settings.browse_workers),
            (Kind.LOGIN, settings.login_workers),
        )
        for kind, count in singly:
            name, queue = kind.name.lower(), self._dispatcher.fair_queues[kind]
            for number in range(1, count + 1):
                runs.append(self._single(f"{name} {number}", queue, settings.single_lock_wait_ms))
            if kind in self._dispatcher.busy_queues:
                apart = self._dispatcher.busy_queues[kind]
                runs.append(self._single(f"{name} apart", apart, settings.lock_wait_ms))
        return runs

    def _make_connection(self, name: str, lock_wait_ms: int) -> DatabaseConnection:
        connection = self._database.make(name, lock_wait_ms=lock_wait_ms)
        self._own_connections.append(connection)
        return connection

    def _batch_worker(self, name: str, queue: FairQueue, group: Group) -> tuple[str, Run]:
        settings = self._settings
        worker = BatchWorker(
            queue,
            self._dispatcher,
            self._executor(group, self._make_connection(name, settings.lock_wait_ms)),
            self._effects,
            self._counters,
            self._tracer,
            self._pace,
            settings.busy_limit_s,
            settings.overload_retry_ms,
        )
        return name, worker.run

    def _executor(self, group: Group, connection: DatabaseConnection) -> BisectingExecutor:
        quarantine = self._dispatcher.quarantine
        if isinstance(group, PutGroup):
            return PutAndClaimExecutor(
                group, connection, self._disk, quarantine, self._claims, self._settings
            )
        return BisectingExecutor(group, connection, self._disk, quarantine, self._settings.overload_retry_ms)

    def _single(self, name: str, queue: FairQueue, lock_wait_ms: int) -> tuple[str, Run]:
        worker = SingleWorker(
            queue,
            self._dispatcher,
            self._make_connection(name, lock_wait_ms),
            self._handlers,
            self._effects,
            self._counters,
            self._disk,
            self._settings,
        )
        return name, worker.run
