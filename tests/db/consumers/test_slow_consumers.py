"""Consumers that are slow or paused: who gets their partitions at the procedures, and in which order."""

import itertools
import threading

import psycopg
import pytest

from consumer_calls import Consumer, Consuming, Lease, names_of, put_in_partitions
from procedure_calls import Calls, Client, Element, Put

pytestmark = pytest.mark.usefixtures("consistent")


@pytest.fixture
def slow(consuming: Consuming, client: Client, queue: int) -> Consumer:
    return consuming.join(client, queue)


def settle(consuming: Consuming, client: Client, *consumers: Consumer) -> list[tuple[int, str]]:
    """Claim one message for each consumer and acknowledge it until there are none; return who got which."""
    got: list[tuple[int, str]] = []
    while True:
        claimed = consuming.claim(*consumers)
        got += [(lease.consumer.consumer_id, lease.body.decode()) for lease in claimed.leases]
        if claimed.leases:
            assert consuming.ack(client, *claimed.leases) == [None] * len(claimed.leases)
        elif not claimed.more:
            return got


def time_passes(calls: Calls) -> None:
    """Let the windows of all slow consumers end."""
    calls.connection.execute("UPDATE telesto.consumers SET slow_until = clock_timestamp()")


def test_what_was_not_sent_moves_at_once_and_in_order(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "b1", "a2", "b2", "a3", "b3")
    leases = consuming.claim(slow, count=2).leases
    idle = consuming.join(client, queue)
    consuming.ack(client, *leases)
    assert consuming.change(slow, slow=True) == [True]
    got = settle(consuming, client, slow, idle)
    assert {consumer_id for consumer_id, _ in got} == {idle.consumer_id}
    for key in "ab":
        assert [name for _, name in got if name[0] == key] == [f"{key}2", f"{key}3"]


def test_what_is_in_flight_moves_when_it_is_acknowledged(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1", "b2")
    held = consuming.claim(slow, count=2).leases
    assert names_of(held) == ["a1", "b1"]
    put_in_partitions(calls, client, queue, "c1")
    idle = consuming.join(client, queue)
    consuming.change(slow, slow=True)
    assert settle(consuming, client, slow, idle) == [(idle.consumer_id, "c1")]
    consuming.ack(client, held[0])
    assert settle(consuming, client, slow, idle) == [(idle.consumer_id, "a2")]
    consuming.ack(client, held[1])
    assert settle(consuming, client, slow, idle) == [(idle.consumer_id, "b2")]


@pytest.mark.parametrize("way", ["lease ends", "given back", "leaves"])
def test_what_is_in_flight_moves_however_it_comes_back(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer, way: str
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3")
    held = consuming.claim(slow, count=2).leases
    idle = consuming.join(client, queue)
    consuming.change(slow, slow=True)
    assert settle(consuming, client, slow, idle) == []
    if way == "lease ends":
        consuming.age(60)
        consuming.sweep()
    elif way == "given back":
        consuming.nack(client, held[1], failed=False)
        assert settle(consuming, client, slow, idle) == []
        consuming.ack(client, held[0])
    else:
        consuming.leave(slow)
    expected = ["a2", "a3"] if way == "given back" else ["a1", "a2", "a3"]
    alive = [idle] if way == "leaves" else [slow, idle]
    assert settle(consuming, client, *alive) == [(idle.consumer_id, name) for name in expected]


def test_a_partition_that_gets_messages_later_moves_then(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1")
    assert settle(consuming, client, slow) == [(slow.consumer_id, "a1")]
    idle = consuming.join(client, queue)
    consuming.change(slow, slow=True)
    put_in_partitions(calls, client, queue, "a2", "z1")
    assert sorted(settle(consuming, client, slow, idle)) == [
        (idle.consumer_id, "a2"),
        (idle.consumer_id, "z1"),
    ]


def test_it_gets_new_work_when_the_window_has_passed(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    idle = consuming.join(client, queue)
    consuming.change(slow, slow=True)
    put_in_partitions(calls, client, queue, *"abcd")
    assert {owner for owner, _ in settle(consuming, client, slow, idle)} == {idle.consumer_id}
    time_passes(calls)
    put_in_partitions(calls, client, queue, *"efgh")
    got = settle(consuming, client, slow, idle)
    assert {name for owner, name in got if owner == slow.consumer_id} == set("efgh")


def test_messages_without_a_key_still_come(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    idle = consuming.join(client, queue)
    put_in_partitions(calls, client, queue, "a1")
    consuming.change(slow, slow=True)
    calls.put_bodies(client, queue, b"1", b"2")
    got = settle(consuming, client, slow, idle)
    assert (idle.consumer_id, "a1") in got
    assert {name for owner, name in got if owner == slow.consumer_id} & {"1", "2"}


def test_when_all_are_slow_nothing_moves(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "b1", "a2", "b2")
    other = consuming.join(client, queue)
    owners = dict(
        itertools.islice(((name[0], owner) for owner, name in _once(consuming, client, slow, other)), 2)
    )
    assert consuming.change(slow, slow=True) == [True]
    assert consuming.change(other, slow=True) == [False]
    got = settle(consuming, client, slow, other)
    assert sorted(got) == sorted((owners[name[0]], name) for _, name in got)
    assert sorted(name for _, name in got) == ["a2", "b2"]


def _once(consuming: Consuming, client: Client, *consumers: Consumer) -> list[tuple[int, str]]:
    claimed = consuming.claim(*consumers)
    assert len(claimed.leases) == 2
    consuming.ack(client, *claimed.leases)
    return [(lease.consumer.consumer_id, lease.body.decode()) for lease in claimed.leases]


def test_the_only_consumer_keeps_its_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    assert consuming.change(slow, slow=True) == [False]
    put_in_partitions(calls, client, queue, "a1", "a2")
    assert settle(consuming, client, slow) == [(slow.consumer_id, "a1"), (slow.consumer_id, "a2")]


def test_a_consumer_that_is_gone_is_passed_over(
    consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    consuming.join(client, queue)
    consuming.leave(slow)
    assert consuming.change(slow, slow=True) == [False]


def test_many_partitions_move_within_bounds(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    elements = [Element(queue, str(i).encode(), partition=f"p{i % 1_200}") for i in range(2_400)]
    for at in range(0, len(elements), 600):
        calls.put([Put(client, elements[at : at + 600])])
    for _ in range(3):
        assert consuming.claim(slow, slots=[]).leases == []
    idle = consuming.join(client, queue)
    consuming.change(slow, slow=True)
    leases: list[Lease] = []
    while True:
        claimed = consuming.claim(slow, idle, count=400)
        leases += claimed.leases
        if not claimed.leases and not claimed.more:
            break
    assert {lease.consumer.consumer_id for lease in leases} == {idle.consumer_id}
    assert len(leases) == 2_400


# ---------------------------------------------------------------------------------- without credit
def test_a_consumer_without_credit_is_given_no_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    consuming.join(client, queue, paused=True)
    put_in_partitions(calls, client, queue, *"abcd")
    assert {owner for owner, _ in settle(consuming, client, slow)} == {slow.consumer_id}


def test_partitions_of_a_consumer_that_is_paused_go_to_others(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1", "b2")
    assert len(consuming.ack(client, *consuming.claim(slow, count=2).leases)) == 2
    other = consuming.join(client, queue)
    assert consuming.change(slow, paused=True) == [False]
    assert sorted(settle(consuming, client, other)) == [(other.consumer_id, "a2"), (other.consumer_id, "b2")]


def test_when_all_are_paused_partitions_wait_for_the_first_that_goes_on(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    first, second = (consuming.join(client, queue, paused=True) for _ in range(2))
    put_in_partitions(calls, client, queue, "a1", "a2")
    consuming.claim(first, second, slots=[])
    consuming.change(second)
    assert settle(consuming, client, second) == [(second.consumer_id, "a1"), (second.consumer_id, "a2")]


def test_a_slow_consumer_serves_when_the_others_are_paused(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer
) -> None:
    other = consuming.join(client, queue)
    consuming.change(slow, slow=True)
    consuming.change(other, paused=True)
    put_in_partitions(calls, client, queue, "a1")
    assert settle(consuming, client, slow) == [(slow.consumer_id, "a1")]


# ---------------------------------------------------------------------------------- at the same time
def test_a_change_waits_for_a_claim_under_way(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer, database_url: str
) -> None:
    """What a claim of another middleware gives to a consumer as it becomes slow is in flight."""
    put_in_partitions(calls, client, queue, "a1", "a2")
    idle = consuming.join(client, queue)
    with psycopg.connect(database_url) as other:
        rows = other.execute(
            "SELECT kind FROM telesto.claim_batch(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
            " WHERE kind = 'message'",
            (
                *([queue], [slow.consumer_id], [client.client_id], [client.session], [0]),
                *([1 << 20], [1 << 20], [False], [1], 1 << 20),
            ),
        ).fetchall()
        assert len(rows) == 1
        change = threading.Thread(target=consuming.change, args=(slow,), kwargs={"slow": True})
        change.start()
        _wait_until_blocked(database_url)
        other.commit()
        change.join()
    assert settle(consuming, client, slow, idle) == []
    consuming.age(60)
    consuming.sweep()
    assert settle(consuming, client, slow, idle) == [(idle.consumer_id, "a1"), (idle.consumer_id, "a2")]


def test_a_change_that_is_lost_changes_nothing(
    calls: Calls, consuming: Consuming, client: Client, queue: int, slow: Consumer, database_url: str
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2")
    consuming.join(client, queue)
    assert names_of(consuming.claim(slow).leases) == ["a1"]
    with psycopg.connect(database_url) as other:
        other.execute(
            "SELECT telesto.change_consumers(%s, %s, %s, %s)", ([queue], [slow.consumer_id], [True], [False])
        )
        other.rollback()
    assert names_of(consuming.claim(slow).leases) == ["a2"]


def _wait_until_blocked(database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        while not connection.execute(
            "SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
            " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
        ).fetchall():
            pass
