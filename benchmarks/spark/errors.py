"""The errors of a report: one line that says what is wrong and what to do."""

from __future__ import annotations

import re

# The message of our worker, or of the database driver, within Spark's long report of a failed task.
_SAID_BY_US = re.compile(r"telesto\.benchmarks\.spark\.errors\.\w+: (?P<said>.+)")
_SAID_BY_DRIVER = re.compile(r"org\.postgresql\.util\.PSQLException: (?P<said>.+)")
_SAID_BY_PYTHON = re.compile(r"psycopg\.(?:errors\.)?\w+: (?P<said>.+)")
_SNAPSHOT_GONE = ("invalid snapshot identifier", 'snapshot "', "could not import the requested snapshot")


class ReportError(Exception):
    """The report cannot be made; nothing of it was written."""


class SparkSetupError(ReportError):
    """Spark cannot be started: Java, the JDBC driver or a setting is missing or unsuitable."""


class RunsError(ReportError):
    """The runs of an experiment cannot be read: they are missing, incomplete, or of another release."""


class SourceError(ReportError):
    """The database cannot be read: it went away, refused, or lacks what this release reads."""


class SnapshotEndedError(SourceError):
    """The snapshot ended before everything was read from it."""


def explain(error: Exception) -> ReportError:
    """Reduce Spark's exception to one line: the database's own message, if there is one."""
    text = str(error)
    if ours := _SAID_BY_US.search(text):
        return SourceError(ours["said"].strip())
    found = _SAID_BY_DRIVER.search(text) or _SAID_BY_PYTHON.search(text)
    if found is None:
        first = text.strip().partition("\n")[0]
        return ReportError(f"Spark failed: {type(error).__name__}: {first}")
    said = found["said"].strip()
    if any(sign in said for sign in _SNAPSHOT_GONE):
        return SnapshotEndedError(f"the snapshot ended before everything was read: {said}")
    return SourceError(f"the database could not be read to the end: {said}")
