"""TLS on the ports: the certificate, its renewal, and what accepts connections."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from telesto.middleware.common.logs import logger

_log = logger("tls")

#: Errors of accept that say that the process or the machine is short of something for a while.
_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: How long to wait then, in seconds.
_RETRY_S = 1.0


class TlsFilesError(Exception):
    """The files of the settings cannot be used for TLS; it says which one and why."""


class ServerTls:
    """The certificate of this middleware, as its files had it when they were read last.

    Attributes:
        for_clients, for_admin: the contexts of the two ports. Each handshake uses what was read last.
        expires_at: when the certificate expires.
    """

    def __init__(self, certificate: Path, key: Path | None, client_ca: Path | None) -> None:
        """Reads the files. Raises TlsFilesError.

        Args:
            certificate: PEM: the certificate, and those of the authorities between it and the root.
            key: PEM: its private key; None when it is in the same file.
            client_ca: PEM: clients must present a certificate from one of these authorities, except on the
                admin port; None when they need none.
        """
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self.for_clients, self.for_admin, self.expires_at = self._read()
        self._latest = {self.for_clients: self.for_clients, self.for_admin: self.for_admin}
        self.for_clients.sni_callback = self.for_admin.sni_callback = self._use_latest

    def read_again(self) -> None:
        """Has new connections use what the files hold now; files that cannot be used change nothing."""
        try:
            for_clients, for_admin, self.expires_at = self._read()
        except TlsFilesError as error:
            _log.error("certificate_unusable", reason=str(error), advice="the previous one stays in use")
        else:
            self._latest = {self.for_clients: for_clients, self.for_admin: for_admin}
            _log.info("certificate_read", expires_at=self.expires_at.isoformat())

    def left_s(self) -> float:
        """Returns how long the certificate is valid, in seconds; negative when it has expired."""
        return (self.expires_at - datetime.now(UTC)).total_seconds()

    def _use_latest(
        self, connection: ssl.SSLObject | ssl.SSLSocket, _name: str | None, context: ssl.SSLContext
    ) -> None:
        connection.context = self._latest[context]

    def _read(self) -> tuple[ssl.SSLContext, ssl.SSLContext, datetime]:
        pem = _bytes_of(self._certificate)
        if self._key is not None:
            _bytes_of(self._key)
        try:
            expires_at = x509.load_pem_x509_certificates(pem)[0].not_valid_after_utc
        except ValueError as error:
            raise TlsFilesError(f"{self._certificate} holds no certificate in PEM form") from error
        for_clients, for_admin = self._context(), self._context()
        if self._client_ca is not None:
            try:
                for_clients.load_verify_locations(cadata=_bytes_of(self._client_ca).decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise TlsFilesError(f"{self._client_ca} holds no certificate in PEM form") from error
            for_clients.verify_mode = ssl.CERT_REQUIRED
        return for_clients, for_admin, expires_at

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        key = self._key or self._certificate
        try:
            context.load_cert_chain(self._certificate, key, password=_no_password)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise TlsFilesError(
                    f"the key in {key} is not that of the certificate in {self._certificate}"
                ) from error
            raise TlsFilesError(f"{key} holds no private key in PEM form") from error
        except _EncryptedKeyError as error:
            raise TlsFilesError(f"the key in {key} is encrypted; write it without a password") from error
        return context


class _EncryptedKeyError(Exception):
    """The private key needs a password."""


def _no_password() -> str:
    # Without this OpenSSL asks on the terminal.
    raise _EncryptedKeyError


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TlsFilesError(f"cannot read {path}: {error.strerror}") from error


class TlsListener:
    """Accepts connections that speak TLS; each has its protocol once its handshake is complete.

    At most ``most`` handshakes are under way: one more ends the oldest, so that peers that send nothing
    cannot use up the descriptors of the process, nor keep others out. (A server of asyncio does not know of
    connections before their handshake is complete.)
    """

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        make: Callable[[], asyncio.Protocol],
        *,
        backlog: int,
        most: int,
        limit_s: float,
        linger_s: float,
        failed: Callable[[object, str], None],
    ) -> None:
        """Does not accept yet.

        Args:
            sock: a bound socket that does not block.
            context: the context of its port.
            make: makes the protocol of a connection.
            backlog: how many connections the kernel holds.
            most: how many handshakes may be under way.
            limit_s: how long one may take, in seconds.
            linger_s: how long a peer may take to agree to the end of a connection, in seconds.
            failed: is told the peer whose handshake failed, as its socket names it, and why.
        """
        self._sock = sock
        self._context = context
        self._make = make
        self._backlog = backlog
        self._most = most
        self._limit_s = limit_s
        self._linger_s = linger_s
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._under_way: dict[asyncio.Task[None], socket.socket] = {}

    async def start_serving(self) -> None:
        """Begins to accept."""
        self._sock.listen(self._backlog)
        self._loop.add_reader(self._sock, self._accept)

    def close(self) -> None:
        """Accepts no more, and ends the handshakes that are under way."""
        if self._sock.fileno() < 0:
            return
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._sock)
        self._sock.close()
        for sock in self._under_way.values():
            _end(sock)

    async def wait_closed(self) -> None:
        """Returns when no handshake is under way any more."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _accept(self) -> None:
        for _ in range(self._backlog):
            try:
                sock, peer = self._sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _USED_UP:
                    raise
                # The connection stays in the backlog, and the socket readable.
                _log.warning("cannot_accept", reason=str(error))
                self._loop.remove_reader(self._sock)
                self._retry = self._loop.call_later(_RETRY_S, self._loop.add_reader, self._sock, self._accept)
                return
            if len(self._under_way) >= self._most:
                oldest = next(iter(self._under_way))
                _end(self._under_way.pop(oldest))
            sock.setblocking(False)
            task = self._loop.create_task(self._shake(sock, peer))
            self._under_way[task] = sock
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._under_way.pop(task, None)

    async def _shake(self, sock: socket.socket, peer: object) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                sock,
                ssl=self._context,
                ssl_handshake_timeout=self._limit_s,
                ssl_shutdown_timeout=self._linger_s,
            )
        except OSError as error:  # SSLError is a kind of it
            sock.close()
            # A peer that only checks whether the port is open is not a failure.
            if not isinstance(error, (ConnectionResetError, BrokenPipeError, ssl.SSLEOFError)):
                self._failed(peer, getattr(error, "reason", None) or str(error) or type(error).__name__)


def _end(sock: socket.socket) -> None:
    # Its descriptor belongs to the transport.
    with suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
