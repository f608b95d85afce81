"""Telesto's own errors on the command line."""

from __future__ import annotations

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError
from telesto.client import (
    AddressError,
    AuthenticationFailedError,
    ConnectionLostError,
    CredentialsError,
    DeadlineExceededError,
    ErrorClass,
    FatalError,
    InDoubtError,
    InvalidParameterError,
    LoginsPausedError,
    NameInUseError,
    NotAuthenticatedError,
    NotConnectedError,
    NotTelestoError,
    PermissionDeniedError,
    RejectedError,
    RetryableError,
    StateError,
    TelestoError,
    TlsFileError,
)

_CAUSES: tuple[tuple[type[TelestoError], ExitCode], ...] = (
    (TlsFileError, ExitCode.USAGE),
    (CredentialsError, ExitCode.USAGE),
    (AuthenticationFailedError, ExitCode.NOT_ALLOWED),
    (NotAuthenticatedError, ExitCode.NOT_ALLOWED),
    (PermissionDeniedError, ExitCode.NOT_ALLOWED),
    (LoginsPausedError, ExitCode.NOT_ALLOWED),
)
"""What decides also as the cause of an error, unless the request may have been done."""
_CODES: tuple[tuple[type[TelestoError], ExitCode], ...] = (
    (AddressError, ExitCode.USAGE),
    (InvalidParameterError, ExitCode.USAGE),
    (NameInUseError, ExitCode.IN_USE),
    (StateError, ExitCode.REFUSED),
    (RejectedError, ExitCode.REFUSED),
    (RetryableError, ExitCode.UNREACHABLE),
    (InDoubtError, ExitCode.IN_DOUBT),
    (NotTelestoError, ExitCode.UNREACHABLE),
    (FatalError, ExitCode.REFUSED),
)
"""The first class that matches decides."""

ADDRESS_ADVICE = " (the address is set by --url or TELESTO_URL)"


def explain(error: TelestoError) -> CommandError:
    """The line and the exit code for an error of the service or the library."""
    message = describe(error) + _advice(error)
    return CommandError(message, _code_of(error))


def is_login_or_right(error: TelestoError) -> bool:
    """Whether the login failed, or a right is missing: both may be mended while a program waits."""
    return _code_of(error) is ExitCode.NOT_ALLOWED


def _code_of(error: TelestoError) -> ExitCode:
    cause: BaseException | None = error
    while cause is not None and error.error_class is not ErrorClass.IN_DOUBT:
        for branch, code in _CAUSES:
            if isinstance(cause, branch):
                return code
        cause = cause.__cause__
    known = next((code for branch, code in _CODES if isinstance(error, branch)), None)
    return known if known is not None else _code_of_class(error)


def describe(error: TelestoError) -> str:
    """The message, with the name of the error's code: `the queue is full (QUEUE_FULL)`."""
    text = (error.details or error.__class__.__name__).removesuffix("; connect() tries again").rstrip(".")
    return text if error.code is None else f"{text} ({error.code.name})"


def _advice(error: TelestoError) -> str:
    """Where the address came from, for errors that another address may fix."""
    if isinstance(error, DeadlineExceededError) and error.error_class is ErrorClass.RETRYABLE:
        unreachable = isinstance(error.__cause__, ConnectionLostError | NotConnectedError)
    else:
        unreachable = isinstance(error, NotConnectedError | NotTelestoError) and error.address is not None
    answered = getattr(error.__cause__, "code", None) is not None  # such as by DATABASE_UNAVAILABLE
    unreachable = unreachable and not answered and _code_of(error) is ExitCode.UNREACHABLE
    return ADDRESS_ADVICE if unreachable or isinstance(error, AddressError) else ""


def _code_of_class(error: TelestoError) -> ExitCode:
    """For errors outside these classes, such as a deadline that passed before or after sending."""
    if error.error_class is ErrorClass.REJECTED:
        return ExitCode.REFUSED
    return ExitCode.IN_DOUBT if error.error_class is ErrorClass.IN_DOUBT else ExitCode.UNREACHABLE
