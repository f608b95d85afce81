"""The database's URL, read as libpq reads it."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

SCHEMES = ("postgresql", "postgres")
_EXPECTED = "write postgresql://user:password@host:port/database"
_PASSWORD_PARAMETER = re.compile(r"((?:^|&)(?:ssl)?password=)[^&]*")


def parameters_of(url: str) -> dict[str, str]:
    """The connection parameters in a URL. Raises ValueError, which does not show a password."""
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise ValueError(f"the database URL cannot be read ({error}); {_EXPECTED}") from error
    if scheme not in SCHEMES:
        raise ValueError(f"the database URL does not begin with {SCHEMES[0]}://; {_EXPECTED}")
    try:
        return {name: str(value) for name, value in conninfo_to_dict(url).items()}
    except psycopg.ProgrammingError as error:
        # libpq quotes the whole text that it cannot read.
        reason = str(error).replace(url, without_password(url)).strip()
        raise ValueError(f"the database URL {without_password(url)} cannot be used: {reason}") from error


def without_password(url: str) -> str:
    """A database URL without its passwords, for messages."""
    parts = urlsplit(url)
    user, at, hosts = parts.netloc.rpartition("@")
    shown = parts._replace(netloc=user.partition(":")[0] + at + hosts)
    return shown._replace(query=_PASSWORD_PARAMETER.sub(r"\1***", parts.query)).geturl()


def for_writing(url: str) -> str:
    """The URL for libpq: of several servers it selects the writable one, unless it says otherwise."""
    parameters = conninfo_to_dict(url)
    if "target_session_attrs" in parameters or "," not in str(parameters.get("host", "")):
        return url
    return make_conninfo(url, target_session_attrs="read-write")


def with_time_limit(url: str, limit_s: float) -> str:
    """The URL for libpq, with a time limit for connecting to each server, unless it has one."""
    if "connect_timeout" in conninfo_to_dict(url):
        return url
    return make_conninfo(url, connect_timeout=max(1, round(limit_s)))
