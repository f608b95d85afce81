"""An archive of the history: new rows are added, each once, however often the command is stopped."""

from __future__ import annotations

from pathlib import PurePosixPath

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from telesto.benchmarks.spark.errors import explain
from telesto.benchmarks.spark.stream import FAIL, HistoryDataSource

CHECKPOINT = "_checkpoint"
"""The progress of the archive, next to the data. Spark does not read names that begin with _ as data."""
DAY = "day"


def add_to_archive(
    spark: SparkSession, url: str, directory: str, *, file_format: str = "parquet", new_timeline: str = FAIL
) -> int:
    """Add the history since the last time; return the number of rows.

    Args:
        spark: the session.
        url: the database.
        directory: the archive, a path or any place that Spark can write to; it has a directory for each day
            (UTC) on which messages ended.
        file_format: of the files, `parquet` or another that Spark can write as a stream.
        new_timeline: what to do if a standby was promoted since, `fail` or `continue`.

    Raises ReportError if the database cannot be read, or is another one, or Spark fails. The archive stays
    intact.
    """
    try:
        spark.dataSource.register(HistoryDataSource)
        history = (
            spark.readStream.format(HistoryDataSource.name())
            .option("url", url)
            .option("newTimeline", new_timeline)
            .load()
        )
        query = (
            history.withColumn(DAY, F.to_date("ended_at"))
            .writeStream.format(file_format)
            .option("checkpointLocation", str(PurePosixPath(directory) / CHECKPOINT))
            .partitionBy(DAY)
            .trigger(availableNow=True)
            .start(directory)
        )
        query.awaitTermination()
        return _rows_of(query)
    except (PySparkException, Py4JError) as error:
        raise explain(error) from error


def _rows_of(query: StreamingQuery) -> int:
    return sum(int(progress["numInputRows"]) for progress in query.recentProgress)
