"""TLS on the ports: the certificate, its renewal, and what accepts connections."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from telesto.middleware.common.logs import logger

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_log = logger("tls")

#: Errors of accept that say that the process or the machine is short of something for a while.
_USED_UP = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
#: How long to wait then, in seconds.
_RETRY_S = 1.0
#: How many connections are accepted in one turn of the event loop. More would end handshakes that have not
#: had a turn yet, and need the descriptors of those that have not closed yet.
_AT_ONCE = 16


class TlsFilesError(Exception):
    """The files of the settings cannot be used for TLS; it says which one and why."""


class ServerTls:
    """The certificate of this middleware, as its files had it when they were read last.

    Attributes:
        for_clients, for_admin: the contexts of the two ports, for handshakes that begin now. What was read
            before is not changed but replaced: sessions of former contexts cannot be resumed, so nobody
            evades new authorities by one.
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
        self._bindings: WeakKeyDictionary[ssl.SSLContext, bytes | None] = WeakKeyDictionary()
        self.for_clients, self.for_admin, self.expires_at = self._read()

    def read_again(self) -> None:
        """Has new connections use what the files hold now; files that cannot be used change nothing."""
        try:
            self.for_clients, self.for_admin, self.expires_at = self._read()
        except TlsFilesError as error:
            _log.error("certificate_unusable", reason=str(error), advice="the previous one stays in use")
        else:
            _log.info("certificate_read", expires_at=self.expires_at.isoformat())

    def binding_of(self, context: ssl.SSLContext) -> bytes | None:
        """Returns tls-server-end-point (RFC 5929) of a connection, whose handshake used this context.

        It is the hash of the certificate as it was then. None for one whose signature names no hash, such as
        one of Ed25519.
        """
        return self._bindings.get(context)

    def left_s(self) -> float:
        """Returns how long the certificate is valid, in seconds; negative when it has expired."""
        return (self.expires_at - datetime.now(UTC)).total_seconds()

    def _read(self) -> tuple[ssl.SSLContext, ssl.SSLContext, datetime]:
        from cryptography import x509  # a middleware without TLS starts without it

        pem = _bytes_of(self._certificate)
        if self._key is not None:
            _bytes_of(self._key)
        try:
            certificate = x509.load_pem_x509_certificates(pem)[0]
        except ValueError as error:
            raise TlsFilesError(f"{self._certificate} holds no certificate in PEM form") from error
        for_clients, for_admin = self._context(), self._context()
        if self._client_ca is not None:
            try:
                for_clients.load_verify_locations(cadata=_bytes_of(self._client_ca).decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise TlsFilesError(f"{self._client_ca} holds no certificate in PEM form") from error
            for_clients.verify_mode = ssl.CERT_REQUIRED
        self._bindings[for_clients] = _binding(certificate)
        return for_clients, for_admin, certificate.not_valid_after_utc

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
            if (reason := error.reason or "").endswith(("TOO_SMALL", "TOO_WEAK")):
                raise TlsFilesError(f"{self._certificate} or its key is too weak ({reason})") from error
            raise TlsFilesError(f"{key} holds no private key in PEM form") from error
        except OSError as error:
            raise TlsFilesError(f"cannot read {self._certificate}: {error.strerror}") from error
        except _EncryptedKeyError as error:
            raise TlsFilesError(f"the key in {key} is encrypted; write it without a password") from error
        return context


def _binding(certificate: Certificate) -> bytes | None:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.hashes import MD5, SHA1, SHA256

    try:
        algorithm = certificate.signature_hash_algorithm
    except UnsupportedAlgorithm:
        return None
    if algorithm is None:
        return None
    return certificate.fingerprint(SHA256() if isinstance(algorithm, (MD5, SHA1)) else algorithm)


def user_of(certificate: Mapping[str, Any]) -> str | None:
    """Returns whose a client's certificate is: its common name, else its first DNS name or e-mail address.

    A subject with several common names could be read as that of any, so it names nobody.

    Args:
        certificate: as ``SSLObject.getpeercert`` describes it.
    """
    subject = [pair for part in certificate.get("subject", ()) for pair in part]
    names = [value for key, value in subject if key == "commonName"]
    if not names:
        alternatives = certificate.get("subjectAltName", ())
        for kind in ("DNS", "email"):
            names = names or [value for key, value in alternatives if key == kind][:1]
    return names[0] if len(names) == 1 and names[0] else None


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

    At most ``most`` handshakes are under way: one more ends the oldest of the address that has most. So peers
    that send nothing cannot use up the descriptors of the process, nor keep those of other addresses out. (A
    server of asyncio does not know of connections before their handshake is complete.)
    """

    def __init__(
        self,
        sock: socket.socket,
        context: Callable[[], ssl.SSLContext],
        make: Callable[[], asyncio.Protocol],
        *,
        backlog: int,
        most: int,
        limit_s: float,
        linger_s: float,
        address_of: Callable[[object], str],
        failed: Callable[[object, str], None],
    ) -> None:
        """Does not accept yet.

        Args:
            sock: a bound socket that does not block.
            context: returns the context for a handshake that begins.
            make: makes the protocol of a connection.
            backlog: how many connections the kernel holds.
            most: how many handshakes may be under way.
            limit_s: how long one may take, in seconds.
            linger_s: how long a peer may take to agree to the end of a connection, in seconds.
            address_of: returns the address of a peer, which its socket names.
            failed: is told the peer whose handshake failed, as its socket names it, and why.
        """
        self._sock = sock
        self._context = context
        self._make = make
        self._backlog = backlog
        self._most = most
        self._limit_s = limit_s
        self._linger_s = linger_s
        self._address_of = address_of
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._retry: asyncio.TimerHandle | None = None
        self._under_way: dict[asyncio.Task[None], str] = {}
        self._by_address: dict[str, dict[asyncio.Task[None], socket.socket]] = {}

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
        for handshakes in self._by_address.values():
            for sock in handshakes.values():
                _end(sock)

    async def wait_closed(self) -> None:
        """Returns when no handshake is under way any more."""
        if self._under_way:
            await asyncio.wait(self._under_way)

    def _accept(self) -> None:
        for _ in range(_AT_ONCE):
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
            address = self._address_of(peer)
            if len(self._under_way) >= self._most:
                self._end_one()
            sock.setblocking(False)
            task = self._loop.create_task(self._shake(sock, peer))
            self._under_way[task] = address
            self._by_address.setdefault(address, {})[task] = sock
            task.add_done_callback(self._over)

    def _end_one(self) -> None:
        handshakes = max(self._by_address.values(), key=len)
        oldest, sock = next(iter(handshakes.items()))
        self._over(oldest)
        _end(sock)

    def _over(self, task: asyncio.Task[None]) -> None:
        address = self._under_way.pop(task, None)
        if address is not None:
            handshakes = self._by_address[address]
            del handshakes[task]
            if not handshakes:
                del self._by_address[address]

    async def _shake(self, sock: socket.socket, peer: object) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                sock,
                ssl=self._context(),
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
