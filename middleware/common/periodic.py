"""Periodic background work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from telesto.middleware.common.failures import LostError, RefusedError, UnavailableError
from telesto.middleware.common.logs import logger

_log = logger("background")


class Periodic:
    """Runs an action periodically, and at once when poked, until it is stopped. Runs do not overlap.

    A failure is logged and does not end it. A run that has begun is always completed.

    Attributes:
        period_s: the longest pause between two runs; None if only pokes start one. It may be changed.
    """

    def __init__(
        self,
        name: str,
        action: Callable[[], Awaitable[None]],
        *,
        period_s: float | None,
        spacing_s: float = 0.0,
        poked: asyncio.Event | None = None,
    ) -> None:
        """``spacing_s`` is the shortest pause between two runs. Setting ``poked`` is the same as ``poke``."""
        self._name = name
        self._action = action
        self.period_s = period_s
        self._spacing_s = spacing_s
        self._poked = poked or asyncio.Event()
        self._stopping = False
        self._failing = False

    def poke(self) -> None:
        """Has the action run soon."""
        self._poked.set()

    def stop(self) -> None:
        """Has ``run`` return when the current run of the action has ended."""
        self._stopping = True
        self._poked.set()

    async def run(self) -> None:
        """Runs the action until it is stopped."""
        while not self._stopping:
            await self._wait()
            if self._stopping:
                return
            await self._act()
            if self._spacing_s:
                await asyncio.sleep(self._spacing_s)

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(self.period_s):
                await self._poked.wait()
        except TimeoutError:
            return
        finally:
            if not self._stopping:
                self._poked.clear()

    async def _act(self) -> None:
        try:
            await self._action()
        except (UnavailableError, LostError, RefusedError) as error:
            if not self._failing:
                _log.warning("background_work_failed", work=self._name, error=str(error))
            self._failing = True
        except Exception:  # noqa: BLE001 - background work goes on whatever happens
            _log.exception("background_work_failed", work=self._name)
            self._failing = True
        else:
            self._failing = False
