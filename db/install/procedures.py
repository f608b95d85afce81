"""Installs the procedures of a manifest in one transaction and removes all others."""

from dataclasses import dataclass

import psycopg
from psycopg import sql
from psycopg.rows import class_row

from telesto.db.install.manifest import Manifest, Procedure, RowType
from telesto.db.install.roles import RolesReport, apply_grants

# Functions that this transaction has not created or replaced.
STALE = """
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE p.pronamespace = 'telesto'::regnamespace
  AND p.xmin::text <> (pg_current_xact_id()::xid)::text
ORDER BY 1
"""

# A type's comment is the text that created it.
TYPE_TEXT = "SELECT obj_description(to_regtype(%s), 'pg_type')"

TYPE_USERS = """
SELECT objid::regprocedure::text
FROM pg_depend
WHERE classid = 'pg_proc'::regclass AND refclassid = 'pg_type'::regclass AND refobjid = to_regtype(%s)
ORDER BY 1
"""

TYPES = """
SELECT relname::text FROM pg_class WHERE relnamespace = 'telesto'::regnamespace AND relkind = 'c' ORDER BY 1
"""

RECORD = """
UPDATE telesto.installation
SET edition = %s, serves = %s, checksum = %s, installed_at = now()
"""

SIGNATURES = """
SELECT p.oid::regprocedure::text
FROM pg_proc p
WHERE p.pronamespace = 'telesto'::regnamespace AND p.proname = %s
"""

INSTALLED = """
SELECT p.proname::text AS name, p.prosrc AS source
FROM pg_proc p
WHERE p.pronamespace = 'telesto'::regnamespace
ORDER BY 1
"""


@dataclass(frozen=True, slots=True)
class Installation:
    """The result of an installation: procedures written, old ones dropped, and grants."""

    installed: int
    dropped: tuple[str, ...]
    roles: RolesReport


class _ResultTypeError(Exception):
    """A function of this name has another result type: it must be dropped first."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def install_procedures(connection: psycopg.Connection, manifest: Manifest) -> Installation:
    """Create or replace types and procedures, drop old ones, record the checksum; all or nothing.

    `connection` must not be in a transaction. CREATE OR REPLACE keeps grants and the plans of running
    sessions, but cannot change a result type; such a function is dropped in a second attempt. A row type with
    a changed text is dropped together with the functions that use it.
    """
    to_replace: set[str] = set()
    for _ in range(len(manifest.procedures) + 1):
        try:
            with connection.transaction():
                return _install(connection, manifest, to_replace)
        except _ResultTypeError as changed:
            to_replace.add(changed.name)
    raise RuntimeError(f"could not replace {', '.join(sorted(to_replace))}")


def _install(connection: psycopg.Connection, manifest: Manifest, to_replace: set[str]) -> Installation:
    # So signatures contain the schema, even for a user of that name.
    connection.execute("SET LOCAL search_path = pg_catalog")
    dropped: list[str] = []
    for name in sorted(to_replace):
        dropped += _drop(connection, connection.execute(SIGNATURES, (name,)).fetchall())
    for row_type in manifest.types:
        dropped += _create_type(connection, row_type)
    for procedure in manifest.procedures:
        _create(connection, procedure)
    dropped += _drop(connection, connection.execute(STALE).fetchall())
    for (name,) in connection.execute(TYPES).fetchall():
        if name not in {row_type.name for row_type in manifest.types}:
            _drop_type(connection, name)
    connection.execute(RECORD, (manifest.edition, manifest.serves, manifest.checksum))
    # In the same transaction: PUBLIC may execute a new function until its grants are set.
    return Installation(len(manifest.procedures), tuple(dropped), apply_grants(connection))


def _create(connection: psycopg.Connection, procedure: Procedure) -> None:
    try:
        connection.execute(procedure.sql.encode())
    except psycopg.errors.InvalidFunctionDefinition as error:
        raise _ResultTypeError(procedure.name) from error


def _create_type(connection: psycopg.Connection, row_type: RowType) -> list[str]:
    """Create a type unless it exists with this text; return the functions that had to be dropped for it."""
    qualified = f"telesto.{row_type.name}"
    row = connection.execute(TYPE_TEXT, (qualified,)).fetchone()
    if row == (row_type.sql,):
        return []
    dropped = _drop(connection, connection.execute(TYPE_USERS, (qualified,)).fetchall())
    _drop_type(connection, row_type.name)
    connection.execute(row_type.sql.encode())
    comment = sql.SQL("COMMENT ON TYPE {} IS {}")
    connection.execute(comment.format(sql.Identifier("telesto", row_type.name), sql.Literal(row_type.sql)))
    return dropped


def _drop_type(connection: psycopg.Connection, name: str) -> None:
    connection.execute(sql.SQL("DROP TYPE IF EXISTS {}").format(sql.Identifier("telesto", name)))


def _drop(connection: psycopg.Connection, rows: list[tuple[str]]) -> list[str]:
    signatures = [signature for (signature,) in rows]
    for signature in signatures:
        connection.execute(sql.SQL("DROP FUNCTION {}").format(sql.SQL(signature)))
    return signatures


@dataclass(frozen=True, slots=True)
class InstalledFunction:
    """An installed function; overloads have the same name."""

    name: str
    source: str


def installed_functions(connection: psycopg.Connection) -> list[InstalledFunction]:
    """Return the functions in the schema by name."""
    with connection.cursor(row_factory=class_row(InstalledFunction)) as cursor:
        cursor.execute(INSTALLED)
        return cursor.fetchall()
