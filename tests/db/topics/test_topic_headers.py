"""Headers of messages of topics: every subscriber gets them, and they count as bytes of the body."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from procedure_calls import Client
from topic_calls import ALL, MESSAGE_TOO_LARGE, Get, TopicCalls

HEADERS = {"tenant": "north", "note": ""}
#: What they count for: 16, and 4 and its name and value for each.
HEADERS_BYTES = 16 + sum(4 + len(name) + len(value) for name, value in HEADERS.items())


def publish(topics: TopicCalls, client: Client, *headers: dict[str, str] | None) -> None:
    """Put a message for each of the headers to the topic t."""
    row = topics.row(
        "publish_batch",
        [client.client_id],
        [client.session],
        [client.next_number()],
        ["t"],
        [1],
        [1] * len(headers),
        [None] * len(headers),
        [b"body"] * len(headers),
        [],
        [],
        [],
        [each and Jsonb(each) for each in headers],
    )
    assert row["errors"] is None


def got(topics: TopicCalls, client: Client, of: int | str, **bounds: Any) -> list[dict[str, str] | None]:
    (answer,) = topics.fetch([Get(client, of, **bounds)])
    assert answer.error is None
    return [message["headers"] for message in answer.messages]


def test_every_subscriber_gets_them(topic_calls: TopicCalls) -> None:
    publisher = topic_calls.register()
    for _ in range(2):
        subscriber = topic_calls.register()
        subscription = topic_calls.subscribe(subscriber, "t")
        publish(topic_calls, publisher, HEADERS, None)
        for of in (subscription, "t", ALL):
            assert got(topic_calls, subscriber, of, max_messages=2) == [HEADERS, None]


def test_without_any_all_are_null(topic_calls: TopicCalls) -> None:
    client = topic_calls.register()
    subscription = topic_calls.subscribe(client, "t")
    topic_calls.put_to(client, "t", b"1", b"2")
    assert got(topic_calls, client, subscription, max_messages=2) == [None, None]


@pytest.mark.parametrize("every", [False, True])
def test_they_count_as_bytes_of_the_body(topic_calls: TopicCalls, every: bool) -> None:
    client = topic_calls.register()
    subscription = topic_calls.subscribe(client, "t")
    of = ALL if every else subscription
    publish(topic_calls, client, HEADERS, None)
    enough = 4 + HEADERS_BYTES
    (answer,) = topic_calls.fetch([Get(client, of, max_bytes=enough - 1)])
    assert (answer.error, answer.related_id) == (MESSAGE_TOO_LARGE, 1)
    assert got(topic_calls, client, of, max_messages=2, max_bytes=enough + 3) == [HEADERS]
    assert got(topic_calls, client, of, max_messages=2, max_bytes=enough + 4) == [HEADERS, None]


def test_from_sql(topic_calls: TopicCalls) -> None:
    client = topic_calls.register()
    subscription = topic_calls.subscribe(client, "t")
    for headers in (Jsonb(HEADERS), Jsonb({}), None):
        topic_calls.value("put_to_topic", "t", b"body", headers)
    topic_calls.row("place_staged_topics", 10)
    assert got(topic_calls, client, subscription, max_messages=9) == [HEADERS, None, None]


def test_what_cannot_be_is_refused(topic_calls: TopicCalls) -> None:
    with pytest.raises(psycopg.Error, match="size is a text, not number") as caught:
        topic_calls.value("put_to_topic", "t", b"body", Jsonb({"size": 7}))
    assert caught.value.sqlstate == "TL012"
    topic_calls.connection.execute("UPDATE telesto.installation SET max_body_bytes = 30")
    with pytest.raises(psycopg.Error, match="40 bytes of body and headers are too long: 30") as caught:
        topic_calls.value("put_to_topic", "t", bytes(11), Jsonb({"name": "value"}))
    assert caught.value.sqlstate == "TL026"
