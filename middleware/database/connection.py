"""A connection to the database, of one worker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import asyncpg

from telesto.middleware.common.failures import (
    LOCKED_SQLSTATE,
    LOST,
    RACED_SQLSTATE,
    READ_ONLY_SQLSTATE,
    STALE_SQLSTATE,
    UNCONFIRMED,
    Failure,
    LostError,
    RefusedError,
    UnavailableError,
    connections_exhausted,
    is_canceled,
    is_told,
    loses_connection,
)
from telesto.middleware.common.logs import logger
from telesto.middleware.database.dsn import CONNECT_ERRORS, Connection, brief, reason_of

_log = logger("database")

Rows = list[asyncpg.Record]

#: A cursor WITH HOLD is filled when its transaction commits.
_DECLARE = "DECLARE telesto_answer NO SCROLL CURSOR WITH HOLD FOR "
_FETCH = "FETCH ALL FROM telesto_answer"
_CLOSE = "CLOSE telesto_answer"


class Dropped(NamedTuple):
    """Why the middleware ended a connection: for the log and for the clients."""

    reason: str
    told: str


class DatabaseConnection:
    """One connection, opened when it is first needed and again after it was lost.

    It serves one call at a time. A call is never cancelled and has no time limit: if it ends without an
    answer, its outcome is unknown. The kernel's timeouts end a connection whose server's machine is gone.
    `DatabaseWatchdog` ends one whose server hangs or is no longer the primary. Only calls that read may be
    given up (``shared_for_reading``).

    Attributes:
        name: names its user.
        busy_since: when the call under way began, by the loop's clock in seconds; None without one.
        lost_count: how many calls were lost with their connections.
    """

    def __init__(
        self, name: str, connect: Callable[[str], Any], backoff_s: float, gate: Gate | None = None
    ) -> None:
        self.name = name
        self._connect = connect
        self._backoff_s = backoff_s
        self._gate = gate or Gate()
        self._connection: Connection | None = None
        self._statements: dict[str, asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]] = {}
        self._prepared = 0
        self._retry_at = 0.0
        self._failure = UnavailableError("")
        self._warned = False
        self._cut_off = False
        self._dropped: Dropped | None = None
        self.busy_since: float | None = None
        self.lost_count = 0

    @property
    def pid(self) -> int | None:
        """The process id of its backend; None while it is not connected."""
        connection = self._connection
        if connection is None or connection.is_closed():
            return None
        return connection.get_server_pid()

    async def call(self, sql: str, *arguments: Any) -> Rows:
        """Executes one statement in its own transaction.

        Raises:
            UnavailableError: nothing was sent.
            LostError: it may have been done.
            RefusedError: nothing was done.
        """
        self._gate.check(writes=True)
        return await self._call(sql, arguments)

    async def read(self, sql: str, *arguments: Any) -> Rows:
        """The same for a statement that only reads, so that its commit waits for no standby."""
        self._gate.check(writes=False)
        return await self._call(sql, arguments)

    async def call_for_much(self, sql: str, *arguments: Any) -> Rows:
        """The same for a statement whose answer may be large: its transaction ends before the answer is sent.

        So a backend that cannot send, because this middleware hangs, holds no locks. It needs a session of
        its own on the server, and two more messages each way. Raises the same.
        """
        self._gate.check(writes=True)
        await self._call(_DECLARE + sql, arguments)
        try:
            rows = await self._call(_FETCH, ())
            await self._call(_CLOSE, ())
        except (UnavailableError, RefusedError) as error:
            raise self._lost(str(error)) from error
        return rows

    async def _call(self, sql: str, arguments: tuple[Any, ...]) -> Rows:
        self._dropped = None
        self.busy_since = asyncio.get_running_loop().time()
        try:
            statement = self._statements.get(sql)
            if statement is None or self._connection is None or self._connection.is_closed():
                statement = await self._prepare(sql)
            return await self._fetch(statement, arguments)
        finally:
            self.busy_since = None

    async def _fetch(
        self, statement: asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record], arguments: tuple[Any, ...]
    ) -> Rows:
        self._warned = False
        try:
            rows = await statement.fetch(*arguments)
        except asyncpg.PostgresError as error:
            raise self._answered(error) from error
        except asyncpg.InterfaceError as error:
            raise self._not_sent(error) from error
        except (OSError, asyncpg.InternalClientError) as error:
            raise self._lost(str(error)) from error
        if self._warned:
            raise self._lost("the server warned about the commit", suspicious=False, told=UNCONFIRMED)
        return rows

    async def open(self) -> None:
        """Connects if there is no connection. Raises UnavailableError."""
        if self._connection is None or self._connection.is_closed():
            await self._open()

    async def close(self) -> None:
        """Closes the connection. A call under way is lost."""
        connection = self._forget()
        if connection is not None and not connection.is_closed():
            with suppress(*CONNECT_ERRORS):
                await connection.close(timeout=1)

    def drop(self, reason: str = "", told: str = LOST) -> None:
        """Closes the connection at once. A call under way is lost; the next call opens another connection.

        ``reason`` is for the log and ``told`` for the clients. With a reason the call itself is not
        suspected.
        """
        if reason:
            self._dropped = Dropped(reason, told)
        connection = self._forget()
        if connection is not None:
            connection.terminate()

    def cut_off(self) -> None:
        """Closes the connection for good. A call under way is lost, and later ones are not sent."""
        self._cut_off = True
        if self._connection is not None:
            self._connection.terminate()

    async def _prepare(self, sql: str) -> asyncpg.prepared_stmt.PreparedStatement[asyncpg.Record]:
        connection = None
        try:
            await self.open()
            connection = self._connection
            assert connection is not None
            self._prepared += 1
            # It has a name because asyncpg parses unnamed statements again in every call.
            statement = await connection.prepare(sql, name=f"telesto_{self._prepared}")
        except asyncpg.PostgresError as error:
            if loses_connection(error.sqlstate or ""):
                raise UnavailableError(brief(error)) from error
            raise RefusedError(error.sqlstate or "", brief(error)) from error
        except asyncpg.InternalClientError as error:
            # The server has ended an idle connection, and asyncpg still waits for a message from it.
            self.drop()
            raise UnavailableError(str(error)) from error
        except CONNECT_ERRORS as error:
            raise UnavailableError(str(error)) from error
        except AttributeError as error:
            # asyncpg uses a connection that was dropped while it looked up the statement's types.
            if connection is None or not connection.is_closed():
                raise
            raise UnavailableError("the connection was dropped") from error
        self._statements[sql] = statement
        return statement

    async def _open(self) -> None:
        if self._cut_off:
            raise UnavailableError("the middleware ends")
        loop = asyncio.get_running_loop()
        if loop.time() < self._retry_at:
            raise UnavailableError(
                f"the last attempt to connect failed just now: {self._failure}", self._failure.failure
            )
        self._forget()
        try:
            connection = await self._connect(self.name)
        except CONNECT_ERRORS as error:
            self._retry_at = loop.time() + self._backoff_s
            exhausted = isinstance(error, asyncpg.TooManyConnectionsError)
            failure = connections_exhausted(round(1000 * self._backoff_s)) if exhausted else None
            self._failure = UnavailableError(reason_of(error), failure)
            _log.warning("no_connection", connection=self.name, error=str(self._failure))
            raise self._failure from error
        if self._cut_off:
            connection.terminate()
            raise UnavailableError("the middleware ends")
        connection.add_log_listener(self._on_log_message)
        self._connection = connection

    def _on_log_message(self, _connection: object, message: asyncpg.PostgresLogMessage) -> None:
        """Notes a warning. No procedure warns, so it is about the commit's wait for a standby.

        An exception are the warnings of VACUUM about tables that it skips because another session locks them.
        """
        if message.severity_en == "WARNING" and message.sqlstate != LOCKED_SQLSTATE:
            _log.warning("server_warning", connection=self.name, message=message.message)
            self._warned = True

    def _answered(self, error: asyncpg.PostgresError) -> Exception:
        sqlstate = error.sqlstate or ""
        if loses_connection(sqlstate):
            # The server's last message, if any, is the cause of asyncpg's own error.
            told = getattr(error.__cause__, "sqlstate", None) or sqlstate
            if is_canceled(told):
                self.drop()
                return RefusedError(told, brief(error))
            return self._lost(brief(error), suspicious=not is_told(told))
        if sqlstate == READ_ONLY_SQLSTATE:
            self.drop()
            return UnavailableError("the server takes no writes any more")
        if sqlstate == STALE_SQLSTATE:
            self._statements.clear()
        if _lacks_partition(error):
            sqlstate = RACED_SQLSTATE
        return RefusedError(sqlstate, brief(error))

    def _not_sent(self, error: asyncpg.InterfaceError) -> Exception:
        if self._connection is None or self._connection.is_closed():
            return UnavailableError(str(error))
        return RefusedError("", str(error))

    def _lost(self, reason: str, *, suspicious: bool = True, told: str = LOST) -> LostError:
        self.lost_count += 1
        dropped, self._dropped = self._dropped, None
        if dropped is not None:
            reason, suspicious, told = dropped.reason, False, dropped.told
        _log.warning("connection_lost", connection=self.name, reason=reason)
        self.drop()
        return LostError(reason, suspicious=suspicious, told=told)

    def _forget(self) -> Connection | None:
        connection, self._connection = self._connection, None
        self._statements.clear()
        return connection


def _lacks_partition(error: asyncpg.PostgresError) -> bool:
    """Tells whether there was no partition for a row of the history.

    The database uses a partition once every backend can know it. If one does not know it all the same, this
    call did nothing, and the next one may find the partition.
    """
    if not isinstance(error, asyncpg.CheckViolationError):
        return False
    return error.table_name == "history" and error.constraint_name is None


class Gate:
    """Decides whether calls for clients are made.

    Attributes:
        shut: the failure of all calls; None if they are made.
        shut_for_writes: the failure of calls that write; None if they are made.
    """

    def __init__(self) -> None:
        self.shut: Failure | None = None
        self.shut_for_writes: Failure | None = None

    @property
    def is_open(self) -> bool:
        """No call is refused."""
        return self.shut is None and self.shut_for_writes is None

    def open(self, why: str) -> None:
        """Lets all calls be made."""
        if not self.is_open:
            _log.info("available_again", why=why)
            self.shut = self.shut_for_writes = None

    def check(self, *, writes: bool) -> None:
        """Raises UnavailableError, with the failure, if the call is refused."""
        failure = self.shut or (self.shut_for_writes if writes else None)
        if failure is not None:
            raise UnavailableError(failure.details, failure)
