"""Headers of messages through both clients."""

from collections.abc import Callable
from typing import Any

import pytest

from telesto.client import (
    ClientMode,
    HistoryMode,
    InvalidParameterError,
    MessageTooLargeError,
    NewMessage,
    NewTopicMessage,
)

Connect = Callable[..., Any]

HEADERS = {"tenant": "nörd", "content-type": "application/json", "note": ""}


@pytest.fixture
def queue(client: Any) -> Any:
    return client.create_queue("orders")


def test_they_come_with_their_message(client: Any, queue: Any) -> None:
    queue.put(b"with", headers=HEADERS)
    client.put_message(queue, b"flat", headers=HEADERS)
    client.put_messages([queue], b"several", headers=HEADERS)
    queue.put(b"without")
    queue.put(b"empty", headers={})
    queue.put_many([NewMessage(b"many", headers=HEADERS), b"plain"])
    expected = [HEADERS, HEADERS, HEADERS, {}, {}, HEADERS, {}]
    assert [message.headers for message in queue.browse()] == expected
    assert [queue.get(timeout=0).headers for _ in expected] == expected


def test_a_change_after_the_put_changes_nothing(client: Any, queue: Any) -> None:
    headers = dict(HEADERS)
    queue.put(b"x", headers=headers)
    headers["tenant"] = "south"
    message = queue.get(timeout=0)
    assert message.headers == HEADERS
    message.headers["note"] = "mine"
    queue.put(b"y")
    assert queue.get(timeout=0).headers == {}


def test_a_request_and_its_response_have_their_own(client: Any, connected: Connect, queue: Any) -> None:
    server = connected("server")
    correlation_id = 77
    queue.put(b"?", correlation_id=correlation_id, headers={"kind": "question"})
    request = server.queue("orders").get(timeout=0)
    assert request.headers == {"kind": "question"}
    server.reply(request, b"!", headers={"kind": "answer"})
    (response,) = client.queue("orders").browse()
    assert (response.headers, response.correlation_id) == ({"kind": "answer"}, correlation_id)


def test_what_was_given_back_keeps_them(client: Any, connected: Connect, queue: Any) -> None:
    queue.put(b"x", headers=HEADERS)
    reader = connected("reader")
    message = reader.queue("orders").get(timeout=0)
    reader.release([message])
    assert queue.get(timeout=0).headers == HEADERS


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"": "x"}, "a name has 0 bytes"),
        ({"n" * 129: "x"}, "a name has 129 bytes"),
        ({"a\nb": "x"}, "control characters, as U.000A"),
        ({"size": "x" * 1_025}, "'size' has 1025 bytes"),
        ({"size": "a\0b"}, "'size' has a NUL character"),
        ({str(number): "" for number in range(65)}, "65 headers"),
        ({str(number): "x" * 1_024 for number in range(8)}, "8200 bytes of names and values"),
        ({"name": "\udc80"}, "no character of a text"),
    ],
)
def test_what_cannot_be_is_said(client: Any, queue: Any, headers: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidParameterError, match=words):
        queue.put(b"x", headers=headers)


@pytest.mark.parametrize(
    ("headers", "words"),
    [({"size": 7}, "must be texts, not int"), ({7: "x"}, "not int: 7"), ([("a", "b")], "a dict of texts")],
)
def test_what_are_no_texts_is_said(client: Any, queue: Any, headers: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        queue.put(b"x", headers=headers)


def test_the_largest_that_can_be(client: Any, queue: Any) -> None:
    headers = {f"{number:0128}": "x" * 1_024 for number in range(7)} | {"y": "x" * 127}
    assert sum(map(len, (*headers, *headers.values()))) == 8_192
    queue.put(b"x", headers=headers)
    assert queue.get(timeout=0).headers == headers


def test_every_subscriber_of_a_topic_gets_them(client: Any, connected: Connect) -> None:
    subscriber = connected("subscriber")
    topic = subscriber.topic("prices")
    topic.subscribe()
    publisher = client.topic("prices")
    publisher.put(b"one", headers=HEADERS)
    publisher.put_many([NewTopicMessage(b"two", headers=HEADERS), b"three"])
    publisher.put({"wheat": 210})
    publisher.put("wheat 210", headers={"unit": "t"})
    messages = [topic.get(timeout=60) for _ in range(5)]
    assert [message.headers for message in messages] == [
        HEADERS,
        HEADERS,
        {},
        {"content-type": "application/json"},
        {"unit": "t", "content-type": "text/plain; charset=utf-8"},
    ]
    assert messages[3].json() == {"wheat": 210}
    assert (messages[4].text, messages[4].content_type) == ("wheat 210", "text/plain; charset=utf-8")
    with pytest.raises(ValueError, match="the body of message 1 of topic 'prices' is no JSON"):
        messages[0].json()


class TestTheRealService:
    @pytest.fixture
    def service_url(self, real_service_url: str) -> str:
        return real_service_url

    @pytest.fixture
    def queue(self, client: Any) -> Any:
        settings = {"history": HistoryMode.METADATA, "max_attempts": 1, "backoff": 0}
        return client.create_queue("orders", **settings)

    def test_a_consumer_gets_them_and_dead_letters_keep_them(self, client: Any, queue: Any) -> None:
        for key in (None, "k"):
            queue.put(b"x", headers=HEADERS, partition_key=key)
            with queue.consume() as consumer:
                leased = consumer.get(60)
                assert leased.message.headers == HEADERS
                leased.nack()
            (letter,) = queue.dead_letters()
            assert letter.message.headers == HEADERS
            assert queue.redrive() == 1
            with queue.consume() as consumer, consumer.get(60) as again:
                assert again.message.headers == HEADERS

    def test_the_history_shows_them(self, client: Any, connected: Connect, queue: Any) -> None:
        message_id = queue.put(b"x", headers=HEADERS)
        plain_id = queue.put(b"x")
        watcher = connected("watcher", mode=ClientMode.READ_ONLY)
        assert [record.headers for record in watcher.message_history(message_id).records] == [HEADERS]
        assert [record.headers for record in watcher.message_history(plain_id).records] == [{}]
        client.confirm([queue.get(timeout=0)])
        assert watcher.message_history(message_id).records[-1].headers == HEADERS

    def test_a_body_that_is_too_large_with_them_is_refused(self, client: Any, queue: Any) -> None:
        size = (1 << 24) - 65_536
        headers = {"name": "x" * 100}
        with pytest.raises(MessageTooLargeError, match="body and headers"):
            queue.put(bytes(size - 16 - 4 - 104 + 1), headers=headers)
        queue.put(bytes(size - 16 - 4 - 104), headers=headers)
        assert queue.get(timeout=60).headers == headers
