"""The procedures of topics as a middleware calls them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from procedure_calls import Calls, Client

SEQUENCE_GAP = 22
MESSAGE_TOO_LARGE = 26
ALREADY_SUBSCRIBED = 28
NOT_SUBSCRIBED = 29
TOPIC_NOT_EXISTING = 30
POSITION_UNKNOWN = 40
SUBSCRIPTION_DROPPED = 41
TOPIC_IN_USE = 42

ALL = -1


@dataclass(frozen=True)
class Publish:
    """A put to a topic; bodies with a sequence are pairs. Without a number it takes the client's next one."""

    client: Client
    topic: str
    bodies: Sequence[bytes | tuple[bytes, int]]
    number: int | None = None
    session: int | None = None


@dataclass(frozen=True)
class Published:
    """What became of it, message by message."""

    number: int
    numbers: list[int]
    errors: list[int | None]
    duplicates: list[bool]


@dataclass(frozen=True)
class Get:
    """A get: of a subscription by its id, of a topic by its name, of ALL topics.

    Positions are (subscription, confirmed, after).
    """

    client: Client
    of: int | str
    positions: Sequence[tuple[int, int, int]] = ()
    max_messages: int = 1
    max_bytes: int = 1 << 20
    session: int | None = None


@dataclass
class Got:
    """Messages, or an error, or the topics where there is nothing."""

    error: int | None = None
    related_id: int | None = None
    empty_topics: list[int] | None = None
    messages: list[dict[str, Any]] = field(default_factory=list)

    @property
    def numbers(self) -> list[int]:
        return [message["number"] for message in self.messages]

    @property
    def bodies(self) -> list[bytes]:
        return [message["body"] for message in self.messages]


class TopicCalls(Calls):
    """One connection, each call its own transaction."""

    def subscribe(
        self,
        client: Client,
        topic: str,
        max_behind: int | None = None,
        max_age_ms: int | None = None,
        *,
        drop: bool = False,
    ) -> int:
        row = self.numbered("subscribe", client, topic, max_behind, max_age_ms, drop)
        assert row["error"] is None, row
        return int(row["subscription_id"])

    def unsubscribe(self, client: Client, topic: str) -> int | None:
        error: int | None = self.numbered("unsubscribe", client, topic)["error"]
        return error

    def delete(self, client: Client, topic: str) -> int | None:
        error: int | None = self.numbered("delete_topic", client, topic)["error"]
        return error

    def names(self) -> list[str]:
        return [row["name"] for row in self.rows("list_topics", 0, 1_000)]

    def publish(self, requests: Sequence[Publish]) -> list[Published]:
        names = list(dict.fromkeys(request.topic for request in requests))
        elements = [
            (r, *(element if isinstance(element, tuple) else (element, None)))
            for r, request in enumerate(requests, 1)
            for element in request.bodies
        ]
        numbers = [r.client.next_number() if r.number is None else r.number for r in requests]
        row = self.row(
            "publish_batch",
            [request.client.client_id for request in requests],
            [request.client.session if request.session is None else request.session for request in requests],
            numbers,
            names,
            [names.index(request.topic) + 1 for request in requests],
            [r for r, _, _ in elements],
            [sequence for _, _, sequence in elements],
            [body for _, body, _ in elements],
            [],
            [],
            [],
        )
        errors = row["errors"] or [None] * len(elements)
        duplicates = row["duplicates"] or [False] * len(elements)
        answers = [Published(number, [], [], []) for number in numbers]
        results = zip(elements, row["message_numbers"], errors, duplicates, strict=True)
        for (r, _, _), number, error, duplicate in results:
            answers[r - 1].numbers.append(number)
            answers[r - 1].errors.append(error)
            answers[r - 1].duplicates.append(duplicate)
        return answers

    def put_to(self, client: Client, topic: str, *bodies: bytes) -> list[int]:
        """Put one message for each body in a request of its own; return the numbers."""
        answers = self.publish([Publish(client, topic, [body]) for body in bodies])
        assert all(answer.errors == [None] for answer in answers), answers
        return [answer.numbers[0] for answer in answers]

    def fetch(self, requests: Sequence[Get]) -> list[Got]:
        # As a middleware does: what is told of the subscription that a request names stands with the request.
        named = [
            next((told for told in request.positions if told[0] == request.of), (0, 0, 0))
            for request in requests
        ]
        positions = [
            (r, *told)
            for r, request in enumerate(requests, 1)
            for told in request.positions
            if told[0] != request.of
        ]
        rows = self.rows(
            "fetch_batch",
            [request.client.client_id for request in requests],
            [request.client.session if request.session is None else request.session for request in requests],
            [request.of if isinstance(request.of, int) else 0 for request in requests],
            [request.of if isinstance(request.of, str) else None for request in requests],
            [request.max_messages for request in requests],
            [request.max_bytes for request in requests],
            [confirmed for _, confirmed, _ in named],
            [after for _, _, after in named],
            *([position[column] for position in positions] for column in range(4)),
        )
        answers = [Got() for _ in requests]
        for row in rows:
            answer = answers[row["request"] - 1]
            if row["error"] is not None:
                answer.error, answer.related_id = row["error"], row["related_id"]
            elif row["topic_ids"] is not None:
                answer.empty_topics = row["topic_ids"]
            else:
                answer.messages.append(row)
        return answers

    def get(self, client: Client, of: int | str, *positions: tuple[int, int, int], **options: Any) -> Got:
        (got,) = self.fetch([Get(client, of, positions, **options)])
        return got

    def position(self, subscription: int) -> int:
        return int(
            self.scalar(
                "SELECT max(position) FROM telesto.positions WHERE subscription_id = %s", subscription
            )
        )

    def stored(self, topic: str) -> list[int]:
        rows = self.query(
            "SELECT message.number FROM telesto.topic_messages message JOIN telesto.topics USING (topic_id)"
            " WHERE name = %s ORDER BY 1",
            topic,
        )
        return [row["number"] for row in rows]

    def sweep(self, job: str = "topics", max_rows: int = 1000, idle_s: float = 86_400) -> int:
        """Run a job until it has no more to do; return what it did."""
        done, more = 0, True
        while more:
            row = self.row("sweep", 1, job, max_rows, 30, 604_800, None, idle_s)
            assert row["elected"]
            done, more = done + row["done"], row["more"]
        return done
