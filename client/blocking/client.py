"""The blocking client."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from telesto.client import arguments
from telesto.client.blocking.pool import Pools
from telesto.client.blocking.queue import Queues
from telesto.client.blocking.requests import Requests
from telesto.client.io import shared
from telesto.client.io.driver import Driver
from telesto.client.io.shared import StateDir
from telesto.client.models import ClientRecord, Duration
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
        name: str | None = None,
        client_id: int | None = None,
        mode: ClientMode | None = None,
        existing: Existing | None = None,
        state_dir: StateDir | None = None,
        delivery: Delivery = "once",
        options: ClientOptions | None = None,
    ) -> None:
        """Makes a client; nothing is sent yet. The first call connects.

        Args:
            url: ``telesto://host:port,host:port/?name=...``; by default the environment's TELESTO_URL, else a
                middleware on this machine. ``telestos://`` connects by TLS; ``tls_ca`` is a PEM file of the
                authorities to trust instead of those of the system, ``tls_certificate`` and ``tls_key`` are
                those of this client, ``tls_verify=no`` trusts anyone.
            name: the client's name, unique on the service. ``{host}``, ``{pid}`` and ``{random}`` in it stand
                for this machine, this process and eight random digits: processes that run at the same time
                need different names. The client is used if it exists, else registered. Without a name (and a
                ``client_id``), here and in the URL, the client is a temporary one: it is deleted by
                ``close``, or by the service some minutes after its process died, with its subscriptions.
            client_id: instead of a name: the id of a client that exists.
            mode: what the client may do; by default FULL for a new client and anything for an existing one.
            existing: "use" (default) or "error" when a client of this name exists already. If it is used,
                another process that is connected as this client gets SessionFencedError.
            state_dir: a directory in which the client keeps what it must not forget, so that the next process
                with the same directory goes on where this one ended, however it ended. One at a time has it;
                the first call makes it if there is none, and ``close`` lets go of it. It needs a name.
            delivery: "once" for exactly-once puts and hand-overs; "fast" for less work per message: a put
                that is tried again may be doubled, and a message whose hand-over fails is lost.
            options: bounds and times.

        Raises AddressError for a URL that cannot be used, InvalidParameterError for a name that is none.
        """
        self._url = parse_url(url)
        self._options = ClientOptions() if options is None else options
        wanted = shared.wanted_client(self._url, name, client_id, mode, existing)
        state_dir = state_dir if state_dir is not None else self._url.state_dir
        self._session = shared.make_session(self._url, self._options, delivery, state_dir)
        self._driver = Driver(self._session, self._options, wanted, state_dir, self._url.tls)
        self._pools = Pools()
        self._queues = Queues(self._driver, self._pools)

    # ------------------------------------------------------------------ connecting

    def __repr__(self) -> str:
        return self._session.describe(type(self).__name__)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close(failed=error is not None)

    def connect(self) -> ClientRecord:
        """Connects, unless the client is connected already; returns what the service knows of the client.

        The first call connects by itself. After SessionFencedError this takes the client back.

        Raises NotConnectedError when no middleware can be reached in ``call_timeout``,
        ClientNameNotUniqueError (only with ``existing="error"``), ClientNotExistingError for an unknown
        ``client_id``, ClientModePermissionError when the existing client has another mode. With a state_dir,
        also StateInUseError, StateDamagedError, StateMismatchError and StateWriteError.
        """
        self._driver.connect_client()
        return shared.record_of(self._session)

    def close(self, *, drain: Duration | None = None) -> None:
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

    def _close(self, *, failed: bool, drain: Duration | None = None) -> None:
        drain_s = None if drain is None else arguments.check_timeout(drain, "drain")

        def close() -> None:
            try:
                self._pools.end(drain_s)
                with self._driver.lock:
                    self._driver.close(failed=failed)
                self._driver.free()
            finally:
                self._pools.closed.set()

        self._pools.close(close, aside=self._driver.in_call)
