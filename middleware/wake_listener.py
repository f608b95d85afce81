"""Listens for what other middlewares tell of puts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress

from telesto.middleware.dsn import CONNECT_ERRORS, Connection
from telesto.middleware.failures import UnavailableError
from telesto.middleware.figures import Figures
from telesto.middleware.logs import logger
from telesto.middleware.periodic import Periodic
from telesto.middleware.results import Arrivals
from telesto.middleware.services import Peers
from telesto.middleware.waiting import WaitingRoom

CHANNEL = "telesto_wake"

_log = logger("wake_listener")


class WakeListener:
    """Keeps a connection that LISTENs, and makes it again when it was lost.

    What was told meanwhile is lost; ``on_connected`` has it looked for.
    """

    def __init__(
        self,
        connect: Callable[[str], Awaitable[Connection]],
        room: WaitingRoom,
        peers: Peers,
        figures: Figures,
        on_connected: Callable[[], None],
        period_s: float,
    ) -> None:
        self._connect = connect
        self._room = room
        self._peers = peers
        self._figures = figures
        self._on_connected = on_connected
        self._connection: Connection | None = None
        self.on_changed: Callable[[], None] = lambda: None
        self.work = Periodic("listen", self._keep, period_s=period_s)

    async def close(self) -> None:
        """Ends the connection."""
        connection, self._connection = self._connection, None
        if connection is not None and not connection.is_closed():
            with suppress(*CONNECT_ERRORS):
                await connection.close(timeout=1)

    async def _keep(self) -> None:
        if self._connection is not None and not self._connection.is_closed():
            return
        try:
            connection = await self._connect("listen")
            connection.add_termination_listener(self._on_terminated)
            await connection.add_listener(CHANNEL, self._on_notification)
        except CONNECT_ERRORS as error:
            raise UnavailableError(str(error)) from error
        self._connection = connection
        self._on_connected()

    def _on_terminated(self, _connection: object) -> None:
        if self._connection is not None:
            self._connection = None
            self.work.poke()

    def _on_notification(self, _connection: object, _pid: int, _channel: str, payload: object) -> None:
        self._figures.notified_total += 1
        sender, _, items = str(payload).partition(";")
        if sender == str(self._peers.middleware_id):
            return
        try:
            arrivals, changed = parse_items(items)
        except ValueError:
            _log.warning("notification_unreadable", payload=str(payload)[:100])
            return
        self._room.arrived(arrivals)
        if changed:
            self.on_changed()


def parse_items(items: str) -> tuple[Arrivals, bool]:
    """Reads "queue:receiver:count,..."; also says whether a count of 0 tells that a queue has changed.

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
