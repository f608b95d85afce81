"""`telesto user quota|map|unmap`: how much a user may use, and which role of the database it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Annotated, Any

import typer

from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl, DataDirectory, Json
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode
from telesto.cli.terminal.failures import CommandError, usage_error

Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the user.")]
Role = Annotated[str, typer.Argument(metavar="ROLE", help="A role of the database that logs in.")]

_MOST = 2**31 - 1
_MOST_STORED = 2**63 - 1
_NONE = "none"
#: The quotas in the order in which they are shown: their columns, and what they hold for.
_QUOTAS = {
    "connections": ("max_connections", "each middleware"),
    "clients": ("max_clients", "all"),
    "queues": ("max_queues", "all"),
    "consumers": ("max_consumers", "each middleware"),
    "waiting-reads": ("max_waiting_reads", "each middleware"),
    "puts-per-second": ("max_puts_per_s", "each middleware"),
    "topics": ("max_topics", "all"),
    "stored-messages": ("max_stored_messages", "all"),
    "stored-bytes": ("max_stored_bytes", "all"),
}
_SHOWN = """
SELECT u.*, (SELECT count(*) FROM telesto.clients AS c WHERE c.user_id = u.user_id) AS clients_used,
       (SELECT count(*) FROM telesto.queues AS q WHERE q.user_id = u.user_id) AS queues_used,
       (SELECT count(*) FROM telesto.topics AS t WHERE t.user_id = u.user_id) AS topics_used,
       g.stored_messages AS "stored-messages_used", g.stored_bytes AS "stored-bytes_used",
       (SELECT count(*) FROM telesto.consumers AS o
        JOIN telesto.clients AS c ON c.client_id = o.client_id WHERE c.user_id = u.user_id) AS consumers_used
FROM telesto.users AS u LEFT JOIN telesto.user_usage AS g ON g.user_id = u.user_id WHERE u.name = %(name)s
"""
_MAP = """
INSERT INTO telesto.sql_users (role_name, user_id)
SELECT %(role)s, user_id FROM telesto.users WHERE name = %(name)s
ON CONFLICT (role_name) DO UPDATE SET user_id = EXCLUDED.user_id RETURNING role_name
"""
_MAPPED = """
SELECT u.name FROM telesto.sql_users AS s JOIN telesto.users AS u ON u.user_id = s.user_id
WHERE s.role_name = %s FOR UPDATE OF s
"""
#: How many near names of roles are told.
_NEAR = 3


def _limit(option: str, what: str) -> Any:
    return typer.Option(option, metavar="N|none", help=what)


def quota(
    name: Name,
    connections: Annotated[
        str | None, _limit("--connections", "How many connections each middleware serves.")
    ] = None,
    clients: Annotated[str | None, _limit("--clients", "How many clients it may have.")] = None,
    queues: Annotated[str | None, _limit("--queues", "How many queues it may have created.")] = None,
    consumers: Annotated[
        str | None, _limit("--consumers", "How many consumers it may have at each middleware.")
    ] = None,
    waiting_reads: Annotated[
        str | None, _limit("--waiting-reads", "How many of its reads may wait at each middleware.")
    ] = None,
    puts_per_second: Annotated[
        str | None, _limit("--puts-per-second", "How many messages it may put through each middleware.")
    ] = None,
    topics: Annotated[str | None, _limit("--topics", "How many topics it may have created.")] = None,
    stored_messages: Annotated[
        str | None, _limit("--stored-messages", "How many messages of its clients may be stored.")
    ] = None,
    stored_bytes: Annotated[
        str | None, _limit("--stored-bytes", "How many bytes the bodies of these may have.")
    ] = None,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Show how much a user may use and uses, after changing what is given. It holds within a second.

    What is beyond a quota is refused; nothing that is there already ends.
    """
    given = (
        connections,
        clients,
        queues,
        consumers,
        waiting_reads,
        puts_per_second,
        topics,
        stored_messages,
        stored_bytes,
    )
    changes = {
        column: _number(option, value)
        for (option, (column, _)), value in zip(_QUOTAS.items(), given, strict=True)
        if value is not None
    }
    from telesto.cli.admin.database import transaction

    with transaction(database_url, data_dir) as connection:
        if changes:
            assignments = ", ".join(f"{column} = %({column})s" for column in changes)
            statement = f"UPDATE telesto.users SET {assignments} WHERE name = %(name)s"
            connection.execute(statement.encode(), {"name": name, **changes})
        user = connection.execute(_SHOWN.encode(), {"name": name}).fetchone()
    if user is None:
        raise CommandError(f"there is no user {name!r}", ExitCode.REFUSED)
    rows = [
        {"quota": option, "limit": user[column], "used": user.get(f"{option}_used"), "of": scope}
        for option, (column, scope) in _QUOTAS.items()
    ]
    output.print_list(
        rows,
        (
            output.Column("quota", lambda row: str(row["quota"])),
            output.Column("limit", lambda row: _NONE if row["limit"] is None else str(row["limit"])),
            output.Column("used", lambda row: "" if row["used"] is None else str(row["used"])),
            output.Column("counted for", lambda row: str(row["of"])),
        ),
        as_json=as_json,
        as_dict=dict,
        empty="",
    )


def map_role(
    role: Role,
    name: Name,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Let a role of the database be a user when it calls Telesto in SQL, from its next call on."""
    from telesto.cli.admin.database import transaction

    with transaction(database_url, data_dir) as connection:
        roles = {
            str(row["rolname"]): bool(row["rolcanlogin"])
            for row in connection.execute("SELECT rolname, rolcanlogin FROM pg_roles ORDER BY rolname")
        }
        if role not in roles:
            raise CommandError(_no_role(role, roles), ExitCode.REFUSED)
        mapped = connection.execute(_MAPPED, (role,)).fetchone()
        before = None if mapped is None else str(mapped["name"])
        if connection.execute(_MAP.encode(), {"role": role, "name": name}).fetchone() is None:
            raise CommandError(f"there is no user {name!r}", ExitCode.REFUSED)
    if not roles[role]:
        output.print_error(
            f"the role {role!r} cannot log in, so nobody calls as it: map roles that log in, not their group"
        )
    done: dict[str, object] = {"role": role, "user": name, "before": before}
    if before == name:
        text = f"nothing to do: role {role} is user {name} already"
    else:
        text = f"role {role} is user {name} now" + (f"; it was user {before}" if before else "")
    _tell(done, text, as_json=as_json)


def unmap_role(
    role: Role,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Let a role of the database be no user any more: then it may do nothing while there are users."""
    from telesto.cli.admin.database import transaction

    with transaction(database_url, data_dir) as connection:
        statement = "DELETE FROM telesto.sql_users WHERE role_name = %s RETURNING role_name"
        if connection.execute(statement, (role,)).fetchone() is None:
            mapped = connection.execute("SELECT role_name::text FROM telesto.sql_users ORDER BY role_name")
            roles = [str(row["role_name"]) for row in mapped]
            near = get_close_matches(role, roles, _NEAR)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
            raise CommandError(f"nothing to unmap: the role {role!r} is no user{hint}", ExitCode.REFUSED)
    _tell({"role": role, "user": None}, f"role {role} is no user any more", as_json=as_json)


def _no_role(role: str, roles: Iterable[str]) -> str:
    near = get_close_matches(role, [name for name in roles if not name.startswith("pg_")], _NEAR)
    hint = f"did you mean {' or '.join(near)}?" if near else f"make it first: {_create_role(role)}"
    return f"the database has no role {role!r}; {hint}"


def _create_role(role: str) -> str:
    return 'CREATE ROLE "' + role.replace('"', '""') + '" LOGIN'


def _number(option: str, value: str) -> int | None:
    if value == _NONE:
        return None
    most = _MOST_STORED if option.startswith("stored") else _MOST
    if not value.isascii() or not value.isdigit() or len(value) > len(str(most)) or int(value) > most:
        raise usage_error(f"--{option} {value!r}: a number from 0 to {most}, or none")
    return int(value)


def _tell(done: Mapping[str, object], text: str, *, as_json: bool) -> None:
    if as_json:
        output.print_json(done)
    else:
        output.print_line(text)
