"""What a failed call means: nothing was done, it may have been done, or the database is not available."""

from __future__ import annotations

from dataclasses import dataclass, replace

from telesto.protocol.errors import ERRORS, ErrorClass, ErrorCode

#: The details of a call whose connection was lost.
LOST = "the connection to the database was lost during the request"
#: The details of a call that was committed but not confirmed by the synchronous standby.
UNCONFIRMED = "the database's synchronous standby has not confirmed the request in time"


class UnavailableError(Exception):
    """Nothing was sent to the database, because there was no connection or calls are refused now.

    Attributes:
        failure: the failure for clients; None for that of ``unavailable``.
    """

    def __init__(self, reason: str, failure: Failure | None = None) -> None:
        super().__init__(reason)
        self.failure = failure


class LostError(Exception):
    """The connection was lost during the call, or the commit may not be safe: it may have been done.

    Attributes:
        suspicious: the server gave no reason, so the call itself may have crashed its process.
        told: the details for clients. The reason is for the log.
    """

    def __init__(self, reason: str, *, suspicious: bool = True, told: str = LOST) -> None:
        super().__init__(reason)
        self.suspicious = suspicious
        self.told = told


class RefusedError(Exception):
    """The database answered with an error: nothing was done.

    Attributes:
        sqlstate: five characters; empty if the arguments could not be sent.
    """

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(f"{sqlstate}: {message}" if sqlstate else message)
        self.sqlstate = sqlstate
        self.message = message


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that answers a request. If it is ``recorded``, it is kept until it is confirmed."""

    code: ErrorCode
    error_class: ErrorClass
    details: str
    related_id: int | None = None
    retry_after_ms: int | None = None
    recorded: bool = False


_BY_SQLSTATE = {info.sqlstate: info for info in ERRORS.values()}

#: Another session has the lock. The call has done nothing.
LOCKED_SQLSTATE = "55P03"
#: Classes of SQLSTATE after which a request may succeed later: no resources, a conflict or a lock.
_TRANSIENT = ("53", "40", LOCKED_SQLSTATE)

#: The disk is full, or its quota is used up.
DISK_FULL_SQLSTATE = "53100"

#: An operator or a timeout of the session ended the call; the last two also end the connection.
_CANCELED = ("57014", "25P03", "25P04")

#: Errors that each part of a batch would get as well, or for which each part would wait as long.
_OF_WHOLE_CALLS = (DISK_FULL_SQLSTATE, *_CANCELED)

#: Classes of SQLSTATE that end the connection, possibly after the commit.
_LOSING = ("08", "57P01", "57P02", "57P03", "57P04", "57P05")

#: The server is a standby now. Nothing was done, and another server must be found.
READ_ONLY_SQLSTATE = "25006"

#: A prepared statement is out of date because a procedure was replaced. Prepared again, it works.
STALE_SQLSTATE = "0A000"

#: The call conflicted with another one and may be repeated.
RACED_SQLSTATE = "40001"


#: The server ends the connection and says so: a shutdown, an operator or the crash of another process.
_TOLD = "57P"


def is_told(sqlstate: str) -> bool:
    """Tells whether the server said why it ended the connection."""
    return sqlstate.startswith(_TOLD)


def loses_connection(sqlstate: str) -> bool:
    """Tells whether an error ends the connection, so that the outcome of the call is unknown."""
    return sqlstate.startswith(_LOSING)


def ends_call(sqlstate: str) -> bool:
    """Tells whether an error concerns the batch as a whole and no single request in it."""
    return sqlstate in _OF_WHOLE_CALLS


def is_canceled(sqlstate: str) -> bool:
    """Tells whether a call was canceled: nothing was done, even if its connection was ended."""
    return sqlstate in _CANCELED


def failure_of(code: ErrorCode, details: str, related_id: int | None = None) -> Failure:
    """Makes the failure for a code, with its class from the specification."""
    return Failure(code, ERRORS[code].error_class, details, related_id)


def failure_by_sqlstate(error: RefusedError, retry_ms: int) -> Failure:
    """Makes the failure for an error of the database about a single request."""
    info = _BY_SQLSTATE.get(error.sqlstate)
    if info is not None:
        return Failure(info.code, info.error_class, error.message)
    if error.sqlstate == DISK_FULL_SQLSTATE:
        return disk_full(retry_ms)
    if is_canceled(error.sqlstate):
        details = "the database canceled the call: it took too long, or an operator asked for it"
        return _retryable(ErrorCode.CALL_CANCELED, details, retry_ms)
    if error.sqlstate.startswith(_TRANSIENT):
        return _retryable(ErrorCode.OVERLOADED, f"the database refused with {error.sqlstate}", retry_ms)
    details = f"the database refused with {error.sqlstate or 'no state'}"
    return Failure(ErrorCode.INTERNAL_ERROR, ErrorClass.REJECTED, details)


def unavailable(retry_ms: int) -> Failure:
    """The failure when there is no connection to the database."""
    return _retryable(ErrorCode.DATABASE_UNAVAILABLE, "the database cannot be reached", retry_ms)


def standby_unavailable(retry_ms: int) -> Failure:
    """The failure while no synchronous standby confirms commits."""
    details = "no synchronous standby of the database confirms commits; nothing was done"
    return _retryable(ErrorCode.STANDBY_UNAVAILABLE, details, retry_ms)


def disk_full(retry_ms: int) -> Failure:
    """The failure of a request that needs space while the database's disk is full."""
    return _retryable(ErrorCode.DISK_FULL, "the disk of the database is full", retry_ms)


def connections_exhausted(retry_ms: int) -> Failure:
    """The failure when the database has no connection left."""
    details = "the database has no connection left for this middleware"
    return _retryable(ErrorCode.CONNECTIONS_EXHAUSTED, details, retry_ms)


def busy_too_long(retry_ms: int) -> Failure:
    """The failure of a request that found its queue locked until the limit."""
    return _retryable(ErrorCode.OVERLOADED, "the queue or the client stayed busy", retry_ms)


def in_doubt(error: LostError) -> Failure:
    """The failure of a request whose call was lost."""
    return failure_of(ErrorCode.IO_ERROR, error.told)


def behind(failure: Failure) -> Failure | None:
    """Returns the failure of requests behind one that will be sent again; None if they may go on."""
    if failure.error_class is ErrorClass.RETRYABLE:
        return failure
    if failure.error_class is ErrorClass.IN_DOUBT:
        details = "an earlier request of this connection is in doubt"
        return Failure(ErrorCode.DATABASE_UNAVAILABLE, ErrorClass.RETRYABLE, details)
    return None


def unknown() -> Failure:
    """The failure of a request whose answer could not be made."""
    return failure_of(ErrorCode.INTERNAL_ERROR, "the middleware failed; its log tells more")


def _retryable(code: ErrorCode, details: str, retry_ms: int) -> Failure:
    return Failure(code, ErrorClass.RETRYABLE, details, retry_after_ms=retry_ms)


class BusyError(Exception):
    """Something that a single request needs is locked. Nothing was done."""


class FailedError(Exception):
    """The procedure of a single request returned an error.

    Attributes:
        failure: the answer to the request.
    """

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.details)
        self.failure = failure


#: Procedures return this instead of an error code when something is locked.
BUSY = -1


#: Errors of requests that were not executed, so there is no record of them.
_NOT_EXECUTED = (ErrorCode.CLIENT_NOT_EXISTING, ErrorCode.SESSION_FENCED, ErrorCode.NUMBER_REPEATED)


def no_queue(queue_id: int) -> str:
    """The details of errors about a queue that does not exist and is known by its id."""
    return f"there is no queue {queue_id}"


def check_error(error: int | None, details: str, related_id: int | None = None) -> None:
    """Raises BusyError or FailedError for the error column of a procedure's row.

    ``related_id`` is the queue. If it does not exist, the details say so.
    """
    if error is None:
        return
    if error == BUSY:
        raise BusyError
    code = ErrorCode(error)
    if code is ErrorCode.QUEUE_NOT_EXISTING and related_id is not None:
        details = no_queue(related_id)
    failure = failure_of(code, details, related_id)
    raise FailedError(replace(failure, recorded=failure.code not in _NOT_EXECUTED))
