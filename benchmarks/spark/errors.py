"""What a report can fail with: one line that says what is wrong and what to do."""

from __future__ import annotations

import re

# What a worker of ours, or the driver of the database, says within Spark's long account of a failed task.
_SAID_BY_US = re.compile(r"telesto\.benchmarks\.spark\.errors\.\w+: (?P<said>.+)")
_SAID_BY_DRIVER = re.compile(r"org\.postgresql\.util\.PSQLException: (?P<said>.+)")
_SAID_BY_PYTHON = re.compile(r"psycopg\.(?:errors\.)?\w+: (?P<said>.+)")
_SNAPSHOT_GONE = ("invalid snapshot identifier", 'snapshot "', "could not import the requested snapshot")


class ReportError(Exception):
    """The report cannot be made; nothing of it was left."""


class SparkSetupError(ReportError):
    """Spark cannot be started: Java, the driver of the database or a setting is missing or unfit."""


class RunsError(ReportError):
    """The runs of an experiment cannot be read: they are not there, not whole, or not of this release."""


class SourceError(ReportError):
    """The database cannot be read: it went away, refused, or has not what this release reads."""


class SnapshotEndedError(SourceError):
    """The snapshot ended before everything was read from it."""


def explain(error: Exception) -> ReportError:
    """Make what Spark raised into one line: the reason that the database gave, if one is in it."""
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
