"""Who counts as dead: a middleware that gave no sign of life while the others could give theirs."""

from typing import Any

from telesto.middleware.cluster.registry import Registry
from telesto.middleware.common.failures import standby_unavailable, unavailable
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.database.connection import Gate
from telesto.middleware.metrics.counters import Counters

INTERVAL_S, TIMEOUT_S = 2.0, 10.0


class Members:
    """A registry with a clock of its own and no database; knows how long others were allowed to be silent."""

    def __init__(self) -> None:
        self.now = 0.0
        self.allowed: list[float] = []
        self.gate = Gate()
        self._peers = Peers("1")
        settings = ServerSettings(heartbeat_interval_s=INTERVAL_S, heartbeat_timeout_s=TIMEOUT_S)
        self.registry = Registry(
            self._call,
            self._peers,
            self.gate,
            DatabaseClock(self._call, Counters()),
            settings,
            pids=lambda: [],
            on_registered_again=lambda: None,
            clock=lambda: self.now,
        )

    async def _call(self, sql: str, *arguments: Any) -> list[Any]:
        if "telesto.heartbeat(" in sql:
            self.allowed.append(arguments[2])
            return [{"middleware_id": 1, "address": "here", "alive": True}]
        return [[1]]

    async def beat_after(self, pause_s: float) -> float:
        self.now += pause_s
        await self.registry.beat()
        return self.allowed[-1]


async def test_others_are_dead_when_they_were_silent_for_the_set_time() -> None:
    members = Members()
    await members.registry.register("here")
    assert [await members.beat_after(INTERVAL_S) for _ in range(3)] == [TIMEOUT_S] * 3


async def test_what_kept_one_from_its_sign_of_life_excuses_the_others() -> None:
    """The database was away: whoever comes back to it first must not take all others for dead."""
    members = Members()
    await members.registry.register("here")
    assert await members.beat_after(60.0) == TIMEOUT_S + 60.0
    assert await members.beat_after(INTERVAL_S) == TIMEOUT_S + 60.0
    members.now += TIMEOUT_S - 2 * INTERVAL_S
    assert await members.beat_after(INTERVAL_S) == TIMEOUT_S + TIMEOUT_S - INTERVAL_S
    for _ in range(int(TIMEOUT_S / INTERVAL_S)):
        await members.beat_after(INTERVAL_S)
    assert await members.beat_after(INTERVAL_S) == TIMEOUT_S


async def test_each_sign_of_life_opens_the_gate() -> None:
    members = Members()
    members.gate.shut = unavailable(100)
    await members.registry.register("here")
    assert members.gate.is_open
    members.gate.shut_for_writes = standby_unavailable(100)
    await members.beat_after(INTERVAL_S)
    assert members.gate.is_open
    assert members.registry.beat_at == INTERVAL_S
