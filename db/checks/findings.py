"""Checks an installed schema: functions that differ, rows that contradict each other."""

import re
from dataclasses import dataclass
from importlib.resources import files

import psycopg

from telesto.db.install.manifest import Manifest
from telesto.db.install.procedures import installed_functions


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem: `subject` names the table or function, `detail` says what is wrong."""

    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class Invariant:
    """A statement that must return no row; each row that it returns is the text of one problem."""

    subject: str
    sql: str


def _read_invariants(file: str) -> list[Invariant]:
    """Read a file of statements, each headed by a comment with its subject."""
    text = (files("telesto.db.checks") / file).read_text(encoding="utf-8")
    return [Invariant(subject, sql) for subject, sql in _STATEMENT.findall(text)]


_STATEMENT = re.compile(r"^-- (\w+)\n(.*?);$", re.MULTILINE | re.DOTALL)
INVARIANTS = tuple(
    invariant
    for file in ("queues.sql", "partitions.sql", "topics.sql", "history.sql")
    for invariant in _read_invariants(file)
)


def find_problems(connection: psycopg.Connection, manifest: Manifest) -> list[Problem]:
    """Return all problems, functions first; `connection` must not be in a transaction."""
    with connection.transaction():
        # One snapshot for all statements: otherwise moving messages would look like contradictions.
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        return [*_function_problems(connection, manifest), *find_contradictions(connection)]


def _function_problems(connection: psycopg.Connection, manifest: Manifest) -> list[Problem]:
    installed = installed_functions(connection)
    names = [function.name for function in installed]
    texts = {procedure.name: procedure.sql for procedure in manifest.procedures}
    return [
        *(Problem(name, "the function is missing") for name in texts if name not in names),
        *(Problem(name, "the function is not this release's") for name in names if name not in texts),
        *(
            Problem(name, "the function exists more than once")
            for name, text in texts.items()
            if names.count(name) > text.count("CREATE OR REPLACE FUNCTION")
        ),
        *(
            Problem(function.name, "the function's text is not this release's")
            for function in installed
            if function.source not in texts.get(function.name, function.source)
        ),
    ]


def find_contradictions(connection: psycopg.Connection) -> list[Problem]:
    """Return the contradictions among rows; all that it reads must be one snapshot, or at rest."""
    return [
        Problem(invariant.subject, detail)
        for invariant in INVARIANTS
        for (detail,) in connection.execute(invariant.sql.encode())
    ]
