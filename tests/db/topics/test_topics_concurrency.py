"""What several connections do to topics at the same time."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import psycopg
import pytest

from procedure_calls import BUSY, Client
from topic_calls import ALL, TOPIC_NOT_EXISTING, Get, Publish, TopicCalls

pytestmark = pytest.mark.usefixtures("consistent")

PATIENCE_S = 60.0

Open = Callable[[], TopicCalls]


@pytest.fixture
def open_calls(database_url: str) -> Iterator[Open]:
    with ExitStack() as opened:
        yield lambda: opened.enter_context(TopicCalls(database_url))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(12) as pool:
        yield pool


def publish_until(calls: TopicCalls, client: Client, topics: list[str], done: threading.Event) -> int:
    """Put messages numbered by the client to each topic until it is enough; return how many to each."""
    n = 0
    while not done.is_set():
        n += 1
        body = b"%d:%d" % (client.client_id, n)
        for request in [Publish(client, topic, [body]) for topic in topics]:
            while calls.publish([request])[0].errors == [BUSY]:
                pass
    return n


def drain(calls: TopicCalls, client: Client, subscription: int, last: int = 0) -> list[tuple[int, bytes]]:
    got: list[tuple[int, bytes]] = []
    while True:
        answer = calls.get(client, subscription, (subscription, last, 0), max_messages=50)
        if answer.error == BUSY:
            continue
        assert answer.error is None
        if not answer.messages:
            return got
        got += zip(answer.numbers, answer.bodies, strict=True)
        last = answer.numbers[-1]


def test_those_who_come_and_go_get_all_of_their_time_without_a_gap(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    topics = ["a", "b"]
    done = threading.Event()
    publishers = [topic_calls.register() for _ in range(3)]
    publishing = [pool.submit(publish_until, open_calls(), client, topics, done) for client in publishers]

    def come_and_go(client: Client, rounds: int) -> list[list[tuple[int, bytes]]]:
        calls = open_calls()
        seen = []
        for _ in range(rounds):
            subscription = calls.subscribe(client, "a")
            (started,) = calls.put_to(client, "a", b"marker")
            got = drain(calls, client, subscription)
            while not got or got[-1][0] < started:
                got += drain(calls, client, subscription, got[-1][0] if got else 0)
            assert calls.unsubscribe(client, "a") is None
            seen.append(got)
        return seen

    visiting = [pool.submit(come_and_go, topic_calls.register(), 8) for _ in range(3)]
    try:
        visits = [round_ for work in visiting for round_ in work.result(PATIENCE_S)]
    finally:
        done.set()
    for work in publishing:
        work.result(PATIENCE_S)
    everything: dict[int, bytes] = {}
    for got in visits:
        numbers = [number for number, _ in got]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        for number, body in got:
            assert everything.setdefault(number, body) == body


def test_messages_of_each_publisher_keep_their_order_for_all(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    subscribers = [topic_calls.register() for _ in range(2)]
    subscriptions = [topic_calls.subscribe(client, "t") for client in subscribers]
    publishers = [topic_calls.register() for _ in range(4)]
    start = threading.Barrier(4)

    def put(client: Client) -> None:
        calls = open_calls()
        start.wait(PATIENCE_S)
        for n in range(30):
            calls.put_to(client, "t", b"%d:%d" % (client.client_id, n))

    for work in [pool.submit(put, client) for client in publishers]:
        work.result(PATIENCE_S)
    received = [
        drain(topic_calls, client, sub) for client, sub in zip(subscribers, subscriptions, strict=True)
    ]
    assert received[0] == received[1]
    assert [number for number, _ in received[0]] == list(range(1, 121))
    for client in publishers:
        mine = [body for _, body in received[0] if body.startswith(b"%d:" % client.client_id)]
        assert mine == [b"%d:%d" % (client.client_id, n) for n in range(30)]


def test_two_that_create_topics_in_opposite_orders_do_not_wait_for_each_other(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    names = [f"new {n}" for n in range(30)]
    start = threading.Barrier(4)

    def create(order: list[str]) -> list[int]:
        calls, start_at = open_calls(), start.wait
        client = calls.register()
        start_at(PATIENCE_S)
        numbers = []
        for at in range(0, len(order), 10):
            requests = [Publish(client, name, [b""]) for name in order[at : at + 10]]
            while requests:
                answers = calls.publish(requests)
                numbers += [n for answer in answers for n in answer.numbers if answer.errors == [None]]
                requests = [
                    request
                    for request, answer in zip(requests, answers, strict=True)
                    if answer.errors == [BUSY]
                ]
        return numbers

    orders = [names, names[::-1], names[15:] + names[:15], names[::-1]]
    works: list[Future[list[int]]] = [pool.submit(create, order) for order in orders]
    numbers = sorted(n for work in works for n in work.result(PATIENCE_S))
    assert numbers == sorted([1, 2, 3, 4] * len(names))
    assert topic_calls.scalar("SELECT count(*) FROM telesto.topics") == len(names)


def test_reclaiming_beside_puts_and_gets_takes_only_what_all_have(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    done = threading.Event()
    quick, slow = topic_calls.register(), topic_calls.register()
    subscriptions = {client.client_id: topic_calls.subscribe(client, "t") for client in (quick, slow)}
    publishing = pool.submit(publish_until, open_calls(), topic_calls.register(), ["t"], done)
    sweeper = open_calls()
    got: list[tuple[int, bytes]] = []
    for _ in range(20):
        got += drain(topic_calls, quick, subscriptions[quick.client_id], got[-1][0] if got else 0)
        sweeper.sweep("topics", 7)
    assert topic_calls.stored("t")[0] == 1
    done.set()
    last = publishing.result(PATIENCE_S)
    late = drain(topic_calls, slow, subscriptions[slow.client_id])
    assert [number for number, _ in late] == list(range(1, last + 1))
    got += drain(topic_calls, quick, subscriptions[quick.client_id], got[-1][0] if got else 0)
    assert got == late
    sweeper.sweep("topics", 1000)
    assert topic_calls.stored("t") == []


def test_an_old_snapshot_delays_neither_gets_nor_reclaiming(
    topic_calls: TopicCalls, other: psycopg.Connection
) -> None:
    client = topic_calls.register()
    subscription = topic_calls.subscribe(client, "t")
    topic_calls.put_to(client, "t", b"1", b"2")
    other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    other.execute("SELECT count(*) FROM telesto.topic_messages")
    assert [body for _, body in drain(topic_calls, client, subscription)] == [b"1", b"2"]
    assert topic_calls.sweep() == 2
    topic_calls.put_to(client, "t", b"3")
    assert topic_calls.get(client, ALL).bodies == [b"3"]


def test_gets_of_two_sessions_never_move_a_position_back(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    client = topic_calls.register()
    subscription = topic_calls.subscribe(client, "t")
    topic_calls.publish([Publish(client, "t", [b"%d" % n for n in range(200)])])
    start = threading.Barrier(3)

    def confirm(step: int) -> None:
        calls = open_calls()
        start.wait(PATIENCE_S)
        for number in range(step, 200, 3):
            answer = Get(client, ALL, [(subscription, number, 0)], max_messages=0)
            while calls.fetch([answer])[0].error == BUSY:
                pass

    for work in [pool.submit(confirm, step) for step in (1, 2, 3)]:
        work.result(PATIENCE_S)
    assert topic_calls.position(subscription) == 199


def waits_for_a_lock(calls: TopicCalls) -> None:
    """Returns when some connection to this database waits for an advisory lock."""
    until = time.monotonic() + PATIENCE_S
    waiting = (
        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
        " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    )
    while not calls.scalar(waiting):
        assert time.monotonic() < until


def test_what_comes_to_a_topic_that_is_being_deleted_is_tried_again(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    client = topic_calls.register()
    deleting, other = open_calls(), open_calls()

    def during_the_deletion(topic: str, call: Callable[[], object]) -> object:
        topic_calls.put_to(client, topic, b"before")
        with deleting.connection.transaction():
            topic_id = deleting.scalar("SELECT topic_id FROM telesto.topics WHERE name = %s", topic)
            deleting.query("SELECT pg_advisory_xact_lock(telesto.topic_lock_key(%s))", topic_id)
            called = pool.submit(call)
            waits_for_a_lock(topic_calls)
            assert deleting.scalar("SELECT telesto.remove_topic(%s)", topic_id)
        return called.result(PATIENCE_S)

    request = Publish(client, "t", [b"after", b"and more"])
    (answer,) = during_the_deletion("t", lambda: other.publish([request]))  # type: ignore[misc]
    assert answer.errors == [BUSY, BUSY]
    assert other.publish([request])[0].numbers == [1, 2]
    subscribed = during_the_deletion("s", lambda: other.numbered("subscribe", client, "s", None, None, False))
    assert subscribed["error"] == BUSY  # type: ignore[index]
    subscription = other.subscribe(client, "s")
    assert other.put_to(client, "s", b"1") == [1]
    assert other.get(client, subscription).bodies == [b"1"]
    assert during_the_deletion("d", lambda: other.delete(client, "d")) == TOPIC_NOT_EXISTING


def test_topics_go_beside_puts_and_subscribers_and_nothing_is_lost(
    topic_calls: TopicCalls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    topics = ["a", "b"]
    done = threading.Event()

    def publish(client: Client) -> None:
        calls = open_calls()
        while not done.is_set():
            answers = calls.publish([Publish(client, topic, [b"noise"]) for topic in topics])
            assert all(error in (None, BUSY) for answer in answers for error in answer.errors)

    def stage(client: Client) -> None:
        calls = open_calls()
        while not done.is_set():
            calls.value("put_to_topic", "b", b"staged", None, client.name)
            calls.row("place_staged_topics", 100)

    def delete(client: Client) -> int:
        calls, deleted = open_calls(), 0
        while not done.is_set():
            deleted += calls.delete(client, "a") is None
            calls.sweep(idle_s=0)
        return deleted

    def come_and_go(client: Client, topic: str) -> None:
        calls = open_calls()
        for i in range(25):
            while (row := calls.numbered("subscribe", client, topic, None, None, False))["error"] == BUSY:
                pass
            assert row["error"] is None
            while (answer := calls.publish([Publish(client, topic, [b"%d" % i])])[0]).errors == [BUSY]:
                pass
            assert answer.errors == [None]
            got = drain(calls, client, row["subscription_id"])
            numbers = [number for number, _ in got]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
            assert (answer.numbers[0], b"%d" % i) in got
            assert calls.unsubscribe(client, topic) is None

    working = [pool.submit(work, topic_calls.register()) for work in (publish, publish, stage, delete)]
    visiting = [pool.submit(come_and_go, topic_calls.register(), topic) for topic in topics * 2]
    try:
        for future in visiting:
            future.result(240)
    finally:
        done.set()
    *_, deleting = working
    for future in working:
        future.result(PATIENCE_S)
    assert deleting.result() > 0
