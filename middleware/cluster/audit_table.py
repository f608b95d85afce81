"""The audit log in the database: what this middleware keeps there, and what was changed in SQL."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import islice

from telesto.db import calls
from telesto.middleware.common.audit import AuditLog
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.scheduling.single_request import Call

#: How often lines are moved, in seconds, and at most how many in a call.
_PERIOD_S = 1.0
_LINES_MAX = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AuditTable:
    """Moves lines into the table, and those of others into the file.

    Attributes:
        work: the background task.
    """

    def __init__(self, call: Call, audit: AuditLog) -> None:
        self._call = call
        self._audit = audit
        self.work = Periodic("audit", self.move, period_s=_PERIOD_S if audit.on else None)

    async def move(self) -> None:
        """Moves all. Raises what Call raises. Lines of a call that was lost may be there twice."""
        audit = self._audit
        while lines := list(islice(audit.for_table, _LINES_MAX)):
            await self._call(*calls.write_audit(lines=lines))
            for _ in lines:
                audit.for_table.popleft()
        while audit.in_file:
            rows = await self._call(*calls.take_audit(max_rows=_LINES_MAX))
            for row in rows:
                at = _EPOCH + timedelta(microseconds=row["at"])
                audit.from_table(row["event"], at, json.loads(row["details"]))
            if len(rows) < _LINES_MAX:
                return
