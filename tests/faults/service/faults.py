"""The kinds of faults: each strikes while requests are under way, lasts for a while and is mended."""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from .cluster import Site
from .pair import Pair
from .processes import Client, Database
from .proxy import Direction, Proxy

#: How long a fault waits for a request to strike, in seconds.
_TRAFFIC_S = 5.0
#: How long a stopped process or a hung connection may last: beyond and below what the service tolerates.
_STOP_S = (0.1, 5.0)
_HOLD_S = (0.2, 3.0)
_BACK_HOLD_S = (0.2, 8.0)
_DOWN_S = (0.0, 1.5)
#: How long it takes until somebody decides that the primary is to be replaced.
_UNNOTICED_S = (0.0, 2.0)
_DELAY_S = (0.02, 0.4)
_THROTTLE_BYTES_S = (2_000, 60_000)


#: Ends a client; returns its exit code, None when it does not end.
End = Callable[[Client], Awaitable[int | None]]


class Stage(Protocol):
    """What faults strike.

    Attributes:
        failures: takes what went wrong meanwhile.
    """

    failures: list[str]
    sites: list[Site]
    database: Database
    database_lock: asyncio.Lock

    def clients(self) -> list[Client]:
        """All clients."""

    def killable(self, durable: bool = False) -> list[Client]:
        """Those of them that may be killed, or of these those that keep a state."""

    async def replace(self, client: Client, state: bool = False, end: End = Client.kill) -> bool:
        """Ends a client and starts it again under its name, with the state that it kept or without.

        Returns False when the client is being replaced already, or does not end.
        """


@dataclass(slots=True)
class Blow:
    """One fault.

    Attributes:
        chance: where its choices come from.
        at: when it struck, by the monotonic clock; 0.0 for never.
        target: what it struck.
        effect: how much.
    """

    chance: random.Random
    at: float = 0.0
    target: str = ""
    effect: int = field(default=0)

    def land(self, target: str, effect: int = 1) -> None:
        """It strikes now."""
        self.at, self.target, self.effect = time.monotonic(), target, effect

    async def last(self, bounds: tuple[float, float]) -> None:
        """Lets it last."""
        await asyncio.sleep(self.chance.uniform(*bounds))


Strike = Callable[[Stage, Blow], Awaitable[None]]


async def _traffic(proxy: Proxy, way: Direction | None = None) -> None:
    """Returns when bytes pass, so that the fault meets a request or an answer."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_TRAFFIC_S):
            await proxy.traffic(way)


def _site(stage: Stage, blow: Blow) -> Site:
    """Chooses a middleware that has clients and that no other fault is at, if there is one."""
    used = [site for site in stage.sites if len(site.front) and site.middleware.running]
    free = [site for site in used if not (site.lock.locked() or site.back_lock.locked())]
    return blow.chance.choice(free or used or stage.sites)


# --- middlewares ---------------------------------------------------------------------------------
async def kill_middleware(stage: Stage, blow: Blow) -> None:
    """kill -9 of a middleware."""
    site = _site(stage, blow)
    async with site.lock:
        await _traffic(site.front, site.front.to_server)
        blow.land(site.name)
        await site.middleware.kill()
        await blow.last(_DOWN_S)
        stage.failures += await site.start_again()


async def stop_middleware(stage: Stage, blow: Blow) -> None:
    """SIGSTOP of a middleware, SIGCONT later."""
    site = _site(stage, blow)
    async with site.lock:
        await _traffic(site.back)
        site.middleware.signal(signal.SIGSTOP)
        blow.land(site.name)
        await blow.last(_STOP_S)
        site.middleware.signal(signal.SIGCONT)


async def restart_middleware(stage: Stage, blow: Blow) -> None:
    """A graceful stop, and a new start."""
    site = _site(stage, blow)
    async with site.lock:
        await _traffic(site.front, site.front.to_server)
        blow.land(site.name)
        stage.failures += await site.stop()
        stage.failures += await site.start_again()


# --- clients -------------------------------------------------------------------------------------
async def kill_client(stage: Stage, blow: Blow) -> None:
    """kill -9 of a client, and a new start under the same name, without its memory."""
    client = blow.chance.choice(stage.killable())
    await _traffic(_site(stage, blow).front)
    blow.land(client.name)
    await stage.replace(client)


async def kill_client_state(stage: Stage, blow: Blow) -> None:
    """kill -9 of a client that keeps a state, and a new start with it."""
    client = blow.chance.choice(stage.killable(durable=True))
    await _traffic(_site(stage, blow).front)
    blow.land(client.name)
    await stage.replace(client, state=True)


async def end_client(stage: Stage, blow: Blow) -> None:
    """SIGTERM to a client, which ends in good order, and a new start under the same name."""
    client = blow.chance.choice(stage.killable())
    await _traffic(_site(stage, blow).front)
    blow.land(client.name, effect=0)
    blow.effect = await stage.replace(client, state=True, end=Client.end)


async def poison_client(stage: Stage, blow: Blow) -> None:
    """The next message that a consumer begins kills its process, which is started again."""
    client = blow.chance.choice([client for client in stage.killable() if client.role == "consumer"])
    blow.land(client.name, effect=0)
    blow.effect = await stage.replace(client, end=Client.poison)


async def stop_client(stage: Stage, blow: Blow) -> None:
    """SIGSTOP of a client, SIGCONT later."""
    client = blow.chance.choice(stage.clients())
    await _traffic(_site(stage, blow).front)
    client.signal(signal.SIGSTOP)
    blow.land(client.name)
    await blow.last(_STOP_S)
    client.signal(signal.SIGCONT)


# --- proxies -------------------------------------------------------------------------------------
def _cut(back: bool) -> Strike:
    async def strike(stage: Stage, blow: Blow) -> None:
        """All connections are cut."""
        site, proxy, lock = _proxy(stage, blow, back)
        async with lock:
            await _traffic(proxy)
            blow.land(site.name, proxy.cut())

    return strike


def _half_open(back: bool) -> Strike:
    async def strike(stage: Stage, blow: Blow) -> None:
        """Nothing is forwarded, in one direction or both; then it is, or the connections end."""
        site, proxy, lock = _proxy(stage, blow, back)
        async with lock:
            await _traffic(proxy)
            ways = blow.chance.choice([(proxy.to_server,), (proxy.to_client,), ()])
            await _misbehave(blow, site, proxy, lambda: proxy.hold(*ways), _BACK_HOLD_S if back else _HOLD_S)
            if blow.chance.random() < 0.5:
                proxy.cut()
            proxy.heal()

    return strike


def _slow(back: bool) -> Strike:
    async def strike(stage: Stage, blow: Blow) -> None:
        """Everything is late."""
        site, proxy, lock = _proxy(stage, blow, back)
        delay_s = blow.chance.uniform(*_DELAY_S)

        def slow() -> None:
            proxy.to_server.delay_s = proxy.to_client.delay_s = delay_s

        async with lock:
            await _traffic(proxy)
            await _misbehave(blow, site, proxy, slow)
            proxy.heal()

    return strike


def _throttle(back: bool) -> Strike:
    async def strike(stage: Stage, blow: Blow) -> None:
        """Few bytes pass."""
        site, proxy, lock = _proxy(stage, blow, back)
        rate = blow.chance.randint(*_THROTTLE_BYTES_S)

        def throttle() -> None:
            proxy.to_server.bytes_per_s = proxy.to_client.bytes_per_s = rate

        async with lock:
            await _traffic(proxy)
            await _misbehave(blow, site, proxy, throttle)
            proxy.heal()

    return strike


def _truncate(back: bool) -> Strike:
    async def strike(stage: Stage, blow: Blow) -> None:
        """A chunk is cut somewhere and its connection ends."""
        site, proxy, lock = _proxy(stage, blow, back)
        async with lock:
            way = blow.chance.choice([proxy.to_server, proxy.to_client])
            before = proxy.struck
            way.cut_after = lambda size: blow.chance.randrange(size)
            await _traffic(proxy, way)
            await asyncio.sleep(0)
            blow.land(site.name, proxy.struck - before)
            way.cut_after = None

    return strike


def _proxy(stage: Stage, blow: Blow, back: bool) -> tuple[Site, Proxy, asyncio.Lock]:
    site = _site(stage, blow)
    return (site, site.back, site.back_lock) if back else (site, site.front, site.lock)


async def _misbehave(
    blow: Blow, site: Site, proxy: Proxy, begin: Callable[[], None], bounds: tuple[float, float] = _HOLD_S
) -> None:
    before = proxy.struck
    begin()
    blow.land(site.name)
    await blow.last(bounds)
    blow.effect = proxy.struck - before


async def database_away(stage: Stage, blow: Blow) -> None:
    """One middleware loses the database; the others have it."""
    site = _site(stage, blow)
    async with site.back_lock:
        back = site.back
        await _traffic(back)
        before = back.refused
        back.refusing = True
        blow.land(site.name, back.cut())
        await blow.last(_STOP_S)
        back.refusing = False
        blow.effect += back.refused - before


# --- PostgreSQL ----------------------------------------------------------------------------------
async def terminate_backends(stage: Stage, blow: Blow) -> None:
    """All server processes of the middlewares are told to end."""
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land("postgresql")
        blow.effect = await stage.database.terminate_backends()


async def exhaust_connections(stage: Stage, blow: Blow) -> None:
    """The middlewares lose their connections, and others take all that PostgreSQL grants."""
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        async with stage.database.exhausted() as struck:
            blow.land("postgresql", struck)
            await blow.last(_HOLD_S)


async def kill_backend(stage: Stage, blow: Blow) -> None:
    """kill -9 of a server process: PostgreSQL throws all out and recovers."""
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land("postgresql")
        blow.effect = await stage.database.kill_backend()


async def crash_postgres(stage: Stage, blow: Blow) -> None:
    """An immediate stop, and a new start."""
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land("postgresql")
        await stage.database.crash()
        await blow.last(_DOWN_S)
        await stage.database.start()
        for site in stage.sites:
            site.lead_to(stage.database.addresses)


# --- two servers ---------------------------------------------------------------------------------
def _pair(stage: Stage) -> Pair:
    assert isinstance(stage.database, Pair), "this fault needs a pair of servers"
    return stage.database


async def fail_over(stage: Stage, blow: Blow) -> None:
    """The primary is gone; after a while the standby takes its place, later the former primary is back."""
    pair = _pair(stage)
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land(pair.leader.name)
        await pair.leader.kill()
        await blow.last(_UNNOTICED_S)
        await pair.promote()
        await blow.last(_DOWN_S)
        await pair.rejoin()


async def fail_over_frozen(stage: Stage, blow: Blow) -> None:
    """The primary hangs and is replaced; then it wakes and believes that it is the primary, for a while."""
    pair = _pair(stage)
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land(pair.leader.name)
        pair.leader.freeze()
        await blow.last(_UNNOTICED_S)
        await pair.promote()
        await blow.last(_DOWN_S)
        pair.follower.thaw()
        await blow.last(_STOP_S)
        await pair.rejoin()


async def switch_over(stage: Stage, blow: Blow) -> None:
    """Primary and standby change places in good order."""
    pair = _pair(stage)
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land(pair.leader.name)
        await pair.switch()


async def lose_standby(stage: Stage, blow: Blow) -> None:
    """The standby is away: commits wait until it is back."""
    pair = _pair(stage)
    async with stage.database_lock:
        await _traffic(_site(stage, blow).back)
        blow.land(pair.follower.name)
        await pair.follower.kill()
        await blow.last(_STOP_S)
        await pair.follower.start()
        await pair.until_in_step()


KINDS: dict[str, Strike] = {
    "kill-middleware": kill_middleware,
    "stop-middleware": stop_middleware,
    "restart-middleware": restart_middleware,
    "kill-client": kill_client,
    "kill-client-state": kill_client_state,
    "end-client": end_client,
    "poison-client": poison_client,
    "stop-client": stop_client,
    "cut": _cut(back=False),
    "half-open": _half_open(back=False),
    "slow": _slow(back=False),
    "throttle": _throttle(back=False),
    "truncate": _truncate(back=False),
    "database-cut": _cut(back=True),
    "database-half-open": _half_open(back=True),
    "database-slow": _slow(back=True),
    "database-throttle": _throttle(back=True),
    "database-truncate": _truncate(back=True),
    "database-away": database_away,
    "terminate-backends": terminate_backends,
    "exhaust-connections": exhaust_connections,
    "kill-backend": kill_backend,
    "crash-postgres": crash_postgres,
}
#: What can happen to a pair of servers besides.
PAIR_KINDS: dict[str, Strike] = {
    "failover": fail_over,
    "failover-frozen": fail_over_frozen,
    "switchover": switch_over,
    "standby-away": lose_standby,
}
