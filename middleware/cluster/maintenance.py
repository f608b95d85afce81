"""Maintenance jobs, each run by one middleware at a time: leases, delays, expiries, retention, history."""

from __future__ import annotations

from functools import partial

from telesto.db import calls
from telesto.middleware.common.logs import logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.scheduling.requests import Arrivals, topic_channel
from telesto.middleware.scheduling.single_request import Call, arrivals_of
from telesto.middleware.waiting.room import Announcer

_TEMPORARY_CLIENTS = "temporary_clients"
_JOBS = ("deleted_queues", "message_keys", "history", "topics", "subscriptions", "audit")
#: This job scans all hand-overs, and their dead rows while an old snapshot keeps them. So it runs at most
#: ``_SCANS`` times in ``retention_s``.
_UNCONFIRMED = "unconfirmed"
_SCANS = 1_000
#: Jobs that handle what is due. Clients wait for their effects.
_DUE_JOBS = (
    "leases",
    "delayed",
    "expired",
    "expired_keyed",
    "due_partitions",
    "partitions",
    "dead_letters",
)
#: A middleware keeps a job for this many periods. Then another one may take it over.
_HOLD_PERIODS = 4

_log = logger("jobs")


class MaintenanceJobs:
    """Runs the jobs. The database elects the middleware that runs a job, by a row with a deadline.

    Attributes:
        work: the background tasks.
        temporary_clients: that of them which deletes temporary clients; it runs when poked.
    """

    def __init__(
        self,
        call: Call,
        staged_call: Call,
        peers: Peers,
        clock: DatabaseClock,
        announcer: Announcer,
        settings: ServerSettings,
    ) -> None:
        """``staged_call`` places staged messages, beside the jobs, which may wait for a queue's lock."""
        self._call = call
        self._staged_call = staged_call
        self._announcer = announcer
        self._clock = clock
        self._peers = peers
        self._settings = settings
        self._staged = Periodic("place_staged", self._place_staged, period_s=settings.staged_interval_s)
        self.work = [self._staged]
        self.work += [self._periodic(job, settings.sweep_interval_s) for job in _JOBS]
        scan = self._periodic(_UNCONFIRMED, max(settings.sweep_interval_s, settings.retention_s / _SCANS))
        # Each middleware scans when it starts, so that the job also runs where middlewares restart often.
        scan.poke()
        self.work.append(scan)
        self.work += [self._periodic(job, settings.due_sweep_interval_s) for job in _DUE_JOBS]
        sweep = partial(self._sweep, _TEMPORARY_CLIENTS, settings.temporary_client_s)
        self.temporary_clients = Periodic(_TEMPORARY_CLIENTS, sweep, period_s=None)
        self.work.append(self.temporary_clients)

    def _periodic(self, job: str, period_s: float) -> Periodic:
        return Periodic(job, partial(self._sweep, job, period_s), period_s=period_s)

    async def _sweep(self, job: str, period_s: float) -> None:
        """Repeats a job while this middleware is elected for it and there is more to do."""
        settings = self._settings
        hold_s = _HOLD_PERIODS * period_s
        more = True
        while more:
            rows = await self._call(
                *calls.sweep(
                    middleware_id=self._peers.middleware_id,
                    job=job,
                    max_rows=settings.sweep_rows,
                    hold_s=hold_s,
                    retention_s=settings.retention_s,
                    latest=self._clock.latest(),
                    topic_idle_s=settings.topic_idle_s,
                    unseen_s=settings.temporary_client_s,
                    audit_days=settings.audit_days,
                )
            )
            row = rows[0]
            if row["done"]:
                _log.info("swept", job=job, done=row["done"])
            arrivals = arrivals_of(row["queue_ids"], row["receiver_ids"])
            if arrivals:
                self._announcer.arrived(arrivals)
            more = row["elected"] and row["more"]

    async def _place_staged(self) -> None:
        """Places staged messages. While there are none, the pause between two looks doubles up to a limit."""
        settings = self._settings
        arrivals: Arrivals = {}
        row = (await self._staged_call(*calls.place_staged(max_rows=settings.sweep_rows)))[0]
        for queue_id, receiver_id, count in zip(
            row["queue_ids"], row["receiver_ids"], row["counts"], strict=True
        ):
            arrivals[queue_id, receiver_id] = count
        row = (await self._staged_call(*calls.place_staged_topics(max_rows=settings.sweep_rows)))[0]
        for topic_id, count in zip(row["topic_ids"], row["counts"], strict=True):
            arrivals[topic_channel(topic_id), 0] = count
        if arrivals:
            self._announcer.arrived(arrivals)
            self._staged.period_s = settings.staged_interval_s
            self._staged.poke()
        else:
            self._staged.period_s = min(2 * (self._staged.period_s or 0.0), settings.staged_idle_s)
