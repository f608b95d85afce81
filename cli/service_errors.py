"""What Telesto's own errors become on the command line."""

from __future__ import annotations

from telesto.cli.exit_codes import ExitCode
from telesto.cli.failures import CommandError
from telesto.client import FatalError, InDoubtError, RejectedError, RetryableError, TelestoError

_CODES: tuple[tuple[type[TelestoError], ExitCode], ...] = (
    (RejectedError, ExitCode.REFUSED),
    (RetryableError, ExitCode.UNREACHABLE),
    (InDoubtError, ExitCode.IN_DOUBT),
    (FatalError, ExitCode.REFUSED),
)


def explain(error: Exception) -> CommandError | None:
    """The line and the exit code for an error of the service or the library; None for any other exception."""
    if not isinstance(error, TelestoError):
        return None
    for branch, code in _CODES:
        if isinstance(error, branch):
            return CommandError(str(error), code)
    return CommandError(str(error), ExitCode.REFUSED)
