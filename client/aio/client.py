"""The asyncio client."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from telesto.client import arguments
from telesto.client.aio.pool import AsyncPools
from telesto.client.aio.queue import AsyncQueues
from telesto.client.aio.requests import AsyncRequests
from telesto.client.io import shared
from telesto.client.io.async_driver import AsyncDriver
from telesto.client.io.shared import StateDir
from telesto.client.models import ClientRecord, Duration
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery
from telesto.client.url import ExistingClient, parse_url
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
        name: str | None = None,
        client_id: int | None = None,
        mode: ClientMode | None = None,
        existing: ExistingClient | None = None,
        state_dir: StateDir | None = None,
        delivery: Delivery = "once",
        options: ClientOptions | None = None,
    ) -> None:
        """Makes a client; nothing is sent yet. The first call connects.

        Args:
            url: ``telesto://host:port,host:port/?name=...``; by default the environment's TELESTO_URL, else a
                middleware on this machine. ``telestos://`` connects by TLS; ``tls_ca`` is a PEM file of the
                authorities to trust instead of those of the system, ``tls_certificate`` and ``tls_key`` are
                those of this client, ``tls_verify=no`` trusts anyone. Where the service has users, ``telesto://user:password@host``
                logs in, or TELESTO_USER with TELESTO_PASSWORD or TELESTO_PASSWORD_FILE, or ``token_file`` (a
                file with a token, read again for each connection), or the client's certificate.
            name: the client's name, unique on the service. ``{host}``, ``{pid}`` and ``{random}`` in it stand
                for this machine, this process and eight random digits: processes that run at the same time
                need different names. The client is used if it exists, else registered. Without a name (and a
                ``client_id``), here and in the URL, the client is a temporary one: it is deleted by
                ``close``, or by the service some minutes after its process died, with its subscriptions.
            client_id: instead of a name: the id of a client that exists.
            mode: what the client may do; by default FULL for a new client and anything for an existing one.
            existing: what to do when a client of this name exists already: "use" it (default), unless another
                process of this machine is connected as it: then the first call raises NameInUseError;
                "take_over": use it in any case; or "error". Another process that is connected as this client,
                also from another machine, gets SessionFencedError when the client is used.
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
        self._driver = AsyncDriver(self._session, self._options, wanted, state_dir, self._url.tls)
        self._pools = AsyncPools()
        self._queues = AsyncQueues(self._driver, self._pools)

    # ------------------------------------------------------------------ connecting

    def __repr__(self) -> str:
        return self._session.describe(type(self).__name__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(failed=error is not None)

    async def connect(self) -> ClientRecord:
        """Connects, unless the client is connected already; returns what the service knows of the client.

        The first call connects by itself. While a lost connection is being replaced, this waits for that.
        After SessionFencedError this takes the client back.

        Raises NotConnectedError when no middleware can be reached in ``call_timeout``,
        NameInUseError when another process of this machine is this client now, ClientNameNotUniqueError (only
        with ``existing="error"``), ClientNotExistingError for an unknown
        ``client_id``, ClientModePermissionError when the existing client has another mode. With a state_dir,
        also StateInUseError, StateDamagedError, StateMismatchError and StateWriteError.
        """
        await self._driver.connect_client()
        return shared.record_of(self._session)

    async def close(self, *, drain: Duration | None = None) -> None:
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

    async def _close(self, *, failed: bool, drain: Duration | None = None) -> None:
        drain_s = None if drain is None else arguments.check_timeout(drain, "drain")
        await self._pools.close(self._close_all(failed, drain_s))

    async def _close_all(self, failed: bool, drain: float | None) -> None:
        try:
            await self._pools.end(drain)
            self._session.begin_close(failed=failed)
            await self._driver.finish()
        finally:
            self._session.begin_close(failed=failed)
            self._session.end_close()
            await self._driver.let_go()
