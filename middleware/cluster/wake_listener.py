"""Listens for notifications: of other middlewares about new messages, and of the database about users."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from telesto.middleware.cluster.interests import WakeSweep
from telesto.middleware.common.failures import UnavailableError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.database.dsn import CONNECT_ERRORS, Connection
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.requests import Arrivals
from telesto.middleware.security import users
from telesto.middleware.security.users import UserRegistry
from telesto.middleware.waiting.room import WaitingRoom

CHANNEL = "telesto_wake"
#: How much is heard in a second, in bytes. Only a flood is more, which whoever may log in to the database can
#: send. Then nothing is heard for a while, in seconds.
MOST_BYTES = 1 << 20
_NOTIFICATION_BYTES = 40
_DEAF_S = 1.0
READ_ONLY = "SELECT current_setting('transaction_read_only')::boolean"

_log = logger("wake_listener")


class WakeListener:
    """Keeps a connection that LISTENs, and opens it again after it was lost.

    Notifications that come meanwhile are lost: the sweep finds their messages, and users are read again. A
    server that hangs or no longer takes writes sends none, so the connection is checked regularly and
    replaced. So is one that says so much that nothing else would get done.
    """

    def __init__(
        self,
        connect: Callable[[str], Awaitable[Connection]],
        room: WaitingRoom,
        peers: Peers,
        counters: Counters,
        sweep: WakeSweep,
        users: UserRegistry,
        settings: ServerSettings,
    ) -> None:
        self._connect = connect
        self._room = room
        self._peers = peers
        self._counters = counters
        self._sweep = sweep
        self._users = users
        self._silent_s = settings.heartbeat_timeout_s
        self._connection: Connection | None = None
        self._loop = asyncio.get_running_loop()
        self._heard_bytes = 0
        self._heard_since = self._deaf_until = 0.0
        self._told_unreadable = False
        self.work = Periodic("listen", self._keep, period_s=settings.wake_sweep_s)

    async def close(self) -> None:
        """Closes the connection."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(*CONNECT_ERRORS):
                await connection.close(timeout=1)

    def drop(self) -> None:
        """Closes the connection at once. Another one is opened."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        self.work.poke()

    async def _keep(self) -> None:
        if self._loop.time() < self._deaf_until:
            return
        if self._connection is not None:
            if await self._listens(self._connection):
                return
            self.drop()
        await self._listen()

    async def _listens(self, connection: Connection) -> bool:
        try:
            async with asyncio.timeout(self._silent_s):
                return not await connection.fetchval(READ_ONLY)
        except CONNECT_ERRORS:
            return False

    async def _listen(self) -> None:
        try:
            connection = await self._connect("listen")
            connection.add_termination_listener(self._on_terminated)
            try:
                async with asyncio.timeout(self._silent_s):
                    await connection.add_listener(CHANNEL, self._on_notification)
                    await connection.add_listener(users.CHANNEL, self._on_user_changed)
            except BaseException:
                connection.terminate()
                raise
        except CONNECT_ERRORS as error:
            raise UnavailableError(str(error)) from error
        self._connection = connection
        self._told_unreadable = False
        # Whatever database was there before: no other connection outlives its replacement by another one.
        self._users.forget_ids()
        self._sweep.work.poke()
        self._users.work.poke()

    def _on_terminated(self, _connection: object) -> None:
        if self._connection is not None:
            self._connection = None
            self.work.poke()

    def _is_too_much(self, payload: object) -> bool:
        """Counts a notification. Tells whether it is to be ignored."""
        now = self._loop.time()
        if now < self._deaf_until:
            return True
        if now - self._heard_since >= 1.0:
            self._heard_since, self._heard_bytes = now, 0
        self._heard_bytes += _NOTIFICATION_BYTES + len(str(payload))
        if self._heard_bytes <= MOST_BYTES:
            return False
        _log.warning("too_many_notifications", deaf_s=_DEAF_S)
        self._deaf_until = now + _DEAF_S
        self._heard_bytes = 0
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()
        self._loop.call_at(self._deaf_until + 0.05, self.work.poke)
        return True

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if self._is_too_much(payload):
            return
        self._counters.notified_total += 1
        sender, _, items = str(payload).partition(";")
        if sender == str(self._peers.middleware_id):
            return
        try:
            arrivals, changed = parse_items(items)
        except ValueError:
            if not self._told_unreadable:
                self._told_unreadable = True
                _log.warning("notification_unreadable", payload=str(payload)[:100])
            return
        self._room.arrived(arrivals)
        if changed:
            self._sweep.work.poke()

    def _on_user_changed(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        if self._is_too_much(payload):
            return
        self._users.work.poke()


def parse_items(items: str) -> tuple[Arrivals, bool]:
    """Parses "queue:receiver:count,...". Also returns whether there was a count of 0: a queue has changed.

    Raises ValueError for anything else.
    """
    arrivals: Arrivals = {}
    changed = False
    for item in items.split(",") if items else ():
        queue_id, receiver_id, count = (int(part) for part in item.split(":"))
        if count > 0:
            key = (queue_id, receiver_id)
            arrivals[key] = arrivals.get(key, 0) + count
        else:
            changed = True
    return arrivals, changed
