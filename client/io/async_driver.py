"""Moves a session's bytes in an event loop, and wakes the tasks whose calls are over."""

from __future__ import annotations

import asyncio
import math
import time
import warnings
import weakref
from asyncio import get_running_loop
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar, cast

from telesto.client.bookkeeping.consumer_calls import NextCall
from telesto.client.bookkeeping.consumer_state import ConsumerState, elapsed
from telesto.client.bookkeeping.identity import WantedClient
from telesto.client.calls.queue_calls import DONE, Call
from telesto.client.connection.link import Link
from telesto.client.durable.durable_session import DurableSession
from telesto.client.errors import ForkedError, connection_failure, tls_alert
from telesto.client.io import forks, shared
from telesto.client.io.shared import StateDir
from telesto.client.io.state_writer import StateWriter
from telesto.client.models import Message
from telesto.client.options import ClientOptions
from telesto.client.session.session import Session
from telesto.client.url import TlsParameters

ResultT = TypeVar("ResultT")
CallT = TypeVar("CallT", bound=Call[Any])
ArgumentsT = ParamSpec("ArgumentsT")


class AsyncDriver:
    """Drives a session for the tasks of one event loop: that in which it is used first.

    Attributes:
        session: the session.
        options: the client's bounds and times.
    """

    def __init__(
        self,
        session: Session,
        options: ClientOptions,
        wanted: WantedClient,
        state_dir: StateDir | None,
        tls: TlsParameters | None,
    ) -> None:
        self.session = session
        self._tls = shared.client_tls(tls)
        self._wanted = wanted
        self.options = options
        self._connect_timeout = options.connect_timeout
        self._state_writer: StateWriter | None = None
        if isinstance(session, DurableSession) and state_dir is not None:
            self._state_writer = StateWriter(session, state_dir, self._serve)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connection: Connection | None = None
        self._closing: Connection | None = None
        self._connector: asyncio.Task[None] | None = None
        self._flush_is_due = False
        self._telling = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._finished: asyncio.Future[None] | None = None
        self._let_go = False
        forks.watch(self)

    def __del__(self, warn: Callable[..., None] = warnings.warn) -> None:
        """The client was dropped without ``close``: gives back what it has, and tells the service nothing.

        Its connection and its timer do not hold it. This may run in any thread, and when the loop is closed.
        """
        if getattr(self, "_loop", None) is None or self._let_go:
            return
        self._let_go = True
        loop, connection = self._loop, self._connection
        used = connection is not None
        if loop is not None and not loop.is_closed():
            with suppress(RuntimeError):  # it was closed meanwhile
                if self._timer is not None:
                    loop.call_soon_threadsafe(self._timer.cancel)
                if connection is not None:
                    loop.call_soon_threadsafe(connection.transport.abort)
        if self._state_writer is not None:
            used = self._state_writer.dropped() or used
        self.session.unlock_name()
        if used:
            warn(f"unclosed {self.session.describe('AsyncTelestoClient')}", ResourceWarning, source=self)

    def attach(self) -> None:
        """Binds the client to the running loop, once."""
        loop = get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop; make one client for each loop")

    async def connect_client(self) -> None:
        """Becomes the client, unless it is one already, and waits for that. Raises StateError."""
        await self._open_state()
        await self.wait_for(self.session.connect(shared.identity(self.session, self._wanted)))

    async def start_connecting(self) -> None:
        """Begins to become the client, unless it has been begun. Raises StateError."""
        if self.session.begun:
            return
        await self._open_state()
        if not self.session.begun:
            self.session.begin(shared.identity(self.session, self._wanted))
            self.flush_soon()

    async def _open_state(self) -> None:
        self.attach()
        if self._state_writer is not None and not self.session.closed:
            await self._state_writer.open()

    # ------------------------------------------------------------------ calls

    async def run(self, call: Call[ResultT]) -> ResultT:
        """Makes a call and waits for its end."""
        loop = get_running_loop()
        if loop is not self._loop:
            self.attach()
        if not self.session.begun:
            await self.start_connecting()
        self._submit(call)
        if not self._flush_is_due:
            self._flush_is_due = True
            loop.call_soon(self._flush)
        future = call.waiter = loop.create_future()
        try:
            await future
        except BaseException:
            self.abandon([call])
            raise
        return self.session.take(call)

    def start(self, call: CallT) -> CallT:
        """Makes a call, to be waited for by ``wait_for`` or given up by ``abandon``.

        ``start_connecting`` has to come before.
        """
        self.attach()
        self._submit(call)
        return call

    def _submit(self, call: Call[Any]) -> None:
        if self._state_writer is not None and (task := asyncio.current_task()) is not None:
            shared.with_reader(call, task, task.done)
        self.session.submit(call)

    async def wait_for(self, call: Call[ResultT]) -> ResultT:
        """Waits for the end of a call that is made already."""
        if call.phase != DONE:
            self.flush_soon()
            future = call.waiter = get_running_loop().create_future()
            try:
                await future
            except BaseException:
                self.abandon([call])
                raise
        return self.session.take(call)

    def abandon(self, given_up: Iterable[Call[Any]]) -> None:
        """Gives up calls that are made already."""
        for call in given_up:
            self.session.abandon(call)
        self.flush_soon()

    async def ask(
        self, make: Callable[ArgumentsT, Call[ResultT]], *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> ResultT:
        """Has the session make a call and waits for its end."""
        return await self.wait_for(make(*args, **kwargs))

    def tell(
        self, act: Callable[ArgumentsT, ResultT], *args: ArgumentsT.args, **kwargs: ArgumentsT.kwargs
    ) -> ResultT:
        """Has the session do something that needs no answer, and sends what comes of it."""
        result = act(*args, **kwargs)
        self.flush_soon()
        return result

    tell_in_signal = tell

    async def pause(self, seconds: float) -> None:
        """Waits."""
        await asyncio.sleep(seconds)

    async def next_message(self, state: ConsumerState, timeout: float) -> NextCall:  # noqa: ASYNC109
        """Waits for a consumer's next message; the service has been told of what has to count if it kills."""
        call = self.session.next_message(state, timeout)
        await self.wait_for(call)
        if call.message is not None:
            try:
                await self._tell_begin(state, first=call.tell_first)
            except BaseException:
                self.tell(self.session.consumers.forget, call)
                raise
        return call

    async def begin(self, state: ConsumerState, message: Message, now: float) -> None:
        """Tells the service that a handler begins."""
        await self._tell_begin(state, first=self.session.consumers.begin(state, message, now))

    @staticmethod
    def is_failure(error: BaseException) -> bool:
        """Tells whether what left the block of a message counts as its failure."""
        return isinstance(error, Exception) or (
            isinstance(error, asyncio.CancelledError) and not is_cancelled()
        )

    # ------------------------------------------------------------------ moving bytes

    def flush_soon(self) -> None:
        """Does what the session wants at the end of this turn of the loop."""
        if not self._flush_is_due and self._loop is not None:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._serve()

    def _serve(self) -> None:
        """Does whatever the session wants: writing, waking callers, connecting, timing."""
        session = self.session
        connection = self._connection
        if connection is not None:
            self._write(connection)
            if session.link is not connection.link:
                self._connection, self._closing = None, connection
                connection.transport.abort()
        if self._state_writer is not None:
            self._state_writer.write()
        completed = session.take_completed()
        if completed:
            _wake(completed)
        if session.link is None:
            self._connect_if_wanted()
        if self._finished is not None and session.finished and not self._finished.done():
            self._finished.set_result(None)
        due = session.timer
        if due < self._timer_at:
            self._set_timer(due)

    def _write(self, connection: Connection) -> None:
        session = self.session
        while session.link is connection.link:
            session.pump()
            output = session.take_output()
            if not output:
                return
            connection.transport.write(output)
            if not session.writable:
                return

    async def _tell_begin(self, state: ConsumerState, *, first: bool) -> None:
        """Tells what the application is given; ``first`` so that it counts even if the process dies next."""
        if not first:
            # After the next turn: what is acknowledged by then need not be told.
            if not self._telling and self._loop is not None:
                self._telling = True
                self._loop.call_soon(self._told)
            return
        session, connection = self.session, self._connection
        if connection is not None and session.link is connection.link:
            transport = connection.transport
            transport.write(session.consumers.take_begins())
            if not isinstance(self._loop, asyncio.SelectorEventLoop) or transport.get_write_buffer_size():
                # Other loops write at the end of a turn.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        state.begun_at = elapsed()

    def _told(self) -> None:
        self._telling = False
        self.flush_soon()

    def _set_timer(self, due: float) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), _tick, weakref.ref(self))

    def tick(self) -> None:
        """Does what is due."""
        self._timer = None
        self._timer_at = math.inf
        self.session.tick()
        self._serve()

    def received(self, connection: Connection, data: bytes) -> None:
        """Takes bytes that a connection received."""
        session = self.session
        if session.link is not connection.link:
            return
        session.feed(data)
        completed = session.take_completed()
        if completed:
            _wake(completed)
        # The callers just woken run before this flush, so that what they do next leaves in one write.
        self.flush_soon()

    def lost(self, connection: Connection, error: Exception | None) -> None:
        """A connection is gone."""
        if self.session.link is connection.link and connection.link is not None:
            self.session.link_closed(tls_alert(error) if error else "the middleware closed it")
        self.flush_soon()

    def writable(self, connection: Connection, writable: bool) -> None:
        """A connection takes no more bytes for now, or does again."""
        if self.session.link is connection.link:
            self.session.writable = writable
            if writable:
                self.flush_soon()

    # ------------------------------------------------------------------ opening and closing

    def _connect_if_wanted(self) -> None:
        if self._connector is None and self._loop is not None and self.session.next_attempt is not None:
            self._connector = self._loop.create_task(self._connect())
            self._connector.add_done_callback(self._connector_done)

    def _connector_done(self, connector: asyncio.Task[None]) -> None:
        self._connector = None
        if not connector.cancelled():
            connector.result()
            self._connect_if_wanted()

    async def _connect(self) -> None:
        """Opens a connection, at as many addresses and as often as the session wants."""
        while (attempt := self.session.next_attempt) is not None:
            address, attempt_at = attempt
            pause = attempt_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            try:
                connection = await self._open(address.host, address.port)
            except (OSError, UnicodeError) as failure:  # TlsError is a kind of OSError
                error = connection_failure(str(address), failure, tls=self._tls is not None)
                self.session.attempt_failed(error)
                self._serve()
                continue
            if self.session.next_attempt is None or connection.transport.is_closing():
                connection.transport.abort()
                continue
            connection.link = self.session.link_up(address, connection.transport.get_extra_info("ssl_object"))
            self._connection = connection
            self._serve()

    async def _open(self, host: str, port: int) -> Connection:
        limit, tls = self._connect_timeout, self._tls
        async with asyncio.timeout(limit):
            _, connection = await get_running_loop().create_connection(
                lambda: Connection(self),
                host,
                port,
                ssl=None if tls is None else tls.context(),
                server_hostname=None if tls is None else host,
                ssl_handshake_timeout=None if tls is None else limit,
            )
        return connection

    async def finish(self) -> None:
        """Waits until the service has been told what it has to know."""
        if self._loop is None:
            return
        self.attach()
        if self._finished is None:
            self._finished = self._loop.create_future()
        self._serve()
        await asyncio.wait([self._finished])

    async def let_go(self) -> None:
        """Ends the background work and waits until the connection is closed, after ``end_close``."""
        self._serve()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connector is not None:
            self._connector.cancel()
            await asyncio.wait([self._connector])
        if self._closing is not None:
            await asyncio.wait([self._closing.gone])
        self._let_go = True
        if self._state_writer is not None:
            await self._state_writer.close()

    def forked(self, error: ForkedError) -> None:
        """This process is a child of the one that made the client, and has used it if it has a loop."""
        if self._loop is None:
            return
        self._let_go = True
        if self._state_writer is not None:
            self._state_writer.forked()
        self.session.fail_all(error)


class Connection(asyncio.Protocol):
    """A connection to a middleware.

    Attributes:
        link: what the session knows it as; None until it does.
        gone: done once the connection is closed.
    """

    transport: asyncio.Transport

    def __init__(self, driver: AsyncDriver) -> None:
        self._driver = weakref.ref(driver)
        self.link: Link | None = None
        self.gone: asyncio.Future[None] = get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is open."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Passes bytes on."""
        driver = self._driver()
        if driver is not None:
            driver.received(self, data)

    def pause_writing(self) -> None:
        """The middleware reads too slowly for now."""
        if (driver := self._driver()) is not None:
            driver.writable(self, False)

    def resume_writing(self) -> None:
        """The middleware has caught up."""
        if (driver := self._driver()) is not None:
            driver.writable(self, True)

    def connection_lost(self, error: Exception | None) -> None:
        """The connection is closed."""
        self.gone.set_result(None)
        if (driver := self._driver()) is not None:
            driver.lost(self, error)


def _tick(driver_ref: weakref.ref[AsyncDriver]) -> None:
    if (driver := driver_ref()) is not None:
        driver.tick()


def _wake(completed: list[Call[Any]]) -> None:
    for call in completed:
        future = call.waiter
        if future is not None and not future.done():
            future.set_result(None)


def is_cancelled() -> bool:
    """Tells whether the current task was cancelled, and not only something that it waited for."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
