"""How requests of one kind are executed in batches.

`BatchWorker` takes a batch, executes it and answers it. `BisectingExecutor` makes the calls (for puts its
subclass `PutAndClaimExecutor`), and `BatchEffects` does what follows beside the answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from time import perf_counter
from typing import Any, cast

from telesto.db import calls
from telesto.middleware.common.audit import AuditLog
from telesto.middleware.common.failures import (
    DISK_FULL_SQLSTATE,
    LOCKED_SQLSTATE,
    STALE_SQLSTATE,
    Failure,
    LostError,
    RefusedError,
    UnavailableError,
    behind,
    busy_too_long,
    ends_call,
    failure_by_sqlstate,
    in_doubt,
    unavailable,
    unknown,
)
from telesto.middleware.common.logs import logger
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.behaviour_monitor import BehaviourMonitor
from telesto.middleware.consumers.claim_plan import Claim
from telesto.middleware.consumers.claim_tracker import ClaimTracker, RowKind
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.database.connection import DatabaseConnection, Rows
from telesto.middleware.database.disk import Disk
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.procedures.audited import audit_done, audit_refused
from telesto.middleware.procedures.clients import taken_over
from telesto.middleware.procedures.put import PutGroup, elements_of
from telesto.middleware.procedures.reads import answer_read
from telesto.middleware.scheduling.dispatcher import (
    Batch,
    Budget,
    CallPacing,
    Dispatcher,
    FairQueue,
    Quarantine,
)
from telesto.middleware.scheduling.expected_size import ExpectedSizes
from telesto.middleware.scheduling.ordering import (
    has_order,
    mark_behind,
    mark_refused,
    note_failed,
    note_full,
    refused_for_now,
)
from telesto.middleware.scheduling.requests import (
    Arrivals,
    Group,
    Kind,
    Mark,
    Pipeline,
    Read,
    Request,
    Results,
    Wait,
    all_failed,
    error_frame,
    topic_channel,
)
from telesto.middleware.scheduling.single_request import Reply
from telesto.middleware.security.rights import RightsCheck
from telesto.middleware.security.users import Read as ReadRows
from telesto.middleware.waiting.room import Announcer, WaitingRoom
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.headers import content_bytes
from telesto.protocol.packets import JoinQueue, RegisterClient

_log = logger("batches")

#: Calls of these kinds take about as long as a commit. Calls of reads take longer the more they return.
_WRITING = (Kind.PUT, Kind.PUBLISH, Kind.ACK, Kind.CONFIRM)


class BatchWorker:
    """Takes the gathered requests, executes them in one call, answers them, and repeats.

    There is no timer: the next batch gathers while this call, or that of another worker, runs.
    """

    def __init__(
        self,
        queue: FairQueue,
        dispatcher: Dispatcher,
        executor: BisectingExecutor,
        effects: BatchEffects,
        counters: Counters,
        tracer: Tracer,
        pace: CallPacing,
        busy_limit_s: float,
        retry_ms: int,
    ) -> None:
        self._queue = queue
        self._dispatcher = dispatcher
        self._executor = executor
        self._effects = effects
        self._counts = counters.of_kind[queue.kind]
        self._tracer = tracer
        self._pace = pace
        self._busy_limit_s = busy_limit_s
        self._retry_ms = retry_ms
        self._clock = asyncio.get_running_loop().time

    async def run(self) -> None:
        """Works until the queue is closed."""
        while await self._queue.wait():
            turn = await self._pace.begin(self._queue)
            wrote = False
            try:
                batch = self._queue.take(self._dispatcher.stand)
                if batch.requests:
                    wrote = await self._serve(batch)
            finally:
                self._pace.end(turn, wrote=wrote)

    async def _serve(self, batch: Batch) -> bool:
        """Executes and answers a batch. Returns whether its call mainly wrote."""
        requests = await self._effects.before(batch.requests, self._executor.read)
        wrote = False
        if requests:
            begun = perf_counter()
            scanned_at = self._effects.clock
            tracer = self._tracer
            followed = tracer.called(requests) if tracer.on else None
            results = await self._executor.run(requests)
            if results.fenced:
                await self._tell_by_whom(requests, results)
            counts = self._counts
            counts.calls += 1
            counts.requests += len(requests)
            counts.seconds += perf_counter() - begun
            if followed:
                tracer.returned(followed)
            self._settle(requests, results, scanned_at)
            if followed:
                tracer.settled(followed, requests, results.outcomes)
            wrote = self._queue.kind in _WRITING and any(
                type(outcome) is bytes for outcome in results.outcomes
            )
        self._dispatcher.served(batch)
        return wrote

    async def _tell_by_whom(self, requests: list[Request], results: Results) -> None:
        """Says in the answers of ended sessions which process has the client now."""
        failure = next(failure for _, failure in results.failed if failure.code is ErrorCode.SESSION_FENCED)
        told = await taken_over(self._executor.read, results.fenced, failure)
        fenced = set(results.fenced)
        for position, request in enumerate(requests):
            by = told.get(request.pipeline.client.client_id)
            if request in fenced and by is not None:
                results.outcomes[position] = error_frame(request.packet_id, by)

    def _settle(self, requests: list[Request], results: Results, scanned_at: int) -> None:
        self._effects.after(requests, results)
        again: dict[Pipeline, list[Request]] = {}
        busy: set[Pipeline] = set()
        answered = 0
        size = 0
        for request, outcome in zip(requests, results.outcomes, strict=True):
            if type(outcome) is bytes:
                request.pipeline.send(outcome)
                answered += 1
                size += request.size
            elif outcome is Mark.NOTHING:
                self._effects.found_nothing(request, scanned_at)
                answered += 1
                size += request.size
            elif isinstance(request, Read) and request.wait is not None and request.wait.readmitted:
                self._read_again(request, request.wait, outcome is Mark.BUSY)
            else:
                again.setdefault(request.pipeline, []).append(request)
                if outcome is Mark.BUSY:
                    busy.add(request.pipeline)
        self._dispatcher.budget.leave(answered, size)
        self._give_back(again, busy)
        for pipeline in {request.pipeline for request in requests if request.pipeline.busy_count}.difference(
            busy
        ):
            pipeline.busy_count = 0
            pipeline.apart = False
        self._effects.end_fenced(results)

    def _give_back(self, again: dict[Pipeline, list[Request]], busy: set[Pipeline]) -> None:
        """Puts requests that were not executed back into their pipelines. Pipelines that met a lock pause."""
        now = self._clock()
        for pipeline, requests in again.items():
            if pipeline.closed:
                self._dispatcher.drop(requests)
                continue
            if pipeline in busy:
                if pipeline.busy_count == 0:
                    pipeline.busy_since = now
                elif now - pipeline.busy_since > self._busy_limit_s:
                    pipeline.busy_since = now
                    self._give_up(requests.pop(0))
                self._dispatcher.rest(pipeline)
            pipeline.give_back(requests)

    def _read_again(self, read: Read, wait: Wait, busy: bool) -> None:
        """Tries a read again that was parked and is not in its pipeline."""
        now = self._clock()
        if not busy:
            self._queue.readmit(read)
        elif wait.busy_since and now - wait.busy_since > self._busy_limit_s:
            self._effects.leave(read)
            self._give_up(read)
        else:
            wait.busy_since = wait.busy_since or now
            self._dispatcher.rest_read(read, wait.busy_count)
            wait.busy_count += 1

    def _give_up(self, request: Request) -> None:
        self._answer(request, busy_too_long(self._retry_ms))

    def _answer(self, request: Request, failure: Failure) -> None:
        self._dispatcher.budget.leave(1, request.size)
        self._effects.failed(request, failure)
        request.pipeline.send(error_frame(request.packet_id, failure))


class BisectingExecutor:
    """Makes the calls of one worker.

    After an error of the database nothing was done, so the batch is split until the request that causes the
    error is alone. A batch whose outcome is unknown is in doubt and never repeated: the clients find out by a
    takeover.
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
        """Executes requests. Returns their outcomes and raises nothing."""
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

    async def read(self, sql: str, *arguments: Any) -> Rows:
        """Calls a procedure that only reads. Raises what DatabaseConnection.read raises."""
        return await self._connection.read(sql, *arguments)

    async def _call(self, requests: Sequence[Request]) -> Rows:
        """Calls the procedure, and repeats the call if its statement was out of date."""
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
        if error.sqlstate == LOCKED_SQLSTATE:
            busy = Results()
            busy.outcomes += [Mark.BUSY] * len(requests)
            return busy
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
        """Executes the second half, without requests that must not overtake others of their connection."""
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
    """Returns the connections of which nothing more may be executed now, with the failure to send, if any."""
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


#: One row of the puts, then those of the claim. The parts are executed in this order, and the second sees the
#: changes of the first. Locks are taken in the usual order: put before take.
PUT_AND_CLAIM = f"""
SELECT put.errors, put.message_ids, (NULL::telesto.claimed_message).*
FROM {calls.call_of(calls.put_batch)} AS put
UNION ALL
SELECT NULL, NULL, claimed.*
FROM {calls.call_of(calls.claim_batch, behind=calls.put_batch)} AS claimed
"""


class PutAndClaimExecutor(BisectingExecutor):
    """Claims messages in the call that puts them, if they are few, for consumers with credit left.

    This saves a call, a flush of the log and a wake-up. After puts of many messages the claim loop claims.
    The claim waits for no lock and its answer is small, so it does not delay the puts.
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
        except RefusedError as error:
            # Nothing was done. Executing the puts alone shows whether they were the reason.
            self._claims.failed(claim)
            if error.sqlstate == LOCKED_SQLSTATE:
                raise
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
            # Waiting reads need not look for messages that consumers have.
            if row["kind"] == RowKind.MESSAGE:
                results.forget_arrival(row["queue_id"], row["receiver_id"])
        return results

    def _begin(self, requests: Sequence[Request]) -> Claim | None:
        """Begins a claim for messages without a receiver, if they are few and a consumer waits for them."""
        if not self._claims.consumers.by_id or len(requests) >= self._messages_max:
            return None
        counts: dict[int, int] = {}
        messages = size = 0
        for request in requests:
            for queue_id, message in elements_of(request.packet):
                messages += 1
                size += content_bytes(message)
                if not message.delay_ms and not message.receiver_id:
                    counts[queue_id] = counts.get(queue_id, 0) + 1
            if messages >= self._messages_max or size > self._bytes_max:
                return None
        return self._claims.begin_for(counts)


class BatchEffects:
    """Wakes and parks reads, settles consumers' messages, and closes fenced connections."""

    def __init__(
        self,
        room: WaitingRoom,
        announcer: Announcer,
        consumers: ConsumerRegistry,
        monitor: BehaviourMonitor,
        budget: Budget,
        expected_sizes: ExpectedSizes,
        rights: RightsCheck,
        audit: AuditLog,
        retry_ms: int,
    ) -> None:
        self._room = room
        self._announcer = announcer
        self._consumers = consumers
        self._monitor = monitor
        self._budget = budget
        self._expected_sizes = expected_sizes
        self._rights = rights
        self._audit = audit
        self._retry_ms = retry_ms

    @property
    def clock(self) -> int:
        """The waiting room's clock."""
        return self._room.clock

    async def before(self, requests: list[Request], read: ReadRows) -> list[Request]:
        """Answers the requests that must not be executed (any more). Returns the others.

        ``read`` calls a procedure that only reads. Raises nothing.
        """
        asking = [
            request
            for request in requests
            if (user := request.pipeline.user) is not None
            and not (user.administrator or self._rights.allows(user, request.packet))
        ]
        if asking:
            denied = await self._denied(asking, read)
            requests = [request for request in requests if request not in denied]
            for request, failure in denied.items():
                self._deny(request, failure)
        return self._still_wanted(requests)

    async def _denied(self, requests: list[Request], read: ReadRows) -> dict[Request, Failure]:
        """Returns which requests their users may not make, and why."""
        try:
            asked = [(request.pipeline, request.packet) for request in requests]
            names = await self._rights.look_up(asked, read)
        except UnavailableError as error:
            return dict.fromkeys(requests, error.failure or unavailable(self._retry_ms))
        except (LostError, RefusedError):
            return dict.fromkeys(requests, unavailable(self._retry_ms))
        denied = {}
        for request in requests:
            failure = self._refusal(request, names)
            if failure is not None:
                denied[request] = failure
        return denied

    def _refusal(self, request: Request, names: dict[int, str] | None = None) -> Failure | None:
        """Returns why the user may not make a request, by what is known; None if it may."""
        pipeline = request.pipeline
        user = pipeline.user
        if user is None or user.administrator or self._rights.allows(user, request.packet):
            return None
        return self._rights.refusal(user, request.packet, pipeline.subscribed, names)

    def _deny(self, request: Request, failure: Failure) -> None:
        self.failed(request, failure)
        self._budget.leave(1, request.size)
        if isinstance(request, Read):
            self.leave(request)
        elif isinstance(request.packet, RegisterClient):
            request.pipeline.on_identity(None)
        request.pipeline.send(error_frame(request.packet_id, failure))

    def _still_wanted(self, requests: list[Request]) -> list[Request]:
        if requests and isinstance(requests[0], Read):
            reads = cast(list[Read], requests)
            requests = [read for read in reads if read.wait is None or not self._is_over(read, read.wait)]
        if not any(request.pipeline.refused or request.pipeline.refusing for request in requests):
            return requests
        return [request for request in requests if not self._is_refused(request)]

    def _is_refused(self, request: Request) -> bool:
        """Refuses a request that must not overtake one that was refused for now. Tells whether it did."""
        failure = refused_for_now(request)
        if failure is None:
            mark_refused(request)
            return False
        self.unrecorded(request)
        self._budget.leave(1, request.size)
        if isinstance(request, Read):
            self.leave(request)
        request.pipeline.send(error_frame(request.packet_id, failure))
        return True

    def _is_over(self, read: Read, wait: Wait) -> bool:
        """Ends a woken read that was cancelled or has lost its connection. Tells whether it did.

        A read that was not parked yet may carry confirmations, which only a call applies.
        """
        if not wait.over or (read.confirms and not wait.readmitted):
            return False
        self._room.leave(read)
        self._budget.leave(1, read.size)
        answer_read(read)
        return True

    def after(self, requests: list[Request], results: Results) -> None:
        """Handles the consequences of a batch."""
        if results.arrivals:
            self._announcer.arrived(results.arrivals)
        for request, queue_id in results.full:
            note_full(request, queue_id)
        for request in results.unrecorded:
            self.unrecorded(request)
        for request, failure in results.failed:
            note_failed(request, failure)
        if results.settled:
            self._consumers.settled(results.settled)
        for queue_id, weight in results.heavy.items():
            self._expected_sizes.note(queue_id, weight)
        if requests and isinstance(requests[0], Read):
            self._settle_reads(requests, results)

    def end_fenced(self, results: Results) -> None:
        """Closes the connections of ended sessions, after their answers."""
        for pipeline in {request.pipeline for request in results.fenced}:
            pipeline.finish()

    def came_back(self, arrivals: Arrivals) -> None:
        """A request that is not over yet has brought messages back."""
        self._announcer.arrived(arrivals)

    def after_reply(self, request: Request, reply: Reply) -> None:
        """Handles the consequences of the answer to a single request, before the client gets it."""
        audit_done(self._audit, request, reply)
        if reply.arrivals:
            self._announcer.arrived(reply.arrivals)
        if reply.touched is not None:
            self._monitor.touched(reply.touched, reply.settled)
        if reply.settled:
            self._consumers.settled(reply.settled)
        if reply.lost:
            self._consumers.came_back(reply.lost)
        if reply.failed:
            self._monitor.failed(reply.failed)
        if reply.deleted_queue:
            self._announcer.queue_deleted(reply.deleted_queue)
        if reply.changed_topic:
            client_id = request.pipeline.client.client_id
            self._room.subscription_changed(client_id, topic_channel(reply.changed_topic))
            request.pipeline.subscribed = None
        if isinstance(request.packet, JoinQueue) and self._refusal(request) is not None:
            # Its rights have changed meanwhile. It is told so behind the answer.
            asyncio.get_running_loop().call_soon(self.user_changed, request.pipeline)

    def user_changed(self, pipeline: Pipeline) -> None:
        """The rights of a connection's user have changed: its reads and consumers are judged again."""
        user = pipeline.user
        if user is None:
            return
        pipeline.subscribed = None
        self._room.scan_again([read for read in pipeline.waiting.values() if read.wait and read.wait.parked])
        if user.administrator:
            return
        for consumer_id in list(pipeline.consumers):
            consumer = self._consumers.by_id[consumer_id]
            failure = self._rights.why_not_read(user, consumer.queue_id)
            if failure is not None:
                self._consumers.end(consumer, failure, counted=False)

    def found_nothing(self, request: Request, scanned_at: int) -> None:
        """A read found nothing: it waits, or gets an empty answer."""
        assert isinstance(request, Read)
        if request.wait is not None:
            self._room.scanned(request, [])
            if self._refusal(request) is not None:
                # The rights have changed while it scanned: it is judged again.
                self._room.readmit(request)
                return
            if self._room.settle_empty(request, scanned_at):
                request.applied()
                return
        answer_read(request)

    def leave(self, read: Read) -> None:
        """A read ends without a scan."""
        if read.wait is not None:
            self._room.leave(read)
            read.pipeline.waiting.pop(read.packet_id, None)

    def unrecorded(self, request: Request) -> None:
        """A request left no record, so it needs no confirmation."""
        request.pipeline.forget_number(getattr(request.packet, "number", 0))

    def failed(self, request: Request, failure: Failure) -> None:
        """A request failed outside of a batch."""
        audit_refused(self._audit, request, failure)
        if not failure.recorded:
            self.unrecorded(request)
        note_failed(request, failure)

    def _settle_reads(self, requests: list[Request], results: Results) -> None:
        taken = dict(results.handed)
        for request, receivers in results.handed:
            if len(receivers) > 1 and request.packet.number in request.pipeline.unconfirmed:
                request.pipeline.unconfirmed[request.packet.number] = len(receivers)
        for request, outcome in zip(requests, results.outcomes, strict=True):
            assert isinstance(request, Read)
            wait = request.wait
            if wait is None or isinstance(outcome, Mark):
                continue
            request.pipeline.waiting.pop(request.packet_id, None)
            if request in taken:
                self._room.scanned(request, taken[request])
            else:
                self._room.leave(request)
