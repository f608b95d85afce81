"""Consuming with both clients: deliveries, answers, and what happens when connections and queues go."""

import asyncio
import contextlib
import math
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from faults.waiting import wait_until
from telesto.client import (
    AsyncTelestoClient,
    ClientClosedError,
    ConsumerInactiveError,
    InvalidParameterError,
    LeaseLostError,
    MessageRejectedError,
    MessageState,
    NewMessage,
    PutResult,
    Queue,
    QueueNotExistingError,
)

Connect = Callable[..., Any]


@pytest.fixture
def service_url(real_service_url: str) -> str:
    """Consumers need the real service."""
    return real_service_url


@pytest.fixture
def queue_id(client: Any) -> int:
    queue: Queue = client.create_queue("orders", backoff=0)
    return queue.queue_id


def put_numbers(client: Any, queue_id: int, count: int) -> list[bytes]:
    bodies = [b"%d" % number for number in range(count)]
    client.queue(queue_id).put_many(bodies)
    return bodies


def take(consumer: Any, count: int) -> list[Any]:
    taken = [consumer.get(60) for _ in range(count)]
    assert None not in taken
    return taken


def acknowledge(consumer: Any, count: int) -> list[Any]:
    """Acknowledges so many messages; what a lost connection had brought is passed over."""
    done = []
    while len(done) < count:
        leased = consumer.get(60)
        with contextlib.suppress(LeaseLostError):
            leased.ack()
            done.append(leased)
    return done


def test_what_leaves_its_block_is_acknowledged(client: Any, connected: Connect, queue_id: int) -> None:
    bodies = put_numbers(client, queue_id, 300)
    seen = []
    with client.queue(queue_id).consume(credit=16) as consumer:
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
    with client.queue(queue_id).consume() as consumer:
        with pytest.raises(ValueError, match="cannot"), consumer.get(60):
            raise ValueError("cannot")
        leased = consumer.get(60)
        assert (leased.message.attempt, leased.message.redelivered) == (2, True)
        leased.ack()


def test_answers_by_hand(client: Any, queue_id: int) -> None:
    put_numbers(client, queue_id, 2)
    with client.queue(queue_id).consume() as consumer:
        first, second = take(consumer, 2)
        first.touch()
        first.ack()
        with pytest.raises(LeaseLostError, match="not this consumer's"):
            first.ack()
        second.nack(failed=False)
        (again,) = take(consumer, 1)
        assert (again.body, again.message.attempt) == (second.body, 1)
        again.ack()
        with pytest.raises(LeaseLostError):
            second.touch()
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_get_waits_no_longer_than_asked(client: Any, queue_id: int) -> None:
    with client.queue(queue_id).consume() as consumer:
        assert consumer.get(0) is None
        assert consumer.get(0.02) is None
        client.put_message(queue_id, b"late")
        leased = consumer.get(60)
        assert leased.body == b"late"
        leased.ack()


def test_who_has_become_slow_leaves_to_others_what_it_has_not_begun(
    client: Any, connected: Connect, queue_id: int
) -> None:
    bodies = put_numbers(client, queue_id, 400)
    other = connected()
    with client.queue(queue_id).consume() as slow, other.queue(queue_id).consume() as free:
        seen = [leased.body for leased in acknowledge(slow, 150)]
        held = slow.get(60)
        # Two may wait behind what it works on.
        seen += [leased.body for leased in acknowledge(free, 247)]
        assert held.held
        held.ack()
        seen += [held.body] + [leased.body for leased in acknowledge(slow, 2)]
    assert sorted(seen) == sorted(bodies)
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_closing_gives_back_what_was_not_answered(client: Any, connected: Connect, queue_id: int) -> None:
    bodies = put_numbers(client, queue_id, 5)
    with client.queue(queue_id).consume() as consumer:
        with consumer.get(60):
            pass
        consumer.get(60)
    other = connected()
    with other.queue(queue_id).consume() as heir:
        messages = take(heir, 4)
        assert [leased.body for leased in messages] == bodies[1:]
        assert {leased.message.attempt for leased in messages} == {1}


def test_closing_the_client_gives_back_too(client: Any, connected: Connect, queue_id: int) -> None:
    bodies = put_numbers(client, queue_id, 3)
    consumer = client.queue(queue_id).consume()
    with consumer.get(60):
        pass
    client.close()
    with connected().queue(queue_id).consume() as heir:
        messages = take(heir, 2)
        assert [leased.body for leased in messages] == bodies[1:]
        assert {leased.message.attempt for leased in messages} == {1}


def test_what_was_answered_just_before_closing_is_told(
    connected: Connect, client: Any, queue_id: int
) -> None:
    put_numbers(client, queue_id, 20)
    other = connected()
    consumer = other.queue(queue_id).consume()
    for leased in take(consumer, 20):
        with leased:
            pass
    other.close()
    assert client.retrieve_message(queue_id, timeout=0) is None


def test_a_consumer_that_is_closed_ends_its_iteration(client: Any, queue_id: int) -> None:
    consumer = client.queue(queue_id).consume()
    assert consumer.get(0) is None
    ended = threading.Event()

    def iterate() -> None:
        assert list(consumer) == []
        ended.set()

    thread = threading.Thread(target=iterate)
    thread.start()
    consumer.close()
    assert ended.wait(60)
    thread.join()
    assert consumer.get(0) is None


def test_deleting_the_queue_ends_the_consumer(client: Any, connected: Connect, queue_id: int) -> None:
    with client.queue(queue_id).consume() as consumer:
        assert consumer.get(0) is None
        connected().delete_queue(queue_id)
        with pytest.raises(QueueNotExistingError):
            consumer.get(60)


def test_consuming_needs_a_queue(client: Any) -> None:
    with pytest.raises(QueueNotExistingError), client.queue(10**9).consume():
        pass


def test_a_consumer_joins_again_after_a_lost_connection(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    bodies = put_numbers(client, queue_id, 3)
    with client.queue(queue_id).consume(credit=2) as consumer:
        first = consumer.get(60)
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
    with client.queue(queue_id).consume() as consumer:
        first = consumer.get(60)
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
    real_service.execute("UPDATE telesto.queues SET lease_ms = 3000")
    with client.queue(queue_id).consume(keep_alive=True) as consumer:
        leased = consumer.get(60)
        deadline = real_service.query("SELECT deadline FROM telesto.leases")
        while real_service.query("SELECT deadline FROM telesto.leases") == deadline:
            pass
        leased.ack()
    assert real_service.query("SELECT 1 FROM telesto.leases") == []


# ---------------------------------------------------------------------------------- what waits and what dies
def test_a_message_may_come_at_a_moment(client: Any, queue_id: int) -> None:
    queue = client.queue("orders")
    now = datetime.now(timezone(timedelta(hours=5)))
    queue.put(b"later", at=now + timedelta(hours=1))
    queue.put_many([NewMessage(b"later too", at=now + timedelta(hours=1))])
    client.put_message(queue, b"now", at=now - timedelta(hours=1))
    client.put_messages([queue], b"now too", at=now)
    assert [message.body for message in queue.get_many(9, timeout=0)] == [b"now", b"now too"]
    assert queue.statistics().delayed == 2
    with pytest.raises(InvalidParameterError, match="a delay or an at, not both"):
        queue.put(b"x", at=now, delay=1)
    with pytest.raises(InvalidParameterError, match="at must have a time zone"):
        queue.put(b"x", at=datetime(2030, 1, 1))
    with pytest.raises(InvalidParameterError, match="delay must be"):
        queue.put(b"x", at=now + timedelta(days=9999))


def test_a_message_may_wait_and_may_expire(client: Any, queue_id: int) -> None:
    """However slow the machine is, the one does not come early, and the other is not waited for."""
    begun = time.monotonic()
    client.put_message(queue_id, b"later", delay=1)
    client.put_messages([queue_id], b"short", expires=0.001)
    client.queue(queue_id).put_many([NewMessage(b"now", delay=0, expires=600)])
    came: dict[bytes, float] = {}
    with client.queue(queue_id).consume() as consumer:
        while not came.keys() >= {b"now", b"later"}:
            (leased,) = take(consumer, 1)
            came[leased.body] = time.monotonic() - begun
            leased.ack()
    assert came[b"later"] > 0.99
    assert came.keys() <= {b"now", b"later", b"short"}


def test_a_message_given_back_for_a_time(client: Any, queue_id: int) -> None:
    put_numbers(client, queue_id, 2)
    with client.queue(queue_id).consume() as consumer:
        first, second = take(consumer, 2)
        first.nack(failed=False, delay=0.2)
        (again,) = take(consumer, 1)
        assert (again.body, again.message.attempt) == (first.body, 1)
        again.ack()
        second.ack()


def test_dead_letters_go_on_to_a_dead_letter_queue(client: Any) -> None:
    failures = client.create_queue("failures").queue_id
    queue_id = client.create_queue("work", max_attempts=1, dead_letter_queue=failures).queue_id
    assert client.queue(queue_id).settings().dead_letter_queue == "failures"
    message_id = client.put_message(queue_id, b"order")
    with client.queue(queue_id).consume() as consumer:
        consumer.get().nack()
    message = client.retrieve_message(failures)
    assert (message.body, message.attempt, message.redelivered) == (b"order", 1, True)
    origin = message.origin
    assert (origin.queue_id, origin.message_id, origin.reason, origin.attempt) == (
        queue_id,
        message_id,
        "failed",
        1,
    )
    assert origin.died_at <= message.time_of_arrival
    client.queue(queue_id).update(dead_letter_queue=None)
    assert client.queue(queue_id).settings().dead_letter_queue is None
    with pytest.raises(QueueNotExistingError):
        client.queue(queue_id).update(dead_letter_queue=failures + 99)
    with pytest.raises(InvalidParameterError, match="dead letter"):
        client.queue(queue_id).update(dead_letter_queue=queue_id)


def test_rejected_messages_are_dead_letters_at_once(client: Any, queue_id: int) -> None:
    client.queue(queue_id).update(fail_limit=1)
    put_numbers(client, queue_id, 4)
    with client.queue(queue_id).consume() as consumer:
        first, second, third, last = take(consumer, 4)
        first.reject("it is \0 too\ud800 old")
        with pytest.raises(MessageRejectedError), second:
            raise MessageRejectedError("x" * 1_001)
        third.reject("")
        with pytest.raises(TypeError, match="reason"):
            last.reject(7)
        with last:
            pass
        wait_until(lambda: len(list(client.queue(queue_id).dead_letters())) == 3)
    letters = list(client.queue(queue_id).dead_letters())
    assert [(letter.message.body, letter.reason) for letter in letters] == [
        (b"0", "rejected: it is \\0 too? old"),
        (b"1", f"rejected: {'x' * 999}…"),
        (b"2", "rejected: no reason"),
    ]


def test_dead_letters(client: Any, queue_id: int) -> None:
    client.queue(queue_id).update(max_attempts=1)
    put_numbers(client, queue_id, 3)
    with client.queue(queue_id).consume() as consumer:
        for leased in take(consumer, 3):
            leased.nack()
    letters = list(client.queue(queue_id).dead_letters())
    assert [(letter.message.body, letter.reason, letter.message.attempt) for letter in letters] == [
        (b"0", "failed", 1),
        (b"1", "failed", 1),
        (b"2", "failed", 1),
    ]
    ids = [letter.message.message_id for letter in letters]
    assert letters[0].died_at >= letters[0].message.time_of_arrival
    assert [
        letter.message.body for letter in client.queue(queue_id).dead_letters(after_message_id=ids[1])
    ] == [b"2"]
    assert list(client.queue(queue_id).dead_letters(limit=2)) == letters[:2]
    assert list(client.queue(queue_id).dead_letters(after_message_id=ids[1], limit=5)) == letters[2:]
    assert client.queue(queue_id).redrive([ids[1]]) == 1
    assert client.retrieve_message(queue_id, timeout=0).body == b"1"
    assert client.queue(queue_id).delete_dead_letters(ids) == 2
    assert list(client.queue(queue_id).dead_letters()) == []
    assert client.queue(queue_id).redrive() == 0
    with pytest.raises(InvalidParameterError, match="at least one"):
        client.queue(queue_id).redrive([])


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"delay": -1}, InvalidParameterError),
        ({"delay": True}, TypeError),
        ({"expires": -1}, InvalidParameterError),
        ({"expires": 1e12}, InvalidParameterError),
        ({"expires": "1"}, TypeError),
    ],
)
def test_times_that_cannot_be(
    client: Any, queue_id: int, arguments: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        client.put_message(queue_id, b"x", **arguments)


# ---------------------------------------------------------------------------------- partitions
def test_messages_of_a_partition_come_in_order_and_alone_to_consumers(client: Any, queue_id: int) -> None:
    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key=f"key {i % 2}") for i in range(10)])
    client.put_message(queue_id, b"10", partition_key="key 0")
    client.put_messages([queue_id], b"11", partition_key="key 1")
    assert client.retrieve_message(queue_id, timeout=0) is None
    with client.queue(queue_id).consume(credit=3) as consumer:
        seen: dict[str, list[int]] = {"key 0": [], "key 1": []}
        for leased in acknowledge(consumer, 12):
            seen[leased.message.partition_key].append(int(leased.body))
    assert seen == {"key 0": list(range(0, 12, 2)), "key 1": list(range(1, 12, 2))}


def test_what_follows_a_message_given_back_is_not_begun(client: Any, queue_id: int) -> None:
    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="key") for i in range(3)])
    client.put_message(queue_id, b"other", partition_key="other")
    with client.queue(queue_id).consume() as consumer:
        first, *_ = taken = take(consumer, 1)
        other = []
        while first.body != b"0":
            other.append(first)
            (first,) = take(consumer, 1)
        first.nack(failed=False)
        rest = take(consumer, 4 - len(other))
        assert [leased.body for leased in rest if leased.body != b"other"] == [b"0", b"1", b"2"]
        for leased in [*other, *rest]:
            leased.ack()
        assert consumer.lost == 0
    assert taken


def test_a_partition_key_that_cannot_be(client: Any, queue_id: int) -> None:
    with pytest.raises(InvalidParameterError, match="not both"):
        client.put_message(queue_id, b"x", partition_key="a", receiver_id=1)
    with pytest.raises(InvalidParameterError, match="characters"):
        client.put_message(queue_id, b"x", partition_key="")


# ---------------------------------------------------------------------------------- handlers
class Worker:
    """A consumer that runs in a thread, with a client of its own, until it is stopped."""

    def __init__(self, client: Any, queue_id: int, handler: Callable[[Any], Any], **options: Any) -> None:
        self._client = client
        # Tests know how much it has; without a credit that follows its pace.
        options = {"credit": 16, **options}
        self._thread = threading.Thread(
            target=client.queue(queue_id).run_consumer, args=(handler,), kwargs=options, daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._client.close()
        self._thread.join(60)
        assert not self._thread.is_alive()


def until_answered(real_service: Any) -> None:
    """Returns when no consumer has a message."""
    while real_service.query("SELECT 1 FROM telesto.leases"):
        pass


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_handler_works_on_what_comes(
    client: Any, connected: Connect, queue_id: int, real_service: Any, concurrency: int
) -> None:
    seen: list[bytes] = []
    all_seen = threading.Event()

    def handle(message: Any) -> None:
        seen.append(message.body)
        if len(seen) == 50:
            all_seen.set()

    worker = Worker(connected("worker"), queue_id, handle, concurrency=concurrency)
    bodies = put_numbers(client, queue_id, 50)
    assert all_seen.wait(60)
    until_answered(real_service)
    worker.stop()
    assert sorted(seen, key=int) == bodies
    assert client.queue(queue_id).statistics().depth == 0


def test_several_are_worked_on_at_a_time_but_of_a_partition_one(
    client: Any, connected: Connect, queue_id: int
) -> None:
    lock = threading.Lock()
    at_work: dict[str, int] = {"a": 0, "b": 0}
    order: dict[str, list[int]] = {"a": [], "b": []}
    together = threading.Barrier(2)
    overlaps: list[str] = []
    done = threading.Event()

    def handle(message: Any) -> None:
        key = message.partition_key
        with lock:
            at_work[key] += 1
            if at_work[key] > 1:
                overlaps.append(key)
            order[key].append(int(message.body))
        # Both partitions are worked on at once, or this never goes on.
        together.wait(60)
        with lock:
            at_work[key] -= 1
            if sum(map(len, order.values())) == 20:
                done.set()

    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="ab"[i % 2]) for i in range(20)])
    worker = Worker(connected("worker"), queue_id, handle, concurrency=4)
    assert done.wait(60)
    worker.stop()
    assert order == {"a": list(range(0, 20, 2)), "b": list(range(1, 20, 2))}
    assert overlaps == []


def test_what_a_handler_fails_on_comes_again_in_order(
    client: Any, connected: Connect, queue_id: int, real_service: Any
) -> None:
    seen: list[tuple[int, int]] = []
    errors: list[tuple[bytes, str]] = []
    done = threading.Event()

    def handle(message: Any) -> None:
        seen.append((int(message.body), message.attempt))
        if seen[-1] == (1, 1):
            raise ValueError("not today")
        if seen[-1][0] == 3:
            done.set()

    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="key") for i in range(4)])
    worker = Worker(
        connected("worker"),
        queue_id,
        handle,
        concurrency=4,
        on_error=lambda message, error: errors.append((message.body, str(error))),
    )
    assert done.wait(60)
    until_answered(real_service)
    worker.stop()
    assert seen == [(0, 1), (1, 1), (1, 2), (2, 1), (3, 1)]
    assert errors == [(b"1", "not today")]


def wait_for_leases(client: Any, messages: list[PutResult]) -> None:
    """Waits until consumers have the messages: one that has none is read before those that come back."""
    ids = [message.message_id for message in messages]
    wait_until(lambda: all(client.message_history(each).state is MessageState.LEASED for each in ids))


def in_queue(client: Any, queue_id: int, count: int) -> list[tuple[bytes, int]]:
    """Takes so many messages, the last ones of the queue: their bodies and attempts."""
    messages = [client.retrieve_message(queue_id, timeout=60) for _ in range(count)]
    assert client.retrieve_message(queue_id, timeout=0) is None
    return [(message.body, message.attempt) for message in messages]


class Slow:
    """A handler that waits in its first message."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.seen: list[bytes] = []
        self.errors: list[BaseException] = []

    def __call__(self, message: Any) -> None:
        self.seen.append(message.body)
        self.begun.set()
        assert self.go_on.wait(60)

    def failed(self, message: Any, error: BaseException) -> None:
        self.errors.append(error)


def test_closing_lets_handlers_end_and_gives_the_rest_back_in_order(
    client: Any, connected: Connect, queue_id: int
) -> None:
    slow = Slow()
    messages = client.queue(queue_id).put_many([b"%d" % number for number in range(4)])
    worker = Worker(connected("worker"), queue_id, slow, on_error=slow.failed)
    assert slow.begun.wait(60)
    wait_for_leases(client, messages)
    stopping = threading.Thread(target=worker.stop)
    stopping.start()
    # What was not begun is back before the handler has ended.
    assert in_queue(client, queue_id, 3) == [(b"%d" % i, 1) for i in range(1, 4)]
    slow.go_on.set()
    stopping.join(60)
    assert client.queue(queue_id).statistics().depth == 0
    assert (slow.seen, slow.errors) == ([b"0"], [])


def test_what_has_not_ended_in_time_goes_back_and_is_no_failure(
    client: Any, connected: Connect, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Slow()
    messages = client.queue(queue_id).put_many([b"%d" % number for number in range(3)])
    working = connected("worker")
    worker = Worker(working, queue_id, slow, on_error=slow.failed)
    assert slow.begun.wait(60)
    wait_for_leases(client, messages)
    working.close(drain=0)
    assert in_queue(client, queue_id, 3) == [(b"%d" % i, 1) for i in range(3)]
    slow.go_on.set()
    worker.stop()
    assert (slow.seen, slow.errors) == ([b"0"], [])
    assert not [record for record in caplog.records if "failed" in record.message]


def test_closing_again_while_handlers_end_does_not_wait_for_them_twice(
    client: Any, connected: Connect, queue_id: int
) -> None:
    slow = Slow()
    put_numbers(client, queue_id, 1)
    working = connected("worker")
    worker = Worker(working, queue_id, slow)
    assert slow.begun.wait(60)
    closings = [threading.Thread(target=working.close) for _ in range(2)]
    for closing in closings:
        closing.start()
    slow.go_on.set()
    for closing in closings:
        closing.join(60)
        assert not closing.is_alive()
    worker.stop()
    assert client.queue(queue_id).statistics().depth == 0


def test_closing_again_with_less_time_shortens_the_time_that_handlers_have(
    client: Any, connected: Connect, queue_id: int
) -> None:
    slow = Slow()
    messages = client.queue(queue_id).put_many([b"0", b"1"])
    working = connected("worker")
    worker = Worker(working, queue_id, slow, on_error=slow.failed)
    assert slow.begun.wait(60)
    wait_for_leases(client, messages)
    closing = threading.Thread(target=working.close, kwargs={"drain": 1000})
    closing.start()
    assert in_queue(client, queue_id, 1) == [(b"1", 1)]  # so handlers have their time now
    with pytest.raises(ClientClosedError):
        working.queue(queue_id).run_consumer(slow)
    working.close(drain=0)
    closing.join(60)
    assert not closing.is_alive()
    assert in_queue(client, queue_id, 1) == [(b"0", 1)]
    slow.go_on.set()
    worker.stop()
    assert (slow.seen, slow.errors) == ([b"0"], [])


def test_the_others_go_on_when_telling_of_a_failure_fails(
    client: Any, connected: Connect, queue_id: int, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[tuple[bytes, int]] = []
    done = threading.Event()

    def handle(message: Any) -> None:
        seen.append((message.body, message.attempt))
        if seen[-1] == (b"0", 1):
            raise ValueError("not today")
        if message.body == b"3":
            done.set()

    def fail(message: Any, error: BaseException) -> None:
        raise RuntimeError("nor this")

    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="key") for i in range(4)])
    worker = Worker(connected("worker"), queue_id, handle, concurrency=2, on_error=fail, drain=1000)
    assert done.wait(60)
    worker.stop()
    assert seen == [(b"0", 1), (b"0", 2), (b"1", 1), (b"2", 1), (b"3", 1)]
    told = [record.exc_info[1] for record in caplog.records if record.exc_info]
    assert [str(error) for error in told] == ["nor this"]


async def test_a_handler_that_was_not_cancelled_and_says_so_has_failed(real_service_url: str) -> None:
    """What it waited for was cancelled, for example; that is a failure as any other."""
    seen: list[tuple[bytes, int]] = []
    errors: list[BaseException] = []

    async def handle(message: Any) -> None:
        seen.append((message.body, message.attempt))
        if seen == [(b"0", 1)]:
            raise asyncio.CancelledError
        if message.body == b"1":
            client.consuming = asyncio.create_task(client.close())

    class Client(AsyncTelestoClient):
        consuming: asyncio.Task[None]

    client = Client(real_service_url, name="worker")
    await client.connect()
    queue = await client.create_queue("orders", backoff=0)
    await client.queue(queue.queue_id).put_many(
        [NewMessage(b"%d" % i, partition_key="key") for i in range(2)]
    )
    async with asyncio.timeout(60):
        await client.queue(queue.queue_id).run_consumer(
            handle, on_error=lambda _, error: errors.append(error)
        )
        await client.consuming
    assert seen == [(b"0", 1), (b"0", 2), (b"1", 1)]
    assert [type(error) for error in errors] == [asyncio.CancelledError]


def test_requests_under_way_are_answered_when_the_server_is_closed(
    client: Any, connected: Connect, queue_id: int
) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def handle(request: Any) -> bytes:
        begun.set()
        assert go_on.wait(60)
        return b"response"

    server = connected("server")
    serving = threading.Thread(target=server.queue(queue_id).serve_requests, args=(handle,))
    serving.start()
    responses: list[Any] = []

    def ask() -> None:
        responses.append(client.send_request_response_message(queue_id, b"request", timeout=60))

    asking = threading.Thread(target=ask)
    asking.start()
    assert begun.wait(60)
    closing = threading.Thread(target=server.close)
    closing.start()
    go_on.set()
    for thread in (closing, serving, asking):
        thread.join(60)
    assert [response.body for response in responses] == [b"response"]


def test_a_stopped_consumer_gives_back_what_was_not_taken_and_may_answer_what_was(
    client: Any, connected: Connect, queue_id: int
) -> None:
    messages = client.queue(queue_id).put_many([b"%d" % number for number in range(6)])
    with connected("worker").queue(queue_id).consume(credit=16) as consumer:
        first, second = take(consumer, 2)
        wait_for_leases(client, messages)
        consumer.stop()
        assert consumer.get(60) is None
        assert in_queue(client, queue_id, 4) == [(b"%d" % number, 1) for number in range(2, 6)]
        first.ack()
        second.nack()
    assert in_queue(client, queue_id, 1) == [(b"1", 2)]


def test_a_consumer_stopped_before_it_joins_is_given_nothing(
    client: Any, connected: Connect, queue_id: int
) -> None:
    put_numbers(client, queue_id, 1)
    with connected("worker").queue(queue_id).consume() as consumer:
        consumer.stop()
        assert consumer.get(60) is None
        assert in_queue(client, queue_id, 1) == [(b"0", 1)]


def test_how_long_handlers_may_take_to_end_is_checked(client: Any, queue_id: int) -> None:
    for wrong in (-1, math.nan):
        with pytest.raises(InvalidParameterError, match="drain"):
            client.queue(queue_id).run_consumer(print, drain=wrong)
        with pytest.raises(InvalidParameterError, match="drain"):
            client.close(drain=wrong)
    with pytest.raises(TypeError, match="drain"):
        client.close(drain="soon")
    assert client.connected


def test_figures_tell_what_waits_for_what(client: Any, connected: Connect) -> None:
    queue_id = client.create_queue("kinds", max_attempts=1).queue_id

    def kinds() -> tuple[int, ...]:
        held = client.queue(queue_id).statistics()
        assert held.exact
        return held.ready, held.delayed, held.backing_off, held.keyed, held.leased, held.dead

    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="key") for i in range(3)])
    client.put_message(queue_id, b"later", delay=3_600)
    assert kinds() == (1, 1, 0, 2, 0, 0)
    assert client.queue(queue_id).statistics().oldest_age >= 0
    with connected("worker").queue(queue_id).consume(credit=1) as consumer:
        (first,) = take(consumer, 1)
        assert kinds()[4] == 1
        first.nack()
        (second,) = take(consumer, 1)
        second.nack(delay=3_600, failed=False)
    assert kinds() == (0, 1, 1, 1, 0, 1)


# ---------------------------------------------------------------------- slow and failing consumers
def test_settings_of_slow_and_failing_consumers(client: Any) -> None:
    usual = client.create_queue("usual").queue_id
    settings = client.queue(usual).settings()
    assert (settings.late_after, settings.late_limit) == (None, 3)
    assert (settings.late_window, settings.fail_limit) == (60.0, 0)
    values = {"late_after": 0.007, "late_limit": 5, "late_window": 0.1, "fail_limit": 4}
    settings = client.queue(client.create_queue("impatient", **values).queue_id).settings()
    assert {name: getattr(settings, name) for name in values} == values
    client.queue(usual).update(**values)
    client.queue(usual).update(late_after=None, late_limit=0)
    settings = client.queue(usual).settings()
    assert (settings.late_after, settings.late_limit, settings.late_window) == (None, 0, 0.1)
    for wrong in ({"late_limit": -1}, {"fail_limit": 1_001}, {"late_window": 0.099}, {"late_after": 0}):
        with pytest.raises(InvalidParameterError):
            client.queue(usual).update(**wrong)


#: Later than a queue allows that allows a millisecond.
LATE_S = 0.005


def answer_late(leased: Any) -> None:
    time.sleep(LATE_S)
    leased.ack()


def test_a_slow_consumer_gives_back_what_it_has_not_begun(client: Any, connected: Connect) -> None:
    queue_id = client.create_queue("slow", late_after=0.001, late_limit=1).queue_id
    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="key") for i in range(10)])
    client.put_message(queue_id, b"without a key")
    other = connected()
    with client.queue(queue_id).consume(credit=20) as slow:
        begun = []
        while len(begun) < 2:
            leased = slow.get(60)
            if leased.message.partition_key is None:
                leased.ack()
            else:
                begun.append(leased)
        client.queue(queue_id).update(late_limit=0)
        with other.queue(queue_id).consume(credit=20) as idle:
            answer_late(begun[0])
            while not slow.slowed:
                client.ping()
            # What it has begun stays with it, and holds up the rest until it is answered.
            begun[1].ack()
            taken = []
            while len(taken) < 8:
                leased = idle.get(60)
                leased.ack()
                taken += [leased] if leased.message.partition_key else []
        assert [leased.body for leased in taken] == [b"%d" % i for i in range(2, 10)]
        assert {leased.message.attempt for leased in taken} == {1}
        assert (slow.joins, slow.lost) == (1, 0)


def test_a_pool_gives_back_what_waits_for_its_turn(
    client: Any, connected: Connect, real_service: Any
) -> None:
    queue_id = client.create_queue("slow", late_after=0.001, late_limit=1).queue_id
    others = connected().queue(queue_id).consume(credit=10)
    at_work: list[bytes] = []
    gone = threading.Event()

    def handle(message: Any) -> None:
        at_work.append(message.body)
        if message.body == b"0":
            # The others come once all is with the pool.
            client.queue(queue_id).update(late_limit=0)
            others.__enter__()
            time.sleep(LATE_S)
        else:
            all_back = "SELECT 1 FROM telesto.keyed_messages HAVING count(*) = 3"
            wait_until(lambda: real_service.query(all_back))
            gone.set()

    client.queue(queue_id).put_many([NewMessage(b"%d" % i, partition_key="key") for i in range(5)])
    worker = Worker(connected("worker"), queue_id, handle, concurrency=4)
    assert gone.wait(60)
    assert [leased.body for leased in take(others, 3)] == [b"2", b"3", b"4"]
    worker.stop()
    assert at_work == [b"0", b"1"]


def test_a_consumer_that_fails_too_often_ends_and_may_come_again(client: Any) -> None:
    queue_id = client.create_queue("failing", fail_limit=2, backoff=0, max_attempts=10).queue_id
    put_numbers(client, queue_id, 3)
    with client.queue(queue_id).consume(credit=10) as failing:
        leases = take(failing, 3)
        for leased in leases[:2]:
            leased.nack()
        with pytest.raises(ConsumerInactiveError, match="2 times in a row"):
            take(failing, 5)
        with pytest.raises(ConsumerInactiveError):
            failing.get(0)
    with client.queue(queue_id).consume(credit=10) as again:
        taken = {leased.body: leased.message.attempt for leased in take(again, 3)}
    assert taken == {b"0": 2, b"1": 2, b"2": 1}


def test_failing_messages_do_not_end_a_pool(client: Any, connected: Connect) -> None:
    """By default it goes on, more slowly while everything fails, and comes to those that do not."""
    queue_id = client.create_queue("failing", max_attempts=1).queue_id
    client.queue(queue_id).put_many([b"bad"] * 9 + [b"good"])
    done = threading.Event()

    def handle(message: Any) -> None:
        if message.body == b"bad":
            raise ValueError("bad")
        done.set()

    worker = Worker(connected("worker"), queue_id, handle, credit=2, on_error=lambda *_: None)
    assert done.wait(60)
    worker.stop()
    assert len(list(client.queue(queue_id).dead_letters())) == 9


def test_a_pool_whose_handler_fails_too_often_says_so(client: Any, connected: Connect) -> None:
    queue_id = client.create_queue("failing", fail_limit=3, backoff=0, max_attempts=10).queue_id
    put_numbers(client, queue_id, 3)

    def handle(message: Any) -> None:
        raise ValueError("never")

    with pytest.raises(ConsumerInactiveError):
        connected("worker").queue(queue_id).run_consumer(handle, concurrency=1, on_error=lambda *_: None)
    assert len({client.retrieve_message(queue_id, timeout=60).body for _ in range(3)}) == 3
