"""Runs the Alembic revisions of `migrations/` without an ini file, also from an installed package."""

from importlib.resources import as_file, files

import psycopg
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, NullPool, create_engine
from sqlalchemy.engine.interfaces import DBAPIConnection

from telesto.db.install.url import for_writing


def engine_for(url: str) -> Engine:
    """Return an engine whose connections libpq opens from the URL.

    So several hosts, `target_session_attrs` and other parameters work, which SQLAlchemy's own URL parser does
    not know.
    """

    def connect() -> DBAPIConnection:
        return psycopg.connect(for_writing(url))  # type: ignore[return-value]

    return create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)


def _configuration(script_location: str) -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", script_location.replace("%", "%%"))
    configuration.set_main_option("path_separator", "os")
    return configuration


def head_revision() -> str:
    """Return the newest revision of this release."""
    with as_file(files("telesto.db") / "migrations") as location:
        head = ScriptDirectory.from_config(_configuration(str(location))).get_current_head()
    if head is None:
        raise RuntimeError("the package holds no migrations")
    return head


def known_revisions() -> list[str]:
    """Return all revisions of this release, the oldest first."""
    with as_file(files("telesto.db") / "migrations") as location:
        scripts = ScriptDirectory.from_config(_configuration(str(location)))
        return [script.revision for script in scripts.walk_revisions()][::-1]


def migrate(connection: Connection, revision: str = "head") -> None:
    """Apply the revisions up to `revision` in the transaction of `connection`."""
    with as_file(files("telesto.db") / "migrations") as location:
        configuration = _configuration(str(location))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
