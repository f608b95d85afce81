"""The sockets on which a middleware listens, and what it tells of them."""

from __future__ import annotations

import socket
from contextlib import suppress
from ipaddress import ip_address

from telesto.middleware.common.logs import logger
from telesto.middleware.common.settings import ServerSettings

_log = logger("listening")
_WILDCARDS = ("", "0.0.0.0", "::")
#: Addresses reserved for documentation (RFC 5737, RFC 3849). They use the default route; nothing is sent.
_OUTSIDE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


class ExposedError(Exception):
    """The service would listen on an address other than loopback without TLS; it says what to do."""


def check_exposure(settings: ServerSettings) -> None:
    """Refuses an address that others reach, without TLS and without ``insecure``.

    Raises ExposedError, and OSError for a host that is not known.
    """
    if not settings.insecure and settings.tls_certificate is None and is_exposed(settings):
        raise ExposedError(
            f"{settings.host or 'every address'} can be reached from other machines, and without TLS whoever "
            "is between can read and change everything. Either give it a certificate "
            "(--tls-certificate FILE --tls-key FILE), or allow it on a network that you trust (--insecure)"
        )


def warn_of_exposure(settings: ServerSettings) -> None:
    """Warns of what others reach without TLS.

    The admin port only shows figures and whether the middleware is healthy, so it needs no ``insecure``.
    """
    if settings.tls_certificate is not None:
        return
    if is_exposed(settings):
        _log.warning(
            "insecure",
            host=settings.host,
            advice="no TLS: whoever is between reads and changes everything; without users, whoever reaches "
            "the port may do everything (telesto user add)",
        )
    if settings.admin_port is not None and not _is_loopback(settings.admin_host):
        _log.warning("admin_port_open", host=settings.admin_host, advice="others can read the metrics")


def is_exposed(settings: ServerSettings) -> bool:
    """Tells whether other machines reach the address for clients. Raises OSError for a host not known."""
    return not _is_loopback(settings.host)


def _is_loopback(host: str) -> bool:
    found = socket.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return ip_address(str(found[0][4][0]).partition("%")[0]).is_loopback


def advertised(settings: ServerSettings, address: tuple[str, int]) -> str:
    """Returns the host:port that clients and other middlewares use: the setting, or else that of the socket.

    If the socket listens on all addresses, it is the address by which this machine reaches others: a host
    name may not resolve for them.
    """
    if settings.advertised_address is not None:
        return settings.advertised_address
    host, port = address
    if host in _WILDCARDS:
        host = _reachable_host(with_ipv6=host == "::")
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _reachable_host(*, with_ipv6: bool) -> str:
    host = outbound_host(with_ipv6=with_ipv6)
    if host is None:
        host = socket.gethostname()
        _log.warning("no_address_to_tell", told=host, advice="set advertised_address")
    return host


def outbound_host(*, with_ipv6: bool) -> str | None:
    """Returns the source address of this machine's default route, IPv4 first; None without such a route."""
    for family, outside in _OUTSIDE[: 2 if with_ipv6 else 1]:
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((outside, 9))
            return str(sock.getsockname()[0])
    return None


def bind(host: str, port: int, *, reuse_port: bool = False) -> socket.socket:
    """Binds an address without listening. Raises OSError that names the address."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setblocking(False)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"{host}:{port}: {error.strerror}") from error
    return sock
