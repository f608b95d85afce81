"""The procedures as a middleware calls them, with requests and answers as small objects."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

BUSY = -1
QUEUE_NAME_NOT_UNIQUE = 4
CLIENT_NOT_EXISTING = 5
CLIENT_NAME_NOT_UNIQUE = 6
QUEUE_NOT_EXISTING = 7
SESSION_FENCED = 20
QUEUE_FULL = 25
MESSAGE_TOO_LARGE = 26
NUMBER_REPEATED = 36

FULL, READ_ONLY = 1, 2
BY_PRIORITY, BY_AGE = 1, 2
PUT_METHOD = 0x31

PATIENCE_S = 60.0
WAITING = "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'"

PARAMETER_TYPES = """
SELECT p.proname::text,
       ARRAY(SELECT t::regtype::text FROM unnest(p.proargtypes) WITH ORDINALITY AS u (t, i) ORDER BY i)
FROM pg_proc p WHERE p.pronamespace = 'telesto'::regnamespace
"""

MESSAGE_FIELDS = (
    "message_id",
    "queue_id",
    "sender_id",
    "receiver_id",
    "priority",
    "attempt",
    "redelivered",
    "context",
    "body",
)


@dataclass
class Client:
    """A client in one session, with its own count of numbers."""

    client_id: int
    session: int
    name: str
    token: bytes = b""
    numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def next_number(self) -> int:
        return next(self.numbers)


@dataclass(frozen=True)
class Element:
    """A message for a queue."""

    queue: int
    body: bytes = b"body"
    priority: int = 5
    receiver: int = 0
    context: int | None = None
    key: str | None = None
    delay_ms: int | None = None
    life_ms: int | None = None
    partition: str | None = None
    headers: dict[str, str] | None = None


@dataclass(frozen=True)
class Put:
    """A put request; without a number it takes the client's next one, 0 leaves no record."""

    client: Client
    elements: Sequence[Element]
    number: int | None = None
    session: int | None = None


@dataclass(frozen=True)
class Read:
    """A read request, plain or selective."""

    client: Client
    queue: int
    max_messages: int = 1
    max_bytes: int = 1 << 20
    number: int | None = None
    session: int | None = None
    sender: int = 0
    mode: int = BY_PRIORITY
    context: int | None = None


@dataclass
class Taken:
    """What a read got: messages, or an error."""

    number: int
    error: int | None = None
    related_id: int | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)
    origins: list[Any] = field(default_factory=list, compare=False)

    @property
    def ids(self) -> list[int]:
        return [message["message_id"] for message in self.messages]

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages]


@dataclass(frozen=True)
class PutAnswer:
    """What became of a put request, element by element."""

    number: int
    message_ids: list[int]
    errors: list[int | None]


# Client, session and number of a request whose answer was taken.
Confirmed = tuple[int, int, int]


class Calls:
    """One connection, each call its own transaction."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        with psycopg.connect(url) as connection:
            self._types: dict[str, list[str]] = dict(connection.execute(PARAMETER_TYPES).fetchall())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.connection.close()

    @property
    def pid(self) -> int:
        return self.connection.info.backend_pid

    def rows(self, name: str, *arguments: Any) -> list[dict[str, Any]]:
        types = self._types[name][: len(arguments)]
        places = ", ".join(f"%s::{kind}" for kind in types)
        return self.connection.execute(
            f"SELECT * FROM telesto.{name}({places})".encode(), arguments
        ).fetchall()

    def row(self, name: str, *arguments: Any) -> dict[str, Any]:
        (row,) = self.rows(name, *arguments)
        return row

    def value(self, name: str, *arguments: Any) -> Any:
        (value,) = self.row(name, *arguments).values()
        return value

    def query(self, statement: str, *arguments: Any) -> list[dict[str, Any]]:
        return self.connection.execute(statement.encode(), arguments).fetchall()

    def scalar(self, statement: str, *arguments: Any) -> Any:
        (row,) = self.query(statement, *arguments)
        (value,) = row.values()
        return value

    def register(self, name: str | None = None, mode: int = FULL) -> Client:
        name = name or f"client-{os.urandom(6).hex()}"
        token = os.urandom(16)
        row = self.row("register_client", name, mode, token)
        assert row["error"] is None, row
        return Client(row["client_id"], row["session"], name, token)

    def take_over(self, client: Client) -> Client:
        """Return the same client in its next session."""
        row = self.row("identify_client", client.client_id, "")
        assert row["error"] is None, row
        return Client(client.client_id, row["session"], client.name, client.token)

    def create_queue(
        self, client: Client, max_messages: int | None = None, name: str | None = None, **settings: Any
    ) -> int:
        name = name or f"queue-{os.urandom(6).hex()}"
        wanted = Jsonb({"max_messages": max_messages, **settings})
        row = self.numbered("create_queue", client, name, wanted, number=0)
        assert row["error"] is None, row
        return int(row["queue_id"])

    def numbered(
        self,
        name: str,
        client: Client,
        *arguments: Any,
        number: int | None = None,
        confirmed: Iterable[Confirmed] = (),
    ) -> dict[str, Any]:
        """Call one of the single numbered requests."""
        pairs = [(session, confirmed_number) for _, session, confirmed_number in confirmed]
        number = client.next_number() if number is None else number
        sessions, numbers = [list(column) for column in zip(*pairs, strict=True)] or ([], [])
        return self.row(
            f"{name}_numbered", client.client_id, client.session, number, sessions, numbers, *arguments
        )

    def put(self, requests: Sequence[Put], confirmed: Iterable[Confirmed] = ()) -> list[PutAnswer]:
        clients, sessions, numbers = _identities(requests)
        elements = [(r, element) for r, request in enumerate(requests, 1) for element in request.elements]
        keys = [element.key for _, element in elements]
        delays = [element.delay_ms for _, element in elements]
        lives = [element.life_ms for _, element in elements]
        partitions = [element.partition for _, element in elements]
        headers = [Jsonb(element.headers) if element.headers else None for _, element in elements]
        row = self.row(
            "put_batch",
            clients,
            sessions,
            numbers,
            [PUT_METHOD] * len(requests),
            [r for r, _ in elements],
            [element.queue for _, element in elements],
            [element.receiver for _, element in elements],
            [element.priority for _, element in elements],
            [element.context for _, element in elements],
            [element.body for _, element in elements],
            *_confirmed_columns(confirmed),
            keys if any(keys) else None,
            delays if any(delays) else None,
            lives if any(life is not None for life in lives) else None,
            partitions if any(partitions) else None,
            None,
            headers if any(headers) else None,
        )
        errors = row["errors"] or [None] * len(elements)
        answers = [PutAnswer(number, [], []) for number in numbers]
        for (r, _), message_id, error in zip(elements, row["message_ids"], errors, strict=True):
            answers[r - 1].message_ids.append(message_id)
            answers[r - 1].errors.append(error)
        return answers

    def put_bodies(self, client: Client, queue: int, *bodies: bytes, **options: Any) -> list[int]:
        """Put one message for each body in a request of its own; return the ids."""
        answers = self.put([Put(client, [Element(queue, body, **options)]) for body in bodies])
        assert all(answer.errors == [None] for answer in answers), answers
        return [answer.message_ids[0] for answer in answers]

    def take(self, requests: Sequence[Read], confirmed: Iterable[Confirmed] = ()) -> list[Taken]:
        arguments, numbers = _read_columns(requests)
        return _taken(numbers, self.rows("take_batch", *arguments, *_confirmed_columns(confirmed)))

    def take_one(self, client: Client, queue: int, **options: Any) -> Taken:
        (taken,) = self.take([Read(client, queue, **options)])
        return taken

    def select(self, requests: Sequence[Read], confirmed: Iterable[Confirmed] = ()) -> list[Taken]:
        arguments, numbers = _read_columns(requests)
        rows = self.rows(
            "take_selected_batch",
            *arguments,
            *_confirmed_columns(confirmed),
            [request.sender for request in requests],
            [request.mode for request in requests],
            [request.context for request in requests],
        )
        return _taken(numbers, rows)

    def select_one(self, client: Client, queue: int, **options: Any) -> Taken:
        (taken,) = self.select([Read(client, queue, **options)])
        return taken

    def confirm(self, client: Client, *confirmed: tuple[int, int, int]) -> dict[str, Any]:
        """Confirm (session, number, message id or 0)."""
        sessions, numbers, message_ids = [list(column) for column in zip(*confirmed, strict=True)]
        requests = [1] * len(confirmed)
        return self.row(
            "confirm_batch", [client.client_id], [client.session], requests, sessions, numbers, message_ids
        )

    def release(self, client: Client, *given: tuple[int, int, int]) -> dict[str, Any]:
        """Give back (session, number, message id or 0)."""
        columns = [list(column) for column in zip(*given, strict=True)]
        return self.row("release_batch", client.client_id, client.session, *columns)

    def statistics(self, queue: int, max_rows: int = 100) -> dict[str, Any]:
        return self.row("queue_statistics", queue, max_rows)

    def operations(self, client: Client) -> list[tuple[int, int, list[int], list[int | None] | None]]:
        rows = self.query(
            "SELECT * FROM telesto.operations WHERE client_id = %s ORDER BY session, number", client.client_id
        )
        return [(row["session"], row["number"], row["related_ids"], row["errors"]) for row in rows]

    def deliveries(self, client: Client) -> list[tuple[int, int, int]]:
        rows = self.query(
            "SELECT session, number, message_id FROM telesto.deliveries WHERE client_id = %s"
            " ORDER BY session, number, message_id",
            client.client_id,
        )
        return [(row["session"], row["number"], row["message_id"]) for row in rows]


def _identities(requests: Sequence[Put] | Sequence[Read]) -> tuple[list[int], list[int], list[int]]:
    clients = [request.client.client_id for request in requests]
    sessions = [
        request.client.session if request.session is None else request.session for request in requests
    ]
    numbers = [
        request.client.next_number() if request.number is None else request.number for request in requests
    ]
    return clients, sessions, numbers


def _read_columns(requests: Sequence[Read]) -> tuple[tuple[list[int], ...], list[int]]:
    clients, sessions, numbers = _identities(requests)
    columns = (
        clients,
        sessions,
        numbers,
        [request.queue for request in requests],
        [request.max_messages for request in requests],
        [request.max_bytes for request in requests],
    )
    return columns, numbers


def _confirmed_columns(confirmed: Iterable[Confirmed]) -> tuple[list[int], list[int], list[int]]:
    rows = list(confirmed)
    return [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows]


def _taken(numbers: Sequence[int], rows: list[dict[str, Any]]) -> list[Taken]:
    answers = [Taken(number) for number in numbers]
    for row in rows:
        answer = answers[row["request"] - 1]
        if row["error"] is None:
            answer.messages.append({name: row[name] for name in MESSAGE_FIELDS})
            answer.origins.append(row["origin"])
        else:
            answer.error, answer.related_id = row["error"], row["related_id"]
    return answers


def until_blocked(observer: Calls, blocked: Calls) -> None:
    """Return when the other connection waits for a lock."""
    deadline = time.monotonic() + PATIENCE_S
    while observer.scalar(WAITING, blocked.pid) == 0:
        assert time.monotonic() < deadline, "nothing waits"
