"""The rights in the database: the grants of `procedures/grants.toml`, compared and applied.

Grants are data. The grants in the catalogue and in the file are both read as sets, and only their difference
is executed. So an upgrade without changes disturbs no session.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import NamedTuple

import psycopg
from psycopg import sql

from telesto.db.install.manifest import procedures_directory

SCHEMA = "telesto"
PUBLIC = "public"
GRANTS_FILE = "grants.toml"
_TABLE = re.compile(r"(?P<table>\w+)(?:\((?P<columns>[\w, ]+)\))?")

# All rights of our roles and PUBLIC in the schema, granted or by default, except the owners'.
_HELD = """
WITH acl (kind, name, columns, owner, privileges) AS (
    SELECT 'SCHEMA', nspname::text, '', nspowner, coalesce(nspacl, acldefault('n', nspowner))
    FROM pg_namespace WHERE nspname = 'telesto'
    UNION ALL
    SELECT 'FUNCTION', format('telesto.%%I(%%s)', proname, oidvectortypes(proargtypes)), '', proowner,
           coalesce(proacl, acldefault('f', proowner))
    FROM pg_proc WHERE pronamespace = 'telesto'::regnamespace
    UNION ALL
    SELECT 'TABLE', format('telesto.%%I', relname), '', relowner, coalesce(relacl, acldefault('r', relowner))
    FROM pg_class WHERE relnamespace = 'telesto'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
    UNION ALL
    SELECT 'SEQUENCE', format('telesto.%%I', relname), '', relowner,
           coalesce(relacl, acldefault('s', relowner))
    FROM pg_class WHERE relnamespace = 'telesto'::regnamespace AND relkind = 'S'
    UNION ALL
    SELECT 'TABLE', format('telesto.%%I', relname), quote_ident(attname), relowner, attacl
    FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
    WHERE relnamespace = 'telesto'::regnamespace AND attacl IS NOT NULL
)
SELECT coalesce(role.rolname::text, 'public'), acl.kind, acl.name, acl.columns, held.privilege_type
FROM acl
CROSS JOIN LATERAL aclexplode(acl.privileges) AS held
LEFT JOIN pg_roles AS role ON role.oid = held.grantee
WHERE (held.grantee = 0 OR role.rolname = ANY (%s)) AND held.grantee <> acl.owner
"""

_SIGNATURES = """
SELECT proname::text, format('telesto.%I(%s)', proname, oidvectortypes(proargtypes))
FROM pg_proc WHERE pronamespace = 'telesto'::regnamespace
"""

_MAY_CREATE = "SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = current_user"


@dataclass(frozen=True, slots=True)
class Role:
    """The rights of one role: procedures by name, and tables with the columns it may read (none: all)."""

    name: str
    purpose: str
    execute: tuple[str, ...]
    select: tuple[tuple[str, tuple[str, ...]], ...]


class Grant(NamedTuple):
    """One privilege of one role on one object; `column` is empty for the whole object."""

    role: str
    kind: str
    name: str
    column: str
    privilege: str


@dataclass(frozen=True, slots=True)
class RolesReport:
    """The changes to roles.

    `missing` names roles that do not exist and that the connecting user may not create, so they got no
    grants. `granted` and `revoked` count single privileges.
    """

    created: tuple[str, ...]
    missing: tuple[str, ...]
    granted: int
    revoked: int

    @property
    def changed(self) -> bool:
        """Whether a role was created, or a privilege granted or revoked."""
        return bool(self.created or self.granted or self.revoked)

    @property
    def advice(self) -> str | None:
        """The advice for an administrator; None if all roles exist."""
        if not self.missing:
            return None
        statements = " ".join(f"CREATE ROLE {name};" for name in self.missing)
        return (
            f"skipped the grants for {', '.join(self.missing)}: the connected user may not create roles; "
            f"let an administrator run `{statements}`, then upgrade again"
        )


def load_roles(directory: Traversable | None = None) -> tuple[Role, ...]:
    """Read grants.toml. Raises ValueError if an entry of `select` is not a table or table(column, ...)."""
    directory = directory or procedures_directory()
    content = tomllib.loads((directory / GRANTS_FILE).read_text(encoding="utf-8"))
    return tuple(
        Role(
            name,
            role["purpose"],
            tuple(role["execute"]),
            tuple(_parse_table(text) for text in role["select"]),
        )
        for name, role in content["role"].items()
    )


def _parse_table(text: str) -> tuple[str, tuple[str, ...]]:
    found = _TABLE.fullmatch(text)
    if found is None:
        raise ValueError(f"{GRANTS_FILE}: {text!r} is not a table or table(column, ...)")
    columns = found["columns"] or ""
    return found["table"], tuple(column.strip() for column in columns.split(",") if column.strip())


def apply_grants(connection: psycopg.Connection, roles: Iterable[Role] | None = None) -> RolesReport:
    """Create missing roles, if the user may, and make all grants match the file.

    PUBLIC loses all its rights in the schema, including the default right to execute functions. All or
    nothing; may run inside a transaction.
    """
    wanted_roles = tuple(roles if roles is not None else load_roles())
    with connection.transaction():
        created, missing = _ensure_roles(connection, [role.name for role in wanted_roles])
        present = [role for role in wanted_roles if role.name not in missing]
        held = held_grants(connection, [role.name for role in present])
        wanted = wanted_grants(connection, present)
        for grant in sorted(held - wanted):
            connection.execute(_revoke(grant))
        for grant in sorted(wanted - held):
            connection.execute(_grant(grant))
    return RolesReport(created, missing, len(wanted - held), len(held - wanted))


def held_grants(connection: psycopg.Connection, names: list[str]) -> set[Grant]:
    """Return the current grants of the named roles and of PUBLIC in the schema."""
    return {Grant(*row) for row in connection.execute(_HELD, (names,))}


def wanted_grants(connection: psycopg.Connection, roles: Iterable[Role]) -> set[Grant]:
    """Return the grants that the roles should have, for existing procedures."""
    signatures: dict[str, list[str]] = {}
    for name, signature in connection.execute(_SIGNATURES):
        signatures.setdefault(name, []).append(signature)
    return {grant for role in roles for grant in _grants_of(role, signatures)}


def _grants_of(role: Role, signatures: dict[str, list[str]]) -> Iterable[Grant]:
    yield Grant(role.name, "SCHEMA", SCHEMA, "", "USAGE")
    for name in role.execute:
        for signature in signatures.get(name, []):
            yield Grant(role.name, "FUNCTION", signature, "", "EXECUTE")
    for table, columns in role.select:
        for column in columns or ("",):
            yield Grant(role.name, "TABLE", f"{SCHEMA}.{table}", column, "SELECT")


def _ensure_roles(
    connection: psycopg.Connection, names: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Create missing roles; return (created, still missing)."""
    rows = connection.execute("SELECT rolname::text FROM pg_roles WHERE rolname = ANY (%s)", (names,))
    lacking = sorted(set(names) - {name for (name,) in rows})
    if not lacking:
        return (), ()
    allowed = connection.execute(_MAY_CREATE).fetchone()
    if allowed is None or not allowed[0]:
        return (), tuple(lacking)
    for name in lacking:
        _create_role(connection, name)
    return tuple(lacking), ()


def _create_role(connection: psycopg.Connection, name: str) -> None:
    # Roles belong to all databases of a server: a concurrent upgrade of another one may create them.
    try:
        with connection.transaction():
            connection.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(name)))
    except (psycopg.errors.DuplicateObject, psycopg.errors.UniqueViolation):
        return


def _grant(grant: Grant) -> sql.Composed:
    return sql.SQL("GRANT {} TO {}").format(_privilege(grant), _grantee(grant))


def _revoke(grant: Grant) -> sql.Composed:
    return sql.SQL("REVOKE {} FROM {}").format(_privilege(grant), _grantee(grant))


def _privilege(grant: Grant) -> sql.Composed:
    # All of these come from our own file or from the catalogue, where signatures and names are quoted.
    columns = f" ({grant.column})" if grant.column else ""
    text = f"{grant.privilege}{columns} ON {grant.kind} {grant.name}"
    return sql.Composed([sql.SQL(text)])


def _grantee(grant: Grant) -> sql.Composable:
    return sql.SQL("PUBLIC") if grant.role == PUBLIC else sql.Identifier(grant.role)
