"""`telesto backup` and `telesto restore`, of the embedded database."""

from __future__ import annotations

import os
import shlex
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from telesto.cli.common.options import DATABASE_URL_VARIABLE, DEFAULT_DATA_DIRECTORY, DataDirectory, Json
from telesto.cli.terminal import output

NOT_OURS = (
    "with a PostgreSQL of your own, use its tools (pg_basebackup, pg_dump) and telesto db restored; "
    f"{DATABASE_URL_VARIABLE} is set: name the embedded one by --data-dir"
)

ARCHIVING_ENDED = (
    "it does not archive its log, because the archive is that of the original; for an archive of its own set "
    "archive_command in user.conf, and then: ALTER SYSTEM RESET archive_mode"
)

Target = Annotated[Path, typer.Argument(metavar="BACKUP", help="The new directory of the backup.")]
Source = Annotated[Path, typer.Argument(metavar="BACKUP", help="The directory of the backup.")]
NoCheck = Annotated[
    bool,
    typer.Option("--no-check", help="Do not start a copy, which needs the size of the backup once more."),
]
Archive = Annotated[
    Path | None,
    typer.Option(
        "--archive", metavar="DIRECTORY", help="Recover also what PostgreSQL has archived of its log here."
    ),
]
Until = Annotated[
    datetime | None,
    typer.Option(
        "--until",
        formats=["%Y-%m-%dT%H:%M:%S%z", "%Y-%m-%dT%H:%M:%S.%f%z"],
        help="With --archive: only what was committed before this moment, such as 2026-11-30T14:05:00Z.",
    ),
]


def backup(
    target: Target,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    no_check: NoCheck = False,
    as_json: Json = False,
) -> None:
    """Back up the embedded database while the service runs, and check the backup by starting a copy of it."""
    from telesto.cli.admin.database import database_for, explained_errors
    from telesto.db.backup import make_backup

    _require_embedded()
    target = target.expanduser().resolve()
    with database_for(None, data_dir, as_owner=False) as url, explained_errors():
        made = make_backup(url, target, check=not no_check)
    if as_json:
        output.print_json({"backup": str(target), "checked": not no_check, **asdict(made)})
    else:
        checked = "not checked" if no_check else "checked by starting a copy"
        output.print_line(f"backed up to {target}: {made.size_bytes / 1e6:,.1f} MB, {checked}")


def restore(
    source: Source,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    archive: Archive = None,
    until: Until = None,
    as_json: Json = False,
) -> None:
    """Restore a backup into a new data directory, and give the database a new identity.

    What came after the backup is missing then, unless it is recovered from an archive of PostgreSQL's log.
    Clients that were in doubt about a request get IncarnationChangedError.
    """
    from telesto.cli.admin.database import explained_errors
    from telesto.cli.terminal.failures import usage_error
    from telesto.db.backup import restore_backup

    _require_embedded()
    if until is not None and archive is None:
        raise usage_error("--until needs --archive, with what came after the backup")
    with explained_errors():
        restored = restore_backup(source.expanduser(), data_dir, archive=archive, until=until)
    if as_json:
        told = {"incarnation": restored.renewal.incarnation, "archiving_ended": restored.archiving_ended}
        output.print_json({"data_dir": str(data_dir), **asdict(restored.backup), **told})
        return
    output.print_line(
        f"restored the backup of {restored.backup.finished_at} into {data_dir}; the database's identity is "
        f"{restored.renewal.incarnation} now"
    )
    if restored.archiving_ended:
        output.print_error(ARCHIVING_ENDED)
    output.print_line(f"start it: telesto serve --data-dir {shlex.quote(str(data_dir))}")


def _require_embedded() -> None:
    """Refuse a database elsewhere, which an explicit --data-dir has already replaced."""
    from telesto.cli.terminal.failures import usage_error

    if any(name.upper() == DATABASE_URL_VARIABLE for name in os.environ):
        raise usage_error(NOT_OURS)
