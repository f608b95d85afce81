"""Work that one middleware does for all: retention, removal of deleted queues' messages, staged messages."""

from __future__ import annotations

from collections.abc import Callable

from telesto.middleware.periodic import Periodic
from telesto.middleware.results import Arrivals
from telesto.middleware.services import Peers
from telesto.middleware.settings import ServerSettings
from telesto.middleware.single import Call

PLACE_STAGED = "SELECT * FROM telesto.place_staged($1)"


class Jobs:
    """Runs the jobs; the database elects who does one, by a row with a deadline."""

    def __init__(self, call: Call, peers: Peers, settings: ServerSettings) -> None:
        self._call = call
        self._peers = peers
        self._settings = settings
        self.on_placed: Callable[[Arrivals], None] = lambda arrivals: None
        self.work = [
            Periodic("place_staged", self._place_staged, period_s=settings.staged_interval_s),
        ]

    async def _place_staged(self) -> None:
        rows = await self._call(PLACE_STAGED, self._settings.sweep_rows)
        queue_ids, receiver_ids, counts = rows[0]
        if queue_ids:
            arrivals: Arrivals = {}
            for queue_id, receiver_id, count in zip(queue_ids, receiver_ids, counts, strict=True):
                arrivals[queue_id, receiver_id] = arrivals.get((queue_id, receiver_id), 0) + count
            self.on_placed(arrivals)
