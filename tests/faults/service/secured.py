"""A service with TLS, users and rights on, and the URL of clients that log in."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import psycopg
import trustme

from telesto.middleware.security.login import make_verifier

PASSWORD = "hunter2:/@? in a URL"

_USER = """
INSERT INTO telesto.users (name, verifier, monitor, configure, put, get, admin, clients)
VALUES ('tester', %s, true, '{*}', '{*}', '{*}', '{*}', '{*}')
"""


class Secured:
    """What such a service needs, and its clients.

    The user has every right by its patterns, but it is no administrator: each request is checked.

    Attributes:
        settings: those of a middleware.
    """

    def __init__(self, directory: Path) -> None:
        """Writes the files of TLS into a directory."""
        authority = trustme.CA()
        issued = authority.issue_cert("localhost", "127.0.0.1")
        self._authority = directory / "authority.pem"
        certificate, key = directory / "certificate.pem", directory / "key.pem"
        authority.cert_pem.write_to_path(self._authority)
        issued.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.settings = {"tls_certificate": certificate, "tls_key": key}

    def add_user(self, database_url: str) -> None:
        """Adds the user; from then on a login is asked for."""
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(_USER, (make_verifier(PASSWORD),))

    def url(self, addresses: str) -> str:
        """Returns the URL of clients for these addresses, host:port separated by commas."""
        return f"telestos://tester:{quote(PASSWORD, safe='')}@{addresses}/?tls_ca={self._authority}"
