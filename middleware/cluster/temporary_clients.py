"""Notes that the connections of temporary clients are open, and has those deleted that are gone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from telesto.db import calls
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.scheduling.single_request import Call

#: How many times in ``temporary_client_s`` the connections are noted.
_NOTED = 5
#: How many clients one call notes.
_CLIENTS_MAX = 1_000
#: So many times in a row the connections have to be noted before this middleware deletes clients: after an
#: outage of the database the other middlewares get the time to note theirs.
_NOTED_BEFORE = 2


class TemporaryClients:
    """Notes the temporary clients that are connected here.

    Attributes:
        work: the background task.
    """

    def __init__(
        self,
        call: Call,
        connected: Callable[[], Iterable[int]],
        sweep: Callable[[], None],
        settings: ServerSettings,
    ) -> None:
        """Notes nothing yet.

        Args:
            call: calls a procedure.
            connected: the ids of the temporary clients that are connected.
            sweep: has those deleted that no middleware has noted for too long.
            settings: those of the middleware.
        """
        self._call = call
        self._connected = connected
        self._sweep = sweep
        self._noted = 0
        self.work = Periodic("temporary clients", self._note, period_s=settings.temporary_client_s / _NOTED)

    async def _note(self) -> None:
        noted, self._noted = self._noted, 0
        client_ids = list(self._connected())
        for first in range(0, len(client_ids), _CLIENTS_MAX):
            await self._call(*calls.note_clients_seen(client_ids=client_ids[first : first + _CLIENTS_MAX]))
        self._noted = noted + 1
        if self._noted > _NOTED_BEFORE:
            self._sweep()
