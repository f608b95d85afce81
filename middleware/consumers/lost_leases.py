"""Learns which leases of this middleware's consumers the sweep has ended, on whichever middleware it ran."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.behaviour_monitor import BehaviourMonitor
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.scheduling.single_request import Call
from telesto.protocol.packets import LeaseRef


class LostLeases:
    """Asks the database periodically while consumers have messages."""

    def __init__(
        self,
        call: Call,
        consumers: ConsumerRegistry,
        monitor: BehaviourMonitor,
        peers: Peers,
        settings: ServerSettings,
    ) -> None:
        self._call = call
        self._consumers = consumers
        self._monitor = monitor
        self._peers = peers
        self._rows_max = settings.sweep_rows
        self.work = Periodic("lost leases", self._ask, period_s=settings.lost_leases_s)

    async def _ask(self) -> None:
        while self._consumers.held:
            rows = await self._call(
                *calls.take_lost_leases(of_middleware=self._peers.middleware_id, max_rows=self._rows_max)
            )
            self._monitor.ran_out(
                [LeaseRef(row["consumer_id"], row["lease_id"], row["message_id"]) for row in rows]
            )
            if len(rows) < self._rows_max:
                return
