"""The socket for clients."""

from __future__ import annotations

import socket

from telesto.middleware.settings import ServerSettings

_WILDCARDS = ("", "0.0.0.0", "::")


def advertised(settings: ServerSettings, address: tuple[str, int]) -> str:
    """host:port that others are told: by the setting, else where the socket is."""
    if settings.advertised_address is not None:
        return settings.advertised_address
    host, port = address
    if host in _WILDCARDS:
        host = socket.gethostname()
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind(settings: ServerSettings) -> socket.socket:
    """Binds the address of the settings without listening yet; raises OSError, which names the address."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if settings.reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.setblocking(False)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise OSError(error.errno, f"{settings.host}:{settings.port}: {error.strerror}") from error
    return sock
