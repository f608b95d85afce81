"""The errors that calls end with, and what each says about the request."""

from __future__ import annotations

from typing import Any

from telesto.client.calls.queue_calls import SENT, Call, GetQueueIdCall, TakingCall
from telesto.client.calls.state import StoredClient
from telesto.client.errors import (
    ClientClosedError,
    DeadlineExceededError,
    IncarnationChangedError,
    NotConnectedError,
    NotDoneError,
    OutcomeUnknownError,
    StateMismatchError,
    StateWriteError,
    TriesExhaustedError,
)
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import (
    AuthenticationFailedError,
    ConnectionLostError,
    ErrorClass,
    ErrorCode,
    SessionFencedError,
    TelestoError,
    TooManyUnconfirmedError,
    exception_for,
)


def answered_error(packet: packets.Error, call: Call[Any] | None, address: str) -> TelestoError:
    """Makes the exception for an Error packet."""
    retry_after = None if packet.retry_after_ms is None else packet.retry_after_ms / 1000
    details = packet.details
    if packet.code == ErrorCode.QUEUE_NOT_EXISTING and isinstance(call, GetQueueIdCall):
        details += "; declare_queue makes it"
    return exception_for(
        packet.code,
        packet.error_class,
        details,
        related_id=packet.related_id,
        retry_after=retry_after,
        method=None if call is None else call.method,
        queue_id=None if call is None else call.queue_id,
        address=address,
    )


def in_doubt(call: Call[Any]) -> bool:
    """Tells whether the request may have been done although no answer has come."""
    return call.phase == SENT and call.numbered


def deadline_error(
    call: Call[Any], options: ClientOptions, hindrance: TelestoError | None, address: str | None
) -> DeadlineExceededError:
    """Makes the error for a call whose time ran out; ``hindrance`` tells what kept calls from being sent."""
    if in_doubt(call):
        error_class = ErrorClass.IN_DOUBT
        outcome = (
            "the messages it may have taken are kept for the next matching read"
            if isinstance(call, TakingCall)
            else "it may have been done"
        )
        details = f"no answer within {options.call_timeout:g} s; {outcome}"
    else:
        error_class = ErrorClass.RETRYABLE
        details = f"not done within {options.call_timeout:g} s"
        if isinstance(hindrance, TooManyUnconfirmedError):
            details += f", for lack of space: {hindrance.details}"
        elif hindrance is not None and not call.tries:
            details += f", for lack of a connection: {hindrance.details}"
        elif call.failure is not None:
            details += f": {call.failure.details}"
    error = DeadlineExceededError(
        details, error_class=error_class, method=call.method, queue_id=call.queue_id, address=address
    )
    error.__cause__ = call.failure or hindrance
    return error


def too_much_open(limit: int, waiting: int) -> TooManyUnconfirmedError:
    """Makes the error that says why nothing is sent: ``limit`` requests are open; ``waiting`` reads wait."""
    reads = f" ({waiting} of them reads that wait)" if waiting else ""
    return TooManyUnconfirmedError(
        f"{limit} requests of this client are under way{reads} or unconfirmed, as many as the middleware "
        "allows; confirm messages, or let fewer reads wait at a time"
    )


def tries_exhausted(call: Call[Any]) -> TelestoError:
    """Makes the error for a call that was tried often enough."""
    error = TriesExhaustedError(
        f"tried {call.tries} times and not done; last: {call.failure}",
        method=call.method,
        queue_id=call.queue_id,
    )
    error.__cause__ = call.failure
    return error


def closed_error(call: Call[Any] | None = None) -> TelestoError:
    """Makes the error for a call of a closed client, or one that was under way when it was closed."""
    if call is not None and in_doubt(call) and not call.taking:
        details = "the client was closed before the answer came; the request may have been done"
        return ConnectionLostError(details, method=call.method, queue_id=call.queue_id)
    return ClientClosedError("the client is closed; open a new one", method=call.method if call else None)


def again(error: TelestoError) -> TelestoError:
    """Makes an error like this one; raising the same one again and again would pile up tracebacks."""
    other = type(error)(error.details, address=error.address, retry_after=error.retry_after)
    other.__cause__ = error.__cause__
    return other


def fenced_error(call: Call[Any] | None, cause: TelestoError) -> TelestoError:
    """Makes the error for a call of a client that another process has taken over."""
    outcome = "; the request may have been done" if call is not None and in_doubt(call) else ""
    return SessionFencedError(  # without a cause, which the text has: tracebacks would begin with it
        f"another process has connected as this client ({cause.details}); a client is for one process at a "
        "time: give each a name of its own, such as worker-{host}-{pid}, or connect() again to take it back, "
        f'on the same machine with existing="take_over"{outcome}',
        method=call.method if call else None,
        queue_id=call.queue_id if call else None,
        address=cause.address,
    )


def incarnation_changed(call: Call[Any], before: str | None, now: str) -> TelestoError:
    """Makes the error for a call in doubt when the service has another database than before."""
    return IncarnationChangedError(
        f"the service runs on another database than before ({now} instead of {before}); "
        "whether the request was done cannot be found out",
        method=call.method,
        queue_id=call.queue_id,
    )


def cannot_connect(failure: TelestoError) -> TelestoError:
    """Makes the error for a first connection that is given up; ``failure`` is what the last attempt met."""
    if failure.error_class is ErrorClass.FATAL or isinstance(failure, NotConnectedError):
        return failure
    error = NotConnectedError(failure.details, address=failure.address)
    error.__cause__ = failure
    return error


def not_connected_in_time(
    options: ClientOptions, failure: TelestoError | None, address: str | None
) -> NotConnectedError:
    """Makes the error for a first connection whose time ran out; ``failure`` is what the last attempt met."""
    details = f"not connected within {options.call_timeout:g} s: "
    if address is not None:
        error = NotConnectedError(f"{details}no answer yet from {address}", address=address)
    elif failure is not None:
        error = NotConnectedError(details + failure.details, address=failure.address)
    else:
        error = NotConnectedError(f"{details}no address has answered yet")
    error.__cause__ = failure
    return error


def ended_error(call: Call[Any], reason: TelestoError, *, first: bool = False) -> TelestoError:
    """Makes the error for a call of a client that the service does not accept, or no longer.

    ``first`` tells that it has not accepted it yet, so that the reason is the answer to this call.
    """
    if in_doubt(call) and not call.taking:
        error: TelestoError = ConnectionLostError(
            f"the connection was lost for good ({reason.details}); the request may have been done",
            method=call.method,
            queue_id=call.queue_id,
        )
        error.__cause__ = reason
        return error
    return again(reason) if first else not_connected(reason)


def outcome_unknown(call: Call[Any]) -> OutcomeUnknownError:
    """Makes the outcome of a request that a takeover does not list although it may have been done."""
    return OutcomeUnknownError(
        "another process was this client meanwhile, or deleted it, and confirmed what it was told of; "
        "whether the request was done cannot be found out",
        method=call.method,
    )


def not_done(call: Call[Any]) -> NotDoneError:
    """Makes the outcome of a request whose call was over before it was found not to be done."""
    return NotDoneError("the call was given up; as it turned out, nothing was done", method=call.method)


def not_written(call: Call[Any], cause: TelestoError) -> TelestoError:
    """Makes the error for a call that could not be noted in the client's state."""
    error = StateWriteError(cause.details, method=call.method, queue_id=call.queue_id)
    error.__cause__ = cause
    return error


def state_misfit(client: StoredClient, incarnation: str, client_id: int) -> StateMismatchError:
    """Makes the error for a state that does not belong to the client that the service knows by this name."""
    if client.incarnation != incarnation:
        what = f"the service runs on another database ({incarnation}) than the state ({client.incarnation})"
    else:
        what = f"the service knows {client.name!r} as client {client_id}, the state as {client.client_id}"
    return StateMismatchError(
        f"{what}: nothing was sent. If the service is the right one, move the state directory away to begin "
        "anew: which of the client's last puts were done is then not known any more"
    )


def misfit_error(call: Call[Any], misfit: StateMismatchError) -> TelestoError:
    """Makes the error for a call of a client whose state turned out to belong elsewhere."""
    if in_doubt(call):
        error: TelestoError = IncarnationChangedError(
            f"{misfit.details}; whether the request was done cannot be found out",
            method=call.method,
            queue_id=call.queue_id,
        )
        error.__cause__ = misfit
        return error
    return not_connected(misfit)


def not_connected(ended: TelestoError | None) -> TelestoError:
    """Makes the error for a call without a client."""
    if ended is None:
        return NotConnectedError("not connected; connect() connects")
    if isinstance(ended, SessionFencedError):
        return again(ended)
    if isinstance(ended, AuthenticationFailedError):
        error: TelestoError = again(ended)
        error.details += "; connect() tries again"
        return error
    error = NotConnectedError(f"not connected: {ended.details}; connect() tries again")
    error.__cause__ = ended
    return error
