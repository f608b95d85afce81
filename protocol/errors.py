"""Telesto's errors: one tree of exceptions below TelestoError, and the codes that stand for them."""

from __future__ import annotations

from typing import Any

from telesto.protocol import error_codes
from telesto.protocol.enums import ErrorClass, ErrorCode
from telesto.protocol.error_base import (
    ErrorInfo,
    FatalError,
    InDoubtError,
    RejectedError,
    RetryableError,
    TelestoError,
)
from telesto.protocol.error_codes import *  # noqa: F403 - the generated exceptions, listed in __all__ there

__all__ = [
    "ErrorClass",
    "ErrorCode",
    "ErrorInfo",
    "FatalError",
    "InDoubtError",
    "RejectedError",
    "RetryableError",
    "TelestoError",
]
__all__ += error_codes.__all__

_BRANCHES: dict[int, type[TelestoError]] = {
    ErrorClass.REJECTED: RejectedError,
    ErrorClass.RETRYABLE: RetryableError,
    ErrorClass.IN_DOUBT: InDoubtError,
    ErrorClass.FATAL: FatalError,
}


def exception_for(code: int, error_class: int, details: str, **attributes: Any) -> TelestoError:
    """Makes the exception for an error that came over the wire.

    A code that this version does not know gives the branch of its class, and a class that it does not know
    either gives InDoubtError, the one that promises nothing. The keyword attributes are TelestoError's.
    """
    info = error_codes.ERRORS.get(code)
    if info is None:
        branch = _BRANCHES.get(error_class, InDoubtError)
        return branch(f"error {code}, unknown to this version: {details}", **attributes)
    known_class = ErrorClass(error_class) if error_class in _BRANCHES else info.error_class
    return info.exception(details, error_class=known_class, **attributes)
