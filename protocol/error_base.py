"""The root and the four branches of Telesto's exceptions; a branch says what holds after the error."""

from __future__ import annotations

from dataclasses import dataclass

from telesto.protocol.enums import ErrorClass, ErrorCode


class TelestoError(Exception):
    """Something that Telesto could not do.

    Attributes:
        code: which error, None for one that has no code (a library's own, or one unknown to this version).
        error_class: what holds now; the branches of this class stand for the same.
        details: what failed and with which value; for people.
        related_id: the queue, message or client that it is about.
        retry_after: how long to wait before trying again, in seconds.
        method: name of the request's packet.
        queue_id: the queue that the request named.
        address: host:port of the middleware.
    """

    code: ErrorCode | None = None
    error_class: ErrorClass | None = None

    def __init__(
        self,
        details: str = "",
        *,
        code: ErrorCode | None = None,
        error_class: ErrorClass | None = None,
        related_id: int | None = None,
        retry_after: float | None = None,
        method: str | None = None,
        queue_id: int | None = None,
        address: str | None = None,
    ) -> None:
        super().__init__(details)
        self.details = details
        if code is not None:
            self.code = code
        if error_class is not None:
            self.error_class = error_class
        self.related_id = related_id
        self.retry_after = retry_after
        self.method = method
        self.queue_id = queue_id
        self.address = address

    def __str__(self) -> str:
        head = self.details or (self.__doc__ or type(self).__name__).partition("\n")[0]
        if self.code is not None:
            head = f"{self.code.name}: {head}"
        context = (
            ("method", self.method),
            ("queue", self.queue_id),
            ("related id", None if self.related_id == self.queue_id else self.related_id),
            ("retry after seconds", self.retry_after),
            ("at", self.address),
        )
        known = ", ".join(f"{name} {value}" for name, value in context if value is not None)
        return f"{head} ({known})" if known else head


class RejectedError(TelestoError):
    """Nothing was done; the same request will be refused again."""

    error_class = ErrorClass.REJECTED


class RetryableError(TelestoError):
    """Nothing was done; the same request may succeed later, after ``retry_after`` seconds if given."""

    error_class = ErrorClass.RETRYABLE


class InDoubtError(TelestoError):
    """The request may have been done; a takeover (connecting again) tells."""

    error_class = ErrorClass.IN_DOUBT


class FatalError(TelestoError):
    """The connection is over."""

    error_class = ErrorClass.FATAL


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What the specification says about an error code; ``sqlstate`` is what the procedures raise for it."""

    code: ErrorCode
    name: str
    error_class: ErrorClass
    sqlstate: str
    exception: type[TelestoError]
    doc: str
