"""The login of the middlewares on the embedded PostgreSQL: a role with their rights, never the owner's."""

from __future__ import annotations

import secrets
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

ROLE = "telesto_service"
RIGHTS = "telesto_middleware"
_EXISTS = "SELECT FROM pg_roles WHERE rolname = %s"
_ALTER = """
ALTER ROLE {} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS CONNECTION LIMIT -1
VALID UNTIL 'infinity' PASSWORD {}
"""


def renew_login(owner_url: str) -> str:
    """Give the role of the middlewares a new password, make the role if it is missing; return its URL.

    The password is kept nowhere but in that URL: each start of the service makes another one. The database
    must be upgraded. Raises psycopg.Error.

    Args:
        owner_url: the database, as the owner of everything in it.
    """
    password = secrets.token_urlsafe(32)
    role = sql.Identifier(ROLE)
    with psycopg.connect(owner_url, autocommit=True) as connection, connection.transaction():
        # Only the verifier reaches the server, and so its log.
        verifier = connection.pgconn.encrypt_password(password.encode(), ROLE.encode(), b"scram-sha-256")
        if connection.execute(_EXISTS, (ROLE,)).fetchone() is None:
            connection.execute(sql.SQL("CREATE ROLE {}").format(role))
        connection.execute(sql.SQL(_ALTER).format(role, sql.Literal(verifier.decode())))
        connection.execute(sql.SQL("GRANT {} TO {}").format(sql.Identifier(RIGHTS), role))
    parts = urlsplit(owner_url)
    return parts._replace(netloc=f"{ROLE}:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
