"""The workers that execute requests one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from time import perf_counter

from telesto.db.calls import READING
from telesto.middleware.common.failures import (
    DISK_FULL_SQLSTATE,
    LOCKED_SQLSTATE,
    STALE_SQLSTATE,
    BusyError,
    FailedError,
    Failure,
    LostError,
    RefusedError,
    UnavailableError,
    busy_too_long,
    failure_by_sqlstate,
    failure_of,
    in_doubt,
    unavailable,
    unknown,
)
from telesto.middleware.common.logs import logger
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.database.disk import Disk
from telesto.middleware.execution.batch_worker import BatchEffects
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.procedures.clients import taken_over
from telesto.middleware.scheduling.dispatcher import Dispatcher, FairQueue
from telesto.middleware.scheduling.requests import Request, error_frame
from telesto.middleware.scheduling.single_request import IN_PART, Handler, Reply, Row
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import Authenticate, IdentifyClient, RegisterClient

_log = logger("single")
_TAKEOVERS = (RegisterClient, IdentifyClient)


class SingleWorker:
    """Executes one request at a time. A request that meets a lock goes back and is tried again soon."""

    def __init__(
        self,
        queue: FairQueue,
        dispatcher: Dispatcher,
        connection: DatabaseConnection,
        handlers: Mapping[int, Handler],
        effects: BatchEffects,
        counters: Counters,
        disk: Disk,
        settings: ServerSettings,
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._connection = connection
        self._handlers = handlers
        self._effects = effects
        self._counts = counters.of_kind[queue.kind]
        self._disk = disk
        self._settings = settings
        self._clock = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Works until the queue is closed."""
        while await self._queue.wait():
            batch = self._queue.take(self._dispatcher.stand)
            requests = batch.requests
            # One of which a part was done is not judged again: it cannot be refused any more.
            if requests and requests[0].pipeline.progress is None:
                requests = await self._effects.before(requests, self._connection.read)
            for request in requests:
                await self._serve(request)
            self._dispatcher.served(batch)

    async def _serve(self, request: Request) -> None:
        begun = perf_counter()
        try:
            outcome = await self._execute(request)
        except BusyError:
            progress = request.pipeline.progress
            if progress is not None and progress.arrivals:
                self._effects.came_back(progress.arrivals)
                progress.arrivals = {}
            if not self._busy_too_long(request):
                self._give_back(request)
                return
            outcome = self._busy_failure(request)
        finally:
            self._counts.calls += 1
            self._counts.requests += 1
            self._counts.seconds += perf_counter() - begun
        request.pipeline.busy_count = 0
        request.pipeline.apart = False
        request.pipeline.progress = None
        self._dispatcher.budget.leave(1, request.size)
        if isinstance(outcome, Failure):
            if outcome.code is ErrorCode.SESSION_FENCED:
                told = await taken_over(self._connection.read, [request], outcome)
                outcome = next(iter(told.values()), outcome)
            self._fail(request, outcome)
        else:
            self._reply(request, outcome)

    async def _execute(self, request: Request) -> Reply | Failure:
        handler = self._handlers[request.packet.METHOD_ID]
        try:
            return await handler(self._call, request, self._settings)
        except BusyError:
            raise
        except FailedError as error:
            return error.failure
        except UnavailableError as error:
            return error.failure or unavailable(self._settings.overload_retry_ms)
        except LostError as error:
            return in_doubt(error)
        except RefusedError as error:
            if error.sqlstate == LOCKED_SQLSTATE:
                raise BusyError from error
            if error.sqlstate == DISK_FULL_SQLSTATE:
                self._disk.refused_by_database()
            _log.warning("request_refused", packet=type(request.packet).__name__, error=str(error))
            return failure_by_sqlstate(error, self._settings.overload_retry_ms)
        except Exception:  # noqa: BLE001 - whatever it was, the request is answered
            _log.exception("request_failed", packet=type(request.packet).__name__)
            return unknown()

    async def _call(self, sql: str, *arguments: object) -> list[Row]:
        """Calls a procedure, once more if its statement was out of date.

        One that only reads is called also while no commit is confirmed.
        """
        call = self._connection.read if sql in READING else self._connection.call
        try:
            return await call(sql, *arguments)
        except RefusedError as error:
            if error.sqlstate != STALE_SQLSTATE:
                raise
            return await call(sql, *arguments)

    def _give_back(self, request: Request) -> None:
        if request.pipeline.closed:
            self._dispatcher.drop([request])
            return
        request.pipeline.give_back([request])
        self._dispatcher.rest(request.pipeline)

    def _busy_too_long(self, request: Request) -> bool:
        pipeline = request.pipeline
        if pipeline.busy_count == 0:
            pipeline.busy_since = self._clock()
            return False
        takeover = isinstance(request.packet, _TAKEOVERS)
        limit_s = self._settings.takeover_limit_s if takeover else self._settings.busy_limit_s
        return self._clock() - pipeline.busy_since > limit_s

    def _busy_failure(self, request: Request) -> Failure:
        if isinstance(request.packet, _TAKEOVERS):
            return failure_of(
                ErrorCode.TAKEOVER_BUSY, "the client's earlier session has a transaction running"
            )
        if request.pipeline.progress is not None:
            return in_doubt(LostError("the client or the queue stayed busy", suspicious=False, told=IN_PART))
        return busy_too_long(self._settings.overload_retry_ms)

    def _fail(self, request: Request, failure: Failure) -> None:
        self._effects.failed(request, failure)
        if isinstance(request.packet, Authenticate):
            request.pipeline.on_login(request.packet_id, failure)
            return
        if isinstance(request.packet, _TAKEOVERS):
            request.pipeline.on_identity(None)
        request.pipeline.send(error_frame(request.packet_id, failure))
        if failure.code is ErrorCode.SESSION_FENCED:
            request.pipeline.finish()

    def _reply(self, request: Request, reply: Reply) -> None:
        if isinstance(request.packet, Authenticate):
            request.pipeline.on_login(request.packet_id, reply.user)
        if reply.identity is not None:
            request.pipeline.on_identity(reply.identity)
        self._effects.after_reply(request, reply)
        request.pipeline.send(reply.packet.encode(request.packet_id))
        if reply.last:
            request.pipeline.finish()
