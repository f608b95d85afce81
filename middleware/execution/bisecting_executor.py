"""Executes a batch in one call, or in several if a request is refused; a call of puts may also claim."""

from __future__ import annotations

from collections.abc import Sequence

from telesto.db import calls
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
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_plan import Claim
from telesto.middleware.consumers.claim_tracker import ClaimTracker, RowKind
from telesto.middleware.database.connection import DatabaseConnection, Rows
from telesto.middleware.database.disk import Disk
from telesto.middleware.procedures.put import PutGroup, elements_of
from telesto.middleware.scheduling.dispatcher import Quarantine
from telesto.middleware.scheduling.ordering import has_order, mark_behind
from telesto.middleware.scheduling.outcomes import Group, Mark, Results, all_failed
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
        if self._group.stores and self._disk.is_full:
            return all_failed(requests, self._disk.refusal(len(requests)))
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

    def _statement(self, requests: Sequence[Request]) -> calls.Statement:
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


#: One row of the puts, then those of the claim. The parts are executed in this order, and the second sees
#: what the first has done. Locks are taken in the order that holds everywhere: put before take.
PUT_AND_CLAIM = f"""
SELECT put.errors, put.message_ids, (NULL::telesto.claimed_message).*
FROM {calls.call_of(calls.put_batch)} AS put
UNION ALL
SELECT NULL, NULL, claimed.*
FROM {calls.call_of(calls.claim_batch, behind=calls.put_batch)} AS claimed
"""


class PutAndClaimExecutor(BisectingExecutor):
    """Claims few messages in the call that puts them, for consumers that have credit left.

    This saves a call, a flush of the log and a wake-up. Puts of many messages do not claim; the claim loop
    does. The claim waits for no lock and its answer is small, so readers do not delay the puts.
    """

    def __init__(
        self,
        group: PutGroup,
        connection: DatabaseConnection,
        disk: Disk,
        quarantine: Quarantine,
        claims: ClaimTracker,
        settings: ServerSettings,
    ) -> None:
        super().__init__(group, connection, disk, quarantine, settings.overload_retry_ms)
        self._claims = claims
        self._messages_max = settings.many_messages
        self._bytes_max = settings.locked_answer_bytes or settings.max_answer_bytes

    async def _call(self, requests: Sequence[Request]) -> Rows:
        claim = self._begin(requests)
        if claim is None:
            return await super()._call(requests)
        try:
            rows = await self._call_for(claim, requests)
        except LostError:
            self._claims.lost(claim)
            raise
        except RefusedError:
            # Nothing was done. Executing the puts alone shows whether they were the reason.
            self._claims.failed(claim)
            return await super()._call(requests)
        except BaseException:
            self._claims.failed(claim)
            raise
        else:
            self._claims.settle(claim, rows[1:])
            return rows
        finally:
            self._claims.over(claim)

    async def _call_for(self, claim: Claim, requests: Sequence[Request]) -> Rows:
        _, *put = self._statement(requests)
        _, *claimed = claim.statement(self._bytes_max, waits=False)
        return await self._connection.call(PUT_AND_CLAIM, *put, *claimed)

    def _read(self, requests: Sequence[Request], rows: Rows) -> Results:
        results = super()._read(requests, rows[:1])
        for row in rows[1:]:
            # Other readers need not look for what consumers have already.
            if row["kind"] == RowKind.MESSAGE:
                results.forget_arrival(row["queue_id"], row["receiver_id"])
        return results

    def _begin(self, requests: Sequence[Request]) -> Claim | None:
        """Begins a claim of few messages without a receiver, if a consumer waits for them."""
        if not self._claims.consumers.by_id or len(requests) >= self._messages_max:
            return None
        counts: dict[int, int] = {}
        messages = size = 0
        for request in requests:
            for queue_id, message in elements_of(request.packet):
                messages += 1
                size += len(message.body)
                if not message.delay_ms and not message.receiver_id:
                    counts[queue_id] = counts.get(queue_id, 0) + 1
            if messages >= self._messages_max or size > self._bytes_max:
                return None
        return self._claims.begin_for(counts)
