"""`telesto user add|passwd|list|show|disable|enable|delete|allow|revoke`, on the database."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from telesto.cli.admin.user_quota import map_role, quota, unmap_role
from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl, DataDirectory, Json, Yes
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import DictRow


def _names(incomplete: str) -> list[str]:
    """Names of users that begin so, in the database that the environment names, or the usual one."""
    try:
        from telesto.db.embedded.server import running_url

        url = os.environ.get("TELESTO_DATABASE_URL") or running_url(
            Path(os.environ.get("TELESTO_DATA_DIR") or DEFAULT_DATA_DIRECTORY)
        )
        if url is None:
            return []
        import psycopg

        with psycopg.connect(url, connect_timeout=1) as connection:
            rows = connection.execute("SELECT name FROM telesto.users ORDER BY name LIMIT 200").fetchall()
    except Exception:  # noqa: BLE001 - whatever it is, there is nothing to complete then
        return []
    return [name for (name,) in rows if name.startswith(incomplete) and name.replace("-", "").isalnum()]


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.", autocompletion=_names)]
PasswordFile = Annotated[
    str | None,
    typer.Option(
        "--password-file", metavar="FILE", help="Read the password from this file; - for standard input."
    ),
]
NoPassword = Annotated[
    bool, typer.Option("--no-password", help="No password: a certificate or a token only.")
]
Generate = Annotated[bool, typer.Option("--generate", help="Make up a password, and print it.")]
Administrator = Annotated[bool, typer.Option("--administrator", help="Everything.")]
Monitor = Annotated[
    bool, typer.Option("--monitor", help="Seeing everything: lists, statistics, histories; changing nothing.")
]


def _patterns(option: str, what: str) -> Any:
    return typer.Option(option, metavar="PATTERN", help=f"{what} * stands for any characters, ? for one.")


Configure = Annotated[
    list[str] | None,
    _patterns("--configure", "Creating, changing and deleting the queues and topics that match."),
]
Put = Annotated[list[str] | None, _patterns("--put", "Putting into those that match.")]
Get = Annotated[
    list[str] | None, _patterns("--get", "Reading, browsing and consuming from those that match.")
]
Admin = Annotated[
    list[str] | None,
    _patterns("--admin", "Purging, cancelling and handling dead letters of those that match."),
]
Clients = Annotated[list[str] | None, _patterns("--clients", "Being clients whose names match.")]
Last = Annotated[
    bool, typer.Option("--last", help="Also the last user: then the service asks for no login any more.")
]

_RIGHTS = ("configure", "put", "get", "admin", "clients")
_TAGS = ("administrator", "monitor")
_COLUMNS = (
    "name, verifier IS NOT NULL AS password, enabled, administrator, monitor, "
    "configure, put, get, admin, clients, "
    "ARRAY(SELECT role_name::text FROM telesto.sql_users AS mapped WHERE mapped.user_id = users.user_id "
    "ORDER BY role_name) AS sql_roles, created_at"
)
_PATTERN_MAX = 255


def add(
    name: Name,
    password_file: PasswordFile = None,
    no_password: NoPassword = False,
    generate: Generate = False,
    administrator: Administrator = False,
    monitor: Monitor = False,
    configure: Configure = None,
    put: Put = None,
    get: Get = None,
    admin: Admin = None,
    clients: Clients = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Add a user. As soon as there is one, the service asks everybody for a login.

    The password is asked for, or comes from a file, standard input or --generate; never from an argument.
    """
    _check_name(name)
    rights = _checked({"configure": configure, "put": put, "get": get, "admin": admin, "clients": clients})
    _check_sources(password_file, no_password=no_password, generate=generate)
    there_is = f"there is a user {name!r} already"
    with _users(database_url, data_dir) as connection:
        if connection.execute("SELECT name FROM telesto.users WHERE name = %s", (name,)).fetchone():
            raise CommandError(there_is, ExitCode.REFUSED)
        connection.commit()  # a person may take long to answer
        password = _password(name, password_file, no_password=no_password, generate=generate)
        values = {
            "name": name,
            "verifier": _verifier(password),
            "administrator": administrator,
            "monitor": monitor,
            **rights,
        }
        others = _count(connection)
        _one(
            connection,
            f"INSERT INTO telesto.users ({', '.join(values)}) "
            f"VALUES ({', '.join(f'%({column})s' for column in values)}) "
            "ON CONFLICT (name) DO NOTHING RETURNING name",
            values,
            there_is,
        )
    _tell(name, "added", password if generate else None, as_json=as_json)
    if not others:
        quoted = shlex.quote(name)
        output.print_note(
            "This is the first user: from now on, everybody has to log in, such as by "
            f"TELESTO_USER={quoted} and TELESTO_PASSWORD_FILE=FILE."
        )
        if not administrator:
            output.print_note(f"No user is an administrator yet: telesto user allow {quoted} --administrator")


def passwd(
    name: Name,
    password_file: PasswordFile = None,
    no_password: NoPassword = False,
    generate: Generate = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Change a user's password, for logins from now on.

    Connections that have logged in stay; disable and enable the user to end them.
    """
    _check_sources(password_file, no_password=no_password, generate=generate)
    with _users(database_url, data_dir) as connection:
        _locked(connection, name)
        connection.commit()  # a person may take long to answer
        password = _password(name, password_file, no_password=no_password, generate=generate)
        verifier = _verifier(password)
        _locked(connection, name)
        _update(connection, name, {"verifier": verifier})
    done = "password removed" if no_password else "password changed"
    _tell(name, done, password if generate else None, as_json=as_json)


def list_users(
    database_url: DatabaseUrl = None, data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY, as_json: Json = False
) -> None:
    """List the users, by name."""
    with _users(database_url, data_dir) as connection:
        found = connection.execute(f"SELECT {_COLUMNS} FROM telesto.users ORDER BY name".encode()).fetchall()
    output.print_list(
        found,
        (
            output.Column("name", lambda user: user["name"], cut=True),
            output.Column("login", _login),
            output.Column("may", _may, cut=True),
            output.Column("SQL roles", lambda user: _shown(user["sql_roles"]), cut=True),
        ),
        as_json=as_json,
        as_dict=_as_dict,
        empty="There are no users: nobody has to log in.",
    )


def show(
    name: Name,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Show a user and what it may do."""
    with _users(database_url, data_dir) as connection:
        user = _one(
            connection,
            f"SELECT {_COLUMNS} FROM telesto.users WHERE name = %(name)s",
            {"name": name},
            _unknown(name),
        )
    if as_json:
        output.print_json(_as_dict(user))
        return
    output.print_properties(
        {
            "name": user["name"],
            "enabled": _yes(user["enabled"]),
            "password": _yes(user["password"]),
            "tags": _shown([tag for tag in _TAGS if user[tag]]) or None,
            **{right: _shown(user[right]) or None for right in _RIGHTS},
            "SQL roles": _shown(user["sql_roles"]) or None,
            "created (UTC)": str(_as_dict(user)["created_at"])[:19],
        }
    )


def disable(
    name: Name,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Let a user log in no more, and end its connections within a second."""
    _switch(database_url, data_dir, name, "disabled", enabled=False, as_json=as_json)


def enable(
    name: Name,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Let a user log in again."""
    _switch(database_url, data_dir, name, "enabled", enabled=True, as_json=as_json)


def delete(
    name: Name,
    yes: Yes = False,
    last: Last = False,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Delete a user, and end its connections within a second. Its clients belong to nobody then."""
    from telesto.cli.terminal.asking import ask

    ask(yes, f"Delete the user {name!r}?")
    with _users(database_url, data_dir) as connection:
        connection.execute("LOCK TABLE telesto.users IN SHARE ROW EXCLUSIVE MODE")
        values = {"name": name}
        _one(
            connection,
            "DELETE FROM telesto.users WHERE name = %(name)s RETURNING name",
            values,
            _unknown(name),
        )
        if not last and not _count(connection):
            raise CommandError(
                f"{name!r} is the last user: without it nobody has to log in any more, and whoever reaches "
                "the service may do everything; add --last to do that",
                ExitCode.REFUSED,
            )
    _tell(name, "deleted", as_json=as_json)


def allow(
    name: Name,
    administrator: Administrator = False,
    monitor: Monitor = False,
    configure: Configure = None,
    put: Put = None,
    get: Get = None,
    admin: Admin = None,
    clients: Clients = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Allow a user more. It holds within a second, also for open connections."""
    rights = _checked({"configure": configure, "put": put, "get": get, "admin": admin, "clients": clients})
    tags = _tags_given(administrator, monitor, rights)
    with _users(database_url, data_dir) as connection:
        user = _locked(connection, name)
        more = {
            right: [pattern for pattern in patterns if pattern not in user[right]]
            for right, patterns in rights.items()
        }
        changes: dict[str, Any] = {right: user[right] + new for right, new in more.items() if new}
        changes |= {tag: True for tag in tags if not user[tag]}
        _update(connection, name, changes)
    nothing = f"nothing to do: user {name} may do that already"
    _tell(name, "allowed", as_json=as_json, unless=None if changes else nothing)


def revoke(
    name: Name,
    administrator: Administrator = False,
    monitor: Monitor = False,
    configure: Configure = None,
    put: Put = None,
    get: Get = None,
    admin: Admin = None,
    clients: Clients = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Take from a user what it was allowed: the same tags and patterns. It holds within a second.

    What the user was not allowed is told, and the exit code is 1 if that is all.
    """
    rights = _checked({"configure": configure, "put": put, "get": get, "admin": admin, "clients": clients})
    tags = _tags_given(administrator, monitor, rights)
    with _users(database_url, data_dir) as connection:
        user = _locked(connection, name)
        changes: dict[str, Any] = {tag: False for tag in tags if user[tag]}
        missing = [f"user {name} has no --{tag}" for tag in tags if not user[tag]]
        for right, patterns in rights.items():
            left = [pattern for pattern in user[right] if pattern not in patterns]
            if left != user[right]:
                changes[right] = left
            missing += [
                f"user {name} has no --{right} {shlex.quote(pattern)}; {_has(user, right)}"
                for pattern in patterns
                if pattern not in user[right]
            ]
        _update(connection, name, changes)
    if not changes:
        raise CommandError(f"there is nothing to revoke: {'; '.join(missing)}", ExitCode.REFUSED)
    for line in missing:
        output.print_error(line)
    _tell(name, "revoked", as_json=as_json)


# ------------------------------------------------------------------------------------- the database
@contextmanager
def _users(database_url: str | None, data_dir: Path) -> Iterator[Connection[DictRow]]:
    """A transaction on the users, which says what is wrong with a change."""
    import psycopg

    from telesto.cli.admin.database import transaction

    with transaction(database_url, data_dir) as connection:
        try:
            yield connection
        except psycopg.errors.CheckViolation:
            raise usage_error("a right of a user has at most 64 patterns") from None


def _one(connection: Connection[DictRow], statement: str, values: Mapping[str, Any], none: str) -> DictRow:
    row = connection.execute(statement.encode(), values).fetchone()
    if row is None:
        raise CommandError(none, ExitCode.REFUSED)
    return row


def _count(connection: Connection[DictRow]) -> int:
    row = connection.execute("SELECT count(*) AS users FROM telesto.users").fetchone()
    assert row is not None
    return int(row["users"])


def _switch(
    database_url: str | None, data_dir: Path, name: str, done: str, *, enabled: bool, as_json: bool
) -> None:
    with _users(database_url, data_dir) as connection:
        already = _locked(connection, name)["enabled"] is enabled
        if not already:
            _update(connection, name, {"enabled": enabled})
    nothing = f"nothing to do: user {name} is {done} already"
    _tell(name, done, as_json=as_json, unless=nothing if already else None)


def _locked(connection: Connection[DictRow], name: str) -> DictRow:
    """The user, which nobody changes until the transaction ends."""
    statement = f"SELECT {_COLUMNS} FROM telesto.users WHERE name = %(name)s FOR UPDATE"
    return _one(connection, statement, {"name": name}, _unknown(name))


def _update(connection: Connection[DictRow], name: str, changes: Mapping[str, Any]) -> None:
    if changes:
        assignments = ", ".join(f"{column} = %({column})s" for column in changes)
        statement = f"UPDATE telesto.users SET {assignments} WHERE name = %(name)s"
        connection.execute(statement.encode(), {"name": name, **changes})


def _tags_given(administrator: bool, monitor: bool, rights: Mapping[str, list[str]]) -> list[str]:
    tags = [tag for tag, given in zip(_TAGS, (administrator, monitor), strict=True) if given]
    if not tags and not rights:
        raise usage_error(
            "name a right: --put, --get, --configure, --admin, --clients, --monitor, --administrator"
        )
    return tags


def _has(user: Mapping[str, Any], right: str) -> str:
    patterns = " ".join(map(shlex.quote, user[right]))
    return f"it has --{right} {patterns}" if patterns else f"it has no --{right} at all"


# ------------------------------------------------------------------------------ what is read and said
def _check_name(name: str) -> None:
    from scramp import ScramClient, ScramException

    from telesto.client.arguments import check_name
    from telesto.protocol.errors import InvalidParameterError

    try:
        check_name("name", name)
        prepared = str(ScramClient(["SCRAM-SHA-256"], name, "password").username)
    except InvalidParameterError as error:
        raise usage_error(error.details) from None
    except ScramException:
        raise usage_error(f"{name!r} has characters that the names of users cannot have (RFC 4013)") from None
    if prepared != name:
        raise usage_error(f"{name!r} is written {prepared!r} in logins (RFC 4013); add the user by that name")


def _checked(given: Mapping[str, list[str] | None]) -> dict[str, list[str]]:
    rights = {right: list(dict.fromkeys(patterns)) for right, patterns in given.items() if patterns}
    for right, patterns in rights.items():
        for pattern in patterns:
            if not 1 <= len(pattern) <= _PATTERN_MAX or not pattern.isprintable():
                raise usage_error(
                    f"--{right} {pattern!r}: a pattern has 1 to {_PATTERN_MAX} characters to be seen"
                )
    return rights


def _check_sources(file: str | None, *, no_password: bool, generate: bool) -> None:
    if sum((file is not None, no_password, generate)) > 1:
        raise usage_error("--password-file, --no-password and --generate exclude each other")
    if file is None and not no_password and not generate and not sys.stdin.isatty():
        raise usage_error("there is no terminal to ask for the password; use --password-file FILE, or -")


def _password(name: str, file: str | None, *, no_password: bool, generate: bool) -> str | None:
    from telesto.client.errors import CredentialsError
    from telesto.client.url import SECRET_BYTES_MAX, secret_of

    if no_password:
        return None
    if generate:
        return secrets.token_urlsafe(24)
    if file is None:
        return str(typer.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
    shown = "standard input" if file == "-" else f"the file {file!r}"
    try:
        if file == "-":
            content = sys.stdin.buffer.read(SECRET_BYTES_MAX + 1)
        else:
            with open(file, "rb") as opened:
                content = opened.read(SECRET_BYTES_MAX + 1)
        return secret_of(content, shown)
    except OSError as error:
        raise usage_error(f"cannot read {file!r}: {error.strerror}") from None
    except CredentialsError as error:
        raise usage_error(error.details) from None


def _verifier(password: str | None) -> str | None:
    from telesto.middleware.security.login import make_verifier

    try:
        return None if password is None else make_verifier(password)
    except ValueError as error:
        raise usage_error(str(error)) from None


def _tell(
    name: str, done: str, password: str | None = None, *, as_json: bool, unless: str | None = None
) -> None:
    """Tell what was done; `unless` says why there was nothing to do."""
    if as_json:
        made_up = {"password": password} if password else {}
        output.print_json({"name": name, "done": done, "changed": unless is None, **made_up})
    elif password is not None:
        output.print_line(password)
    else:
        output.print_line(unless or f"user {name}: {done}")


def _unknown(name: str) -> str:
    return f"there is no user {name!r}"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _login(user: Mapping[str, Any]) -> str:
    if not user["enabled"]:
        return "disabled"
    return "password" if user["password"] else "no password"


def _may(user: Mapping[str, Any]) -> str:
    """What a user may do, in a line."""
    rights = [f"{right} {_shown(user[right])}" for right in _RIGHTS if user[right]]
    return "; ".join([*(tag for tag in _TAGS if user[tag]), *rights])


def _shown(patterns: list[str]) -> str:
    return " ".join(patterns)


def _as_dict(user: Mapping[str, Any]) -> dict[str, object]:
    from datetime import UTC

    return {**user, "created_at": user["created_at"].astimezone(UTC).isoformat()}


HELP = "Manage who may log in, and what each may do."
SUBCOMMANDS = {
    "add": add,
    "passwd": passwd,
    "list": list_users,
    "show": show,
    "disable": disable,
    "enable": enable,
    "delete": delete,
    "allow": allow,
    "revoke": revoke,
    "quota": quota,
    "map": map_role,
    "unmap": unmap_role,
}
