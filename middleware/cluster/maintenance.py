"""Maintenance jobs, each run by one middleware at a time: leases, delays, expiries, retention, history."""

from __future__ import annotations

from functools import partial

from telesto.middleware.common.logs import logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.scheduling.outcomes import Arrivals
from telesto.middleware.scheduling.single_request import Call, arrivals_of
from telesto.middleware.waiting.announcer import Announcer

SWEEP = "SELECT elected, done, more, queue_ids, receiver_ids FROM telesto.sweep($1, $2, $3, $4, $5, $6, $7)"
PLACE_STAGED = "SELECT queue_ids, receiver_ids, counts FROM telesto.place_staged($1)"
PLACE_STAGED_TOPICS = """
SELECT ARRAY(SELECT -unnest(topic_ids)), array_fill(0::bigint, ARRAY[cardinality(topic_ids)]), counts
FROM telesto.place_staged_topics($1)
"""

_JOBS = ("deleted_queues", "message_keys", "history", "topics", "subscriptions")
#: Scans all hand-overs, and their dead rows while an old snapshot keeps them. So it runs at most ``_SCANS``
#: times in ``retention_s``.
_UNCONFIRMED = "unconfirmed"
_SCANS = 1_000
#: Those that handle what is due; clients wait for their effects.
_DUE_JOBS = (
    "leases",
    "delayed",
    "expired",
    "expired_keyed",
    "due_partitions",
    "partitions",
    "dead_letters",
)
_PLACES = (PLACE_STAGED, PLACE_STAGED_TOPICS)
#: A middleware keeps a job for this many periods; then another one may take it over.
_HOLD_PERIODS = 4

_log = logger("jobs")


class MaintenanceJobs:
    """Runs the jobs. The database elects the middleware that runs a job, by a row with a deadline.

    Attributes:
        work: what runs in the background.
    """

    def __init__(
        self, call: Call, peers: Peers, clock: DatabaseClock, announcer: Announcer, settings: ServerSettings
    ) -> None:
        self._call = call
        self._announcer = announcer
        self._clock = clock
        self._peers = peers
        self._settings = settings
        self._staged = Periodic("place_staged", self._place_staged, period_s=settings.staged_interval_s)
        self.work = [self._staged]
        self.work += [self._periodic(job, settings.sweep_interval_s) for job in _JOBS]
        scan = self._periodic(_UNCONFIRMED, max(settings.sweep_interval_s, settings.retention_s / _SCANS))
        # Each middleware scans when it starts, so that the job also runs where none lives for long.
        scan.poke()
        self.work.append(scan)
        self.work += [self._periodic(job, settings.due_sweep_interval_s) for job in _DUE_JOBS]

    def _periodic(self, job: str, period_s: float) -> Periodic:
        return Periodic(job, partial(self._sweep, job, period_s), period_s=period_s)

    async def _sweep(self, job: str, period_s: float) -> None:
        """Repeats a job while this middleware is elected for it and there is more to do."""
        settings = self._settings
        hold_s = _HOLD_PERIODS * period_s
        more = True
        while more:
            rows = await self._call(
                SWEEP,
                self._peers.middleware_id,
                job,
                settings.sweep_rows,
                hold_s,
                settings.retention_s,
                self._clock.latest(),
                settings.topic_idle_s,
            )
            elected, done, more, queue_ids, receiver_ids = rows[0]
            if done:
                _log.info("swept", job=job, done=done)
            arrivals = arrivals_of(queue_ids, receiver_ids)
            if arrivals:
                self._announcer.arrived(arrivals)
            more = elected and more

    async def _place_staged(self) -> None:
        """Places staged messages. While there are none, the pause between two looks doubles up to a limit."""
        settings = self._settings
        arrivals: Arrivals = {}
        for place in _PLACES:
            rows = await self._call(place, settings.sweep_rows)
            channels, receiver_ids, counts = (column or () for column in rows[0])
            for channel, receiver_id, count in zip(channels, receiver_ids, counts, strict=True):
                arrivals[channel, receiver_id] = arrivals.get((channel, receiver_id), 0) + count
        if arrivals:
            self._announcer.arrived(arrivals)
            self._staged.period_s = settings.staged_interval_s
            self._staged.poke()
        else:
            self._staged.period_s = min(2 * (self._staged.period_s or 0.0), settings.staged_idle_s)
