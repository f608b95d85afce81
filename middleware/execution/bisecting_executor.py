"""Executes a batch in one call, or in several when one of its requests is refused."""

from __future__ import annotations

from collections.abc import Sequence

from telesto.db.calls import Statement
from telesto.middleware.common.failures import (
    DISK_FULL_SQLSTATE,
    STALE_SQLSTATE,
    Failure,
    LostError,
    RefusedError,
    UnavailableError,
    behind,
    ends_call,
    failure_by_sqlstate,
    in_doubt,
    unavailable,
    unknown,
)
from telesto.middleware.common.logs import logger
from telesto.middleware.database.connection import DatabaseConnection, Rows
from telesto.middleware.database.disk import Disk
from telesto.middleware.scheduling.ordering import has_order, mark_behind
from telesto.middleware.scheduling.outcomes import Group, Mark, Results, all_failed
from telesto.middleware.scheduling.quarantine import Quarantine
from telesto.middleware.scheduling.requests import Pipeline, Request
from telesto.protocol.errors import ErrorClass, ErrorCode

_log = logger("batches")


class BisectingExecutor:
    """Runs the batches of one worker.

    An error that the database answered is definite, so the batch is split until the poisonous request is
    alone. A batch whose outcome is unknown is in doubt and never tried again: the clients take over.
    """

    def __init__(
        self, group: Group, connection: DatabaseConnection, disk: Disk, quarantine: Quarantine, retry_ms: int
    ) -> None:
        self._group = group
        self._kind = type(group).__name__
        self._disk = disk
        self._connection = connection
        self._quarantine = quarantine
        self._retry_ms = retry_ms

    async def run(self, requests: Sequence[Request]) -> Results:
        """Returns the outcome of each request; raises nothing."""
        if self._group.stores and (failure := self._disk.refusal(len(requests))):
            return all_failed(requests, failure)
        if self._group.moves:
            await self._disk.pace()
        try:
            rows = await self._call(requests)
        except UnavailableError as error:
            return all_failed(requests, error.failure or unavailable(self._retry_ms))
        except LostError as error:
            if error.suspicious:
                self._quarantine.add({request.pipeline.client.client_id for request in requests})
            return all_failed(requests, in_doubt(error))
        except RefusedError as error:
            return await self._refused(requests, error)
        except Exception:  # noqa: BLE001 - whatever it was, the requests are answered
            _log.exception("call_failed", kind=self._kind, requests=len(requests))
            return all_failed(requests, unknown())
        return self._read(requests, rows)

    async def _call(self, requests: Sequence[Request]) -> Rows:
        """Calls the procedure, once more if its statement was out of date."""
        statement = self._statement(requests)
        call = self._connection.call_for_much if self._group.is_large(requests) else self._connection.call
        try:
            return await call(*statement)
        except RefusedError as error:
            if error.sqlstate != STALE_SQLSTATE:
                raise
            return await call(*statement)

    def _statement(self, requests: Sequence[Request]) -> Statement:
        try:
            return self._group.statement(requests)
        except Exception as error:
            _log.exception("arguments_failed", kind=self._kind, requests=len(requests))
            raise RefusedError("", "the request could not be prepared") from error

    def _read(self, requests: Sequence[Request], rows: Rows) -> Results:
        try:
            return self._group.results(requests, rows)
        except Exception:  # noqa: BLE001 - whatever it was, the requests are answered
            _log.exception("results_failed", kind=self._kind, requests=len(requests))
            return all_failed(requests, unknown())

    async def _refused(self, requests: Sequence[Request], error: RefusedError) -> Results:
        if error.sqlstate == DISK_FULL_SQLSTATE:
            self._disk.refused_by_database()
        if len(requests) == 1 or ends_call(error.sqlstate):
            failure = failure_by_sqlstate(error, self._retry_ms)
            self._report(requests[0], failure, error)
            return all_failed(requests, failure)
        middle = len(requests) // 2
        results = await self.run(requests[:middle])
        results.extend(await self._run_behind(requests[middle:], requests[:middle], results))
        return results

    async def _run_behind(
        self, requests: Sequence[Request], earlier: Sequence[Request], results: Results
    ) -> Results:
        """Runs the second half, without requests that must not overtake one of their connection."""
        mark_behind(results.full, requests)
        stopped = _stopped(earlier, results)
        free = [request for request in requests if not _is_stopped(request, stopped)]
        if len(free) == len(requests):
            return await self.run(requests)
        rest = await self.run(free) if free else Results()
        outcomes = iter(rest.outcomes)
        rest.outcomes = []
        for request in requests:
            failure = stopped.get(request.pipeline)
            if not _is_stopped(request, stopped):
                rest.outcomes.append(next(outcomes))
            elif failure is None:
                rest.outcomes.append(Mark.BUSY)
            else:
                rest.fail(request, failure)
        return rest

    def _report(self, request: Request, failure: Failure, error: RefusedError) -> None:
        if failure.code is ErrorCode.INTERNAL_ERROR or failure.error_class is ErrorClass.RETRYABLE:
            _log.warning(
                "request_refused",
                packet=type(request.packet).__name__,
                client_id=request.pipeline.client.client_id,
                sqlstate=error.sqlstate,
                error=error.message,
            )


def _stopped(requests: Sequence[Request], results: Results) -> dict[Pipeline, Failure | None]:
    """The connections of which nothing more may be executed now; with a failure if it is to be told."""
    stopped: dict[Pipeline, Failure | None] = {
        request.pipeline: None
        for request, outcome in zip(requests, results.outcomes, strict=True)
        if outcome is Mark.BUSY
    }
    for request, failure in results.failed:
        after = behind(failure)
        if after is not None and has_order(request):
            stopped[request.pipeline] = after
    return stopped


def _is_stopped(request: Request, stopped: dict[Pipeline, Failure | None]) -> bool:
    return request.pipeline in stopped and has_order(request)
