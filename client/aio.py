"""The asyncio client."""

from __future__ import annotations

import asyncio
import math
import time
from asyncio import get_running_loop
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from inspect import isawaitable
from signal import Signals
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from telesto.client import arguments
from telesto.client.aio_consumer import AsyncConsumer, AsyncHandler, AsyncPool, stopping_at
from telesto.client.aio_requests import AsyncRequests
from telesto.client.blocking_consumer import DRAIN, OnError, log_failure
from telesto.client.bookkeeping.consumers import ConsumerState, elapsed
from telesto.client.bookkeeping.identity import Identity
from telesto.client.calls import failures, queue_calls
from telesto.client.calls.queue_calls import Call
from telesto.client.calls.state import StoredClient
from telesto.client.connection.link import Link
from telesto.client.durable.durable_session import DurableSession
from telesto.client.errors import ForkedError, connection_failure
from telesto.client.io import forks, shared
from telesto.client.io.shared import StateDir
from telesto.client.io.state_writer import StateWriter
from telesto.client.models import (
    Message,
    RecoveredPut,
    TopicMessage,
)
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery
from telesto.client.url import Existing, parse_url
from telesto.protocol.errors import ConnectionLostError
from telesto.protocol.packets import ClientMode

ResultT = TypeVar("ResultT")
CallT = TypeVar("CallT", bound=Call[Any])
RowT = TypeVar("RowT")


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
        self._state_writer: StateWriter | None = None
        if isinstance(self._session, DurableSession) and state_dir is not None:
            self._state_writer = StateWriter(self._session, state_dir, self._serve)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tried: Identity | None = None
        self._pools: set[AsyncPool] = set()
        self._closer: asyncio.Task[None] | None = None
        self._ending = False
        self._connection: Connection | None = None
        self._closing: Connection | None = None
        self._connector: asyncio.Task[None] | None = None
        self._flush_is_due = False
        self._telling = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = math.inf
        self._finished: asyncio.Future[None] | None = None
        forks.watch(self)

    # ------------------------------------------------------------------ connecting

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(failed=error is not None)

    async def ping(self) -> float:
        """Asks the middleware for a sign of life; returns the seconds that it took. Needs no ``connect``."""
        self._attach()
        call = queue_calls.PingCall()
        self._session.submit_ping(call)
        return await self._wait_for(call)

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
        self._attach()
        stored: StoredClient | None = None
        if self._state_writer is not None and not self._session.closed:
            stored = await self._state_writer.open()
        identity = shared.choose_identity(self._url, name, client_id, mode, existing, self._tried, stored)
        call = self._session.connect(identity)
        self._tried = identity
        await self._wait_for(call)
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
            await self._finish()
        finally:
            self._session.begin_close(failed=failed)
            self._session.end_close()
            self._serve()
            await self._let_go()

    # ------------------------------------------------------------------ queues

    # ------------------------------------------------------------------ putting

    def recovered_puts(self) -> AsyncIterator[RecoveredPut]:
        """Tells what became of puts whose calls did not: the process died, or the call ended in doubt.

        Among them may be puts that returned just before the process was killed (for ``confirm_after``, if
        nothing else was written to the state meanwhile): their message_id is what they returned.

        Needs a state_dir. It waits until all of that is known, and yields each message in the order of the
        puts. Each counts as told when the application comes back for the next one; what it did not come back
        from is told again, also by the next process. Raises NotConnectedError.
        """
        return self._told_one_by_one(shared.durable(self._session))

    async def _told_one_by_one(self, session: DurableSession) -> AsyncIterator[RecoveredPut]:
        self._attach()
        await self._wait_for(session.when_settled())
        for put in shared.told_one_by_one(session):
            yield put
            self._flush_soon()

    # ------------------------------------------------------------------ reading

    async def confirm(self, messages: Iterable[Message | TopicMessage]) -> None:
        """Says that these messages are processed, when ``auto_confirm`` is off; in topics, with all before.

        The confirmation travels with the next request or a little later; ``close`` sends it at the latest.
        With a state_dir it is durable on return.
        """
        of_queues, of_topics = shared.by_source(messages)
        self._session.confirm_topics(of_topics)
        call = self._session.confirm(of_queues)
        self._flush_soon()
        if call is not None:
            await self._wait_for(call)

    async def release(self, messages: Iterable[Message | TopicMessage]) -> int:
        """Gives messages back to their queues, to their old places, marked redelivered; returns how many.

        Messages of topics come again to the next ``get``, with all behind them. Messages whose confirmation
        was sent already stay taken. With ``auto_confirm`` that is soon after they were returned; switch it
        off to decide about each message.
        """
        of_queues, of_topics = shared.by_source(messages)
        self._attach()
        again = self._session.give_back_topics(of_topics)
        return again + await self._wait_for(self._session.give_back(of_queues))

    # ------------------------------------------------------------------ topics

    # ------------------------------------------------------------------ consuming

    def consume(
        self,
        queue_id: int,
        *,
        credit: int | None = None,
        credit_bytes: int = 16 * 1024 * 1024,
        keep_alive: bool = False,
        ack_in_database: bool = False,
    ) -> AsyncConsumer:
        """Consumes a queue: messages are pushed, each to one consumer, and have to be answered.

        ``async with client.consume(queue_id) as consumer: async for leased in consumer: ...``

        Args:
            queue_id: the queue.
            credit: how many messages the consumer may have at a time, those that wait for the loop included.
                Without it about as many as are begun in a second, between 2 and 256.
            credit_bytes: how many bytes of bodies, 0 for any number; a larger message comes alone.
            keep_alive: extend the leases of what the consumer has for as long as this process lives. Without
                it a message that is not answered in the queue's lease time goes to another consumer.
            ack_in_database: the application acknowledges each message in a transaction of its own, by
                ``telesto.ack``; leaving the message's block says that this is committed.
        """
        return AsyncConsumer(
            _Shell(self), ConsumerState(queue_id, credit, credit_bytes, keep_alive, ack_in_database)
        )

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

        A request is acknowledged after its response was put. If that does not happen any more it comes again,
        and its handler runs again, but within the queue's ``dedup_window_ms`` no second response is stored.
        A response expires as one that ``reply`` puts, so none stays for a client that is gone.
        It runs as long as ``run_consumer`` does.
        Raises QueueNotExistingError when the queue was deleted.
        """
        arguments.check_awaited("handler", handler)

        async def answer(request: Message, answering: Awaitable[bytes | None]) -> None:
            body = await answering
            if body is not None and request.context is not None:
                await self._run(shared.reply_call(request, body, once=True))

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

    # ------------------------------------------------------------------ calls

    async def _run(self, call: Call[ResultT]) -> ResultT:
        """Makes a call and waits for its end."""
        loop = get_running_loop()
        if loop is not self._loop:
            self._attach()
        self._submit(call)
        if not self._flush_is_due:
            self._flush_is_due = True
            loop.call_soon(self._flush)
        future = call.waiter = loop.create_future()
        try:
            await future
        except BaseException:
            self._abandon([call])
            raise
        return self._session.take(call)

    def _start(self, call: CallT) -> CallT:
        """Makes a call, to be waited for by ``_wait_for`` or given up by ``_abandon``."""
        self._attach()
        self._submit(call)
        return call

    def _submit(self, call: Call[Any]) -> None:
        if self._state_writer is not None and (task := asyncio.current_task()) is not None:
            shared.with_reader(call, task, task.done)
        self._session.submit(call)

    async def _wait_for(self, call: Call[ResultT]) -> ResultT:
        """Waits for the end of a call that is made already."""
        if call.phase != queue_calls.DONE:
            self._flush_soon()
            future = call.waiter = get_running_loop().create_future()
            try:
                await future
            except BaseException:
                self._abandon([call])
                raise
        return self._session.take(call)

    def _send_next(self) -> None:
        self._flush_soon()

    def _abandon(self, given_up: Iterable[Call[Any]]) -> None:
        for call in given_up:
            self._session.abandon(call)
        self._flush_soon()

    def _attach(self) -> None:
        """Binds the client to the running loop, once."""
        loop = get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            raise RuntimeError("this client belongs to another event loop; make one client for each loop")

    # ------------------------------------------------------------------ moving bytes

    def _flush_soon(self) -> None:
        if not self._flush_is_due and self._loop is not None:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._serve()

    def _serve(self) -> None:
        """Does whatever the session wants: writing, waking callers, connecting, timing."""
        session = self._session
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
        session = self._session
        while session.link is connection.link:
            session.pump()
            output = session.take_output()
            if not output:
                return
            connection.transport.write(output)
            if not session.writable:
                return

    async def _tell_begins(self, state: ConsumerState) -> None:
        """Writes what the application is given, so that the service is told even if the process dies next."""
        session, connection = self._session, self._connection
        if connection is not None and session.link is connection.link:
            transport = connection.transport
            transport.write(session.consumers.take_begins())
            if not isinstance(self._loop, asyncio.SelectorEventLoop) or transport.get_write_buffer_size():
                # Other loops write at the end of a turn.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        state.begun_at = elapsed()

    def _tell_begins_soon(self) -> None:
        """Tells it after the next turn: what is acknowledged by then need not be told."""
        if not self._telling and self._loop is not None:
            self._telling = True
            self._loop.call_soon(self._told)

    def _told(self) -> None:
        self._telling = False
        self._flush_soon()

    def _set_timer(self, due: float) -> None:
        if self._loop is None:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = due
        self._timer = self._loop.call_later(max(0.0, due - time.monotonic()), self._tick)

    def _tick(self) -> None:
        self._timer = None
        self._timer_at = math.inf
        self._session.tick()
        self._serve()

    def received(self, connection: Connection, data: bytes) -> None:
        """Takes bytes that a connection received."""
        session = self._session
        if session.link is not connection.link:
            return
        session.feed(data)
        completed = session.take_completed()
        if completed:
            _wake(completed)
        # The callers just woken run before this flush, so that what they do next leaves in one write.
        self._flush_soon()

    def lost(self, connection: Connection, error: Exception | None) -> None:
        """A connection is gone."""
        if self._session.link is connection.link and connection.link is not None:
            address = self._session.address
            reason = str(error) if error else "the middleware closed it"
            self._session.link_down(ConnectionLostError(f"connection lost: {reason}", address=address))
        self._flush_soon()

    def writable(self, connection: Connection, writable: bool) -> None:
        """A connection takes no more bytes for now, or does again."""
        if self._session.link is connection.link:
            self._session.writable = writable
            if writable:
                self._flush_soon()

    # ------------------------------------------------------------------ opening and closing

    def _connect_if_wanted(self) -> None:
        if self._connector is None and self._loop is not None and self._session.next_attempt is not None:
            self._connector = self._loop.create_task(self._connect())
            self._connector.add_done_callback(self._connector_done)

    def _connector_done(self, connector: asyncio.Task[None]) -> None:
        self._connector = None
        if not connector.cancelled():
            connector.result()
            self._connect_if_wanted()

    async def _connect(self) -> None:
        """Opens a connection, at as many addresses and as often as the session wants."""
        while (attempt := self._session.next_attempt) is not None:
            address, attempt_at = attempt
            pause = attempt_at - time.monotonic()
            if pause > 0:
                await asyncio.sleep(pause)
                continue
            try:
                connection = await self._open(address.host, address.port)
            except (OSError, UnicodeError) as failure:
                self._session.attempt_failed(connection_failure(str(address), failure))
                self._serve()
                continue
            if self._session.next_attempt is None or connection.transport.is_closing():
                connection.transport.abort()
                continue
            connection.link = self._session.link_up(address)
            self._connection = connection
            self._serve()

    async def _open(self, host: str, port: int) -> Connection:
        async with asyncio.timeout(self._options.connect_timeout):
            _, connection = await get_running_loop().create_connection(lambda: Connection(self), host, port)
        return connection

    async def _finish(self) -> None:
        """Waits until the service has been told what it has to know."""
        if self._loop is None:
            return
        self._attach()
        if self._finished is None:
            self._finished = self._loop.create_future()
        self._serve()
        await asyncio.wait([self._finished])

    async def _let_go(self) -> None:
        """Ends the background work and waits until the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connector is not None:
            self._connector.cancel()
            await asyncio.wait([self._connector])
        if self._closing is not None:
            await asyncio.wait([self._closing.gone])
        if self._state_writer is not None:
            await self._state_writer.close()

    def forked(self, error: ForkedError) -> None:
        """This process is a child of the one that made the client."""
        if self._state_writer is not None:
            self._state_writer.forked()
        self._session.disown(error)


class _Shell:
    """What consumers need of their client."""

    def __init__(self, client: AsyncTelestoClient) -> None:
        self._client = client
        self.session = client._session
        self.answer: Callable[[Call[Any]], Coroutine[Any, Any, Any]] = client._wait_for
        self.flush = client._flush_soon
        self.tell_begins: Callable[[ConsumerState], Coroutine[Any, Any, None]] = client._tell_begins
        self.tell_begins_soon = client._tell_begins_soon


class Connection(asyncio.Protocol):
    """A connection to a middleware.

    Attributes:
        link: what the session knows it as; None until it does.
        gone: done once the connection is closed.
    """

    transport: asyncio.Transport

    def __init__(self, client: AsyncTelestoClient) -> None:
        self._client = client
        self.link: Link | None = None
        self.gone: asyncio.Future[None] = get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begins."""
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Hands bytes to the client."""
        self._client.received(self, data)

    def pause_writing(self) -> None:
        """The middleware takes its time."""
        self._client.writable(self, False)

    def resume_writing(self) -> None:
        """The middleware reads on."""
        self._client.writable(self, True)

    def connection_lost(self, error: Exception | None) -> None:
        """Ends."""
        self.gone.set_result(None)
        self._client.lost(self, error)


def _wake(completed: list[Call[Any]]) -> None:
    for call in completed:
        future = call.waiter
        if future is not None and not future.done():
            future.set_result(None)
