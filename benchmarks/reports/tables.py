"""What a report reads of each table: the columns that it needs, none of them a body."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the schema and what is read of it.

    Attributes:
        name: in the schema `telesto`.
        columns: names as the report sees them, and the SQL that gives them.
        needs: the table's own columns that this takes.
        restricted: a reader may see some of its columns only, so it can be neither locked nor shared out.
    """

    name: str
    columns: dict[str, str]
    needs: tuple[str, ...]
    restricted: bool = False

    @property
    def query(self) -> str:
        """The rows, and beside them their place in the table, by which they are shared out."""
        listed = ", ".join(f"{expression} AS {name}" for name, expression in self.columns.items())
        place = "" if self.restricted else f", ctid AS {PLACE}"
        return f"SELECT {listed}{place} FROM telesto.{self.name}"


PLACE = "place"
"""The name of the column that says where a row lies."""

_BYTES = "octet_length(body)"
# What all tables with messages tell about one, in one form.
_MESSAGE = {
    "queue_id": "queue_id",
    "message_id": "message_id",
    "sender_id": "sender_id",
    "priority": "priority",
    "attempt": "attempt",
    "time_of_arrival": "time_of_arrival",
    "bytes": _BYTES,
}


def _plain(name: str, *columns: str, restricted: bool = False) -> Table:
    return Table(name, {column: column for column in columns}, columns, restricted)


def _messages(name: str, *more: str) -> Table:
    columns = {**_MESSAGE, **{column: column for column in more}}
    return Table(name, columns, (*(column for column in columns if column != "bytes"), "body"))


_HISTORY = (
    "message_id",
    "queue_id",
    "sender_id",
    "receiver_id",
    "client_id",
    "consumer_id",
    "time_of_arrival",
    "handed_over_at",
    "ended_at",
    "attempt",
    "priority",
    "redelivered",
    "reason",
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
            {
                "queue_id": "queue_id",
                "message_id": "staged_id",
                "sender_id": "sender_id",
                "priority": "priority",
                "attempt": "0",
                "time_of_arrival": "staged_at",
                "bytes": _BYTES,
            },
            ("queue_id", "staged_id", "sender_id", "priority", "staged_at", "body"),
        ),
        Table(
            "history",
            {
                **{column: column for column in _HISTORY},
                "ending": "ending::text",
                "bytes": "coalesce(octet_length(body), 0)",
            },
            (*_HISTORY, "ending", "body"),
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
                "number": "number",
                "time_of_arrival": "time_of_arrival",
                "bytes": _BYTES,
            },
            ("topic_id", "number", "time_of_arrival", "body"),
        ),
        _plain("subscriptions", "subscription_id", "client_id", "topic_id", "start_number", "dropped_at"),
        _plain("positions", "subscription_id", "version", "position"),
    )
}
"""What a report of a service reads."""
