"""Consumers at the procedures: claims, leases, and what ends them."""

import psycopg
import pytest

from consumer_calls import CONSUMER_NOT_EXISTING, LEASE_LOST, Consumer, Consuming
from procedure_calls import QUEUE_NOT_EXISTING, SESSION_FENCED, Calls, Client, Element, Put


def put_numbered(calls: Calls, client: Client, queue: int, count: int) -> list[bytes]:
    bodies = [b"%d" % i for i in range(count)]
    calls.put_bodies(client, queue, *bodies)
    return bodies


# ---------------------------------------------------------------------------------- claiming
def test_each_message_goes_to_one_consumer_in_turn(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    bodies = put_numbered(calls, client, queue, 10)
    first, second = consuming.join(client, queue), consuming.join(client, queue)
    claimed = consuming.claim(first, second, count=20)
    assert sorted(claimed.bodies) == sorted(bodies)
    assert [lease.body for lease in claimed.of(first)] == bodies[::2]
    assert [lease.body for lease in claimed.of(second)] == bodies[1::2]
    assert consuming.claim(first, second, count=20).leases == []


def test_a_claim_takes_the_highest_priority_first(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    for priority in (3, 9, 1, 9):
        calls.put_bodies(client, queue, b"%d" % priority, priority=priority)
    assert consuming.claim(consumer, count=3).bodies == [b"9", b"9", b"3"]
    assert consuming.claim(consumer, count=3).bodies == [b"1"]


def test_a_claim_passes_over_what_is_for_another_client(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    other = calls.register()
    calls.put_bodies(client, queue, b"hers", receiver=other.client_id)
    calls.put_bodies(client, queue, b"anyone's")
    mine, hers = consuming.join(client, queue), consuming.join(other, queue)
    claimed = consuming.claim(mine, hers, count=5)
    assert [lease.body for lease in claimed.of(mine)] == [b"anyone's"]
    assert [lease.body for lease in claimed.of(hers)] == [b"hers"]
    assert calls.statistics(queue)["depth"] == 0


def test_readers_and_consumers_share_a_queue(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    bodies = put_numbered(calls, client, queue, 4)
    assert consuming.claim(consumer).bodies == bodies[:1]
    assert calls.take_one(client, queue).bodies == bodies[1:2]
    assert consuming.claim(consumer).bodies == bodies[2:3]
    assert calls.take_one(client, queue).bodies == bodies[3:]


def test_bytes_bound_what_a_consumer_gets(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.put_bodies(client, queue, b"a" * 10, b"b" * 10, b"c" * 10)
    first = consuming.claim(consumer, count=3, max_bytes=25)
    assert (first.bodies, first.more) == ([b"a" * 10, b"b" * 10], True)
    assert consuming.claim(consumer, count=3, max_bytes=5).bodies == []
    assert consuming.claim(consumer, count=3, max_bytes=5, idle=True, largest=9).bodies == []
    last = consuming.claim(consumer, count=3, max_bytes=5, idle=True)
    assert (last.bodies, last.more) == ([b"c" * 10], False)


def test_a_message_too_large_for_one_consumer_goes_to_the_next(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"a" * 10, b"b" * 5)
    small, large = consuming.join(client, queue), consuming.join(client, queue)
    rows = calls.rows(
        "claim_batch",
        [queue] * 2,
        [small.consumer_id, large.consumer_id],
        [client.client_id] * 2,
        [client.session] * 2,
        [0, 0],
        [5, 100],
        [100, 100],
        [False, False],
        [1, 2, 1, 2],
        1 << 20,
    )
    assert [(row["request"], row["body"]) for row in rows] == [(2, b"a" * 10), (2, b"b" * 5)]


def test_a_call_is_bounded_in_bytes(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.put_bodies(client, queue, b"a" * 10, b"b" * 10)
    assert consuming.claim(consumer, count=2, answer_bytes=5).bodies == [b"a" * 10]
    assert consuming.claim(consumer, count=2, answer_bytes=5).bodies == [b"b" * 10]


def test_a_claim_that_does_not_wait_leaves_a_locked_queue(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, database_url: str
) -> None:
    """It may come with puts, which nobody who reads shall hold up."""
    calls.put_bodies(client, queue, b"1")
    with psycopg.connect(database_url) as other:
        other.execute("SELECT pg_advisory_xact_lock(telesto.take_lock_key(%s))", (queue,))
        claimed = consuming.claim(consumer, waits=False)
        assert (claimed.bodies, claimed.errors) == ([], {consumer.consumer_id: -1})
    assert consuming.claim(consumer, waits=False).bodies == [b"1"]


def test_a_claim_over_several_queues(calls: Calls, consuming: Consuming, client: Client) -> None:
    queues = [calls.create_queue(client) for _ in range(3)]
    consumers = [consuming.join(client, queue) for queue in queues]
    calls.put([Put(client, [Element(queue, b"%d" % queue) for queue in queues])])
    claimed = consuming.claim(*consumers)
    assert {lease.consumer.queue: lease.body for lease in claimed.leases} == {
        queue: b"%d" % queue for queue in queues
    }


def test_who_may_not_claim_is_told_why(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    stranger = Consumer(10**9, queue, client)
    assert consuming.claim(stranger).errors == {10**9: CONSUMER_NOT_EXISTING}
    consumer = consuming.join(client, queue)
    calls.take_over(client)
    assert consuming.claim(consumer).errors == {consumer.consumer_id: SESSION_FENCED}


def test_a_claim_of_a_deleted_queue(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.put_bodies(client, queue, b"left")
    (lease,) = consuming.claim(consumer).leases
    calls.numbered("delete_queue", client, queue)
    assert consuming.claim(consumer).errors == {consumer.consumer_id: QUEUE_NOT_EXISTING}
    consuming.leave(consumer)
    assert consuming.ack(client, lease) == [LEASE_LOST]


def test_a_lost_claim_is_recovered_and_a_late_one_refused(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    bodies = put_numbered(calls, client, queue, 4)
    seen = consuming.claim(consumer).leases[0].lease_id
    consuming.claim(consumer, count=2)
    recovered = consuming.recover([consumer], 1, seen)
    assert recovered.bodies == bodies[1:3]
    assert consuming.claim(consumer).errors == {consumer.consumer_id: CONSUMER_NOT_EXISTING}
    later = Consumer(consumer.consumer_id, queue, client, epoch=1)
    assert consuming.claim(later).bodies == bodies[3:]


# ---------------------------------------------------------------------------------- answering
def test_an_acknowledged_message_is_gone_and_the_result_recorded(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 2)
    first, second = consuming.claim(consumer, count=2).leases
    assert consuming.ack(client, first, second) == [None, None]
    assert consuming.ack(client, first) == [LEASE_LOST]
    assert [operation[2:] for operation in calls.operations(client)][-2:] == [
        ([first.message_id, second.message_id], None),
        ([first.message_id], [LEASE_LOST]),
    ]
    consuming.leave(consumer)
    assert calls.take_one(client, queue).bodies == []


def test_only_the_client_that_has_a_lease_may_answer(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 1)
    (lease,) = consuming.claim(consumer).leases
    other = calls.register()
    assert consuming.ack(other, lease) == [LEASE_LOST]
    assert consuming.nack(other, lease) == [LEASE_LOST]
    assert consuming.touch(other, lease) == [LEASE_LOST]
    assert consuming.ack(client, lease) == [None]


def test_a_failed_attempt_counts_and_a_return_does_not(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 2)
    first, second = consuming.claim(consumer, count=2).leases
    assert (first.message["attempt"], first.message["redelivered"]) == (1, False)
    assert consuming.nack(client, first, failed=True) == [None]
    assert consuming.nack(client, second, failed=False) == [None]
    again = consuming.claim(consumer, count=2).leases
    assert [lease.body for lease in again] == [b"0", b"1"]
    assert [lease.message["attempt"] for lease in again] == [2, 1]
    assert all(lease.message["redelivered"] for lease in again)
    assert consuming.ack(client, first) == [LEASE_LOST]


def test_a_message_that_failed_too_often_is_dead(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.query("UPDATE telesto.queues SET max_attempts = 2 RETURNING 1")
    put_numbered(calls, client, queue, 1)
    for _ in range(2):
        (lease,) = consuming.claim(consumer).leases
        consuming.nack(client, lease, reason="no such order")
    assert consuming.claim(consumer).leases == []
    (letter,) = calls.query("SELECT * FROM telesto.dead_letters")
    assert (letter["queue_id"], letter["message_id"], letter["body"]) == (queue, lease.message_id, b"0")
    assert (letter["attempt"], letter["reason"]) == (2, "failed: no such order")


def test_a_rejected_message_is_dead_at_once_with_what_its_consumer_says(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 2)
    first, second = consuming.claim(consumer, count=2).leases
    assert consuming.nack(client, first, reason="no such task", rejected=True) == [None]
    assert consuming.nack(client, second) == [None]
    (again,) = consuming.claim(consumer, count=2).leases
    assert again.message_id == second.message_id
    (letter,) = calls.query("SELECT * FROM telesto.dead_letters")
    assert (letter["message_id"], letter["attempt"]) == (first.message_id, 1)
    assert letter["reason"] == "rejected: no such task"


def test_a_touch_during_an_ack_does_not_lose_it(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 1)
    (lease,) = consuming.claim(consumer).leases
    assert consuming.touch(client, lease) == [None]
    assert consuming.ack(client, lease) == [None]


# ---------------------------------------------------------------------------------- ending
def test_what_a_consumer_leaves_goes_to_the_others_in_its_old_place(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    bodies = put_numbered(calls, client, queue, 5)
    leases = consuming.claim(consumer, count=4).leases
    consuming.ack(client, leases[1])
    consuming.leave(consumer)
    other = consuming.join(client, queue)
    again = consuming.claim(other, count=9)
    assert again.bodies == [bodies[0], *bodies[2:]]
    assert consuming.ack(client, leases[0]) == [LEASE_LOST]
    assert calls.statistics(queue)["depth"] == 0


def test_a_lease_that_ran_out_is_given_back_and_told(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 2)
    first, second = consuming.claim(consumer, count=2).leases
    assert consuming.keep(first, begun_ms=1_000) == [None]
    consuming.age(20)
    assert consuming.touch(client, second) == [None]
    consuming.age(15)
    swept = consuming.sweep()
    assert (swept["elected"], swept["done"], swept["queue_ids"]) == (True, 1, [queue])
    assert consuming.lost() == [first.ref]
    assert consuming.lost() == []
    (again,) = consuming.claim(consumer).leases
    assert (again.body, again.message["attempt"]) == (b"0", 2)
    assert consuming.ack(client, first, second) == [LEASE_LOST, None]
    assert consuming.sweep()["done"] == 0


def test_a_lease_that_ran_out_before_anybody_knew_that_it_was_begun_does_not_count(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 1)
    for _ in range(10):
        (lease,) = consuming.claim(consumer).leases
        assert lease.message["attempt"] == 1
        consuming.age(40)
        assert consuming.sweep()["done"] == 1
    # It may have been processed all the same.
    assert lease.message["redelivered"]


def test_what_is_kept_holds_on_and_what_is_gone_is_told(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 3)
    waiting, begun, gone = consuming.claim(consumer, count=3).leases
    consuming.ack(client, gone)
    consuming.age(20)
    assert consuming.keep(waiting, gone) == [None, LEASE_LOST]
    assert consuming.keep(begun, begun_ms=5_000) == [None]
    consuming.age(27)
    assert consuming.sweep()["done"] == 1
    assert consuming.lost() == [begun.ref]
    # Noting a begin does not shorten what was touched.
    assert consuming.touch(client, waiting) == [None]
    assert consuming.keep(waiting, begun_ms=25_000) == [None]
    consuming.age(20)
    assert consuming.sweep()["done"] == 0


def test_a_lease_that_an_application_holds_is_kept_later(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    queue: int,
    consumer: Consumer,
    other: psycopg.Connection,
) -> None:
    put_numbered(calls, client, queue, 1)
    (lease,) = consuming.claim(consumer).leases
    other.execute("SELECT telesto.ack(%s, %s, %s)", lease.ref)
    assert consuming.keep(lease) == [-1]
    other.rollback()
    assert consuming.keep(lease) == [None]


def test_what_nobody_has_begun_comes_back_uncounted_and_marked_where_its_begin_may_be_lost(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 3)
    leases = consuming.claim(consumer, count=3).leases
    assert consuming.return_waiting(*leases[1:])["queue_ids"] == [queue] * 2
    consuming.leave(consumer, counted=True, begun=leases[:1])
    again = consuming.claim(consuming.join(client, queue), count=3).leases
    assert [(lease.body, lease.message["attempt"], lease.message["redelivered"]) for lease in again] == [
        (b"0", 2, True),
        (b"1", 1, True),
        (b"2", 1, True),
    ]


def test_what_is_given_back_unbegun_is_not_marked(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 2)
    first, second = consuming.claim(consumer, count=2).leases
    consuming.nack(client, first, second, failed=False, begun=[first])
    again = consuming.claim(consumer, count=2).leases
    assert [lease.message["redelivered"] for lease in again] == [True, False]
    assert [lease.message["attempt"] for lease in again] == [1, 1]


def test_a_lease_held_by_an_open_transaction_is_left_alone(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    queue: int,
    consumer: Consumer,
    other: psycopg.Connection,
) -> None:
    put_numbered(calls, client, queue, 2)
    first, second = consuming.claim(consumer, count=2).leases
    consuming.age(40)
    other.execute("DELETE FROM telesto.leases WHERE message_id = %s", (first.message_id,))
    assert consuming.sweep()["done"] == 1
    assert consuming.lost() == [second.ref]
    other.rollback()
    assert consuming.sweep()["done"] == 1
    assert consuming.lost() == [first.ref]


@pytest.mark.parametrize("noted", [False, True])
def test_consumers_of_a_middleware_that_is_gone_end(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, noted: bool
) -> None:
    put_numbered(calls, client, queue, 1)
    (lease,) = consuming.claim(consumer).leases
    survivor = Consuming(calls, "127.0.0.1:7002")
    if noted:
        consuming.keep(lease, begun_ms=1_000)
    calls.value("unregister_middleware", consuming.middleware)
    assert survivor.sweep()["done"] == 1
    assert consuming.ack(client, lease) == [LEASE_LOST]
    (again,) = survivor.claim(survivor.join(client, queue)).leases
    assert (again.message["attempt"], again.message["redelivered"]) == (1 + noted, True)


def test_consumers_of_an_earlier_session_end_with_the_next_join_or_sweep(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_numbered(calls, client, queue, 1)
    consuming.claim(consumer)
    later = calls.take_over(client)
    assert consuming.claim(consuming.join(later, queue)).bodies == [b"0"]
    calls.take_over(later)
    assert consuming.sweep()["done"] == 1
    assert calls.query("SELECT * FROM telesto.consumers") == []
