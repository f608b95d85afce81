"""A middleware: its parts, its start and its stop."""

from __future__ import annotations

import asyncio
import gc
import math
import multiprocessing
import signal
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter

import psycopg

from telesto.db.schema import SchemaError
from telesto.middleware.cluster.audit_table import AuditTable
from telesto.middleware.cluster.interests import Interests, WakeSweep
from telesto.middleware.cluster.lock_holders import LockHolders
from telesto.middleware.cluster.maintenance import MaintenanceJobs
from telesto.middleware.cluster.registry import Registry
from telesto.middleware.cluster.temporary_clients import TemporaryClients
from telesto.middleware.cluster.user_usage import UserUsage
from telesto.middleware.cluster.wake_listener import WakeListener
from telesto.middleware.cluster.watchdog import DatabaseWatchdog
from telesto.middleware.common import listening
from telesto.middleware.common.audit import AuditFileError, AuditLog
from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.event_log import EventLog
from telesto.middleware.common.failures import Failure, LostError, RefusedError, UnavailableError, failure_of
from telesto.middleware.common.listening import ExposedError
from telesto.middleware.common.logs import logger
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.periodic import Periodic
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.common.signals import SIGNALS_WITHOUT_EFFECT, stop_signals
from telesto.middleware.common.tls import ServerTls, TlsFilesError, TlsListener
from telesto.middleware.consumers.behaviour_monitor import BehaviourMonitor
from telesto.middleware.consumers.claim_tracker import ClaimTracker
from telesto.middleware.consumers.consumer_changes import ConsumerChanges
from telesto.middleware.consumers.lease_renewal import LeaseRenewal
from telesto.middleware.consumers.leaving_consumers import LeavingConsumers
from telesto.middleware.consumers.lost_leases import LostLeases
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.database.clock import DatabaseClock
from telesto.middleware.database.connections import DatabaseConnections, shared, shared_for_reading
from telesto.middleware.database.disk import Disk
from telesto.middleware.database.start import DatabaseStart
from telesto.middleware.execution.batch_worker import BatchEffects
from telesto.middleware.execution.worker_pool import WorkerPool
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.http import CONNECTIONS_MAX, AdminServer
from telesto.middleware.metrics.loop_lag import LoopLag
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.procedures.reads import answer_read
from telesto.middleware.procedures.table import queue_of, single_handlers
from telesto.middleware.scheduling.dispatcher import Budget, Dispatcher
from telesto.middleware.scheduling.expected_size import ExpectedSizes
from telesto.middleware.security.login import FAILED, Logins
from telesto.middleware.security.rights import RightsCheck
from telesto.middleware.security.tokens import TokenKeyError, TokenKeys
from telesto.middleware.security.users import User, UserRegistry
from telesto.middleware.waiting.room import Announcer, Notifier, WaitingRoom
from telesto.middleware.wire.connection import Connection, Connections, Flusher, Intake
from telesto.middleware.wire.descriptors import connections_that_fit
from telesto.middleware.wire.quotas import NEARLY_USED_UP, Quotas, address_of, shown
from telesto.middleware.wire.services import Services
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import GoAway
from telesto.version import VERSION

_log = logger("server")

#: How long the last calls to the database may take when the middleware stops, in seconds.
_LAST_CALLS_S = 2.0
#: After this many collections of a younger generation the garbage collector collects the next older.
_OLDER_GENERATIONS = (20, 20)


class MiddlewareServer:
    """One middleware in the running loop.

    ``start`` returns when clients are served. ``request_stop`` begins a graceful stop, and ``wait_closed``
    returns when it is complete. A server is started once.

    Attributes:
        counters: what it counts.
        admin_address: (host, port) of /metrics, /livez and /readyz, None without.
        listener: what accepts connections; None before the start.
        peers: this middleware among the others.
        registry: what tells the others that it lives.
        tls: its certificate; None without TLS.
        audit: the audit log.
        budget: what is under way.
        connections: those of the clients.
        room: the reads that wait.
        consumers: the consumers that have joined here.
        database: the connections to the database.
        database_clock: what it knows of the database's clock.
        disk: whether the database has room for more.
        users: who may log in, and what each may do.
    """

    def __init__(
        self, settings: ServerSettings, consumer_clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Starts nothing yet; ``consumer_clock`` tells how long consumers take, in seconds.

        Raises TlsFilesError, TokenKeyError and AuditFileError.
        """
        self._settings = settings
        loop = self._loop = asyncio.get_running_loop()
        self.counters = Counters()
        self.admin_address: tuple[str, int] | None = None
        self._tracer = Tracer(loop, settings.phase_every)
        self.peers = Peers(VERSION)
        self.budget = Budget()
        self._deadlines = Deadlines(loop)
        self.connections = Connections(settings.max_connections, self.counters)
        self._events = EventLog("connection", loop.time, self._deadlines)
        self.audit = AuditLog(settings.audit_log, loop.time, self._deadlines, in_table=settings.audit_table)
        self._quotas = Quotas(settings, loop, self.budget, self.connections, self._events)
        self._dispatcher = Dispatcher(settings, loop, self.budget, queue_of)
        self._expected_sizes = ExpectedSizes(loop.time, settings.heavy_queue_s, settings.heavy_queues)
        self.room = WaitingRoom(
            loop,
            readmit=self._dispatcher.readmit,
            answer=answer_read,
            whose_read_yields=self._quotas.whose_read_yields,
        )
        self.database = DatabaseConnections(
            settings, on_connected=self._database_connected, on_moved=self._database_moved
        )
        self.users = UserRegistry(
            shared_for_reading(self.database.make("users"), settings.database_silent_ms / 1000),
            always_required=listening.is_exposed(settings) and not settings.insecure,
            on_changed=self._user_changed,
            on_required=self._login_required,
        )
        self._make_cluster()
        self._make_consumers(consumer_clock)
        self._make_workers()
        self.tls: ServerTls | None = None
        if settings.tls_certificate is not None:
            self.tls = ServerTls(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
        self._make_wire()
        self._lag = LoopLag(loop, self.counters, settings.loop_lag_interval_s)
        self._admin = AdminServer(
            self.counters, self._tracer, self._failed, self._unready, self._nearly_used_up
        )
        self.listener: asyncio.Server | TlsListener | None = None
        self._admin_listener: asyncio.Server | TlsListener | None = None
        self._address = ("", 0)
        self._tasks: list[asyncio.Task[None]] = []
        self._stop: asyncio.Task[None] | None = None
        self._stop_requested = asyncio.Event()
        self._add_gauges()

    def _make_cluster(self) -> None:
        settings, database, peers, clock = self._settings, self.database, self.peers, self._loop.time
        self._notifier = Notifier(
            database.make("notify").call,
            peers,
            self.counters,
            settings.notify_interval_ms,
            settings.notify_entries,
        )
        self._announcer = Announcer(self.room, self._notifier.tell)
        waiting_call = shared(database.make("waiting"))
        self._interests = Interests(waiting_call, self.room, peers, settings)
        self._wake_sweep = WakeSweep(waiting_call, self.room, self._interests, settings)
        self._wake_listener = WakeListener(
            database.connect_listener,
            self.room,
            peers,
            self.counters,
            self._wake_sweep,
            self.users,
            settings,
        )
        jobs_call = shared(database.make("jobs"))
        self.database_clock = DatabaseClock(jobs_call, self.counters)
        self._jobs = MaintenanceJobs(
            jobs_call,
            shared(database.make("staged")),
            peers,
            self.database_clock,
            self._announcer,
            settings,
        )
        # Not over the connection of the jobs: one may take minutes, in which other middlewares would delete
        # clients that are not noted.
        self._temporary_clients = TemporaryClients(
            waiting_call, self._connected_temporary, self._jobs.temporary_clients.poke, settings
        )
        registry_connection = database.make("registry", gated=False)
        self._audit_table = AuditTable(waiting_call, self.audit)
        # Nor this, since jobs wait for the locks that are held.
        self._lock_holders = LockHolders(waiting_call, peers, clock)
        self._user_usage = UserUsage(jobs_call, peers, self._quotas.of_users.measured, settings)
        self.registry = Registry(
            registry_connection.call,
            peers,
            database.gate,
            self.database_clock,
            settings,
            pids=database.pids,
            on_registered_again=self._registered_again,
            clock=clock,
        )
        self._watch = DatabaseWatchdog(
            database, self.registry, registry_connection, settings, clock, on_cut_off=self._send_clients_away
        )
        self.disk = Disk(database.make("disk").call, self.counters, settings, clock)

    def _make_consumers(self, clock: Callable[[], float]) -> None:
        settings, counters = self._settings, self.counters
        call = shared(self.database.make("consumers", lock_wait_ms=settings.lock_wait_ms))
        # Of their own, so that leases do not run out while those calls wait for locks.
        leases_call = shared(self.database.make("leases", lock_wait_ms=settings.lock_wait_ms))
        self._leaving = LeavingConsumers(call, self._announcer, settings)
        self._consumer_changes = ConsumerChanges(call, self._announcer, settings)
        consumers = self.consumers = ConsumerRegistry(
            self.room, self._leaving, self._consumer_changes, settings
        )
        self._monitor = BehaviourMonitor(consumers, self._consumer_changes, counters, self._deadlines, clock)
        self._leases = LeaseRenewal(leases_call, consumers, self._announcer, settings)
        self._lost_leases = LostLeases(leases_call, consumers, self._monitor, self.peers, settings)
        self._claims = ClaimTracker(consumers, self._announcer, counters, settings)

    def _make_workers(self) -> None:
        handlers = single_handlers(
            self.consumers,
            self._leases,
            self._leaving,
            self.peers,
            self._quotas.may_join,
            self._quotas.of_users.joining,
        )
        self._effects = BatchEffects(
            self.room,
            self._announcer,
            self.consumers,
            self._monitor,
            self.budget,
            self._expected_sizes,
            RightsCheck(self.users.queue_names),
            self.audit,
            self._settings.overload_retry_ms,
        )
        self._workers = WorkerPool(
            settings=self._settings,
            dispatcher=self._dispatcher,
            effects=self._effects,
            counters=self.counters,
            tracer=self._tracer,
            database=self.database,
            disk=self.disk,
            consumers=self.consumers,
            claims=self._claims,
            handlers=handlers,
            peers=self.peers,
            on_failure=self.request_stop,
        )

    def _make_wire(self) -> None:
        settings = self._settings
        tokens = None
        if settings.jwt_key_file is not None:
            tokens = TokenKeys(settings.jwt_key_file, settings.jwt_audience, settings.jwt_issuer)
        self._intake = Intake(self._loop)
        self._flusher = Flusher(self._loop)
        self._services = Services(
            settings=self._settings,
            loop=self._loop,
            dispatcher=self._dispatcher,
            room=self.room,
            expected_sizes=self._expected_sizes,
            counters=self.counters,
            peers=self.peers,
            deadlines=self._deadlines,
            consumers=self.consumers,
            tracer=self._tracer,
            monitor=self._monitor,
            quotas=self._quotas,
            events=self._events,
            logins=Logins(
                self.users,
                tokens,
                self._events,
                self.audit,
                self.counters.login_failed,
                self._loop.time,
            ),
            tls=self.tls,
        )

    # --- start -------------------------------------------------------------------------------

    @property
    def address(self) -> tuple[str, int]:
        """(host, port) where clients are served."""
        return self._address

    async def start(self) -> None:
        """Waits for the database, registers, and serves clients.

        Raises ExposedError, what the steps of ``DatabaseStart`` raise, and OSError if it cannot bind the
        address.
        """
        settings = self._settings
        listening.check_exposure(settings)
        listening.warn_of_exposure(settings)
        database = DatabaseStart(settings)
        await database.reach()
        await database.check_schema()
        _calm_collector(settings.gc_threshold)
        sock = listening.bind(settings.host, settings.port, reuse_port=settings.reuse_port)
        self.listener = await self._listener(
            sock, self._make_connection, attrgetter("for_clients"), settings.max_handshakes
        )
        self._address = sock.getsockname()[:2]
        try:
            await self._begin(database)
        except BaseException:
            await self._end()
            raise
        _log.info("serving", host=self._address[0], port=self._address[1])

    async def _begin(self, database: DatabaseStart) -> None:
        settings = self._settings
        address = listening.advertised(settings, self._address)
        await database.patiently(self.users.read_again)
        await database.patiently(lambda: self.registry.register(address))
        self._workers.start()
        for work in self._background():
            self._tasks.append(asyncio.create_task(work.run()))
        self._wake_listener.work.poke()
        # One more connection listens.
        others = len(self.database) + 1 + (settings.max_handshakes if self.tls else 0)
        self.connections.limit = connections_that_fit(settings.max_connections, others)
        if settings.admin_port is not None:
            sock = listening.bind(settings.admin_host, settings.admin_port)
            self._admin_listener = await self._listener(
                sock, self._admin.make_connection, attrgetter("for_admin"), CONNECTIONS_MAX
            )
            await self._admin_listener.start_serving()
            self.admin_address = (settings.admin_host, sock.getsockname()[1])
        self._lag.start()
        assert self.listener is not None
        await self.listener.start_serving()

    async def _listener(
        self,
        sock: socket.socket,
        make: Callable[[], asyncio.Protocol],
        context_of: Callable[[ServerTls], ssl.SSLContext],
        handshakes: int,
    ) -> asyncio.Server | TlsListener:
        settings = self._settings
        if (tls := self.tls) is not None:
            return TlsListener(
                sock,
                lambda: context_of(tls),
                make,
                backlog=settings.backlog,
                most=handshakes,
                limit_s=settings.handshake_limit_s,
                linger_s=settings.linger_s,
                address_of=address_of,
                failed=self._handshake_failed,
            )
        try:
            return await self._loop.create_server(
                make, sock=sock, backlog=settings.backlog, start_serving=False
            )
        except BaseException:
            sock.close()
            raise

    def _background(self) -> list[Periodic]:
        return [
            self._interests.work,
            self._wake_sweep.work,
            self._notifier.work,
            self._wake_listener.work,
            self.users.work,
            self.registry.work,
            self._watch.work,
            self.database_clock.work,
            *self._jobs.work,
            self._temporary_clients.work,
            self.disk.work,
            self._audit_table.work,
            self._lock_holders.work,
            self._user_usage.work,
            self._leaving.work,
            self._leases.work,
            self._lost_leases.work,
            self._consumer_changes.work,
        ]

    def _connected_temporary(self) -> list[int]:
        clients = (connection.pipeline.client for connection in self.connections.snapshot())
        return [client.client_id for client in clients if client.temporary]

    def _make_connection(self) -> Connection:
        return Connection(self._services, self.connections, self._intake, self._flusher)

    def _handshake_failed(self, peer: object, reason: str) -> None:
        self.counters.aborted("tls_handshake")
        self._events.info("handshake_failed", (address_of(peer), reason), peer=shown(peer), reason=reason)

    def _failed(self) -> list[str]:
        """Why this middleware has to be started again; nothing if it need not."""
        return [] if self._stop is not None or self._workers.running else ["a worker has ended"]

    def _unready(self) -> list[str]:
        """Why clients should use another middleware now; nothing if they need not."""
        gate = self.database.gate
        reasons = self._failed()
        if self._stop is not None:
            reasons.append("it stops")
        reasons += [failure.details for failure in (gate.shut, gate.shut_for_writes) if failure is not None]
        return reasons + [f"used up: {budget}" for budget in self._budgets_from(1.0)]

    def _nearly_used_up(self) -> list[str]:
        return self._budgets_from(NEARLY_USED_UP)

    def _budgets_from(self, share: float) -> list[str]:
        """The budgets of which at least this share is used."""
        settings, budget = self._settings, self.budget
        budgets = {
            "connections": (self.connections.identified, self.connections.limit),
            "requests under way": (budget.requests, settings.budget_requests),
            "bytes under way": (budget.bytes, settings.budget_bytes),
            "bytes of unsent answers": (budget.unsent, settings.budget_unsent_bytes),
            "waiting reads": (self.room.parked, settings.max_waiting_reads),
            "consumers": (len(self.consumers), settings.max_consumers),
        }
        return [
            f"{name}, {used} of {limit}" for name, (used, limit) in budgets.items() if used >= share * limit
        ]

    def _add_gauges(self) -> None:
        gauges = self.counters.gauges
        gauges["connections"] = ("Open connections.", lambda: len(self.connections))
        gauges["requests_under_way"] = ("Requests under way.", lambda: self.budget.requests)
        gauges["bytes_under_way"] = ("Bytes they hold.", lambda: self.budget.bytes)
        gauges["unsent_bytes"] = ("Bytes of answers that peers have not read.", lambda: self.budget.unsent)
        gauges["senders_waiting"] = ("Connections whose frames wait.", lambda: len(self._intake))
        gauges["waiting_reads"] = ("Reads that wait.", lambda: self.room.parked)
        gauges["consumers"] = ("Consumers.", lambda: len(self.consumers))
        gauges["failing_consumers"] = (
            "Consumers that fail everything now.",
            lambda: self.consumers.failing,
        )
        gauges["user_quotas_nearly_used_up"] = (
            "Quotas of users of which more than 80 % were used in the last minute.",
            self._quotas.of_users.near,
        )
        gauges["leases"] = ("Messages that consumers have.", lambda: self.consumers.held)
        gauges["disk_full"] = (
            "1 while puts are refused for lack of space.",
            lambda: self.disk.is_full,
        )
        gauges["disk_free_bytes"] = (
            "How many more bytes may be stored; NaN if unknown.",
            lambda: math.nan if self.disk.free is None else self.disk.free,
        )
        gauges["audit_lines_lost"] = (
            "Lines of the audit log that could not be written.",
            lambda: self.audit.failures,
        )
        gauges["quarantined_clients"] = ("Clients in quarantine.", lambda: len(self._dispatcher.quarantine))
        gauges["lost_calls"] = ("Calls whose connection was lost.", lambda: self.database.lost_count)
        gauges["database_up"] = (
            "0 while requests are refused because the database cannot be reached.",
            lambda: self.database.gate.shut is None,
        )
        gauges["standby_confirms"] = (
            "0 while writing requests are refused because no synchronous standby confirms.",
            lambda: self.database.gate.shut_for_writes is None,
        )
        gauges["heartbeat_age_seconds"] = (
            "How long ago the database confirmed the last heartbeat.",
            lambda: self._loop.time() - self.registry.beat_at,
        )
        gauges["loop_lag_seconds"] = ("The last lag of the event loop.", lambda: self.counters.loop_lag_s)
        gauges["loop_lag_max_seconds"] = (
            "The largest lag of the event loop.",
            lambda: self.counters.loop_lag_max_s,
        )
        if self.tls is not None:
            gauges["tls_certificate_left_seconds"] = (
                "How long the certificate is valid; negative when it has expired.",
                self.tls.left_s,
            )
        for kind, queue in self._dispatcher.fair_queues.items():
            name = f"pipelines_{kind.name.lower()}"
            gauges[name] = (f"Pipelines whose next request is a {kind.name.lower()}.", queue.__len__)

    # --- what happens to the database ----------------------------------------------------------

    def _database_connected(self) -> None:
        """There is a new backend: the heartbeat tells the other middlewares its process id."""
        self.registry.poke()

    def _database_moved(self) -> None:
        """Another server is the primary: connections to the former one must end."""
        self._wake_listener.drop()
        self._watch.moved()

    def _send_clients_away(self) -> None:
        """The database is not available: the clients should use other middlewares."""
        self._wake_listener.drop()
        self._tell_to_go_away("the middleware has lost the database")

    def _registered_again(self) -> None:
        """The others had declared this middleware dead, so its consumers have ended."""
        self.room.forget_interests()
        self.consumers.end_all(
            failure_of(ErrorCode.CONSUMER_NOT_EXISTING, "the middleware was declared dead; join again")
        )

    # --- what happens to users -----------------------------------------------------------------

    def _user_changed(self, user: User) -> None:
        """Judges what goes on for a user again, and ends its connections if it may not log in any more."""
        failure = failure_of(ErrorCode.AUTHENTICATION_FAILED, FAILED)
        for connection in self.connections.snapshot():
            if connection.pipeline.user is user:
                if user.enabled:
                    self._effects.user_changed(connection.pipeline)
                else:
                    connection.end(failure)

    def _login_required(self) -> None:
        """Ends the connections that are not logged in: there are users now."""
        details = "the service has users now: connect again and log in"
        failure = Failure(ErrorCode.NOT_AUTHENTICATED, ErrorClass.FATAL, details)
        for connection in self.connections.snapshot():
            if connection.pipeline.user is None and connection.pipeline.login is None:
                connection.end(failure)

    # --- stop --------------------------------------------------------------------------------

    def request_stop(self) -> None:
        """Begins the stop. Does nothing if it has begun."""
        if self._stop is None:
            self._stop = asyncio.create_task(self._shut_down())
            self._stop_requested.set()

    async def wait_closed(self) -> None:
        """Returns when the stop is complete, which may not have been requested yet."""
        await self._stop_requested.wait()
        assert self._stop is not None
        await asyncio.shield(self._stop)

    def _tell_to_go_away(self, reason: str) -> None:
        go_away = GoAway(reason, self.peers.addresses)
        for connection in self.connections.snapshot():
            connection.go_away(go_away)

    async def _shut_down(self) -> None:
        """Refuses new requests, answers those under way, lets the clients leave, and ends all parts."""
        _log.info("stopping", connections=len(self.connections), under_way=self.budget.requests)
        assert self.listener is not None
        self.listener.close()
        self.consumers.draining = True
        self._tell_to_go_away("the middleware is about to stop")
        self.room.close(failure_of(ErrorCode.SHUTTING_DOWN, "the middleware is about to stop"))
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.shutdown_limit_s):
                await self.budget.wait_idle()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.goaway_grace_s):
                await self.connections.wait_empty()
        await self._end()
        _log.info("stopped")

    async def _end(self) -> None:
        """Ends all parts, in the order of their dependencies."""
        self._workers.close()
        if self.budget.requests:
            _log.warning("cut_off", under_way=self.budget.requests)
            self._workers.cut_off()
        await self._workers.wait()
        await self._end_connections()
        await self._end_background()
        with suppress(UnavailableError, LostError, RefusedError, TimeoutError):
            async with asyncio.timeout(_LAST_CALLS_S):
                await self._leaving.send()
                await self._notifier.send()
                await self._audit_table.move()
                await self.registry.unregister()
        await self._wake_listener.close()
        await self.database.close()
        if self._admin_listener is not None:
            self._admin_listener.close()
            self._admin.end_connections()
            await self._admin_listener.wait_closed()
        self._lag.stop()
        self._quotas.close()
        self._deadlines.close()
        self.audit.close()

    async def _end_background(self) -> None:
        """Waits for background work to end, unless the database does not answer."""
        for work in self._background():
            work.stop()
        if not self._tasks:
            return
        _, waiting = await asyncio.wait(self._tasks, timeout=_LAST_CALLS_S)
        if waiting:
            _log.warning("cut_off", background=len(waiting))
            self.database.cut_off()
        await asyncio.gather(*self._tasks)

    async def _end_connections(self) -> None:
        for connection in self.connections.snapshot():
            connection.finish()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._settings.linger_s):
                await self.connections.wait_empty()
        for connection in self.connections.snapshot():
            connection.abort()
        await self.connections.wait_empty()
        if self.listener is not None:
            self.listener.close()
            await self.listener.wait_closed()


def _calm_collector(threshold: int) -> None:
    """Makes the garbage collector run less often: requests live for one batch and leave no cycles.

    With Python's default threshold it scans the same batch several times, for a fifth of the CPU time.
    """
    if threshold:
        gc.set_threshold(max(threshold, gc.get_threshold()[0]), *_OLDER_GENERATIONS)


def serve(settings: ServerSettings) -> None:
    """Serves until SIGTERM, SIGINT or SIGHUP, with several processes as their parent.

    Logs an error and raises SystemExit if it must not serve at this address.
    """
    try:
        listening.check_exposure(settings)
    except (ExposedError, OSError) as error:
        _log.error("cannot_start", reason=str(error))
        raise SystemExit(1) from None
    if settings.processes > 1:
        from telesto.middleware.processes import supervise

        supervise(settings)
        return
    run(settings)


def run(settings: ServerSettings) -> None:
    """Serves in this process until SIGTERM, SIGINT or SIGHUP.

    Logs an error and raises SystemExit if the database is not available.
    """
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(_serve(settings))
    except (ExposedError, TokenKeyError, psycopg.Error, SchemaError, TlsFilesError, AuditFileError) as error:
        _log.error("cannot_start", reason=str(error))
        raise SystemExit(1) from None


async def _serve(settings: ServerSettings) -> None:
    server = MiddlewareServer(settings)
    start = asyncio.create_task(server.start())
    _on_stop(start.cancel, server.tls)
    with suppress(asyncio.CancelledError):
        await start
        _on_stop(server.request_stop, server.tls)
        await server.wait_closed()


def _on_stop(action: Callable[[], object], tls: ServerTls | None) -> None:
    """Calls the action on a signal, and when the parent process has ended, whatever the reason.

    With TLS, SIGHUP has the certificate read again instead.
    """
    loop = asyncio.get_running_loop()
    for number in stop_signals():
        loop.add_signal_handler(number, action)
    if tls is not None:
        loop.add_signal_handler(signal.SIGHUP, tls.read_again)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # the parent process has it blocked
    for number in SIGNALS_WITHOUT_EFFECT:
        loop.add_signal_handler(number, lambda: None)
    parent = multiprocessing.parent_process()
    if parent is not None:
        loop.add_reader(parent.sentinel, _parent_gone, parent.sentinel, action)


def _parent_gone(sentinel: int, action: Callable[[], object]) -> None:
    asyncio.get_running_loop().remove_reader(sentinel)
    _log.warning("parent_gone")
    action()


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop where it is installed, else None for asyncio's own loop."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
