"""Writes the state of an asyncio client in a thread, so that the event loop is not blocked."""

from __future__ import annotations

import asyncio
from asyncio import get_running_loop
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from telesto.client.calls.state import StateChanges, StateStore
from telesto.client.durable.durable_session import DurableSession
from telesto.client.durable.state_directory import StateDirectory
from telesto.client.errors import ClientClosedError, StateError, StateWriteError
from telesto.client.io.shared import StateDir

ResultT = TypeVar("ResultT")


class StateWriter:
    """Opens, writes and closes the state of a session, one thing at a time.

    What the session notes while a write is under way is written together, by the next one.
    """

    def __init__(self, session: DurableSession, path: StateDir, on_written: Callable[[], None]) -> None:
        self._session = session
        self._path = path
        self._on_written = on_written
        self._store: StateDirectory | None = None
        self._thread: ThreadPoolExecutor | None = None
        self._opening: asyncio.Future[StateDirectory] | None = None
        self._writing: asyncio.Future[StateError | None] | None = None
        self._closed = False

    async def open(self) -> None:
        """Opens the state, once. Raises StateError."""
        if self._store is None:
            opening = self._begin_to_open()
            await asyncio.wait([opening])
            opening.result()
        if self._closed:
            raise ClientClosedError("the client is closed; open a new one")

    def write(self) -> None:
        """Begins to write what the session has to have written, unless a write is under way."""
        if self._store is None or self._writing is not None:
            return
        changes = self._session.begin_flush()
        if changes is not None:
            self._writing = self._in_thread(partial(_write, self._store, changes))
            self._writing.add_done_callback(self._written)

    async def close(self) -> None:
        """Writes what is left and closes the state."""
        self._closed = True
        while under_way := self._opening or self._writing:
            await asyncio.wait([under_way])
        if self._store is not None:
            store, self._store = self._store, None
            await self._in_thread(store.close)
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None

    def dropped(self) -> bool:
        """The client was dropped: lets go of the state if it has it. The thread ends by itself."""
        if self._store is None:
            return False
        self._store.close()
        return True

    def forked(self) -> None:
        """This process is a child of the one that has the state."""
        if self._store is not None:
            self._store.forked()
        self._store = self._thread = None

    def _begin_to_open(self) -> asyncio.Future[StateDirectory]:
        if self._opening is None:
            self._opening = self._in_thread(partial(StateDirectory, self._path))
            self._opening.add_done_callback(self._opened)
        return self._opening

    def _opened(self, opening: asyncio.Future[StateDirectory]) -> None:
        """Has the state, even if the caller was cancelled meanwhile; then ``close`` closes it."""
        self._opening = None
        if opening.exception() is None:
            self._store = opening.result()
            self._session.load(self._store.stored)

    def _written(self, writing: asyncio.Future[StateError | None]) -> None:
        self._writing = None
        self._session.end_flush(writing.result())
        self._on_written()

    def _in_thread(self, work: Callable[[], ResultT]) -> asyncio.Future[ResultT]:
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "telesto-state")
        return get_running_loop().run_in_executor(self._thread, work)


def _write(store: StateStore, changes: StateChanges) -> StateError | None:
    try:
        if changes:
            store.write(changes)
    except StateError as error:
        return error
    except Exception as error:  # noqa: BLE001 - else the session would wait for the write for ever
        return StateWriteError(f"the client's state cannot be written: {error!r}")
    return None
