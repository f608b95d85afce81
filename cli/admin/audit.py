"""`telesto audit`: what the database keeps of the audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC
from typing import Annotated, Any

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.common.options import DEFAULT_DATA_DIRECTORY, DatabaseUrl, DataDirectory, Json
from telesto.cli.terminal import output

Since = Annotated[float, duration_option("--since", help="Only what was done within this time.")]
Event = Annotated[
    str | None, typer.Option("--event", metavar="EVENT", help="Only this event, such as queue_deleted.")
]
Most = Annotated[int, typer.Option("--limit", "-n", min=1, help="Show at most this many, the newest.")]

_NEWEST = """
SELECT at, event, outcome, details FROM (
    SELECT * FROM telesto.audit
    WHERE at > now() - make_interval(secs => %(since)s) AND (%(event)s::text IS NULL OR event = %(event)s)
    ORDER BY at DESC, audit_id DESC
    LIMIT %(most)s) AS newest
ORDER BY at, audit_id
"""
#: What has a column of its own, or says nothing to people.
_SHOWN = ("time", "event", "outcome", "peer", "role", "pid", "library", "middleware")


def audit(
    since: Since = 86_400.0,
    event: Event = None,
    most: Most = 100,
    database_url: DatabaseUrl = None,
    data_dir: DataDirectory = DEFAULT_DATA_DIRECTORY,
    as_json: Json = False,
) -> None:
    """Show who did what, oldest first: what the database keeps of the audit log.

    What was changed in SQL, users included, is always there; what clients did if the service has audit_table.
    """
    from telesto.cli.admin.database import transaction

    with transaction(database_url, data_dir) as connection:
        rows = connection.execute(_NEWEST, {"since": since, "event": event, "most": most}).fetchall()
    output.print_list(
        [_line(row) for row in rows],
        (
            output.Column("time (UTC)", lambda line: str(line["time"])[:19]),
            output.Column("event", lambda line: line["event"]),
            output.Column("outcome", lambda line: line["outcome"]),
            output.Column("by", _by_whom, cut=True),
            output.Column("from", lambda line: line.get("peer", ""), cut=True),
            output.Column("what", _details, cut=True),
        ),
        as_json=as_json,
        as_dict=lambda line: line,
        empty="Nothing is kept of that time.",
    )


def _line(row: Mapping[str, Any]) -> dict[str, Any]:
    moment = row["at"].astimezone(UTC).isoformat(timespec="microseconds")
    return {"time": moment, "event": row["event"], "outcome": row["outcome"], **row["details"]}


def _by_whom(line: dict[str, Any]) -> str:
    return str(line.get("role") or line.get("user") or "")


def _details(line: dict[str, Any]) -> str:
    # What a role of the database did is told of a user; otherwise it is the user who did it.
    skipped = _SHOWN if "role" in line else (*_SHOWN, "user")
    shown = ((name, value) for name, value in line.items() if name not in skipped)
    return " ".join(f"{name}={_value(value)}" for name, value in shown)


def _value(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
