"""Ends the sessions of applications that hold a lock of Telesto for too long."""

from __future__ import annotations

from collections.abc import Callable

from telesto.db import calls
from telesto.middleware.common.logs import logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.scheduling.single_request import Call, Row

#: How often to look, in seconds.
_PERIOD_S = 1.0
#: A middleware keeps the job for this time, in seconds. Then another one may take it over.
_HOLD_S = 4 * _PERIOD_S

_log = logger("locks")


class LockHolders:
    """Looks who holds locks by SQL, and ends who does so for longer than ``sql_lock_limit_ms``.

    From release 17 on PostgreSQL does so by itself where the caller leaves its session's limits alone. A lock
    counts as held since a look has first found it in the same transaction.

    Attributes:
        work: the background task.
    """

    def __init__(self, call: Call, peers: Peers, clock: Callable[[], float]) -> None:
        """``clock`` is the loop's, in seconds."""
        self._call = call
        self._peers = peers
        self._clock = clock
        #: By process and virtual transaction: since when it holds a lock, and for how long it may.
        self._since: dict[tuple[int, str], tuple[float, float]] = {}
        self._told: set[tuple[int, str]] = set()
        self.work = Periodic("lock_holders", self.look, period_s=_PERIOD_S)

    async def look(self) -> None:
        """Looks once. Raises what Call raises."""
        now = self._clock()
        due = [key for key, (since, limit_s) in self._since.items() if now - since >= limit_s]
        rows = await self._call(
            *calls.end_lock_holders(
                middleware_id=self._peers.middleware_id,
                hold_s=_HOLD_S,
                due_pids=[pid for pid, _ in due],
                due_transactions=[transaction for _, transaction in due],
            )
        )
        before, self._since = self._since, {}
        for row in rows:
            key = (row["pid"], row["transaction"])
            since = before.get(key, (now, 0.0))[0]
            self._since[key] = (since, row["limit_ms"] / 1000)
            if key in due and key not in self._told:
                self._tell(row, now - since)
        self._told = self._since.keys() & (self._told | set(due))

    def _tell(self, row: Row, held_s: float) -> None:
        fields = {"backend": row["pid"], "role": row["role_name"], "held_s": round(held_s, 1)}
        if row["ended"]:
            _log.warning("lock_holder_ended", **fields)
        elif row["spared"]:
            _log.warning("lock_held", why="an administrator or middleware may", **fields)
        else:
            why = "the schema's owner needs pg_signal_backend, or membership in the role, to end it"
            _log.warning("lock_holder_not_ended", why=why, **fields)
