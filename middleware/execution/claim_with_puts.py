"""Executes puts together with the claim for the consumers that wait for them."""

from __future__ import annotations

from collections.abc import Sequence

from telesto.db import calls
from telesto.middleware.common.failures import LostError, RefusedError
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_plan import Claim
from telesto.middleware.consumers.claim_tracker import ClaimTracker, RowKind
from telesto.middleware.database.connection import DatabaseConnection, Rows
from telesto.middleware.database.disk import Disk
from telesto.middleware.execution.bisecting_executor import BisectingExecutor
from telesto.middleware.procedures.put import PutGroup, elements_of
from telesto.middleware.scheduling.outcomes import Results
from telesto.middleware.scheduling.quarantine import Quarantine
from telesto.middleware.scheduling.requests import Request

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
    """Claims few messages in the call that puts them, where consumers have room for them.

    That saves a call, a flush of the log and a wake-up. Puts of many messages have calls of their own, beside
    which the claim loop goes on. The claim waits for no lock and its answer is small, so that readers do not
    hold up the puts.
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
            # Nothing was done. The puts alone show whether they were the reason.
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
            # Nobody else needs to look for what consumers have already.
            if row["kind"] == RowKind.MESSAGE:
                results.forget_arrival(row["queue_id"], row["receiver_id"])
        return results

    def _begin(self, requests: Sequence[Request]) -> Claim | None:
        """Begins a claim of few messages without a receiver, if a consumer waits for them."""
        if not self._claims.has_consumers or len(requests) >= self._messages_max:
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
