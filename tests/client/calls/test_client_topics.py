"""Topics: the same for both clients, against the service in memory and the real one."""

import logging
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest

from telesto.client import (
    AlreadySubscribedError,
    ClientMode,
    ClientModePermissionError,
    ClientOptions,
    InvalidParameterError,
    MessageTooLargeError,
    NewTopicMessage,
    NotSubscribedError,
    SequenceGapError,
    SubscriptionState,
    TopicInUseError,
    TopicNotExistingError,
)

Connect = Callable[..., Any]

BY_HAND = ClientOptions(auto_confirm=False)


@pytest.fixture
def topic() -> str:
    return f"prices \N{EURO SIGN} {uuid.uuid4().hex}"


def bodies(messages: Any) -> list[bytes]:
    return [message.body for message in messages]


def test_a_subscriber_gets_what_is_put_from_then_on_once_and_in_order(client: Any, topic: str) -> None:
    assert client.topic(topic).put(b"before") == 1
    client.topic(topic).subscribe()
    assert [client.topic(topic).put(body) for body in (b"a", b"b")] == [2, 3]
    first, second = client.topic(topic).get(), client.topic(topic).get(timeout=0)
    assert (first.topic, first.number, first.body, first.sender_id) == (topic, 2, b"a", client.client_id)
    assert second.body == b"b"
    assert second.time_of_arrival >= first.time_of_arrival
    assert client.topic(topic).get(timeout=0) is None


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (None, "goes when the client is closed"),
        ("one-{pid}", "stays behind"),
        ("two-{random}", "stays behind"),
    ],
)
def test_a_subscriber_without_a_lasting_name_is_told_once(
    open_client: Connect,
    service_url: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
    name: str | None,
    said: str,
    request: pytest.FixtureRequest,
) -> None:
    # A client with a state has a lasting name.
    kind: dict[str, Any] = {"delivery": "fast"} if "durable" in request.node.name else {}
    caplog.set_level(logging.WARNING, "telesto.client")
    open_client(service_url, name="lasting", **kind).topic(topic).subscribe()
    assert caplog.records == []
    client = open_client(service_url, name=name, **kind)
    for each in (topic, topic, f"{topic} too"):
        client.topic(each).subscribe()
    (record,) = caplog.records
    assert said in record.getMessage()


def test_every_subscriber_gets_its_own_copy(connected: Connect, topic: str) -> None:
    subscribers = [connected() for _ in range(3)]
    for subscriber in subscribers:
        subscriber.topic(topic).subscribe()
    subscribers[0].topic(topic).put_many([b"1", NewTopicMessage(b"2"), b"3"])
    for subscriber in subscribers:
        assert bodies(subscriber.topic(topic).get_many(max_messages=2, timeout=0)) == [b"1", b"2"]
        assert bodies(subscriber.topic(topic).get_many(max_messages=2, timeout=0)) == [b"3"]


def test_a_subscription_outlives_its_connections(connected: Connect, topic: str) -> None:
    publisher, name = connected(), f"subscriber-{uuid.uuid4().hex}"
    subscriber = connected(name)
    subscriber.topic(topic).subscribe()
    publisher.topic(topic).put(b"1")
    publisher.topic(topic).put(b"2")
    assert subscriber.topic(topic).get().body == b"1"
    subscriber.close()
    publisher.topic(topic).put(b"3")
    again = connected(name, existing="use")
    assert bodies(again.topic(topic).get_many(max_messages=9, timeout=0)) == [b"2", b"3"]


def test_what_was_not_confirmed_comes_again_in_the_next_process(connected: Connect, topic: str) -> None:
    publisher, name = connected(), f"subscriber-{uuid.uuid4().hex}"
    subscriber = connected(name, options=BY_HAND)
    subscriber.topic(topic).subscribe()
    publisher.topic(topic).put_many([b"1", b"2", b"3"])
    first, second = subscriber.topic(topic).get(), subscriber.topic(topic).get()
    assert (first.body, second.body) == (b"1", b"2")
    subscriber.confirm([first])
    subscriber.close()
    again = connected(name, existing="use", options=BY_HAND)
    message = again.topic(topic).get()
    assert (message.body, message.number) == (b"2", 2)


def test_a_message_that_is_given_back_comes_again_with_all_behind_it(connected: Connect, topic: str) -> None:
    client = connected(options=BY_HAND)
    client.topic(topic).subscribe()
    client.topic(topic).put_many([b"1", b"2", b"3"])
    first, second = client.topic(topic).get_many(max_messages=2)
    client.confirm([first])
    assert client.release([first, second]) == 1
    assert bodies(client.topic(topic).get_many(max_messages=9, timeout=0)) == [b"2", b"3"]


def test_a_get_waits_for_a_message(client: Any, connected: Connect, topic: str) -> None:
    client.topic(topic).subscribe()
    publisher = connected()
    with ThreadPoolExecutor(1) as executor:
        waiting = executor.submit(client.topic(topic).get, timeout=60)
        publisher.topic(topic).put(b"late")
        assert waiting.result(60).body == b"late"
    assert client.topic(topic).get(timeout=0.01) is None


def test_gets_of_one_topic_have_their_turns(client: Any, connected: Connect, topic: str) -> None:
    client.topic(topic).subscribe()
    publisher = connected()
    with ThreadPoolExecutor(4) as executor:
        waiting = [executor.submit(client.topic(topic).get, timeout=60) for _ in range(4)]
        publisher.topic(topic).put_many([b"1", b"2", b"3", b"4"])
        assert sorted(bodies(future.result(60) for future in waiting)) == [b"1", b"2", b"3", b"4"]
    assert client.topic(topic).get(timeout=0) is None


def test_of_all_topics_the_earliest_comes_first(client: Any, topic: str) -> None:
    other = topic + " other"
    client.topic(topic).subscribe()
    client.topic(other).subscribe()
    for name, body in ((other, b"1"), (topic, b"2"), (other, b"3")):
        client.topic(name).put(body)
    messages = [client.subscribed_topics.get() for _ in range(3)]
    assert [(message.topic, message.body) for message in messages] == [
        (other, b"1"),
        (topic, b"2"),
        (other, b"3"),
    ]
    assert client.subscribed_topics.get(timeout=0) is None


def test_a_subscription_can_be_iterated(client: Any, topic: str) -> None:
    client.topic(topic).subscribe()
    client.topic(topic).put_many([b"%d" % n for n in range(250)])
    seen = bodies(client.topic(topic).messages(timeout=0.01))
    assert seen == [b"%d" % n for n in range(250)]


def test_what_an_iterator_has_fetched_ahead_comes_to_the_next_get(client: Any, topic: str) -> None:
    client.topic(topic).subscribe()
    client.topic(topic).put_many([b"1", b"2", b"3", b"4"])
    messages = client.topic(topic).messages()
    assert next(messages).body == b"1"
    assert client.topic(topic).get().body == b"2"
    assert client.subscribed_topics.get().body == b"3"
    assert next(messages).body == b"4"


def test_after_unsubscribing_nothing_comes_not_even_what_was_fetched(client: Any, topic: str) -> None:
    client.topic(topic).subscribe()
    client.topic(topic).put_many([b"1", b"2"])
    assert next(client.topic(topic).messages()).body == b"1"
    client.topic(topic).unsubscribe()
    with pytest.raises(NotSubscribedError):
        client.topic(topic).get()
    client.topic(topic).subscribe()
    assert client.topic(topic).get(timeout=0) is None
    client.topic(topic).put(b"3")
    assert client.topic(topic).get().body == b"3"


def test_what_is_subscribed_to_already_or_not_at_all_is_said(client: Any, topic: str) -> None:
    subscription_id = client.topic(topic).subscribe()
    with pytest.raises(AlreadySubscribedError) as already:
        client.topic(topic).subscribe(existing="error")
    assert already.value.related_id == subscription_id
    client.topic(topic).unsubscribe()
    with pytest.raises(NotSubscribedError):
        client.topic(topic).unsubscribe()
    for source in (client.topic(topic), client.subscribed_topics):
        with pytest.raises(NotSubscribedError):
            source.get(timeout=0)


def test_subscribing_again_changes_nothing(client: Any, topic: str) -> None:
    subscription_id = client.topic(topic).subscribe(max_behind=5, max_age=timedelta(seconds=90), drop=True)
    assert client.topic(topic).subscribe() == subscription_id
    assert client.topic(topic).subscribe(max_behind=5, max_age=90, drop=True) == subscription_id
    for other in ({"max_behind": 6}, {"max_behind": 5, "max_age": 90}, {"max_age": 90, "drop": True}):
        with pytest.raises(AlreadySubscribedError, match="with other limits; unsubscribe first") as already:
            client.topic(topic).subscribe(**other)
        assert already.value.related_id == subscription_id
    with pytest.raises(InvalidParameterError, match="existing must be"):
        client.topic(topic).subscribe(existing="maybe")


def test_a_publishers_sequence_is_put_once_and_without_a_gap(client: Any, topic: str) -> None:
    client.topic(topic).subscribe()
    assert client.topic(topic).put(b"1", sequence=1) == 1
    client.topic(topic).put(b"1", sequence=1)
    with pytest.raises(SequenceGapError) as gap:
        client.topic(topic).put(b"3", sequence=3)
    assert gap.value.related_id == 2
    assert gap.value.details == f"the sequence that topic {topic!r} expects next of this client is 2"
    results = client.topic(topic).put_many([NewTopicMessage(b"1", 1), NewTopicMessage(b"2", 2)])
    assert [result.duplicate for result in results] == [True, False]
    assert bodies(client.topic(topic).get_many(max_messages=9)) == [b"1", b"2"]


def test_topics_and_subscriptions_are_listed(connected: Connect, topic: str) -> None:
    client, other = connected(), connected()
    one = client.topic(topic).subscribe()
    two = client.topic(topic + "2").subscribe(max_behind=5, max_age=1.5, drop=True)
    other.topic(topic).subscribe()
    client.topic(topic).put_many([b"1", b"2", b"3"])
    client.topic(topic).get()
    client.topic(topic).get(timeout=0)
    figures = {found.name: (found.last_number, found.subscribers, found.depth) for found in client.topics()}
    assert figures[topic] == (3, 2, 3)
    assert figures[topic + "2"] == (0, 1, 0)
    assert [found.name for found in client.topics(topic + "?")] == [topic + "2"]
    assert [found.name for found in client.topics(topic + "*")] == [topic, topic + "2"]
    assert [found.name for found in client.topics(topic + "*", limit=1)] == [topic]
    assert client.topics("no " + topic) == []
    first, second = client.subscriptions()
    assert (first.subscription_id, first.topic, first.last_number) == (one, topic, 3)
    assert first.lag in (1, 2)
    assert (second.subscription_id, second.max_behind, second.max_age, second.drop) == (two, 5, 1.5, True)
    assert second.state is SubscriptionState.ACTIVE
    assert len(other.subscriptions()) == 1


def test_a_topic_is_deleted_when_nobody_subscribes(client: Any, topic: str) -> None:
    with pytest.raises(TopicNotExistingError):
        client.topic(topic).delete()
    client.topic(topic).subscribe()
    assert client.topic(topic).put(b"1") == 1
    with pytest.raises(TopicInUseError):
        client.topic(topic).delete()
    assert client.topic(topic).get(timeout=60).body == b"1"
    client.topic(topic).unsubscribe()
    client.topic(topic).delete()
    assert topic not in [each.name for each in client.topics()]
    with pytest.raises(TopicNotExistingError):
        client.topic(topic).delete()
    client.topic(topic).subscribe()
    assert client.topic(topic).put(b"another") == 1
    assert client.topic(topic).get(timeout=60).body == b"another"


def test_a_read_only_client_subscribes_and_gets_but_does_not_put(connected: Connect, topic: str) -> None:
    reader, writer = connected(mode=ClientMode.READ_ONLY), connected()
    reader.topic(topic).subscribe()
    writer.topic(topic).put(b"1")
    assert reader.topic(topic).get().body == b"1"
    with pytest.raises(ClientModePermissionError):
        reader.topic(topic).put(b"2")
    reader.topic(topic).unsubscribe()


def test_a_message_beyond_max_bytes_is_named(client: Any, topic: str) -> None:
    client.topic(topic).subscribe()
    client.topic(topic).put(b"x" * 100)
    with pytest.raises(MessageTooLargeError) as error:
        client.topic(topic).get_many(max_messages=1, max_bytes=99, timeout=0)
    assert error.value.related_id == 1
    assert client.topic(topic).get().body == b"x" * 100


@pytest.mark.parametrize("name", ["", "x" * 1025, "a\0b", "line\nbreak"])
def test_names_that_no_topic_has_are_refused(client: Any, name: str) -> None:
    with pytest.raises(InvalidParameterError, match="topic"):
        client.topic(name)


def test_arguments_of_wrong_types_and_values_are_refused(client: Any, topic: str) -> None:
    with pytest.raises(TypeError, match="topic"):
        client.topic(3)
    with pytest.raises(TypeError, match="body must be bytes"):
        client.topic(topic).put(None)
    for arguments in ({"max_behind": 0}, {"max_age": 0}, {"drop": True}):
        with pytest.raises(InvalidParameterError):
            client.topic(topic).subscribe(**arguments)
    with pytest.raises(InvalidParameterError, match="sequence"):
        client.topic(topic).put(b"", sequence=0)
    with pytest.raises(InvalidParameterError, match="max_messages"):
        client.topic(topic).get_many(max_messages=0)
