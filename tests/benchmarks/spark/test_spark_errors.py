"""Spark's account of a failure, made into one line."""

from telesto.benchmarks.spark.errors import ReportError, SnapshotEndedError, SourceError, explain

TASK = "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times, most recent failure: "


def test_what_the_driver_said_is_told() -> None:
    found = explain(
        RuntimeError(TASK + "org.postgresql.util.PSQLException: ERROR: permission denied\n\tat org")
    )
    assert type(found) is SourceError
    assert str(found) == "the database could not be read to the end: ERROR: permission denied"


def test_a_snapshot_that_is_gone_is_told_from_other_failures() -> None:
    said = 'org.postgresql.util.PSQLException: ERROR: invalid snapshot identifier: "00000003-1B-1"\n'
    assert type(explain(RuntimeError(TASK + said))) is SnapshotEndedError


def test_what_a_worker_of_ours_said_is_told_alone() -> None:
    said = "Traceback:\n  File x\ntelesto.benchmarks.spark.errors.SourceError: it lags\n at y"
    assert str(explain(RuntimeError(TASK + said))) == "it lags"


def test_what_psycopg_said_in_a_worker_is_told() -> None:
    found = explain(RuntimeError(TASK + "\npsycopg.OperationalError: connection refused\nmore"))
    assert type(found) is SourceError
    assert "connection refused" in str(found)


def test_anything_else_is_a_failure_of_spark_with_its_first_line() -> None:
    found = explain(ValueError("out of disk\n\tat somewhere"))
    assert type(found) is ReportError
    assert str(found) == "Spark failed: ValueError: out of disk"
