"""The blocking client."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from signal import Signals
from types import TracebackType
from typing import Self

from telesto.client import arguments
from telesto.client.blocking_pool import DRAIN, Handler, OnError, Pool, log_failure, stopping_at
from telesto.client.blocking_requests import Requests
from telesto.client.bookkeeping.identity import Identity
from telesto.client.calls import failures
from telesto.client.calls.queue_calls import Call
from telesto.client.calls.state import StoredClient
from telesto.client.durable.state_directory import StateDirectory
from telesto.client.io import shared
from telesto.client.io.driver import Driver, beside
from telesto.client.io.shared import StateDir
from telesto.client.models import Message
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery
from telesto.client.url import Existing, parse_url
from telesto.protocol.packets import ClientMode


class TelestoClient(Requests):
    """A client of Telesto for threads that block.

    All methods may be called from any number of threads at the same time; they share one connection, and
    requests take effect in the order of the calls. An iterator that a method returns is for one thread at a
    time. Ctrl-C in a call leaves the client usable: a message that the read took goes to the next matching
    read, and a put may or may not have been done.

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
        self._state_dir = state_dir if state_dir is not None else self._url.state_dir
        self._session = shared.make_session(self._url, self._options, delivery, self._state_dir)
        self._driver = Driver(self._session, self._options)
        self._tried: Identity | None = None
        self._pools: set[Pool] = set()
        self._closing = False
        self._closed = threading.Event()

    # ------------------------------------------------------------------ connecting

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(failed=error is not None)

    def connect(
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

        def connect() -> Call[None]:
            stored = self._open_state()
            identity = shared.choose_identity(self._url, name, client_id, mode, existing, self._tried, stored)
            call = self._session.connect(identity)
            self._tried = identity
            return call

        self._driver.ask(connect)
        self._tried = None

    def close(self, *, drain: float | None = None) -> None:
        """Ends ``run_consumer`` and ``serve_requests``, confirms what was taken, and closes the connection.

        Args:
            drain: how long handlers under way may take to end, in seconds; what has not ended by then goes
                back. None: as long as each ``run_consumer`` was told.

        Reads that wait end with ClientClosedError. Puts under way are waited for, at most ``close_timeout``.
        With a state_dir, what the application got counts as processed; leaving the ``with`` block by an
        exception gives it back instead. Closing again while handlers end, with a shorter ``drain``, leaves
        them less time; else it does nothing.

        It may be called in a handler of ``run_consumer``, and in a signal's handler. There it returns at once
        when it would wait for its own thread, and the client is closed when the handlers have ended.
        """
        self._close(failed=False, drain=drain)

    def _close(self, *, failed: bool, drain: float | None = None) -> None:
        arguments.check_timeout(drain, "drain")

        def close() -> None:
            pools = list(self._pools)
            for pool in pools:
                pool.stop(drain)
            try:
                for pool in pools:
                    pool.ended.wait()
                with self._driver.lock:
                    self._driver.close(failed=failed)
                self._driver.free()
            finally:
                self._closed.set()

        self._closing = True
        if self._driver.in_call or any(pool.is_mine for pool in self._pools):
            beside(close)
        else:
            close()

    def _open_state(self) -> StoredClient | None:
        """Opens the state if there is to be one; returns the client to come back as."""
        if self._state_dir is None:
            return None
        session = shared.durable(self._session)
        if not self._driver.has_state and not session.closed:
            self._driver.use_state(StateDirectory(self._state_dir))
        return session.stored_client

    # ------------------------------------------------------------------ consuming

    def run_consumer(
        self,
        queue_id: int,
        handler: Handler,
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
            handler: a plain function, takes a ``Message``. When it raises, the message goes back as failed,
                to come again.
            concurrency: how many messages are worked on at a time, of a partition one, in order; each
                in a thread of a pool.
            credit: how many messages the consumer may have at a time; without it that follows the pace, as in
                ``consume``.
            keep_alive: extend the leases of what the consumer has for as long as this process lives.
            ack_in_database: the handler acknowledges its message in a transaction of its own, by
                ``telesto.ack(*message.lease)`` in SQL, and has committed it when it returns.
            on_error: takes a message and what its handler raised; without it that is logged, as is what it
                raises itself.
            drain: how long handlers under way may take when it ends, in seconds. Nothing more is begun then.
                What has not ended in time goes back, as does what was not begun, which counts as no attempt.
            stop_signals: signals that end it, such as ``(signal.SIGTERM, signal.SIGINT)``; a second one does
                what it does without this. In the main thread only.

        It runs until one of these signals arrives, the client is closed, or a signal's handler raises here.
        Raises QueueNotExistingError when the queue was deleted, and InvalidParameterError for a handler that
        does nothing when it is called (``async def``); what it was given counts as no attempt.
        """
        arguments.check_count("concurrency", concurrency)
        arguments.check_plain("handler", handler)
        arguments.check_plain("on_error", on_error)
        arguments.check_timeout(drain, "drain")
        signals = arguments.check_signals("stop_signals", stop_signals)
        consumer = self.consume(
            queue_id,
            credit=credit,
            keep_alive=keep_alive,
            ack_in_database=ack_in_database,
        )
        pool = Pool(consumer, handler, on_error, concurrency, drain)
        self._pools.add(pool)
        try:
            if self._closing:
                raise failures.closed_error()
            with stopping_at(signals, pool.stop), consumer:
                pool.run()
        finally:
            pool.ended.set()
            self._pools.discard(pool)
        if self._closing:  # by a signal's handler in this thread, maybe, which leaves the waiting to this
            self._closed.wait()

    # ------------------------------------------------------------------ request and response

    def serve_requests(
        self,
        queue_id: int,
        handler: Callable[[Message], bytes | None],
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
            handler: a plain function, takes a request, a ``Message``, and returns the body of the response;
                None, or a message without a context, means no response. When it raises, the request goes back
                as failed, to come again.
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
        arguments.check_plain("handler", handler)

        def serve(request: Message) -> object:
            body = handler(request)
            if body is None or request.context is None or arguments.is_to_be_run(body):
                return body
            return self._driver.run(shared.reply_call(request, body, once=True))

        self.run_consumer(
            queue_id,
            serve,
            concurrency=concurrency,
            keep_alive=keep_alive,
            on_error=on_error,
            drain=drain,
            stop_signals=stop_signals,
        )
