"""Consuming with both clients: deliveries, answers, and what happens when connections and queues go."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest

from telesto.client import LeaseLostError, Queue, QueueNotExistingError

Connect = Callable[..., Any]


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """Consumers need the real service."""
    return real_service_url


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("orders")
    return queue.queue_id


def put_numbers(client: Any, queue_id: int, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    client.put_many(queue_id, bodies)
    return bodies


def take(consumer: Any, count: int) -> list[Any]:
    taken = [consumer.get(20) for _ in range(count)]
    assert None not in taken
    return taken


def acknowledge(consumer: Any, count: int) -> list[Any]:
    """Acknowledges so many messages; what a lost connection had brought is passed over."""
    done = []
    while len(done) < count:
        leased = consumer.get(20)
        with contextlib.suppress(LeaseLostError):
            leased.ack()
            done.append(leased)
    return done


def test_what_leaves_its_block_is_acknowledged(client: Any, connected: Connect, queue_id: int) -> None:
    bodies = put_numbers(client, queue_id, 300)
    seen = []
    with client.consume(queue_id, credit=16) as consumer:
        for leased in consumer:
            with leased:
                seen.append(leased.body)
            if len(seen) == len(bodies):
                break
    assert seen == bodies
    assert (consumer.joins, consumer.lost) == (1, 0)
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_what_raises_comes_again(client: Any, queue_id: int) -> None:
    put_numbers(client, queue_id, 1)
    with client.consume(queue_id) as consumer:
        with pytest.raises(ValueError, match="cannot"), consumer.get(20):
            raise ValueError("cannot")
        leased = consumer.get(20)
        assert (leased.message.attempt, leased.message.redelivered) == (2, True)
        leased.ack()


def test_answers_by_hand(client: Any, queue_id: int) -> None:
    put_numbers(client, queue_id, 2)
    with client.consume(queue_id) as consumer:
        first, second = take(consumer, 2)
        first.touch()
        first.ack()
        with pytest.raises(LeaseLostError, match="somebody else"):
            first.ack()
        second.nack(failed=False)
        (again,) = take(consumer, 1)
        assert (again.body, again.message.attempt) == (second.body, 1)
        again.ack()
        with pytest.raises(LeaseLostError):
            second.touch()
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_get_waits_no_longer_than_asked(client: Any, queue_id: int) -> None:
    with client.consume(queue_id) as consumer:
        assert consumer.get(0) is None
        assert consumer.get(0.02) is None
        client.put_message(queue_id, b"late")
        leased = consumer.get(20)
        assert leased.body == b"late"
        leased.ack()


def test_closing_gives_back_what_was_not_answered(client: Any, connected: Connect, queue_id: int) -> None:
    bodies = put_numbers(client, queue_id, 5)
    with client.consume(queue_id) as consumer:
        with consumer.get(20):
            pass
        consumer.get(20)
    other = connected()
    with other.consume(queue_id) as heir:
        messages = take(heir, 4)
        assert [leased.body for leased in messages] == bodies[1:]
        assert {leased.message.attempt for leased in messages} == {1}


def test_closing_the_client_gives_back_too(client: Any, connected: Connect, queue_id: int) -> None:
    bodies = put_numbers(client, queue_id, 3)
    consumer = client.consume(queue_id)
    with consumer.get(20):
        pass
    client.close()
    with connected().consume(queue_id) as heir:
        messages = take(heir, 2)
        assert [leased.body for leased in messages] == bodies[1:]
        assert {leased.message.attempt for leased in messages} == {1}


def test_what_was_answered_just_before_closing_is_told(
    connected: Connect, client: Any, queue_id: int
) -> None:
    put_numbers(client, queue_id, 20)
    other = connected()
    consumer = other.consume(queue_id)
    for leased in take(consumer, 20):
        with leased:
            pass
    other.close()
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_a_consumer_that_is_closed_ends_its_iteration(client: Any, queue_id: int) -> None:
    consumer = client.consume(queue_id)
    assert consumer.get(0) is None
    ended = threading.Event()

    def iterate() -> None:
        assert list(consumer) == []
        ended.set()

    thread = threading.Thread(target=iterate)
    thread.start()
    consumer.close()
    assert ended.wait(20)
    thread.join()
    assert consumer.get(0) is None


def test_deleting_the_queue_ends_the_consumer(client: Any, connected: Connect, queue_id: int) -> None:
    with client.consume(queue_id) as consumer:
        assert consumer.get(0) is None
        connected().delete_queue(queue_id)
        with pytest.raises(QueueNotExistingError):
            consumer.get(20)


def test_consuming_needs_a_queue(client: Any) -> None:
    with pytest.raises(QueueNotExistingError), client.consume(10**9):
        pass


def test_a_consumer_joins_again_after_a_lost_connection(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    bodies = put_numbers(client, queue_id, 3)
    with client.consume(queue_id, credit=2) as consumer:
        first = consumer.get(20)
        real_service.cut_connections()
        assert [leased.body for leased in acknowledge(consumer, 3)] == bodies
        with pytest.raises(LeaseLostError):
            first.ack()
        assert consumer.joins == 2
        assert consumer.lost >= 1


def test_a_consumer_moves_with_its_client_when_the_middleware_stops(
    client: Any, queue_id: int, real_service: Any
) -> None:
    bodies = put_numbers(client, queue_id, 3)
    with client.consume(queue_id) as consumer:
        first = consumer.get(20)
        real_service.restart()
        with pytest.raises(LeaseLostError):
            first.ack()
        messages = acknowledge(consumer, 3)
        assert [leased.body for leased in messages] == bodies
        assert {leased.message.attempt for leased in messages} == {1}
        assert consumer.joins == 2


def test_a_lease_kept_alive_does_not_run_out(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    put_numbers(client, queue_id, 1)
    real_service.execute("UPDATE telesto.queues SET lease_ms = 300")
    with client.consume(queue_id, keep_alive=True) as consumer:
        leased = consumer.get(20)
        deadline = real_service.query("SELECT deadline FROM telesto.leases")
        while real_service.query("SELECT deadline FROM telesto.leases") == deadline:
            pass
        leased.ack()
    assert real_service.query("SELECT 1 FROM telesto.leases") == []
