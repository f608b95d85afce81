"""Errors that only the client library raises; those of the service are in telesto.protocol.errors."""

from __future__ import annotations

import errno
import socket
from typing import Any

from telesto.protocol.errors import (
    AuthenticationFailedError,
    ErrorClass,
    FatalError,
    InDoubtError,
    RetryableError,
    TelestoError,
)


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
    """The handler of a request failed; what it did before is not known. RemoteRefusalError is a kind of it.

    Attributes:
        type: the name of the exception that it raised.
        text: what that exception says.
    """

    def __init__(self, details: str = "", *, type: str = "", text: str = "", **known: Any) -> None:
        super().__init__(details, **known)
        self.type = type
        self.text = text


class RemoteRefusalError(RemoteError):
    """The handler of a request refused it, by RequestRefusedError; that is an answer, and not in doubt."""

    error_class = ErrorClass.REJECTED


class IncarnationChangedError(InDoubtError):
    """The service runs on another database than before; what became of the request cannot be found out."""


class NoAnswerError(NotConnectedError):
    """A port accepts connections, but what is there does not answer, or ends them at once."""


class ProtocolViolationError(FatalError):
    """The other side does not follow the protocol; the connection is over."""


class NotTelestoError(ProtocolViolationError):
    """What answers at the address is no middleware; the details say what it is, where that can be told."""


class TlsError(NotConnectedError):
    """No trusted TLS connection can be made. The details say why. Nothing was sent."""


class TlsFileError(TlsError):
    """A file that the URL names for TLS (tls_ca, tls_certificate, tls_key) cannot be used."""


class CredentialsError(AuthenticationFailedError):
    """What the client is to log in by cannot be used, such as a file that is empty. Nothing was sent."""

    code = None  # type: ignore[assignment]  # it is no answer of the service


class LoginsPausedError(NotConnectedError):
    """Too many logins have failed: the service hears no more of them for ``retry_after`` seconds."""


def connection_failure(
    address: str, failure: OSError | UnicodeError | TlsError, *, tls: bool
) -> NotConnectedError:
    """Makes the error for an attempt to connect to ``address`` that failed, with what to do about it."""
    if isinstance(failure, TlsError):
        failure.address = address
        return failure
    error: NotConnectedError
    if tls and (advice := _tls_failure(failure)):
        error = TlsError(f"cannot connect to {address} by TLS: {advice}", address=address)
        error.__cause__ = failure
        return error
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


#: Explanations of the numbers (X509_V_ERR_) by which OpenSSL refuses a certificate.
_CERTIFICATES = {
    9: "its certificate is not valid yet; is this machine's clock right?",
    10: "its certificate has expired",
    18: "its certificate is self-signed; if you trust it, name its file as tls_ca",
    19: "its certificate is from an authority that is not trusted here; name the authority's file as tls_ca",
    20: "its certificate is from an authority that is not trusted here; name the authority's file as tls_ca",
    62: "its certificate is for another name",
    64: "its certificate is for another address",
}


def _tls_failure(failure: OSError | UnicodeError) -> str | None:
    """Explains a failure of TLS; returns None for any other failure."""
    import ssl  # slow to import; with TLS it is imported already

    if isinstance(failure, ssl.SSLCertVerificationError):
        known = _CERTIFICATES.get(failure.verify_code)
        said = failure.verify_message.rstrip(".").replace("Hostname mismatch, certificate", "it")
        return f"{known} ({said})" if known else f"its certificate is refused: {said}"
    if isinstance(failure, (ConnectionResetError, ConnectionAbortedError, ssl.SSLEOFError)):
        return "it closed the connection during the handshake; does a middleware with TLS listen there?"
    if isinstance(failure, ssl.SSLError):
        return tls_alert(failure)
    return None


def tls_alert(failure: Exception) -> str:
    """Explains why a connection by TLS failed; returns the failure's own text where that is not known."""
    reason = str(getattr(failure, "reason", None) or "")
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"):
        return "it does not speak TLS; without TLS a URL begins with telesto://"
    if "CERTIFICATE_REQUIRED" in reason or reason == "SSLV3_ALERT_HANDSHAKE_FAILURE":
        return "it asks for a client's certificate; name one as tls_certificate, with its tls_key"
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return f"it refuses this client's certificate ({reason.rpartition('ALERT_')[2].lower()})"
    if reason == "UNSUPPORTED_PROTOCOL" or "PROTOCOL_VERSION" in reason:
        return "it does not speak TLS 1.2 or later"
    return str(failure) or type(failure).__name__


class MessageRejectedError(Exception):
    """Raised by a handler, or in a message's block: nobody can process this message.

    It goes to the dead letters at once, whatever its queue's ``max_attempts``, with what this says as the
    reason, cut beyond 1,000 characters.
    """


class RequestRefusedError(Exception):
    """A handler of ``serve_requests`` raises this to refuse a request. It is an answer, not a failure.

    The asker gets RemoteRefusalError, with the name of the class as its ``type`` and this error's text as its
    ``text``. Make subclasses for refusals that askers tell apart. It is logged as information, without a
    traceback.
    """


class QueueSettingsDifferError(TelestoError):
    """``declare_queue`` found the queue with other settings than those given; nothing was changed."""

    error_class = ErrorClass.REJECTED


class NameInUseError(TelestoError):
    """Another process of this user and machine, or another client of this process, has the name now.

    Nothing was sent. Give each process a name of its own, or end the session of the other one by
    ``existing="take_over"``.
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
