"""The service of a run: middlewares on one database, each behind a proxy and with a proxy to the database."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..waiting import until
from .processes import Middleware, addresses_of, with_addresses
from .proxy import Address, Proxy
from .secured import Secured

#: Short where the default would make a run wait for nothing but the time to pass.
SETTINGS = {
    "heartbeat_interval_s": 0.5,
    "heartbeat_timeout_s": 3.0,
    "database_silent_ms": 2_000,
    "database_backoff_s": 0.3,
    "goaway_grace_s": 1.0,
    "write_stalled_s": 5.0,
}
#: What must be nothing once all clients have gone.
_GAUGES = ("connections", "requests_under_way", "bytes_under_way", "waiting_reads")


#: Its connections to the database, its listening sockets and what the loop needs are fewer.
_DESCRIPTORS_MAX = 60
#: A middleware that does not start is started so often.
_STARTS = 5


class Site:
    """A middleware with its proxies.

    Attributes:
        front: between clients and the middleware.
        backs: between the middleware and each of the database's servers.
        middleware: the process.
        lock: held by whoever hurts the middleware or its front; ``back_lock`` likewise.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        database_url: str,
        settings: Mapping[str, Any],
        primary: Callable[[], int] = lambda: 0,
    ) -> None:
        self.name = name
        self.log = directory / f"{name}.log"
        self.lock = asyncio.Lock()
        self.back_lock = asyncio.Lock()
        self._database_url = database_url
        self._settings = {**SETTINGS, **settings}
        self.front = Proxy(("127.0.0.1", 0))
        self.backs = [Proxy(address) for address in addresses_of(database_url)]
        self._primary = primary
        self.middleware: Middleware

    @property
    def back(self) -> Proxy:
        """The proxy that leads to the server that takes writes at present."""
        return self.backs[self._primary()]

    async def start(self) -> None:
        """Starts the proxies and the middleware; returns once it serves."""
        await asyncio.gather(*(proxy.start() for proxy in (self.front, *self.backs)))
        database_url = with_addresses(self._database_url, [back.address for back in self.backs])
        self.middleware = Middleware(self.log, database_url, self.front.address, self._settings)
        self.front.target = self.middleware.address
        await self.middleware.start()

    async def start_again(self) -> list[str]:
        """Starts the middleware after it has ended; says what went wrong."""
        complaints = []
        for _ in range(_STARTS):
            try:
                await self.middleware.start()
            except RuntimeError as error:
                complaints.append(str(error))
            else:
                break
        return complaints

    async def close(self) -> None:
        """Ends everything at once."""
        self.middleware.signal(signal.SIGCONT)
        await self.middleware.kill()
        await asyncio.gather(*(proxy.close() for proxy in (self.front, *self.backs)))

    def lead_to(self, addresses: Sequence[Address]) -> None:
        """The database's servers listen there now."""
        for back, address in zip(self.backs, addresses, strict=True):
            back.target = address

    def heal(self) -> None:
        """Mends what is the matter with the middleware and its connections."""
        self.middleware.signal(signal.SIGCONT)
        for proxy in (self.front, *self.backs):
            proxy.heal()

    async def left(self) -> list[str]:
        """Says what the middleware still holds although nobody uses it any more; waits for it to go."""
        if not self.middleware.running:
            return [f"{self.name} has ended by itself"]

        async def nothing() -> bool:
            return not await self._held()

        try:
            await until(nothing)
        except TimeoutError:
            return [f"{self.name} still holds {await self._held()}"]
        return []

    async def _held(self) -> dict[str, float]:
        figures = await self.middleware.figures()
        held = {name: figures[name] for name in _GAUGES if figures[name]}
        descriptors = self.middleware.descriptors
        return held | ({"descriptors": descriptors} if descriptors > _DESCRIPTORS_MAX else {})

    async def stop(self) -> list[str]:
        """Stops the middleware in good order; says what went wrong."""
        code = await self.middleware.terminate()
        return [f"{self.name} ended with exit code {code}"] if code else []


class Cluster:
    """Several sites on one database."""

    def __init__(
        self,
        directory: Path,
        database_url: str,
        count: int,
        settings: Mapping[str, Any] | None = None,
        primary: Callable[[], int] = lambda: 0,
        secured: Secured | None = None,
    ) -> None:
        """``primary`` says which of the URL's servers takes writes; ``secured`` asks for TLS and users."""
        self._secured = secured
        if secured is not None:
            settings = {**(settings or {}), **secured.settings}
        self.sites = [
            Site(f"middleware-{number}", directory, database_url, settings or {}, primary)
            for number in range(1, count + 1)
        ]

    async def __aenter__(self) -> Cluster:
        await asyncio.gather(*(site.start() for site in self.sites))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(site.close() for site in self.sites))

    def url(self, *order: int) -> str:
        """Returns the clients' URL: all sites, or those of these indexes, in this order."""
        fronts = [self.sites[index].front.address for index in order or range(len(self.sites))]
        addresses = ",".join("{}:{}".format(*address) for address in fronts)
        return f"telesto://{addresses}" if self._secured is None else self._secured.url(addresses)
