"""The database's schema: upgrade it, show its state, check it.

All functions take a PostgreSQL URL (`postgresql://...`, with several hosts and libpq parameters), are
synchronous and open their own connection; of several hosts they use the primary, unless the URL says
otherwise.
"""

from dataclasses import dataclass

import psycopg

from telesto.db.checks.findings import Problem, find_problems
from telesto.db.install.manifest import Manifest, load_manifest
from telesto.db.install.migrate import engine_for, head_revision, known_revisions, migrate
from telesto.db.install.place import keep_place, read_places
from telesto.db.install.procedures import install_procedures
from telesto.db.install.roles import RolesReport, apply_grants
from telesto.db.install.url import for_writing

__all__ = [
    "NoRightsError",
    "Problem",
    "RestoredError",
    "SchemaError",
    "SchemaStatus",
    "SchemaTooNewError",
    "SchemaTooOldError",
    "UnfitServerError",
    "UpgradeReport",
    "check",
    "current",
    "require_current",
    "upgrade",
]

# Upgrades of one database exclude each other. Class 0 of the advisory keys; the procedures use 1 to 3.
UPGRADE_LOCK = 0x54_4C_53_54
# As JSON, because an old schema lacks the column.
INSTALLATION = """
SELECT checksum, edition, serves, (to_jsonb(installation) ->> 'max_body_bytes')::int FROM telesto.installation
"""

#: The oldest supported PostgreSQL, as in `server_version_num`.
OLDEST_SERVER = 15_00_00
#: The only encoding that can store every text of a client unchanged.
ENCODING = "UTF8"
SERVER = "SELECT current_setting('server_version_num')::int, current_setting('server_encoding')"
# A user who may register a middleware has all its rights: they are granted together.
MAY_SERVE = """
SELECT current_user::text, coalesce(bool_and(has_function_privilege(oid, 'EXECUTE')), true)
FROM pg_proc WHERE pronamespace = 'telesto'::regnamespace AND proname = 'register_middleware'
"""

RESTORED = (
    "the data is at another place (another server, or other tables): run `telesto db restored`; only if it "
    "was moved completely (pg_upgrade, or a dump made when no middleware was running), run "
    "`telesto db restored --moved`"
)


class SchemaError(Exception):
    """The database, or its schema, does not match this release."""


class UnfitServerError(SchemaError):
    """The server cannot hold the schema: PostgreSQL is too old, or the encoding is not UTF8."""


class NoRightsError(SchemaError):
    """The user lacks the rights of a middleware."""


class RestoredError(SchemaError):
    """The data is at another place, and the user has not said whether it is complete."""


class SchemaTooOldError(SchemaError):
    """The database lacks migrations or procedures of this release."""


class SchemaTooNewError(SchemaError):
    """The database was upgraded by a release that no longer serves this one."""


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The state of a database, compared with this release.

    `revision` and `checksum` are None, `edition` and `serves` 0, before the first upgrade. `max_body_bytes`
    is the longest body that may be put from SQL, None without a limit. `elsewhere` means that the data was
    restored or moved, and that the user has not said which.
    """

    revision: str | None
    head: str
    checksum: str | None
    expected_checksum: str
    edition: int
    expected_edition: int
    serves: int
    max_body_bytes: int | None
    elsewhere: bool

    @property
    def up_to_date(self) -> bool:
        """Whether migrations and procedures are exactly those of this release."""
        return self.revision == self.head and self.checksum == self.expected_checksum

    @property
    def newer(self) -> bool:
        """Whether a later release has upgraded the database."""
        unknown = self.revision is not None and self.revision not in known_revisions()
        return unknown or self.edition > self.expected_edition

    @property
    def usable(self) -> bool:
        """Whether middlewares of this release may run: up to date, or newer and still serving them."""
        if self.elsewhere:
            return False
        return self.up_to_date or (self.newer and self.serves <= self.expected_edition)


@dataclass(frozen=True, slots=True)
class UpgradeReport:
    """The result of an upgrade: `changed` covers migrations and procedures, `roles` the rights."""

    changed: bool
    revision_before: str | None
    revision: str
    installed: int
    dropped: tuple[str, ...]
    checksum: str
    roles: RolesReport


def upgrade(url: str) -> UpgradeReport:
    """Apply the migrations, then install this release's procedures in one transaction.

    Safe to repeat and to run concurrently. Raises SchemaTooNewError, and changes nothing, if a later release
    has upgraded the database; RestoredError if the data was restored or moved and the user has not said
    which; UnfitServerError; psycopg.Error if the database refuses.
    """
    manifest = load_manifest()
    with psycopg.connect(for_writing(url)) as guard:
        _require_fit_server(guard)
        # A transaction that does nothing else holds the lock, so that it works with a transaction pooler too.
        guard.execute("SELECT pg_advisory_xact_lock(%s)", (UPGRADE_LOCK,))
        with psycopg.connect(for_writing(url), autocommit=True) as connection:
            before = _read_status(connection, manifest)
            if before.elsewhere:
                raise RestoredError(RESTORED)
            if before.newer:
                raise SchemaTooNewError(_too_new(before))
            if before.up_to_date:
                roles = apply_grants(connection)
                return UpgradeReport(False, before.revision, before.head, 0, (), manifest.checksum, roles)
            _migrate(url)
            _keep_first_place(connection)
            done = install_procedures(connection, manifest)
    return UpgradeReport(
        True, before.revision, before.head, done.installed, done.dropped, manifest.checksum, done.roles
    )


def current(url: str) -> SchemaStatus:
    """Return the state of the database; reads only."""
    with psycopg.connect(for_writing(url), autocommit=True) as connection:
        return _read_status(connection, load_manifest())


def require_current(url: str) -> SchemaStatus:
    """Return the status if middlewares of this release may run on the database.

    Raises SchemaError, which says what to do.
    """
    with psycopg.connect(for_writing(url), autocommit=True) as connection:
        _require_fit_server(connection)
        try:
            status = _read_status(connection, load_manifest())
            _require_rights(connection, status)
        except psycopg.errors.InsufficientPrivilege as error:
            raise NoRightsError(_no_rights(connection.info.user)) from error
    if status.usable:
        return status
    if status.elsewhere:
        raise RestoredError(RESTORED)
    if status.newer:
        raise SchemaTooNewError(_too_new(status))
    raise SchemaTooOldError(
        f"{_outdated(status)} (--database-url as for the service), or start it with `telesto serve --upgrade`"
    )


def check(url: str) -> list[Problem]:
    """Compare the installed functions with this release and check the contents of the tables.

    It reads all waiting rows in one snapshot: for administration, not for a health probe.
    """
    manifest = load_manifest()
    with psycopg.connect(for_writing(url), autocommit=True) as connection:
        status = _read_status(connection, manifest)
        problems = [] if status.up_to_date else [Problem("installation", _outdated(status))]
        if status.elsewhere:
            problems.append(Problem("installation", RESTORED))
        if status.revision is None:
            return problems
        return problems + find_problems(connection, manifest)


def _require_fit_server(connection: psycopg.Connection) -> None:
    """Raise UnfitServerError for a server or a database that this release cannot use."""
    row = connection.execute(SERVER).fetchone()
    assert row is not None
    version, encoding = row
    if version < OLDEST_SERVER:
        raise UnfitServerError(
            f"the server is PostgreSQL {version // 10_000}; Telesto needs {OLDEST_SERVER // 10_000} or later"
        )
    if encoding != ENCODING:
        raise UnfitServerError(
            f"the encoding of the database {connection.info.dbname} is {encoding}, and Telesto needs "
            f"{ENCODING}: make another one by CREATE DATABASE ... ENCODING '{ENCODING}' TEMPLATE template0"
        )


def _require_rights(connection: psycopg.Connection, status: SchemaStatus) -> None:
    """Raise NoRightsError for a user who may see the schema, but not use it."""
    if status.revision is None:
        return
    row = connection.execute(MAY_SERVE).fetchone()
    if row is not None and not row[1]:
        raise NoRightsError(_no_rights(row[0]))


def _no_rights(user: str) -> str:
    return (
        f"the user {user} has no right to use the schema telesto: "
        f"let its owner run GRANT telesto_middleware TO {user}, or see `telesto db upgrade`"
    )


def _read_status(connection: psycopg.Connection, manifest: Manifest) -> SchemaStatus:
    revision = checksum = max_body_bytes = None
    edition = serves = 0
    elsewhere = False
    if _exists(connection, "telesto.schema_revision"):
        row = connection.execute("SELECT version_num FROM telesto.schema_revision").fetchone()
        revision = row[0] if row else None
    if _exists(connection, "telesto.installation"):
        row = connection.execute(INSTALLATION).fetchone()
        checksum, edition, serves, max_body_bytes = row or (None, 0, 0, None)
        places = read_places(connection)
        elsewhere = places is not None and places.differ
    return SchemaStatus(
        revision=revision,
        head=head_revision(),
        checksum=checksum,
        expected_checksum=manifest.checksum,
        edition=edition,
        expected_edition=manifest.edition,
        serves=serves,
        max_body_bytes=max_body_bytes,
        elsewhere=elsewhere,
    )


def _keep_first_place(connection: psycopg.Connection) -> None:
    places = read_places(connection)
    if places is not None and places.kept is None:
        keep_place(connection)


def _exists(connection: psycopg.Connection, table: str) -> bool:
    row = connection.execute("SELECT to_regclass(%s) IS NOT NULL", (table,)).fetchone()
    return row is not None and bool(row[0])


def _migrate(url: str) -> None:
    engine = engine_for(url)
    try:
        with engine.begin() as connection:
            migrate(connection)
    finally:
        engine.dispose()


def _outdated(status: SchemaStatus) -> str:
    if status.newer:
        return _too_new(status)
    if status.revision is None:
        return "there is no Telesto in this database yet: run `telesto db upgrade`"
    return (
        f"the database is at revision {status.revision} instead of {status.head}, or has other procedures "
        "than this release: run `telesto db upgrade`"
    )


def _too_new(status: SchemaStatus) -> str:
    return (
        f"the database is at revision {status.revision} with procedures of edition {status.edition}, which "
        f"serve editions from {status.serves}; this release has edition {status.expected_edition}: "
        "install the newer release of telesto-mq"
    )
