"""A database of two servers: a primary and its synchronous standby, which change places."""

import asyncio
import signal
from pathlib import Path

import asyncpg

from .processes import PATIENCE_S, Database, with_addresses
from .standby import Node

_NAMES = ("one", "two")
#: Whichever is the primary waits for whichever is its standby.
_SYNCHRONOUS = {"synchronous_standby_names": "*"}
_ALONE = {"synchronous_standby_names": ""}
_POLL_S = 0.01
_IN_STEP = "SELECT count(*) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state = 'sync'"


class Pair(Database):
    """Two servers that replicate synchronously.

    A failover is ``promote``, after something has happened to the primary; ``rejoin`` makes the former
    primary the standby of the new one. ``switch`` changes places in good order.

    Attributes:
        nodes: the servers, in the order of the URL.
    """

    def __init__(self, directory: Path) -> None:
        one, two = (Node(name, directory, _SYNCHRONOUS) for name in _NAMES)
        self.nodes = (one, two)
        self._primary = 0

    # --- who is who --------------------------------------------------------------------------

    @property
    def primary(self) -> int:
        """Which of the servers takes writes."""
        return self._primary

    @property
    def leader(self) -> Node:
        """The primary."""
        return self.nodes[self._primary]

    @property
    def follower(self) -> Node:
        """The standby, or what was the primary until it is back."""
        return self.nodes[1 - self._primary]

    @property
    def url(self) -> str:
        """Leads straight to both servers."""
        return with_addresses(self.nodes[0].url, [node.address for node in self.nodes])

    @property
    def primary_url(self) -> str:
        """Leads straight to the primary."""
        return self.leader.url

    async def fetchval(self, sql: str, *arguments: object) -> object:
        """The first value that a statement gives on the primary."""
        return await self.leader.value(sql, *arguments)

    # --- starting and ending -----------------------------------------------------------------

    async def start(self) -> None:
        """Makes and starts both servers, or starts the primary again after it has crashed."""
        if self.leader.made:
            await self.leader.start()
        else:
            await self._make()
        await self.until_in_step()

    async def _make(self) -> None:
        for node in self.nodes:
            await node.upstream.start()
        for node, other in zip(self.nodes, reversed(self.nodes), strict=True):
            node.upstream.target = other.address
        leader, follower = self.leader, self.follower
        leader.settings = _ALONE  # or it would wait for a standby that is not made yet
        await leader.make()
        await leader.start()
        await follower.copy(leader)
        await follower.start()
        leader.settings = _SYNCHRONOUS
        await leader.reload()

    async def stop(self) -> None:
        """Ends both at once: nobody needs what they hold any more."""
        for node in self.nodes:
            await node.close()

    async def crash(self) -> None:
        """Stops the primary at once, without a checkpoint."""
        await self.leader.shut_down(signal.SIGQUIT)

    async def until_in_step(self) -> None:
        """Returns when the standby has what the primary has and commits wait for it."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    if await self.fetchval(_IN_STEP):
                        return
                except (OSError, asyncpg.PostgresError):
                    pass
                await asyncio.sleep(_POLL_S)

    # --- changing places ---------------------------------------------------------------------

    async def promote(self) -> None:
        """Makes the standby the primary; the former one is whatever it is: dead, frozen or alive.

        It does not wait for a standby as long as it has none of its own.
        """
        successor = self.follower
        successor.settings = _ALONE
        await successor.reload()
        await successor.promote()
        self._primary = 1 - self._primary

    async def rejoin(self) -> None:
        """Makes the former primary, whatever it is, the standby of the new one."""
        former = self.follower
        await former.kill()
        await former.rewind(self.leader)
        await self._follow()

    async def switch(self) -> None:
        """Changes places in good order: the primary ends when the standby has everything."""
        await self.leader.shut_down()
        await self.promote()
        self.follower.become_standby()
        await self._follow()

    async def _follow(self) -> None:
        self.follower.settings = _SYNCHRONOUS
        await self.follower.start()
        self.leader.settings = _SYNCHRONOUS
        await self.leader.reload()
        await self.until_in_step()
