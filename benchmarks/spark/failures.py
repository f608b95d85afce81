"""Spark's exceptions as errors of a report."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from telesto.benchmarks.spark.errors import explain
from telesto.benchmarks.spark.snapshot import Snapshot


@contextmanager
def explained_failures(snapshot: Snapshot | None = None) -> Iterator[None]:
    """Turn Spark's exceptions into a ReportError; the end of the snapshot is the better explanation."""
    try:
        yield
    except psycopg.OperationalError:
        if snapshot is not None:
            snapshot.check()
        raise
    except (PySparkException, Py4JError) as error:
        if snapshot is not None:
            snapshot.check()
        raise explain(error) from error
