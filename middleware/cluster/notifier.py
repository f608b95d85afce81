"""Tells other middlewares of messages that they may have readers for."""

from __future__ import annotations

from telesto.db import calls
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.outcomes import Arrivals
from telesto.middleware.scheduling.single_request import Call


class Notifier:
    """Gathers what came to queues and tells of it at most every so often.

    A NOTIFY takes a lock of the whole server when it commits, so it is sent apart from the puts, and by the
    procedure only for queues in which another middleware is interested. It is a hint: what is not told is
    found by the others' slow look.
    """

    def __init__(
        self, call: Call, peers: Peers, counters: Counters, interval_ms: int, entries_max: int
    ) -> None:
        self._call = call
        self._peers = peers
        self._counters = counters
        self._entries_max = entries_max
        self._arrivals: Arrivals = {}
        self.work = Periodic("notify", self.send, period_s=None, spacing_s=interval_ms / 1000)

    def tell(self, arrivals: Arrivals) -> None:
        """Takes note of messages that were committed; a count of 0 says that the queue has changed."""
        if not self._peers.others:
            return
        for key, count in arrivals.items():
            if key in self._arrivals or len(self._arrivals) < self._entries_max:
                self._arrivals[key] = self._arrivals.get(key, 0) + count
            else:
                self._counters.dropped_wake_ups_total += 1
        self.work.poke()

    async def send(self) -> None:
        """Tells what has gathered; raises what Call raises."""
        arrivals, self._arrivals = self._arrivals, {}
        if not arrivals:
            return
        await self._call(
            *calls.notify_puts(
                middleware_id=self._peers.middleware_id,
                queue_ids=[queue_id for queue_id, _ in arrivals],
                receiver_ids=[receiver_id for _, receiver_id in arrivals],
                counts=list(arrivals.values()),
            )
        )
        self._counters.notifies_total += 1
