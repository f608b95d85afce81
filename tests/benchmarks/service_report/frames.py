"""Small data frames for the analyses."""

from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 1, 5, 12, 0, 0, tzinfo=UTC)

SCHEMAS = {
    "history": "message_id long, queue_id long, sender_id long, receiver_id long, client_id long, "
    "consumer_id long, time_of_arrival timestamp, handed_over_at timestamp, ended_at timestamp, attempt int, "
    "priority short, redelivered boolean, ending string",
    "present": "queue_id long, message_id long, sender_id long, priority short, attempt int, "
    "time_of_arrival timestamp, bytes int, state string",
    "queues": "queue_id long, name string",
    "clients": "client_id long, name string",
    "dead_letters": "queue_id long, reason string, attempt int, died_at timestamp",
    "consumers": "consumer_id long, queue_id long, client_id long, middleware_id long",
    "leases": "consumer_id long, queue_id long, sender_id long, partition_key string, "
    "handed_over_at timestamp",
    "keyed_messages": "queue_id long, sender_id long, partition_key string",
    "partitions": "queue_id long, owner_id long",
    "put_states": "queue_id long, version long, total long",
    "take_states": "queue_id long, version long, total long",
    "topics": "topic_id long, name string",
    "topic_states": "topic_id long, version long, last_number long",
    "topic_messages": "topic_id long, kept long, bytes long, time_of_arrival timestamp",
    "subscriptions": "subscription_id long, topic_id long, start_number long, dropped_at timestamp",
    "positions": "subscription_id long, version long, position long",
}

ENDED = {
    "queue_id": 1,
    "sender_id": 1,
    "receiver_id": 0,
    "client_id": 2,
    "attempt": 1,
    "priority": 5,
    "redelivered": False,
    "ending": "confirmed",
}
THERE = {"queue_id": 1, "sender_id": 1, "priority": 5, "attempt": 0, "bytes": 10, "state": "waiting"}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


class Frames:
    """Makes data frames of the tables' forms."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def make(self, table: str, *rows: dict[str, Any]) -> DataFrame:
        names = [column.split()[0] for column in SCHEMAS[table].split(", ")]
        assert all(set(row) <= set(names) for row in rows), rows
        values = [tuple(row.get(name) for name in names) for row in rows]
        return self.of(SCHEMAS[table], *values)

    def of(self, schema: str, *values: tuple[Any, ...]) -> DataFrame:
        return self._spark.createDataFrame(list(values), schema)

    def ended(
        self, message_id: int, arrived: float, handed: float | None, ended: float, **columns: Any
    ) -> dict[str, Any]:
        """A row of the history; times in seconds after START."""
        times = {
            "time_of_arrival": at(arrived),
            "handed_over_at": None if handed is None else at(handed),
            "ended_at": at(ended),
        }
        return {**ENDED, "message_id": message_id, **times, **columns}

    def there(self, message_id: int, arrived: float, **columns: Any) -> dict[str, Any]:
        """A message that is not over."""
        return {**THERE, "message_id": message_id, "time_of_arrival": at(arrived), **columns}
