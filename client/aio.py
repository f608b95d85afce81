"""The asyncio client."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from inspect import isawaitable
from signal import Signals
from types import TracebackType
from typing import Self

from telesto.client import arguments
from telesto.client.aio_pool import AsyncHandler, AsyncPool, stopping_at
from telesto.client.aio_requests import AsyncRequests
from telesto.client.blocking_pool import DRAIN, OnError, log_failure
from telesto.client.bookkeeping.identity import Identity
from telesto.client.calls import failures
from telesto.client.calls.state import StoredClient
from telesto.client.io import shared
from telesto.client.io.async_driver import AsyncDriver
from telesto.client.io.shared import StateDir
from telesto.client.models import Message
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery
from telesto.client.url import Existing, parse_url
from telesto.protocol.packets import ClientMode


class AsyncTelestoClient(AsyncRequests):
    """A client of Telesto for asyncio.

    It belongs to the event loop in which it is first used; within that loop any number of tasks may use it at
    the same time. Requests take effect in the order of the calls. Any call may be cancelled at any time: the
    client stays usable, a message that a cancelled read took goes to the next matching read, and a put may or
    may not have been done.

    Use it as a context manager, or call ``close``. Methods raise TelestoError or one of its subclasses;
    TypeError for arguments of a wrong type.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        state_dir: StateDir | None = None,
        delivery: Delivery = "once",
        options: ClientOptions | None = None,
    ) -> None:
        """Makes a client; nothing is sent yet.

        Args:
            url: ``telesto://host:port,host:port/?name=...``; by default the environment's TELESTO_URL, else a
                middleware on this machine.
            state_dir: a directory in which the client keeps what it must not forget, so that the next process
                with the same directory goes on where this one ended, however it ended. One at a time has it;
                it is made by ``connect`` if there is none, and let go of by ``close``.
            delivery: "once" for exactly-once puts and hand-overs; "fast" for less work per message: a put
                that is tried again may be doubled, and a message whose hand-over fails is lost.
            options: bounds and times.

        Raises AddressError for a URL that cannot be used.
        """
        self._url = parse_url(url)
        self._options = ClientOptions() if options is None else options
        state_dir = state_dir if state_dir is not None else self._url.state_dir
        self._session = shared.make_session(self._url, self._options, delivery, state_dir)
        self._driver = AsyncDriver(self._session, self._options, state_dir)
        self._tried: Identity | None = None
        self._pools: set[AsyncPool] = set()
        self._closer: asyncio.Task[None] | None = None
        self._ending = False

    # ------------------------------------------------------------------ connecting

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(failed=error is not None)

    async def connect(
        self,
        name: str | None = None,
        *,
        client_id: int | None = None,
        mode: ClientMode | None = None,
        existing: Existing | None = None,
    ) -> None:
        """Becomes a client of the service; what is left out is taken from the URL.

        Args:
            name: the client's name. It is registered; a name that is taken is an error unless ``existing`` is
                "use".
            client_id: instead of a name: the id of a client that exists.
            mode: what the client may do; by default FULL for a new client and anything for an existing one.
            existing: "error" (default) or "use" a client of this name that exists already. It is taken over:
                another process that is connected as this client gets SessionFencedError.

        Raises ClientNameNotUniqueError, ClientNotExistingError, ClientModePermissionError when the existing
        client has another mode, and NotConnectedError when no middleware can be reached. With a state_dir,
        also StateInUseError, StateDamagedError, StateMismatchError and StateWriteError.
        """
        shared.check_identity(name, client_id, mode, existing)
        self._driver.attach()
        stored: StoredClient | None = None
        if not self._session.closed:
            stored = await self._driver.open_state()
        identity = shared.choose_identity(self._url, name, client_id, mode, existing, self._tried, stored)
        call = self._session.connect(identity)
        self._tried = identity
        await self._driver.wait_for(call)
        self._tried = None

    async def close(self, *, drain: float | None = None) -> None:
        """Ends ``run_consumer`` and ``serve_requests``, confirms what was taken, and closes the connection.

        Args:
            drain: how long handlers under way may take to end, in seconds; what has not ended by then is
                cancelled and goes back. None: as long as each ``run_consumer`` was told.

        Reads that wait end with ClientClosedError. Puts under way are waited for, at most ``close_timeout``.
        With a state_dir, what the application got counts as processed; leaving the ``async with`` block by an
        exception gives it back instead. Closing again while handlers end, with a shorter ``drain``, leaves
        them less time; else it does nothing.

        Called in a handler of ``run_consumer`` it returns at once, and the client is closed when the handlers
        have ended.
        """
        await self._close(failed=False, drain=drain)

    async def _close(self, *, failed: bool, drain: float | None = None) -> None:
        arguments.check_timeout(drain, "drain")
        self._ending = True
        if any(pool.is_mine for pool in self._pools):
            self._closer = asyncio.create_task(self._close_all(failed, drain))
        else:
            await self._close_all(failed, drain)

    async def _close_all(self, failed: bool, drain: float | None) -> None:
        pools = list(self._pools)
        for pool in pools:
            pool.stop(drain)
        try:
            for pool in pools:
                await pool.ended.wait()
            self._session.begin_close(failed=failed)
            await self._driver.finish()
        finally:
            self._session.begin_close(failed=failed)
            self._session.end_close()
            await self._driver.let_go()

    # ------------------------------------------------------------------ consuming

    async def run_consumer(
        self,
        queue_id: int,
        handler: AsyncHandler,
        *,
        concurrency: int = 1,
        credit: int | None = None,
        keep_alive: bool = True,
        ack_in_database: bool = False,
        on_error: OnError = log_failure,
        drain: float = DRAIN,
        stop_signals: Iterable[Signals] = (),
    ) -> None:
        """Has a handler work on the messages of a queue, each acknowledged when it returns.

        Args:
            queue_id: the queue.
            handler: an async function, takes a ``Message``. When it raises, the message goes back as failed,
                to come again.
            concurrency: how many messages are worked on at a time, of a partition one, in order.
            credit: how many messages the consumer may have at a time; without it that follows the pace, as in
                ``consume``.
            keep_alive: extend the leases of what the consumer has for as long as this process lives.
            ack_in_database: the handler acknowledges its message in a transaction of its own, by
                ``telesto.ack(*message.lease)`` in SQL, and has committed it when it returns.
            on_error: takes a message and what its handler raised; without it that is logged, as is what it
                raises itself.
            drain: how long handlers under way may take when it ends, in seconds. Nothing more is begun then.
                What has not ended in time is cancelled and goes back, as does what was not begun, which
                counts as no attempt.
            stop_signals: signals that end it, such as ``(signal.SIGTERM, signal.SIGINT)``; a second one does
                what it does without this. In the main thread only.

        It runs until one of these signals arrives, the client is closed, or it is cancelled. Cancelled again
        while handlers are ending, it cancels them at once.
        Raises QueueNotExistingError when the queue was deleted, and InvalidParameterError for a handler that
        returns nothing to await (a plain ``def``); what it was given counts as no attempt.
        """
        arguments.check_count("concurrency", concurrency)
        arguments.check_awaited("handler", handler)
        arguments.check_plain("on_error", on_error)
        arguments.check_timeout(drain, "drain")
        signals = arguments.check_signals("stop_signals", stop_signals)
        consumer = self.consume(
            queue_id,
            credit=credit,
            keep_alive=keep_alive,
            ack_in_database=ack_in_database,
        )
        pool = AsyncPool(consumer, handler, on_error, concurrency, drain)
        self._pools.add(pool)
        try:
            if self._ending:
                raise failures.closed_error()
            with stopping_at(signals, pool.stop):
                async with consumer:
                    await pool.run()
        finally:
            pool.ended.set()
            self._pools.discard(pool)
        if self._closer is not None:  # a handler has closed the client and could not wait for it
            await asyncio.shield(self._closer)

    # ------------------------------------------------------------------ request and response

    async def serve_requests(
        self,
        queue_id: int,
        handler: Callable[[Message], Awaitable[bytes | None]],
        *,
        concurrency: int = 1,
        keep_alive: bool = True,
        on_error: OnError = log_failure,
        drain: float = DRAIN,
        stop_signals: Iterable[Signals] = (),
    ) -> None:
        """Has a handler answer the requests of a queue, as one of its consumers.

        Args:
            queue_id: the queue.
            handler: an async function, takes a request, a ``Message``, and returns the body of the
                response; None, or a message without a context, means no response. When it raises, the request
                goes back as failed, to come again.
            concurrency: how many requests are worked on at a time.
            keep_alive: extend the leases of requests for as long as this process lives.
            on_error: takes a request and what its handler raised; without it that is logged, as is what it
                raises itself.
            drain, stop_signals: as for ``run_consumer``.

        A request is acknowledged after its response was put. If that fails it comes again,
        and its handler runs again, but within the queue's ``dedup_window_ms`` no second response is stored.
        A response expires as one that ``reply`` puts, so none stays for a client that is gone.
        It runs as long as ``run_consumer`` does.
        Raises QueueNotExistingError when the queue was deleted.
        """
        arguments.check_awaited("handler", handler)

        async def answer(request: Message, answering: Awaitable[bytes | None]) -> None:
            body = await answering
            if body is not None and request.context is not None:
                await self._driver.run(shared.reply_call(request, body, once=True))

        def serve(request: Message) -> Awaitable[object]:
            answering = handler(request)
            return answer(request, answering) if isawaitable(answering) else answering

        await self.run_consumer(
            queue_id,
            serve,
            concurrency=concurrency,
            keep_alive=keep_alive,
            on_error=on_error,
            drain=drain,
            stop_signals=stop_signals,
        )
