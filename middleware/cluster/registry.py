"""Registers this middleware in the database, sends its heartbeat, and learns of the other middlewares."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from telesto.db import calls
from telesto.middleware.common.logs import identify, logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.database.connection import Gate
from telesto.middleware.scheduling.single_request import Call

_log = logger("registry")


class Registry:
    """Registers the middleware and sends its heartbeat, with the process ids of its backends.

    The heartbeats of the others end the backends of a middleware that is silent for too long, so that none of
    them keeps a lock. If that happens to this one (its process was stopped and continued), it registers
    again.

    Attributes:
        beat_at: when the last heartbeat was confirmed, by the loop's clock in seconds.
    """

    def __init__(
        self,
        call: Call,
        peers: Peers,
        gate: Gate,
        database_clock: DatabaseClock,
        settings: ServerSettings,
        *,
        pids: Callable[[], Iterable[int]],
        on_registered_again: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        """Registers nothing yet.

        Args:
            call: calls a procedure.
            peers: the live middlewares.
            gate: opened by each confirmed heartbeat, which is a commit.
            database_clock: the database's clock.
            settings: those of the middleware.
            pids: the process ids of its backends.
            on_registered_again: called when the others had declared this middleware dead.
            clock: the loop's.
        """
        self._call = call
        self._peers = peers
        self._gate = gate
        self._timeout_s = settings.heartbeat_timeout_s
        self._interval_s = settings.heartbeat_interval_s
        self._pids = pids
        self._on_registered_again = on_registered_again
        self._clock = clock
        self._database_clock = database_clock
        self._pardon_s = 0.0
        self._pardon_until = 0.0
        self.beat_at = clock()
        self._address = ""
        self.work = Periodic("heartbeat", self.beat, period_s=settings.heartbeat_interval_s)

    def poke(self) -> None:
        """Has the heartbeat sent soon."""
        self.work.poke()

    async def register(self, address: str) -> None:
        """Registers under an address. Raises what Call raises."""
        self._address = address
        await self._register()
        await self.beat()
        _log.info("registered", address=address)

    async def unregister(self) -> None:
        """Removes the row. Raises what Call raises."""
        if self._peers.middleware_id:
            await self._call(*calls.unregister_middleware(middleware_id=self._peers.middleware_id))

    async def _register(self) -> None:
        call = calls.register_middleware(address=self._address, version=self._peers.version)
        self._peers.middleware_id = (await self._call(*call))[0][0]
        self._peers.incarnation = (await self._call(*calls.get_incarnation()))[0][0]
        identify(self._peers.middleware_id)

    async def beat(self) -> None:
        """Sends the heartbeat now. Raises what Call raises."""
        rows = await self._call(
            *calls.heartbeat(
                own_id=self._peers.middleware_id,
                pids=sorted(self._pids()),
                timeout_s=self._others_silent_s(),
                latest=self._database_clock.latest(),
            )
        )
        self._note_beat()
        alive = {row["middleware_id"]: row["address"] for row in rows if row["alive"]}
        if self._peers.middleware_id not in alive:
            await self._register_again()
            return
        del alive[self._peers.middleware_id]
        self._peers.others = alive

    def _others_silent_s(self) -> float:
        """Returns how long the others may be silent before they count as dead, in seconds.

        What delayed this middleware's heartbeat may have delayed theirs, too: the database, or its standby,
        was not available or hung. They get the usual time after it.
        """
        now = self._clock()
        silent_s = now - self.beat_at
        pardon_s = self._pardon_s if now < self._pardon_until else 0.0
        return self._timeout_s + max(pardon_s, silent_s if self._is_late(silent_s) else 0.0)

    def _note_beat(self) -> None:
        now = self._clock()
        silent_s, self.beat_at = now - self.beat_at, now
        if self._is_late(silent_s):
            self._pardon_s = silent_s
            self._pardon_until = now + self._timeout_s
        self._gate.open("the database confirms")

    def _is_late(self, silent_s: float) -> bool:
        return silent_s > 2 * self._interval_s

    async def _register_again(self) -> None:
        was = self._peers.middleware_id
        await self._register()
        _log.warning("registered_again", was=was)
        self._on_registered_again()
