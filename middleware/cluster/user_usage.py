"""Measures, for all middlewares, what users use of the quotas that hold for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from telesto.db import calls
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.single_request import Call

#: A middleware keeps the job for this many periods. Then another one may take it over.
_HOLD_PERIODS = 4
#: A table with more pages of 8 KiB is estimated from about so many of them.
_MAX_PAGES = 20_000

Near = Callable[[Iterable[tuple[int, str, str, int, int]]], None]


class UserUsage:
    """Has one middleware measure, and tells it which quotas are nearly used up.

    Attributes:
        work: the background task.
    """

    def __init__(self, call: Call, peers: Peers, measured: Near, settings: ServerSettings) -> None:
        self._call = call
        self._peers = peers
        self._measured = measured
        self.work = Periodic("user_usage", self._measure, period_s=settings.sweep_interval_s)

    async def _measure(self) -> None:
        hold_s = _HOLD_PERIODS * (self.work.period_s or 0.0)
        statement = calls.measure_users(
            middleware_id=self._peers.middleware_id, hold_s=hold_s, max_pages=_MAX_PAGES
        )
        row = (await self._call(*statement))[0]
        columns = ("user_ids", "names", "quotas", "used", "limits")
        self._measured(zip(*(row[column] or () for column in columns), strict=True))
