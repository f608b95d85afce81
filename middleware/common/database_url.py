"""Translates a database URL, which follows libpq, for asyncpg."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote, urlencode

from telesto.db.install.url import parameters_of

#: Parameters that asyncpg handles. `options` is passed to the server.
_PASSED = frozenset(
    {
        "dbname",
        "gsslib",
        "krbsrvname",
        "options",
        "passfile",
        "password",
        "service",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "user",
    }
)
_DONE_HERE = frozenset({"host", "port", "connect_timeout"})
#: The middleware always searches for the server that takes writes, whatever the URL says.
_WRITING = ("any", "read-write", "primary")
#: The middleware sets names, UTF-8 and timeouts of its connections itself, stricter ones than libpq's.
_REPLACED = frozenset(
    {
        "application_name",
        "client_encoding",
        "fallback_application_name",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "tcp_user_timeout",
    }
)
#: Parameters, with the values that match what asyncpg does anyway.
_HELD_ANYWAY = {
    "channel_binding": ("disable", "prefer"),
    "gssdelegation": ("0",),
    "gssencmode": ("disable", "prefer"),
    "load_balance_hosts": ("disable",),
    "sslcertmode": ("allow",),
    "sslcompression": ("0",),
    "sslsni": ("1",),
    "target_session_attrs": _WRITING,
}


@dataclass(frozen=True, slots=True)
class Server:
    """One of the servers in a URL. None stands for the environment's value or the driver's default."""

    host: str | None
    port: int | None

    def __str__(self) -> str:
        return f"{self.host or 'the default host'}:{self.port or 'the default port'}"


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A URL for asyncpg.

    Attributes:
        dsn: the parameters of all servers, as asyncpg reads them.
        servers: the servers.
        connect_s: the connect timeout of each server, in seconds; None if the URL has none.
    """

    dsn: str
    servers: tuple[Server, ...]
    connect_s: float | None


def read_database_url(url: str) -> DatabaseUrl:
    """Translates a URL.

    Raises ValueError, without the password, if it is no URL of PostgreSQL or has a parameter that would not
    have the same effect as in libpq.
    """
    parameters = parameters_of(url)
    for name, value in parameters.items():
        _require_usable(name, value)
    passed = {name: value for name, value in parameters.items() if name in _PASSED and value}
    return DatabaseUrl(
        "postgresql://?" + urlencode(passed, quote_via=quote),
        _servers(parameters),
        _connect_s(parameters.get("connect_timeout", "")),
    )


def _require_usable(name: str, value: str) -> None:
    if name == "sslrootcert" and value == "system":
        raise ValueError(
            "sslrootcert=system in the database URL is not supported: name the file with the certificates"
        )
    if name in _PASSED | _DONE_HERE | _REPLACED or not value:
        return
    held = _HELD_ANYWAY.get(name)
    if held is None:
        raise ValueError(f"the parameter {name} in the database URL is not supported: leave it out")
    if value not in held:
        raise ValueError(
            f"{name}={value} in the database URL is not supported: "
            f"leave it out or write {name}={' or '.join(held)}"
        )


def _servers(parameters: dict[str, str]) -> tuple[Server, ...]:
    hosts = parameters.get("host", "").split(",")
    ports = parameters.get("port", "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    if len(ports) != len(hosts):
        raise ValueError(f"the database URL names {len(hosts)} hosts and {len(ports)} ports")
    return tuple(Server(host or None, _port(port)) for host, port in zip(hosts, ports, strict=True))


def _port(port: str) -> int | None:
    if not port:
        return None
    if not port.isdecimal() or not 0 < int(port) < 65_536:
        raise ValueError(f"the database URL has no valid port: {port!r}")
    return int(port)


def _connect_s(limit: str) -> float | None:
    """Returns the timeout. 0 means none in libpq; here the setting applies then."""
    if not limit:
        return None
    try:
        return float(int(limit)) if int(limit) > 0 else None
    except ValueError:
        raise ValueError(f"connect_timeout in the database URL is no number of seconds: {limit!r}") from None
