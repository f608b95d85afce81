"""The place of the database: its server, and the table of its identity.

It is recorded in `telesto.installation`. A restored dump has another place than the recorded one, and its
data may be incomplete. Copies of a server's files have the place of the original.
"""

from __future__ import annotations

from dataclasses import dataclass

import psycopg

MAY_READ = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
SERVER = "SELECT system_identifier FROM pg_control_system()"
# By their keys, because a schema that is too old lacks the columns.
PLACES = """
SELECT (kept ->> 'system_identifier')::bigint, (kept ->> 'table_oid')::bigint,
       'telesto.installation'::regclass::oid::bigint, kept ? 'table_oid'
FROM telesto.installation CROSS JOIN LATERAL (SELECT to_jsonb(installation)) AS _ (kept)
"""
KEEP = "UPDATE telesto.installation SET system_identifier = %s, table_oid = 'telesto.installation'::regclass"


@dataclass(frozen=True, slots=True)
class Place:
    """A server by its identifier, None if unknown, and the table by its oid."""

    system_identifier: int | None
    table_oid: int

    def differs_from(self, other: Place) -> bool:
        """Whether the data was restored or moved in between; an unknown server does not differ."""
        servers = {self.system_identifier, other.system_identifier} - {None}
        return self.table_oid != other.table_oid or len(servers) > 1


@dataclass(frozen=True, slots=True)
class Places:
    """The current place, and the last one where the data was known to be complete; None if it never was."""

    here: Place
    kept: Place | None

    @property
    def differ(self) -> bool:
        """Whether the user must say what happened to the data."""
        return self.kept is not None and self.kept.differs_from(self.here)


def read_places(connection: psycopg.Connection) -> Places | None:
    """Return the places of a database with Telesto; None if the schema is too old for them."""
    row = connection.execute(PLACES).fetchone()
    if row is None or not row[3]:
        return None
    system_identifier, kept_oid, table_oid, _ = row
    kept = None if kept_oid is None else Place(system_identifier, kept_oid)
    return Places(Place(_system_identifier(connection), table_oid), kept)


def keep_place(connection: psycopg.Connection) -> None:
    """Record that the data is complete here; needs the rights of the schema's owner."""
    connection.execute(KEEP, (_system_identifier(connection),))


def _system_identifier(connection: psycopg.Connection) -> int | None:
    """Return the server's identifier, which every role may read unless an administrator revoked that."""
    row = connection.execute(MAY_READ).fetchone()
    if row is None or not row[0]:
        return None
    row = connection.execute(SERVER).fetchone()
    return None if row is None else int(row[0])
