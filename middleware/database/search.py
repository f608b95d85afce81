"""One search for the primary: all servers are asked at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from telesto.middleware.common.database_url import Server
from telesto.middleware.database.dsn import RejectedConnectionError
from telesto.middleware.database.server_status import ServerStatus

#: Once a server that takes writes has answered, the search waits this long for the others, in seconds.
_RIVALS_S = 0.5
#: While a server is silent, those that do not take writes are asked again after this time, in seconds.
_AGAIN_S = 0.2


class Found(NamedTuple):
    """A server that takes writes."""

    server: Server
    status: ServerStatus


class Search:
    """Asks until a server takes writes, or until none does: each has said so or was silent for too long.

    While a server hangs, the others are asked repeatedly, because one of them may be promoted in its place.
    When one is found, the search waits shortly for others that were promoted later.
    """

    def __init__(self, servers: Sequence[Server], ask: Callable[[Server], Awaitable[Found]]) -> None:
        """``ask`` raises an exception for a server that takes no writes, or after a time for a silent one."""
        self._servers = servers
        self._ask = ask
        self._asking: dict[asyncio.Task[Found], Server] = {}
        self._silent = set(servers)
        self._found: dict[Server, Found] = {}
        self._failures: dict[Server, BaseException] = {}
        self._deadline: float | None = None

    async def run(self) -> Found:
        """Returns the primary.

        Raises OSError with the reason for each server, or RejectedConnectionError if all of them would refuse
        the next attempt too.
        """
        for server in self._servers:
            self._start(server, 0.0)
        while self._goes_on():
            done, _ = await asyncio.wait(
                self._asking, timeout=self._time_left(), return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                self._answered(self._asking.pop(task), task)
        if not self._found:
            raise self._failure()
        return self._choice()

    def _failure(self) -> OSError:
        failures = [self._failures[server] for server in self._servers]
        for_good = all(isinstance(failure, RejectedConnectionError) for failure in failures)
        return (RejectedConnectionError if for_good else OSError)("; ".join(map(str, failures)))

    async def close(self) -> None:
        """Ends what is under way."""
        for task in self._asking:
            task.cancel()
        await asyncio.gather(*self._asking, return_exceptions=True)

    def _start(self, server: Server, pause_s: float) -> None:
        self._asking[asyncio.create_task(self._ask_after(server, pause_s))] = server

    async def _ask_after(self, server: Server, pause_s: float) -> Found:
        await asyncio.sleep(pause_s)
        return await self._ask(server)

    def _goes_on(self) -> bool:
        if self._found:
            return bool(self._silent) and self._time_left() != 0.0
        return bool(self._silent)

    def _time_left(self) -> float | None:
        if self._deadline is None:
            return None
        return max(0.0, self._deadline - asyncio.get_running_loop().time())

    def _answered(self, server: Server, task: asyncio.Task[Found]) -> None:
        self._silent.discard(server)
        error = task.exception()
        if error is None:
            self._found[server] = task.result()
            if self._deadline is None:
                self._deadline = asyncio.get_running_loop().time() + _RIVALS_S
            return
        self._failures[server] = error
        if self._silent and not self._found:
            self._start(server, _AGAIN_S)

    def _choice(self) -> Found:
        """Returns the first in the order of the URL, unless another one was promoted later."""
        candidates = [self._found[server] for server in self._servers if server in self._found]
        choice = candidates[0]
        for found in candidates[1:]:
            if found.status.succeeds(choice.status):
                choice = found
        return choice
