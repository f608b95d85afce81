"""TLS of a client: the authorities that it trusts, and its own certificate."""

from __future__ import annotations

import os
import socket
import ssl
from contextlib import suppress

from telesto.client.errors import TlsFileError
from telesto.client.url import TlsParameters

#: More than a chain of certificates and a key have.
_CERTIFICATES_BYTES_MAX = 1 << 20


class ClientTls:
    """Makes contexts for connections by TLS; files that have changed are read again."""

    def __init__(self, parameters: TlsParameters) -> None:
        self._parameters = parameters
        self._context: ssl.SSLContext | None = None
        self._read: list[tuple[int, int]] = []

    def context(self) -> ssl.SSLContext:
        """Returns the context for a connection. Raises TlsFileError for files that cannot be used."""
        state = self._state_of_files()
        if self._context is None or state != self._read:
            self._context, self._read = self._make(), state
        return self._context

    def secure(self, sock: socket.socket, host: str) -> ssl.SSLSocket:
        """Performs the handshake on a socket, and waits for it. Raises OSError, TlsError."""
        try:
            return self.context().wrap_socket(sock, server_hostname=host)
        except BaseException:
            sock.close()
            raise

    def _make(self) -> ssl.SSLContext:
        parameters = self._parameters
        try:
            context = ssl.create_default_context(cafile=parameters.ca)
        except OSError as error:  # SSLError is a kind of it
            raise TlsFileError(f"tls_ca {parameters.ca} cannot be used: {_reason(error)}") from error
        context.sslsocket_class = TlsSocket
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not parameters.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if parameters.certificate is not None:
            try:
                context.load_cert_chain(parameters.certificate, parameters.key, password=_no_password)
            except (OSError, ValueError) as error:
                if parameters.key is None and _holds_no_key(parameters.certificate):
                    raise TlsFileError(
                        f"tls_certificate {parameters.certificate} holds no private key in PEM form; "
                        "name the file of its key as tls_key"
                    ) from error
                files = parameters.certificate + (f" with {parameters.key}" if parameters.key else "")
                raise TlsFileError(f"tls_certificate {files} cannot be used: {_reason(error)}") from error
        return context

    def _state_of_files(self) -> list[tuple[int, int]]:
        state = []
        for path in (self._parameters.ca, self._parameters.certificate, self._parameters.key):
            with suppress(OSError):  # the context says what is wrong with it
                if path is not None:
                    status = os.stat(path)
                    state.append((status.st_mtime_ns, status.st_ino))
        return state


class TlsSocket(ssl.SSLSocket):
    """A TLS socket that raises BlockingIOError as a plain socket does, and does not warn when dropped."""

    def __del__(self) -> None:
        self.close()

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """Reads what has arrived. Raises BlockingIOError when nothing has, OSError."""
        try:
            return super().recv(buflen, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error

    def send(self, data: bytes, flags: int = 0) -> int:  # type: ignore[override]
        """Writes as much as the socket takes. Raises BlockingIOError when it takes nothing, OSError."""
        if not data:
            return 0
        try:
            return super().send(data, flags)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as error:
            raise BlockingIOError from error


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        if error.reason == "KEY_VALUES_MISMATCH":
            return "the key is that of another certificate"
        if (reason := error.reason or "").endswith(("TOO_SMALL", "TOO_WEAK")):
            return f"it is too weak ({reason})"
        return "it is not in PEM form"
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _holds_no_key(certificate: str) -> bool:
    try:
        with open(certificate, "rb") as file:
            text = file.read(_CERTIFICATES_BYTES_MAX)
    except OSError:
        return False
    return b"-----BEGIN CERTIFICATE-----" in text and b"PRIVATE KEY-----" not in text


def _no_password() -> str:
    # Without this OpenSSL asks on the terminal.
    raise ValueError("the key is encrypted; write it without a password")
