"""What competing consumers are for, one scenario a test; crashes are those of real processes."""

import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from running import PATIENCE_S, Worker, serving
from telesto.client import (
    Consumer,
    ConsumerInactiveError,
    LeasedMessage,
    NewMessage,
    QueueFullError,
    TelestoClient,
)

Connect = Callable[[], TelestoClient]
NewQueue = Callable[..., int]


def put(client: TelestoClient, queue_id: int, texts: Iterable[str], partitioned: bool = True) -> None:
    """Puts messages; a message's partition is named by the letter that its text begins with."""
    messages = [NewMessage(text.encode(), partition_key=text[0] if partitioned else None) for text in texts]
    assert all(result.error is None for result in client.queue(queue_id).put_many(messages))


def numbered(letter: str, count: int) -> list[str]:
    return [f"{letter}{number}" for number in range(count)]


def mixed(*partitions: list[str]) -> list[str]:
    """The messages of several partitions in turn."""
    return [text for texts in zip(*partitions, strict=True) for text in texts]


def take(consumer: Consumer, count: int) -> list[LeasedMessage]:
    """Waits for so many messages, which the consumer holds then."""
    taken = [consumer.get(PATIENCE_S) for _ in range(count)]
    assert None not in taken
    return [leased for leased in taken if leased is not None]


def texts(messages: Iterable[LeasedMessage]) -> list[str]:
    return [leased.message.text for leased in messages]


def acknowledge(messages: Iterable[LeasedMessage]) -> list[str]:
    """Acknowledges messages; their texts."""
    done = []
    for leased in messages:
        leased.ack()
        done.append(leased.message.text)
    return done


def join(stack: ExitStack, connect: Connect, queue_id: int, count: int, credit: int = 256) -> list[Consumer]:
    """Consumers that have joined, each of a client of its own."""
    return [stack.enter_context(connect().queue(queue_id).consume(credit=credit)) for _ in range(count)]


# ---------------------------------------------------------------------------------- 1: sharing
def test_what_is_published_before_anyone_consumes_is_kept_and_then_shared(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    put(client, queue_id, numbered("m", 10), partitioned=False)
    with ExitStack() as stack:
        first, second = join(stack, connect, queue_id, 2, credit=5)
        shares = [take(consumer, 5) for consumer in (first, second)]
        assert sorted(acknowledge(shares[0]) + acknowledge(shares[1])) == numbered("m", 10)
    assert client.queue(queue_id).statistics().depth == 0


def test_consumers_that_are_there_first_share_equally(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    with ExitStack() as stack:
        consumers = join(stack, connect, queue_id, 2)
        # A claim may be under way that was for the first one alone; what this one brings comes after it.
        put(client, queue_id, ["first of all"], partitioned=False)
        while not any(leased and acknowledge([leased]) for leased in (each.get(0.05) for each in consumers)):
            pass
        put(client, queue_id, numbered("m", 10), partitioned=False)
        shares = [acknowledge(take(consumer, 5)) for consumer in consumers]
        assert sorted(shares[0] + shares[1]) == numbered("m", 10)


# ---------------------------------------------------------------------------------- 2: partitions and bounds
def test_a_thousand_messages_in_two_partitions_go_to_one_consumer_each_in_order(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    with ExitStack() as stack, ThreadPoolExecutor(2) as threads:
        consumers = join(stack, connect, queue_id, 2)
        put(client, queue_id, mixed(numbered("a", 500), numbered("b", 500)))

        def work(consumer: Consumer) -> list[str]:
            return [text for _ in range(500) for text in acknowledge(take(consumer, 1))]

        shares = sorted(threads.map(work, consumers))
    assert shares == [numbered("a", 500), numbered("b", 500)]


def test_a_bounded_queue_keeps_what_fits_and_refuses_the_rest(
    client: TelestoClient, new_queue: NewQueue
) -> None:
    queue_id = new_queue(max_messages=1_000)
    results = client.queue(queue_id).put_many([b"%d" % number for number in range(10_000)])
    kept = [number for number, result in enumerate(results) if result.error is None]
    assert kept == list(range(1_000))
    assert all(isinstance(result.error, QueueFullError) for result in results[1_000:])
    found = [int(message.body) for message in client.read_messages(queue_id)]
    assert found == kept


# ---------------------------------------------------------------------------------- 3: queues by name
def test_queues_made_before_and_after_a_start_are_found_and_listed(database_url: str) -> None:
    made = {}
    for name in ("before", "after"):
        with serving(database_url) as service, TelestoClient(service["url"], name="owner") as client:
            client.connect()
            made[name] = client.create_queue(name).queue_id
            for known, queue_id in made.items():
                assert client.get_queue_by_name(known).queue_id == queue_id
            assert {queue.name: queue.queue_id for queue in client.get_queues()} == made


# ---------------------------------------------------------------------------------- 4: even shares
def test_partitions_are_shared_evenly_in_two_queues_at_once(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_ids = [new_queue(), new_queue()]
    two_partitions = mixed(numbered("a", 5), numbered("b", 5))
    with ExitStack() as stack:
        pairs = {queue_id: join(stack, connect, queue_id, 2) for queue_id in queue_ids}
        for queue_id in queue_ids:
            put(client, queue_id, two_partitions)
        for consumers in pairs.values():
            shares = [acknowledge(take(consumer, 5)) for consumer in consumers]
            assert sorted(shares) == [numbered("a", 5), numbered("b", 5)]


def test_five_messages_in_five_partitions_go_to_five_consumers(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    with ExitStack() as stack:
        consumers = join(stack, connect, queue_id, 5)
        put(client, queue_id, ["a0", "b0", "c0", "d0", "e0"])
        shares = [acknowledge(take(consumer, 1)) for consumer in consumers]
    assert sorted(text for share in shares for text in share) == ["a0", "b0", "c0", "d0", "e0"]


# ---------------------------------------------------------------------------------- 5: delays, leaving
def test_a_consumer_that_is_a_little_slow_keeps_its_partition(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    with ExitStack() as stack:
        consumers = join(stack, connect, queue_id, 2)
        put(client, queue_id, mixed(numbered("a", 5), numbered("b", 5)))
        shares = [take(consumer, 5) for consumer in consumers]
        (slow, its_share), (quick, quick_share) = zip(consumers, shares, strict=True)
        acknowledge(quick_share)
        put(client, queue_id, [texts(quick_share)[0][0] + "5"])
        acknowledge(take(quick, 1))
        # Meanwhile the slow one has answered nothing.
        done = acknowledge(its_share)
        assert done == numbered(done[0][0], 5)
        assert (slow.lost, quick.lost) == (0, 0)


def test_what_a_consumer_leaves_goes_on_in_order_to_whoever_comes(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    put(client, queue_id, numbered("a", 5))
    with connect().queue(queue_id).consume() as first:
        assert acknowledge(take(first, 1)) == ["a0"]
    with connect().queue(queue_id).consume() as second:
        rest = take(second, 4)
        assert {leased.message.attempt for leased in rest} == {1}
        assert acknowledge(rest) == ["a1", "a2", "a3", "a4"]


# ---------------------------------------------------------------------------------- 7: a crash
def test_a_crash_at_the_fourth_of_five_leaves_three_done_and_two_to_the_other(
    client: TelestoClient, connect: Connect, new_queue: NewQueue, url: str
) -> None:
    queue_id = new_queue()
    put(client, queue_id, numbered("a", 5))
    with Worker(url, f"worker-{queue_id}", queue_id) as worker:
        for number in range(3):
            assert worker.take()["text"] == f"a{number}"
            worker.ack()
        assert worker.take()["text"] == "a3"
        with connect().queue(queue_id).consume() as other:
            worker.crash()
            rest = take(other, 2)
            assert [leased.message.attempt for leased in rest] == [2, 1]
            assert all(leased.message.redelivered for leased in rest)
            assert acknowledge(rest) == ["a3", "a4"]
    assert client.queue(queue_id).statistics().depth == 0


# ---------------------------------------------------------------------------------- 8: a slow consumer


#: Later than a queue allows that allows 100 ms.
LATE_S = 0.15


def test_after_the_third_late_answer_the_rest_of_a_partition_moves_and_the_consumer_stays(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue(late_after=0.1, late_limit=3)
    with ExitStack() as stack:
        consumers = join(stack, connect, queue_id, 2)
        put(client, queue_id, ["a0", "b0"])
        firsts = [take(consumer, 1)[0] for consumer in consumers]
        of_partition = dict(zip(texts(firsts), consumers, strict=True))
        slow, idle = of_partition["a0"], of_partition["b0"]
        put(client, queue_id, ["a1", "a2", "a3", "a4", "a5"])
        acknowledge(leased for leased in firsts if leased.message.text == "b0")
        (late,) = (leased for leased in firsts if leased.message.text == "a0")
        for number in range(3):
            time.sleep(LATE_S)
            assert acknowledge([late]) == [f"a{number}"]
            if number < 2:
                (late,) = take(slow, 1)
        moved = take(idle, 3)
        assert texts(moved) == ["a3", "a4", "a5"]
        assert {leased.message.attempt for leased in moved} == {1}
        put(client, queue_id, ["new"], partitioned=False)
        assert acknowledge(take(slow, 1)) == ["new"]
        assert acknowledge(moved) == ["a3", "a4", "a5"]
        assert (slow.joins, slow.slowed, slow.lost) == (1, 1, 0)


# ---------------------------------------------------------------------------------- 9: a failing consumer
def test_three_attempts_without_an_answer_end_a_consumer_and_others_get_its_work(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue(lease=1, fail_limit=3)
    put(client, queue_id, ["a0", "a1"])
    with connect().queue(queue_id).consume(credit=1) as silent:
        with pytest.raises(ConsumerInactiveError):
            list(silent)  # and no answer
        client.queue(queue_id).update(lease=600)
        with connect().queue(queue_id).consume() as other:
            work = take(other, 2)
            assert [leased.message.attempt for leased in work] == [4, 1]
            assert acknowledge(work) == ["a0", "a1"]
        assert client.queue(queue_id).statistics().depth == 0


@pytest.mark.parametrize("keys", [False, True], ids=["without keys", "with keys"])
def test_what_fails_with_one_consumer_is_done_by_another_before_it_dies(
    client: TelestoClient, connect: Connect, new_queue: NewQueue, shared_database_url: str, keys: bool
) -> None:
    queue_id = new_queue(max_attempts=2)
    with serving(shared_database_url) as elsewhere, ExitStack() as stack:
        other = stack.enter_context(TelestoClient(elsewhere["url"], name=f"broken-{queue_id}"))
        other.connect()
        (good,) = join(stack, connect, queue_id, 1, credit=1)
        broken = stack.enter_context(other.queue(queue_id).consume())
        put(client, queue_id, [f"{letter}{i}" for i in range(2) for letter in "abcdefghijklmno"], keys)
        (leased,) = take(broken, 1)
        leased.nack()
        failed = [leased.message.text]

        def fail() -> None:
            for leased in broken:
                leased.nack()
                failed.append(leased.message.text)

        failing = threading.Thread(target=fail)
        failing.start()
        attempts: dict[str, int] = {}
        while len(attempts) < 30:
            (leased,) = take(good, 1)
            attempts[leased.message.text] = leased.message.attempt
            leased.ack()
        broken.close()
        failing.join(PATIENCE_S)
    assert len(failed) == len(set(failed))
    assert attempts == {text: 1 + (text in failed) for text in attempts}
    statistics = client.queue(queue_id).statistics()
    assert (statistics.depth, statistics.dead) == (0, 0)


# ---------------------------------------------------------------------------------- 10: order
def test_each_partition_is_in_the_order_of_time_also_over_redelivery(
    client: TelestoClient, connect: Connect, new_queue: NewQueue
) -> None:
    queue_id = new_queue()
    for text in mixed(numbered("a", 10), numbered("b", 10)):
        put(client, queue_id, [text])
    done: list[LeasedMessage] = []
    with connect().queue(queue_id).consume(credit=4) as consumer:
        while len(done) < 20:
            (leased,) = take(consumer, 1)
            if not leased.held:
                continue  # it came back with the one before it
            if leased.message.text[1] in "37" and leased.message.attempt == 1:
                leased.nack()
            else:
                leased.ack()
                done.append(leased)
    for letter in "ab":
        of_partition = [leased.message for leased in done if leased.message.partition_key == letter]
        assert [message.text for message in of_partition] == numbered(letter, 10)
        times = [message.time_of_arrival for message in of_partition]
        assert times == sorted(times)
        assert [message.attempt for message in of_partition] == [1, 1, 1, 2, 1, 1, 1, 2, 1, 1]


# ---------------------------------------------------------------------------------- 11: sent twice
@pytest.mark.parametrize("present", [True, False], ids=["consumers stay", "consumers come back"])
def test_what_is_sent_twice_is_delivered_once(
    client: TelestoClient, connect: Connect, new_queue: NewQueue, present: bool
) -> None:
    queue_id = new_queue()
    ten = [NewMessage(b"%d" % number, dedup_key=f"key {number}") for number in range(10)]
    eleventh = NewMessage(b"10", dedup_key="key 10")
    with ExitStack() as stack:
        (consumer,) = join(stack, connect, queue_id, 1)
        client.queue(queue_id).put_many(ten)
        assert acknowledge(take(consumer, 10)) == [str(number) for number in range(10)]
        if not present:
            stack.close()
            (consumer,) = join(stack, connect, queue_id, 1)
        assert all(result.duplicate for result in client.queue(queue_id).put_many(ten))
        again = client.queue(queue_id).put_many([*ten[:5], eleventh, *ten[5:]])
        assert [result.duplicate for result in again].count(False) == 1
        assert acknowledge(take(consumer, 1)) == ["10"]
    statistics = client.queue(queue_id).statistics()
    assert (statistics.put_total, statistics.depth) == (11, 0)
