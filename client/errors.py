"""Errors that only the client library raises; those of the service are in telesto.protocol.errors."""

from __future__ import annotations

import errno
import socket
from typing import Any

from telesto.protocol.errors import ErrorClass, FatalError, InDoubtError, RetryableError, TelestoError


class AddressError(TelestoError, ValueError):
    """A URL or an address of the service that cannot be used; the details say what is wrong with it."""

    error_class = ErrorClass.REJECTED


class NotConnectedError(RetryableError, ConnectionError):
    """There is no connection, and nothing was done."""


class ClientClosedError(NotConnectedError):
    """The client was closed; open a new one."""


class ForkedError(NotConnectedError):
    """The client was opened before this process was forked and belongs to the parent."""


class ClientInterruptedError(NotConnectedError):
    """A call was interrupted in the middle of the client's own work (by Ctrl-C); open a new client."""


class CallInterruptedBySignalError(RetryableError, RuntimeError):
    """A signal's handler called the client in a thread that is in a call of it; nothing was done.

    ``close`` and ``stop`` may be called there. For anything else have the handler note what is to be done.
    """


class TooManyCallsError(RetryableError):
    """More calls wait than the client lets wait; await some of them first."""


class TriesExhaustedError(RetryableError):
    """The request was tried as often as allowed; each try failed and none of them was done."""


class DeadlineExceededError(TelestoError, TimeoutError):
    """The call's time ran out.

    ``error_class`` tells what holds: RETRYABLE when the request was never sent, IN_DOUBT when it was and no
    answer came.
    """


class RequestTimeoutError(InDoubtError, TimeoutError):
    """No response to a request came in time.

    It is not handed over any more; whether it was handled before is not known.
    """


class RemoteError(InDoubtError):
    """The handler of a request refused it, or failed; what it did before is not known.

    Attributes:
        type: the name of the exception that it raised.
        text: what that exception says.
    """

    def __init__(self, details: str = "", *, type: str = "", text: str = "", **known: Any) -> None:
        super().__init__(details, **known)
        self.type = type
        self.text = text


class IncarnationChangedError(InDoubtError):
    """The service runs on another database than before; what became of the request cannot be found out."""


class NoAnswerError(NotConnectedError):
    """A port accepts connections, but what is there does not answer, or ends them at once."""


class ProtocolViolationError(FatalError):
    """The other side does not follow the protocol; the connection is over."""


class NotTelestoError(ProtocolViolationError):
    """What answers at the address is no middleware; the details say what it is, where that can be told."""


def connection_failure(address: str, failure: OSError | UnicodeError) -> NotConnectedError:
    """Makes the error for an attempt to connect to ``address`` that failed, with what to do about it."""
    if isinstance(failure, ConnectionRefusedError):
        advice = "nothing listens there; is `telesto serve` running?"
    elif isinstance(failure, (socket.gaierror, UnicodeError)):
        advice = "the host's name cannot be resolved; is it spelled right?"
    elif isinstance(failure, TimeoutError):
        advice = "no answer within the time; is the host up, and does a firewall let the port through?"
    elif failure.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        advice = "there is no route to the host; is the network up?"
    else:
        advice = str(failure) or type(failure).__name__
    error = NotConnectedError(f"cannot connect to {address}: {advice}", address=address)
    error.__cause__ = failure
    return error


class MessageRejectedError(Exception):
    """Raised by a handler, or in a message's block: nobody can process this message.

    It goes to the dead letters at once, whatever its queue's ``max_attempts``, with what this says as the
    reason, cut beyond 1,000 characters.
    """


class RequestRefusedError(Exception):
    """Raised by a handler of ``serve_requests`` that refuses a request: this is the answer, and no failure.

    The asker gets RemoteError, with the name of the class as its ``type`` and what this says as its ``text``.
    Make subclasses for answers that askers tell apart. It is logged as information, without a traceback.
    """


class QueueSettingsDifferError(TelestoError):
    """``declare_queue`` found the queue with other settings than those given; nothing was changed."""

    error_class = ErrorClass.REJECTED


class NameInUseError(TelestoError):
    """Another client, in this process or another one of this machine and user, is this client now.

    Nothing was sent. Give each process a name of its own, or ask by ``existing="take_over"`` for the end of
    that one's session.
    """

    error_class = ErrorClass.RETRYABLE


class StateError(TelestoError):
    """A client's durable state (``state_dir``) cannot be used; nothing was sent."""

    error_class = ErrorClass.REJECTED


class StateInUseError(StateError):
    """Another client, in this process or another one, uses the state directory; one at a time may."""

    error_class = ErrorClass.RETRYABLE


class StateWriteError(StateError):
    """The state cannot be read or written: a full disk, no permission. The request was not sent."""

    error_class = ErrorClass.RETRYABLE


class StateDamagedError(StateError):
    """The state directory holds something that is no state, or a damaged one; it is left as it is."""


class StateMismatchError(StateError):
    """The state belongs to another client or another database than the one to connect to."""


class NotDoneError(RetryableError):
    """The call was given up while its request was in doubt; as it turned out, it was not done."""


class OutcomeUnknownError(InDoubtError):
    """What became of a request cannot be found out: another process was the client meanwhile."""
