"""The database of a command: given by a URL, or embedded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error
from telesto.db.install.url import parameters_of, without_password

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import DictRow


def check_url(url: str) -> str:
    """The URL, if it is one of PostgreSQL. Raises CommandError, which does not show a password."""
    try:
        parameters_of(url)
    except ValueError as error:
        raise usage_error(str(error)) from error
    return url


@contextmanager
def explained_errors(url: str | None = None) -> Iterator[None]:
    """Turn errors of the database, the schema or the embedded server into a one-line CommandError."""
    import psycopg

    from telesto.db.embedded.server import DataDirectoryInUseError, EmbeddedServerError, StartFailedError
    from telesto.db.schema import SchemaError

    where = f" {without_password(url)}" if url else ""
    try:
        yield
    except DataDirectoryInUseError as error:
        raise CommandError(str(error), ExitCode.IN_USE) from error
    except StartFailedError as error:
        raise CommandError(error.problem, ExitCode.REFUSED, error.log_lines) from error
    except EmbeddedServerError as error:
        raise CommandError(str(error), ExitCode.REFUSED) from error
    except SchemaError as error:
        raise CommandError(str(error), ExitCode.SCHEMA) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise CommandError(
            f"the database{where} takes no writes: it is a standby, or default_transaction_read_only is on",
            ExitCode.UNREACHABLE,
        ) from error
    except psycopg.OperationalError as error:
        raise CommandError(
            f"cannot reach the database{where}: {one_line(error)}", ExitCode.UNREACHABLE
        ) from error
    except psycopg.ProgrammingError as error:
        if error.sqlstate is None:
            raise usage_error(f"the database URL{where} cannot be used: {one_line(error)}") from error
        raise CommandError(f"the database{where} refused: {one_line(error)}", ExitCode.REFUSED) from error
    except psycopg.Error as error:
        raise CommandError(f"the database{where} refused: {one_line(error)}", ExitCode.REFUSED) from error


@contextmanager
def database_for(url: str | None, data_dir: Path, *, as_owner: bool = True) -> Iterator[str]:
    """Yield the URL of the database: `url`, or that of the embedded server in an existing `data_dir`.

    If a running service has a server there, that one is used; otherwise one is started for the block. To
    start it, a process of root's becomes one of the account that owns the data, for good, unless `as_owner`
    is false, as for a command that writes files elsewhere.
    """
    if url is not None:
        yield check_url(url)
        return
    from telesto.db.embedded.cluster import DataDirectory
    from telesto.db.embedded.server import EmbeddedServer, running_url

    if not data_dir.is_dir():
        raise usage_error(
            f"there is no data directory {str(data_dir)!r}; name one by --data-dir, or --database-url"
        )
    with explained_errors():
        if running := running_url(data_dir):
            yield running
            return
        data_dir = data_dir.resolve()
        if as_owner:
            DataDirectory(data_dir).become_owner()
        with EmbeddedServer(data_dir) as server:
            yield server.url


@contextmanager
def transaction(url: str | None, data_dir: Path) -> Iterator[Connection[DictRow]]:
    """Yield a transaction on the database of `database_for`, which is committed at the end of the block."""
    import psycopg
    from psycopg.rows import dict_row

    with (
        database_for(url, data_dir) as found,
        explained_errors(found),
        psycopg.connect(found, row_factory=dict_row) as connection,
    ):
        yield connection


def one_line(error: Exception) -> str:
    """The text of an error without line ends."""
    return " ".join(str(error).split())
