"""The columns that a report reads of each table; none of them is a body."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the schema and the columns that are read.

    Attributes:
        columns: names in the report, and their SQL.
        needs: the columns of the table that this SQL uses.
        restricted: a reader may see only some of its columns, so it can be neither locked nor divided.
        grouped_by: columns by which the database groups the rows of each part; the other columns are
            aggregates, which the report combines. For tables of which it needs nothing else.
    """

    name: str
    columns: dict[str, str]
    needs: tuple[str, ...]
    restricted: bool = False
    grouped_by: tuple[str, ...] = ()

    @property
    def times(self) -> tuple[str, ...]:
        """Columns that are read as microseconds since 1970."""
        return tuple(name for name in self.columns if name in TIMES)

    @property
    def query(self) -> str:
        """The rows, with their place in the table, by which they are divided."""
        place = "" if self.restricted else f", ctid AS {PLACE}"
        return f"SELECT {self._listed}{place} FROM telesto.{self.name}"

    def grouped(self, places: str) -> str:
        """The groups of the rows whose place meets a condition."""
        rows = f"(SELECT *, ctid AS {PLACE} FROM telesto.{self.name}) AS placed"
        return f"SELECT {self._listed} FROM {rows} WHERE {places} GROUP BY {', '.join(self.grouped_by)}"

    @property
    def _listed(self) -> str:
        given = {name: _microseconds(self.columns[name]) for name in self.times}
        return ", ".join(f"{sql} AS {name}" for name, sql in {**self.columns, **given}.items())


PLACE = "place"
"""The name of the column with the place of a row."""
TIMES = ("time_of_arrival", "handed_over_at", "ended_at")
"""Columns with as many values as messages. As text, a time costs the database and the driver more than all
other columns of a row; as a number it costs no more than any number."""


def _microseconds(time: str) -> str:
    # A double holds microseconds until the year 2255, and numeric would cost three times as much.
    return f"(date_part('epoch', {time}) * 1e6)::bigint"


_BYTES = "octet_length(body)"
# What every table of messages tells about a message, in one form.
_MESSAGE = {
    **{
        name: name
        for name in ("queue_id", "message_id", "sender_id", "priority", "attempt", "time_of_arrival")
    },
    "bytes": _BYTES,
}


def _plain(name: str, *columns: str, restricted: bool = False) -> Table:
    return Table(name, {column: column for column in columns}, columns, restricted)


def _messages(name: str, *more: str) -> Table:
    columns = {**_MESSAGE, **{column: column for column in more}}
    return Table(name, columns, (*(column for column in columns if column != "bytes"), "body"))


_HISTORY = (
    *("message_id", "queue_id", "sender_id", "receiver_id", "client_id", "consumer_id", "time_of_arrival"),
    *("handed_over_at", "ended_at", "attempt", "priority", "redelivered"),
)

TABLES = {
    table.name: table
    for table in (
        _plain("queues", "queue_id", "max_messages", "history", "name"),
        _plain("clients", "client_id", "name", restricted=True),
        _messages("messages"),
        _messages("keyed_messages", "partition_key"),
        _messages("delayed_messages"),
        _messages("deliveries", "client_id", "handed_over_at"),
        _messages("leases", "client_id", "consumer_id", "handed_over_at", "partition_key"),
        _messages("dead_letters", "reason", "died_at"),
        Table(
            "staged_messages",
            {**_MESSAGE, "message_id": "staged_id", "attempt": "0", "time_of_arrival": "staged_at"},
            ("queue_id", "staged_id", "sender_id", "priority", "staged_at", "body"),
        ),
        Table(
            "history",
            {**{column: column for column in _HISTORY}, "ending": "ending::text"},
            (*_HISTORY, "ending"),
        ),
        _plain("consumers", "queue_id", "consumer_id", "client_id", "middleware_id", "joined_at"),
        _plain("partitions", "queue_id", "owner_id", "line", "version"),
        _plain("put_states", "queue_id", "version", "total"),
        _plain("take_states", "queue_id", "version", "total"),
        _plain("topics", "topic_id", "name"),
        _plain("topic_states", "topic_id", "version", "last_number"),
        Table(
            "topic_messages",
            {
                "topic_id": "topic_id",
                "kept": "count(*)",
                "bytes": f"sum({_BYTES})",
                "time_of_arrival": "min(time_of_arrival)",
            },
            ("topic_id", "number", "time_of_arrival", "body"),
            grouped_by=("topic_id",),
        ),
        _plain("subscriptions", "subscription_id", "client_id", "topic_id", "start_number", "dropped_at"),
        _plain("positions", "subscription_id", "version", "position"),
    )
}
"""The tables that a report of a service reads."""
