"""Topics: numbers, subscriptions, positions, refusals."""

from itertools import count

import psycopg
import pytest

from procedure_calls import BUSY, CLIENT_NOT_EXISTING, NUMBER_REPEATED, SESSION_FENCED, Client
from topic_calls import (
    ALL,
    ALREADY_SUBSCRIBED,
    MESSAGE_TOO_LARGE,
    NOT_SUBSCRIBED,
    POSITION_UNKNOWN,
    SEQUENCE_GAP,
    SUBSCRIPTION_DROPPED,
    TOPIC_IN_USE,
    TOPIC_NOT_EXISTING,
    Get,
    Publish,
    TopicCalls,
)

TOPIC_LOCK = "SELECT pg_advisory_xact_lock(telesto.topic_lock_key(%s))"
SUBSCRIPTION_LOCK = "SELECT pg_advisory_xact_lock(telesto.subscription_lock_key(%s))"


@pytest.fixture
def topics(topic_calls: TopicCalls) -> TopicCalls:
    return topic_calls


def drain(topics: TopicCalls, client: Client, subscription: int) -> list[bytes]:
    """Get all there is, each message confirmed by the next get."""
    bodies: list[bytes] = []
    last = 0
    for _ in count():
        got = topics.get(client, subscription, (subscription, last, 0), max_messages=3)
        assert got.error is None
        if not got.messages:
            return bodies
        bodies += got.bodies
        last = got.numbers[-1]
    raise AssertionError


def test_every_subscriber_gets_each_message_in_one_order(topics: TopicCalls) -> None:
    publishers = [topics.register(), topics.register()]
    subscribers = [topics.register() for _ in range(3)]
    subscriptions = [topics.subscribe(client, "prices") for client in subscribers]
    for n in range(5):
        topics.publish(
            [Publish(client, "prices", [b"%d %d" % (client.client_id, n)]) for client in publishers]
        )
    received = [drain(topics, client, sub) for client, sub in zip(subscribers, subscriptions, strict=True)]
    assert received[0] == [b"%d %d" % (client.client_id, n) for n in range(5) for client in publishers]
    assert received == [received[0]] * 3
    assert topics.stored("prices") == list(range(1, 11))


def test_a_subscription_begins_behind_what_was_put_before(topics: TopicCalls) -> None:
    client, early = topics.register(), topics.register()
    topics.subscribe(early, "t")
    topics.put_to(client, "t", b"before")
    subscription = topics.subscribe(client, "t")
    topics.put_to(client, "t", b"after")
    got = topics.get(client, subscription)
    assert (got.numbers, got.bodies) == ([2], [b"after"])


def test_numbers_have_no_gap_over_many_topics_and_rise_without_subscribers(topics: TopicCalls) -> None:
    client = topics.register()
    assert topics.put_to(client, "a", b"1", b"2") == [1, 2]
    first, second, third = topics.publish(
        [Publish(client, "b", [b"x", b"y"]), Publish(client, "a", [b"3"]), Publish(client, "b", [b"z"])]
    )
    assert (first.numbers, second.numbers, third.numbers) == ([1, 2], [3], [3])
    assert topics.stored("a") == topics.stored("b") == []


def test_a_get_is_repeated_until_it_is_confirmed_and_never_after(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    topics.put_to(client, "t", b"1", b"2", b"3")
    assert topics.get(client, subscription).bodies == [b"1"]
    assert topics.get(client, subscription).bodies == [b"1"]
    assert topics.get(client, subscription, (subscription, 0, 1)).bodies == [b"2"]
    assert topics.get(client, subscription, (subscription, 2, 0)).bodies == [b"3"]
    assert topics.get(client, subscription).bodies == [b"3"]
    assert topics.get(client, subscription, (subscription, 1, 0)).bodies == [b"3"]
    assert topics.position(subscription) == 2
    got = topics.get(client, subscription, (subscription, 3, 0))
    assert (got.messages, got.error) == ([], None)
    assert got.empty_topics is not None
    assert topics.position(subscription) == 3


def test_a_topic_may_be_named_and_then_tells_the_subscription(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "named")
    topics.put_to(client, "named", b"1")
    (message,) = topics.get(client, "named").messages
    assert (message["subscription_id"], message["topic"]) == (subscription, "named")
    (message,) = topics.get(client, subscription).messages
    assert message["topic"] is None


def test_all_topics_come_by_arrival_and_are_confirmed_each(topics: TopicCalls) -> None:
    client = topics.register()
    a, b = topics.subscribe(client, "a"), topics.subscribe(client, "b")
    for topic, body in (("b", b"1"), ("a", b"2"), ("a", b"3"), ("b", b"4")):
        topics.put_to(client, topic, body)
    got = topics.get(client, ALL, max_messages=3)
    assert got.bodies == [b"1", b"2", b"3"]
    assert [message["topic"] for message in got.messages] == ["b", "a", "a"]
    got = topics.get(client, ALL, (a, 2, 0), (b, 1, 0), max_messages=3)
    assert got.bodies == [b"4"]
    got = topics.get(client, ALL, (b, 2, 0))
    assert got.empty_topics is not None
    assert len(got.empty_topics) == 2


def test_a_clock_that_is_set_back_changes_no_order_within_a_topic(topics: TopicCalls) -> None:
    client = topics.register()
    topics.subscribe(client, "a")
    topics.subscribe(client, "b")
    topics.put_to(client, "a", b"a1", b"a2", b"a3")
    topics.put_to(client, "b", b"b1")
    topics.query(
        "UPDATE telesto.topic_messages SET time_of_arrival = time_of_arrival - interval '1 hour'"
        " WHERE number = 2 RETURNING 1"
    )
    assert topics.get(client, ALL, max_messages=4).bodies == [b"a1", b"a2", b"a3", b"b1"]


def test_bytes_bound_an_answer_and_a_first_message_beyond_them_is_named(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    topics.put_to(client, "t", b"x" * 10, b"y" * 10, b"z" * 11)
    assert topics.get(client, subscription, max_messages=9, max_bytes=25).numbers == [1, 2]
    got = topics.get(client, subscription, (subscription, 2, 0), max_messages=9, max_bytes=10)
    assert (got.error, got.related_id) == (MESSAGE_TOO_LARGE, 3)


@pytest.mark.parametrize("position", [(3, 0), (0, 3), (1, 0), (0, 1)])
def test_a_position_beyond_the_end_or_before_the_subscription_is_refused(
    topics: TopicCalls, position: tuple[int, int]
) -> None:
    client = topics.register()
    topics.put_to(client, "t", b"1", b"2")
    subscription = topics.subscribe(client, "t")
    got = topics.get(client, subscription, (subscription, *position))
    assert (got.error, got.related_id) == (POSITION_UNKNOWN, 2)
    assert topics.position(subscription) == 2


def test_positions_of_other_clients_subscriptions_are_passed_over(topics: TopicCalls) -> None:
    mine, other = topics.register(), topics.register()
    subscription, foreign = topics.subscribe(mine, "t"), topics.subscribe(other, "t")
    topics.put_to(mine, "t", b"1")
    assert topics.get(mine, subscription, (foreign, 1, 0)).bodies == [b"1"]
    assert topics.position(foreign) == 0


def test_subscribing_twice_and_what_is_not_subscribed(topics: TopicCalls) -> None:
    client, other = topics.register(), topics.register()
    subscription = topics.subscribe(client, "t")
    again = topics.numbered("subscribe", client, "t", None, None, False)
    assert (again["error"], again["subscription_id"]) == (ALREADY_SUBSCRIBED, subscription)
    assert topics.unsubscribe(client, "other") == NOT_SUBSCRIBED
    assert topics.unsubscribe(other, "t") == NOT_SUBSCRIBED
    for of in (subscription, "t", "unknown", ALL):
        assert topics.get(other, of).error == NOT_SUBSCRIBED


def test_an_unsubscribed_client_gets_nothing_not_even_what_came_before(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    topics.put_to(client, "t", b"1")
    assert topics.unsubscribe(client, "t") is None
    assert topics.get(client, subscription).error == NOT_SUBSCRIBED
    topics.put_to(client, "t", b"2")
    again = topics.subscribe(client, "t")
    assert again != subscription
    assert topics.get(client, again).messages == []
    assert topics.put_to(client, "t", b"3") == [3]
    assert topics.get(client, again).bodies == [b"3"]
    assert topics.query("SELECT FROM telesto.positions WHERE subscription_id = %s", subscription) == []


def test_a_publishers_own_sequence_is_stored_once_and_has_no_gap(topics: TopicCalls) -> None:
    client, other = topics.register(), topics.register()
    topics.subscribe(client, "t")
    (answer,) = topics.publish(
        [Publish(client, "t", [(b"1", 1), (b"2", 2), (b"2", 2), (b"4", 4), (b"3", 3)])]
    )
    assert answer.numbers == [1, 2, 2, 3, 3]
    assert answer.errors == [None, None, None, SEQUENCE_GAP, None]
    assert answer.duplicates == [False, False, True, False, False]
    repeated, next_one, of_other = topics.publish(
        [
            Publish(client, "t", [(b"1", 1), (b"3", 3)]),
            Publish(client, "t", [(b"5", 5), (b"plain")]),
            Publish(other, "t", [(b"7", 7), (b"other", 1)]),
        ]
    )
    assert (repeated.numbers, repeated.duplicates) == ([0, 3], [True, True])
    assert (next_one.numbers, next_one.errors) == ([4, 4], [SEQUENCE_GAP, None])
    assert (of_other.numbers, of_other.errors) == ([1, 5], [SEQUENCE_GAP, None])
    assert topics.stored("t") == [1, 2, 3, 4, 5]


def test_a_repeated_request_number_changes_nothing(topics: TopicCalls) -> None:
    client = topics.register()
    topics.subscribe(client, "t")
    (first,) = topics.publish([Publish(client, "t", [b"1"])])
    again, later = topics.publish(
        [Publish(client, "t", [b"again"], number=first.number), Publish(client, "t", [b"2", b"3"])]
    )
    assert again.errors == [NUMBER_REPEATED]
    assert later.numbers == [2, 3]
    twice = client.next_number()
    kept, refused = topics.publish([Publish(client, "t", [b"4"], number=twice)] * 2)
    assert (kept.numbers, refused.errors) == ([4], [NUMBER_REPEATED])
    assert topics.stored("t") == [1, 2, 3, 4]


def test_each_request_leaves_its_result_until_it_is_confirmed(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    topics.publish([Publish(client, "t", [b"1"]), Publish(client, "t", [(b"2", 1), (b"3", 3)])])
    topics.publish([Publish(client, "t", [(b"3", 2), (b"3", 2), (b"2", 1), b"4"])])
    assert topics.unsubscribe(client, "t") is None
    session = client.session
    assert topics.operations(client) == [
        (session, 1, [subscription], None),
        (session, 2, [1], None),
        (session, 3, [2, 2], [None, SEQUENCE_GAP]),
        (session, 4, [3, -3, 0, 4], None),
        (session, 5, [0], None),
    ]


def test_a_fenced_session_neither_puts_nor_gets_nor_confirms(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    topics.put_to(client, "t", b"1")
    topics.take_over(client)
    (put,) = topics.publish([Publish(client, "t", [b"2"])])
    assert put.errors == [SESSION_FENCED]
    assert topics.get(client, subscription, (subscription, 1, 0)).error == SESSION_FENCED
    assert topics.position(subscription) == 0
    nobody = Client(1 << 40, 1, "nobody")
    assert topics.get(nobody, ALL).error == CLIENT_NOT_EXISTING


def test_a_takeover_under_way_leaves_gets_and_puts_for_later(
    topics: TopicCalls, other: psycopg.Connection
) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    other.execute("SELECT pg_advisory_xact_lock(telesto.client_lock_key(%s))", [client.client_id])
    assert topics.get(client, subscription).error == BUSY
    assert topics.publish([Publish(client, "t", [b"1"])])[0].errors == [BUSY]
    assert topics.stored("t") == []


def test_of_several_topics_a_busy_one_is_left_for_later_with_what_follows(
    topics: TopicCalls, other: psycopg.Connection
) -> None:
    client, free = topics.register(), topics.register()
    topics.subscribe(client, "slow")
    topics.subscribe(client, "quick")
    slow = topics.scalar("SELECT topic_id FROM telesto.topics WHERE name = 'slow'")
    other.execute(TOPIC_LOCK, [slow])
    busy, behind, beside = topics.publish(
        [Publish(client, "slow", [b"1"]), Publish(client, "quick", [b"2"]), Publish(free, "quick", [b"3"])]
    )
    assert (busy.errors, behind.errors, beside.errors) == ([BUSY], [BUSY], [None])
    assert topics.stored("quick") == [1]
    other.rollback()
    again = topics.publish([Publish(client, "slow", [b"1"], number=busy.number)])
    assert again[0].numbers == [1]


def test_a_get_whose_position_is_being_moved_is_left_for_later(
    topics: TopicCalls, other: psycopg.Connection
) -> None:
    clients = [topics.register(), topics.register()]
    subscriptions = [topics.subscribe(client, "t") for client in clients]
    topics.put_to(clients[0], "t", b"1", b"2")
    other.execute(SUBSCRIPTION_LOCK, [subscriptions[0]])
    busy, done = topics.fetch(
        [Get(client, sub, [(sub, 1, 0)]) for client, sub in zip(clients, subscriptions, strict=True)]
    )
    assert (busy.error, done.numbers) == (BUSY, [2])
    assert topics.get(clients[0], subscriptions[0]).numbers == [1]
    assert [topics.position(sub) for sub in subscriptions] == [0, 1]


def test_a_get_of_no_messages_only_confirms(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "t")
    topics.put_to(client, "t", b"1")
    got = topics.get(client, ALL, (subscription, 1, 0), max_messages=0)
    assert (got.error, got.messages, got.empty_topics) == (None, [], None)
    assert topics.position(subscription) == 1


def test_names_up_to_1024_characters_are_topics_of_their_own(topics: TopicCalls) -> None:
    client = topics.register()
    longest = "\N{SNOWMAN}" * 1024
    topics.subscribe(client, longest)
    topics.put_to(client, longest[:-1], b"other")
    topics.put_to(client, longest, b"mine")
    assert topics.get(client, longest).bodies == [b"mine"]
    with pytest.raises(psycopg.errors.CheckViolation):
        topics.put_to(client, longest + "x", b"")


def test_a_deleted_client_is_owed_nothing(topics: TopicCalls) -> None:
    client, publisher = topics.register(), topics.register()
    subscription = topics.subscribe(client, "t")
    topics.publish([Publish(client, "t", [(b"1", 1)])])
    assert topics.numbered("delete_client", client)["error"] is None
    topics.put_to(publisher, "t", b"2")
    assert topics.stored("t") == [1]
    assert topics.sweep() == 1
    for table in ("positions", "subscriptions", "publisher_states"):
        assert topics.query(f"SELECT FROM telesto.{table}") == []
    assert subscription


def test_a_topic_is_deleted_when_nobody_subscribes(topics: TopicCalls) -> None:
    client, other = topics.register(), topics.register()
    assert topics.delete(client, "t") == TOPIC_NOT_EXISTING
    topics.subscribe(other, "t")
    (answer,) = topics.publish([Publish(client, "t", [(b"1", 1), (b"2", 2)])])
    assert answer.numbers == [1, 2]
    assert topics.delete(client, "t") == TOPIC_IN_USE
    assert topics.unsubscribe(other, "t") is None
    assert topics.delete(client, "t") is None
    assert topics.names() == []
    assert topics.delete(client, "t") == TOPIC_NOT_EXISTING
    assert topics.sweep(max_rows=1) == 2
    assert topics.scalar("SELECT count(*) FROM telesto.topic_messages") == 0
    assert topics.scalar("SELECT count(*) FROM telesto.deleted_topics") == 0
    # The next of this name is another one.
    subscription = topics.subscribe(other, "t")
    (answer,) = topics.publish([Publish(client, "t", [(b"new", 1)])])
    assert (answer.numbers, answer.duplicates) == ([1], [False])
    assert topics.get(other, subscription, max_messages=10).bodies == [b"new"]


def test_a_deleted_topic_leaves_its_record(topics: TopicCalls) -> None:
    client = topics.register()
    topics.put_to(client, "t", b"1")
    assert topics.delete(client, "t") is None
    assert topics.delete(client, "t") == TOPIC_NOT_EXISTING
    assert [row[1:] for row in topics.operations(client)][1:] == [
        (2, [0], None),
        (3, [0], [TOPIC_NOT_EXISTING]),
    ]


def test_an_idle_topic_goes(topics: TopicCalls) -> None:
    client = topics.register()
    for name in ("a", "b", "c"):
        topics.put_to(client, name, b"1")
    assert topics.sweep(idle_s=0) == 0
    assert topics.sweep() == 0
    assert topics.names() == ["a", "b", "c"]
    topics.put_to(client, "b", b"2")
    subscription = topics.subscribe(client, "c")
    assert topics.sweep(idle_s=0) == 1
    assert topics.names() == ["b", "c"]
    topics.sweep(idle_s=0)
    assert topics.names() == ["c"]
    assert topics.put_to(client, "a", b"1") == [1]
    for _ in range(3):
        topics.sweep(idle_s=0)
    assert topics.put_to(client, "c", b"2") == [2]
    assert topics.get(client, subscription).numbers == [2]
    assert topics.unsubscribe(client, "c") is None
    for _ in range(3):
        topics.sweep(idle_s=0)
    assert topics.names() == []
    assert topics.scalar("SELECT count(*) FROM telesto.topic_messages") == 0


def test_many_idle_topics_go_in_bounded_turns(topics: TopicCalls) -> None:
    client = topics.register()
    names = [f"topic {i}" for i in range(150)]
    topics.publish([Publish(client, name, [b"1"]) for name in names])
    topics.sweep(idle_s=0)
    row = topics.row("sweep", 1, "topics", 1_000, 30, 604_800, None, 0)
    assert (row["done"], row["more"]) == (100, True)
    assert topics.sweep(idle_s=0) == 50
    assert topics.names() == []


def test_a_topic_stays_for_a_dropped_subscription_and_for_sequences(topics: TopicCalls) -> None:
    client = topics.register()
    subscription = topics.subscribe(client, "dropped", 1, drop=True)
    topics.put_to(client, "dropped", b"1", b"2", b"3")
    assert topics.sweep("subscriptions") == 1
    topics.publish([Publish(client, "numbered", [(b"1", 1)])])
    for _ in range(3):
        topics.sweep(idle_s=0)
    assert topics.names() == ["dropped", "numbered"]
    assert topics.get(client, subscription).error == SUBSCRIPTION_DROPPED
    assert topics.delete(client, "dropped") == TOPIC_IN_USE
    (answer,) = topics.publish([Publish(client, "numbered", [(b"1", 1), (b"2", 2)])])
    assert (answer.errors, answer.duplicates) == ([None, None], [True, False])
