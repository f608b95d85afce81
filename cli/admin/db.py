"""`telesto db upgrade|current|check|restored|url`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl, DataDirectory, Json, Yes
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode

if TYPE_CHECKING:
    from telesto.db.install.roles import RolesReport
    from telesto.db.schema import SchemaStatus

Moved = Annotated[
    bool, typer.Option("--moved", help="The data is complete and has only moved, as by pg_upgrade.")
]
SURE_THAT_RESTORED = "Give the database a new identity? Clients lose what they know about requests in doubt."
SURE_THAT_MOVED = "Is the data complete? If anything is missing, clients will trust wrong answers."


def upgrade(
    database_url: DatabaseUrl = None, data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY, as_json: Json = False
) -> None:
    """Upgrade the database to this release: apply migrations, install procedures. It is safe to repeat."""
    from telesto.cli.admin.database import database_for, explained_errors
    from telesto.db import schema

    with database_for(database_url, data_dir) as url, explained_errors(url):
        report = schema.upgrade(url)
    if as_json:
        output.print_json(
            {
                "changed": report.changed,
                "revision_before": report.revision_before,
                "revision": report.revision,
                "installed": report.installed,
                "dropped": list(report.dropped),
                "roles_created": list(report.roles.created),
                "granted": report.roles.granted,
                "revoked": report.roles.revoked,
            }
        )
    elif report.changed:
        output.print_line(
            f"upgraded from revision {report.revision_before or 'none'} to {report.revision}; "
            f"{report.installed} procedures installed"
        )
    elif report.roles.changed:
        output.print_line(f"{_rights(report.roles)}; the database is at revision {report.revision} as before")
    else:
        output.print_line(f"nothing to do: the database is at revision {report.revision}")
    if report.roles.advice:
        output.print_error(report.roles.advice)


def current(
    database_url: DatabaseUrl = None, data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY, as_json: Json = False
) -> ExitCode:
    """Show the database's revision. The exit code is 6 if this release cannot run on it."""
    from telesto.cli.admin.database import database_for, explained_errors
    from telesto.db import schema

    with database_for(database_url, data_dir) as url, explained_errors(url):
        status = schema.current(url)
        usable = status.usable
    if as_json:
        output.print_json(
            {
                **{
                    name: getattr(status, name)
                    for name in ("revision", "head", "edition", "expected_edition", "up_to_date", "elsewhere")
                },
                "usable": usable,
            }
        )
    else:
        output.print_properties(
            {"revision": status.revision, "revision of this release": status.head, "state": _state(status)}
        )
    return ExitCode.DONE if usable else ExitCode.SCHEMA


def check(
    database_url: DatabaseUrl = None, data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY, as_json: Json = False
) -> ExitCode:
    """Compare the procedures with this release's, and look for contradictions among all messages."""
    from telesto.cli.admin.database import database_for, explained_errors
    from telesto.db import schema

    with database_for(database_url, data_dir) as url, explained_errors(url):
        problems = schema.check(url)
    for problem in problems:
        if as_json:
            output.print_json({"subject": problem.subject, "detail": problem.detail})
        else:
            output.print_line(f"{problem.subject}: {problem.detail}")
    if not problems and not as_json:
        output.print_line("no problems found")
    return ExitCode.REFUSED if problems else ExitCode.DONE


def restored(
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    moved: Moved = False,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Declare that the database was restored to an earlier state: it gets a new identity.

    Run it after restoring a backup, and after a failover to a standby that lacked commits of the primary.
    Stop all middlewares first. Clients with requests in doubt then get IncarnationChangedError; otherwise
    they would take requests that the database has lost for requests that were never executed.

    With --moved the data is complete, and only the server or the tables are new: the database keeps its
    identity.
    """
    from telesto.cli.admin.database import database_for, explained_errors
    from telesto.cli.terminal.asking import ask
    from telesto.cli.terminal.failures import CommandError
    from telesto.db.restored import MiddlewaresAliveError, NotInstalledError, note_move, renew_incarnation

    with database_for(database_url, data_dir) as url, explained_errors(url):
        ask(yes, SURE_THAT_MOVED if moved else SURE_THAT_RESTORED)
        try:
            if moved:
                noted, renewal = note_move(url), None
            else:
                noted, renewal = True, renew_incarnation(url)
        except MiddlewaresAliveError as error:
            raise CommandError(str(error), ExitCode.IN_USE) from error
        except NotInstalledError as error:
            raise CommandError(f"{error}: run telesto db upgrade", ExitCode.SCHEMA) from error
    if renewal is None:
        if as_json:
            output.print_json({"moved": noted})
        else:
            output.print_line(
                "noted that the data is complete here" if noted else "nothing to do: the data has not moved"
            )
    elif as_json:
        output.print_json({"incarnation_before": renewal.before, "incarnation": renewal.incarnation})
    else:
        output.print_line(f"the database's identity is {renewal.incarnation} now; it was {renewal.before}")


def url(data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY, as_json: Json = False) -> None:
    """Print the URL of the embedded PostgreSQL while it runs, with its password: psql "$(telesto db url)"."""
    from telesto.cli.terminal.failures import CommandError
    from telesto.db.embedded.server import running_url

    try:
        found = running_url(data_dir)
    except OSError as error:
        raise CommandError(
            f"cannot read the data directory {str(data_dir)!r}: {error.strerror}", ExitCode.REFUSED
        ) from error
    if found is None:
        raise CommandError(
            f"no PostgreSQL runs in the data directory {str(data_dir)!r}; --data-dir names another one, "
            "and telesto serve starts one",
            ExitCode.UNREACHABLE,
        )
    if as_json:
        output.print_json({"url": found})
    else:
        output.print_line(found)


def _rights(roles: RolesReport) -> str:
    created = f"created {', '.join(roles.created)}; " if roles.created else ""
    return f"{created}{roles.granted} rights granted, {roles.revoked} revoked"


def _state(status: SchemaStatus) -> str:
    if status.elsewhere:
        return "restored or moved: run telesto db restored"
    if status.up_to_date:
        return "up to date"
    if status.newer:
        return (
            "upgraded by a later release, which still serves this one"
            if status.usable
            else "too new for this release"
        )
    return f"{'empty' if status.revision is None else 'too old'}: run telesto db upgrade"


HELP = "Upgrade and check the database, and tell where it is."
SUBCOMMANDS = {"upgrade": upgrade, "current": current, "check": check, "restored": restored, "url": url}
