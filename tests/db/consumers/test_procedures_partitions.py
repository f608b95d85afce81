"""Partitions at the procedures: who has them, their order over every way back, the load evened out."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from consumer_calls import LEASE_LOST, Consumer, Consuming, Lease, names_of, put_in_partitions
from procedure_calls import QUEUE_FULL, Calls, Client, Element, Put

pytestmark = pytest.mark.usefixtures("consistent")

HOUR_MS = 3_600_000


def claim_all(consuming: Consuming, *consumers: Consumer, count: int = 20) -> list[Lease]:
    """Claim until nothing more comes."""
    leases: list[Lease] = []
    while True:
        claimed = consuming.claim(*consumers, count=count)
        leases += claimed.leases
        if not claimed.leases and not claimed.more:
            return leases


def ids(consumers: Sequence[Consumer]) -> list[int]:
    return [consumer.consumer_id for consumer in consumers]


def of(leases: list[Lease], partition: str) -> list[str]:
    return [name for name in names_of(leases) if name[0] == partition]


def partitions(calls: Calls) -> list[dict[str, Any]]:
    return calls.query("SELECT * FROM telesto.partitions ORDER BY partition_key")


# ---------------------------------------------------------------------------------- handing out
def test_each_partition_goes_to_one_consumer_in_order(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    first, second = consuming.join(client, queue), consuming.join(client, queue)
    put_in_partitions(calls, client, queue, *[f"{key}{i}" for i in range(5) for key in "ab"])
    leases = claim_all(consuming, first, second)
    assert len(leases) == 10
    for key in "ab":
        assert of(leases, key) == [f"{key}{i}" for i in range(5)]
        assert len({lease.consumer.consumer_id for lease in leases if lease.body.decode()[0] == key}) == 1
    assert Counter(lease.consumer.consumer_id for lease in leases) == {
        first.consumer_id: 5,
        second.consumer_id: 5,
    }
    assert {lease.message["partition_key"] for lease in leases} == {"a", "b"}
    assert calls.statistics(queue)["depth"] == 0


def test_a_thousand_messages_in_two_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    consumers = consuming.join(client, queue), consuming.join(client, queue)
    for start in range(0, 500, 100):
        put_in_partitions(
            calls, client, queue, *[f"{key}{i}" for i in range(start, start + 100) for key in "ab"]
        )
    leases = claim_all(consuming, *consumers, count=64)
    assert [of(leases, key) for key in "ab"] == [[f"{key}{i}" for i in range(500)] for key in "ab"]
    assert Counter(lease.consumer.consumer_id for lease in leases) == dict.fromkeys(ids(consumers), 500)


def test_five_messages_of_five_partitions_over_five_consumers(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    consumers = [consuming.join(client, queue) for _ in range(5)]
    put_in_partitions(calls, client, queue, *"abcde")
    leases = claim_all(consuming, *consumers)
    assert Counter(lease.consumer.consumer_id for lease in leases) == dict.fromkeys(ids(consumers), 1)


def test_priority_does_not_break_the_order(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", priority=1)
    put_in_partitions(calls, client, queue, "a2", priority=9)
    assert names_of(claim_all(consuming, consumer)) == ["a1", "a2"]


def test_senders_have_partitions_of_their_own(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    consumers = [consuming.join(client, queue) for _ in range(2)]
    other = calls.register()
    put_in_partitions(calls, client, queue, "a1")
    put_in_partitions(calls, other, queue, "a2")
    assert Counter(lease.consumer.consumer_id for lease in claim_all(consuming, *consumers)) == dict.fromkeys(
        ids(consumers), 1
    )


def test_plain_reads_pass_over_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2")
    calls.put_bodies(client, queue, b"plain", b"plain too")
    assert calls.take_one(client, queue, max_messages=9).bodies == [b"plain", b"plain too"]
    assert calls.select_one(client, queue, mode=2).bodies == []
    calls.put_bodies(client, queue, b"plain")
    assert sorted(names_of(claim_all(consuming, consumer))) == ["a1", "a2", "plain"]


@pytest.mark.parametrize("slots", [1, 7])
def test_neither_kind_starves_the_other(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, slots: int
) -> None:
    put_in_partitions(calls, client, queue, *[f"{i % 10}{i}" for i in range(200)])
    calls.put([Put(client, [Element(queue, b"plain")] * 200)])
    claimed = [lease for _ in range(140 // slots) for lease in consuming.claim(consumer, count=slots).leases]
    kinds = Counter(lease.message["partition_key"] is None for lease in claimed)
    assert len(claimed) == 140
    assert min(kinds.values()) > 20


def test_what_is_ready_for_others_is_told(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    here, elsewhere = consuming.join(client, queue), consuming.join(client, queue)
    put_in_partitions(calls, client, queue, "a1", "b1", "a2", "b2")
    rows = calls.rows(
        "claim_batch",
        [queue],
        [here.consumer_id],
        [client.client_id],
        [client.session],
        [0],
        [1 << 30],
        [1 << 30],
        [True],
        [1],
        1 << 30,
    )
    told = [(row["kind"], row["request"], row["consumer_id"]) for row in rows if row["kind"] != "message"]
    assert told == [("ready", 1, None), ("ready_elsewhere", None, elsewhere.consumer_id)]
    assert len(claim_all(consuming, elsewhere)) == 2


def test_bytes_bound_what_a_consumer_gets_of_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a" * 10, "b" * 10, "a" * 11)
    assert consuming.claim(consumer, count=5, max_bytes=9).bodies == []
    assert consuming.claim(consumer, count=5, max_bytes=9, idle=True).bodies == [b"a" * 10]
    assert consuming.claim(consumer, count=5, max_bytes=25).bodies == [b"b" * 10, b"a" * 11]


def test_a_call_is_bounded_in_bytes_of_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a" * 10, "a" * 9, "b" * 8)
    bodies = [consuming.claim(consumer, count=5, answer_bytes=5).bodies for _ in range(4)]
    assert sorted(body for found in bodies for body in found) == [b"a" * 9, b"a" * 10, b"b" * 8]
    assert [len(found) for found in bodies] == [1, 1, 1, 0]


def test_a_message_that_its_consumer_cannot_carry_blocks_its_partition_only(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a" * 100, "a2", "b1", "b2")
    leases = consuming.claim(consumer, count=9, largest=50).leases
    leases += consuming.claim(consumer, count=9, largest=50).leases
    assert sorted(names_of(leases)) == ["a1", "b1", "b2"]
    assert consuming.claim(consumer, count=9, largest=50).leases == []
    calls.query("UPDATE telesto.partitions SET place = 1 WHERE line = 4 RETURNING 1")
    assert consuming.sweep("due_partitions")["done"] == 1
    assert names_of(claim_all(consuming, consumer)) == ["a" * 100, "a2"]


def test_the_bound_holds_for_partitions_too(calls: Calls, consuming: Consuming, client: Client) -> None:
    queue = calls.create_queue(client, max_messages=2)
    (answer,) = calls.put([Put(client, [Element(queue, b"a", partition="a")] * 3)])
    assert answer.errors == [None, None, QUEUE_FULL]
    assert len(claim_all(consuming, consuming.join(client, queue))) == 2


def test_many_partitions_at_once(calls: Calls, consuming: Consuming, client: Client, queue: int) -> None:
    consumers = [consuming.join(client, queue) for _ in range(4)]
    count = 3_000
    for start in range(0, count, 1_000):
        elements = [Element(queue, b"%d" % i, partition=f"key {i}") for i in range(start, start + 1_000)]
        calls.put([Put(client, elements)])
    leases = claim_all(consuming, *consumers, count=250)
    assert len({lease.body for lease in leases}) == count
    shares = Counter(lease.consumer.consumer_id for lease in leases)
    assert max(shares.values()) - min(shares.values()) <= 1
    for consumer in consumers:
        mine = [lease for lease in leases if lease.consumer is consumer]
        assert consuming.ack(client, *mine) == [None] * len(mine)
    consuming.sweep("partitions", 10_000)
    assert consuming.sweep("partitions", 10_000)["done"] == count
    assert partitions(calls) == []


# ---------------------------------------------------------------------------------- the ways back
def test_what_comes_after_a_message_given_back_comes_back_with_it(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3", "a4", "b1")
    leases = {lease.body: lease for lease in claim_all(consuming, consumer)}
    assert consuming.ack(client, leases[b"a1"]) == [None]
    row = calls.numbered("nack", client, *[[part] for part in leases[b"a2"].ref], True, 0, [], None, False)
    assert row["errors"] == [None]
    assert set(row["follower_ids"]) == {leases[b"a3"].message_id, leases[b"a4"].message_id}
    assert consuming.ack(client, leases[b"a3"]) == [LEASE_LOST]
    again = claim_all(consuming, consumer)
    assert names_of(again) == ["a2", "a3", "a4"]
    assert [lease.message["attempt"] for lease in again] == [2, 1, 1]
    assert consuming.ack(client, leases[b"a4"], leases[b"b1"]) == [LEASE_LOST, None]
    assert consuming.ack(client, *again) == [None] * 3


def test_nothing_comes_again_before_what_is_still_leased_is_answered(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3")
    first, second, _third = claim_all(consuming, consumer)
    consuming.nack(client, second)
    assert claim_all(consuming, consumer) == []
    assert consuming.sweep("partitions")["queue_ids"] is None
    consuming.ack(client, first)
    assert consuming.sweep("partitions")["queue_ids"] == [queue]
    assert names_of(claim_all(consuming, consumer)) == ["a2", "a3"]


def test_a_partition_whose_rest_died_while_it_waited_is_forgotten(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.query("UPDATE telesto.queues SET max_attempts = 1 RETURNING 1")
    put_in_partitions(calls, client, queue, "a1", "a2")
    first, second = claim_all(consuming, consumer)
    consuming.nack(client, second)
    consuming.ack(client, first)
    assert consuming.sweep("partitions")["queue_ids"] == [queue]
    assert consuming.sweep("partitions")["queue_ids"] is None
    assert consuming.sweep("partitions")["done"] == 1
    assert partitions(calls) == []


def test_a_late_message_takes_those_after_it_along(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3")
    first, second, third = claim_all(consuming, consumer)
    consuming.ack(client, first)
    consuming.keep(second, begun_ms=0)
    calls.query(
        "UPDATE telesto.leases SET deadline = now() - interval '1 hour' WHERE message_id = %s RETURNING 1",
        second.message_id,
    )
    swept = consuming.sweep()
    assert (swept["done"], swept["queue_ids"]) == (1, [queue, queue, queue])
    assert sorted(consuming.lost()) == sorted([second.ref, third.ref])
    again = claim_all(consuming, consumer)
    assert names_of(again) == ["a2", "a3"]
    assert [lease.message["attempt"] for lease in again] == [2, 1]


def test_of_all_late_at_once_that_counts_which_was_begun(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3")
    consuming.keep(claim_all(consuming, consumer)[0], begun_ms=0)
    consuming.age(3600)
    consuming.sweep()
    again = claim_all(consuming, consumer)
    assert [(name, lease.message["attempt"]) for name, lease in zip(names_of(again), again, strict=True)] == [
        ("a1", 2),
        ("a2", 1),
        ("a3", 1),
    ]


def test_a_consumer_that_is_lost_leaves_its_partitions_in_order(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3", "a4", "a5")
    leases = claim_all(consuming, consumer)
    consuming.ack(client, *leases[:3])
    put_in_partitions(calls, client, queue, "a6")
    heir = consuming.join(client, queue)
    assert claim_all(consuming, heir) == []
    consuming.leave(consumer, counted=True, begun=leases[3:4])
    again = claim_all(consuming, heir)
    assert names_of(again) == ["a4", "a5", "a6"]
    assert [lease.message["attempt"] for lease in again] == [2, 1, 1]


def test_partitions_outlive_all_consumers(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    first = consuming.join(client, queue)
    put_in_partitions(calls, client, queue, "a1", "b1", "c1")
    consuming.claim(first, count=1)
    consuming.leave(first)
    put_in_partitions(calls, client, queue, "a2", "d1")
    consumers = [consuming.join(client, queue) for _ in range(2)]
    leases = claim_all(consuming, *consumers)
    assert sorted(names_of(leases)) == ["a1", "a2", "b1", "c1", "d1"]
    assert of(leases, "a") == ["a1", "a2"]
    assert all(lease.message["attempt"] == 1 for lease in leases)


def test_a_failed_message_backs_off_and_blocks_its_partition(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1")
    leases = {lease.body: lease for lease in claim_all(consuming, consumer)}
    consuming.nack(client, leases[b"a1"], delay_ms=None)
    put_in_partitions(calls, client, queue, "a3", "b2")
    assert names_of(claim_all(consuming, consumer)) == ["b2"]
    calls.query("UPDATE telesto.keyed_messages SET due_at = now() WHERE due_at IS NOT NULL RETURNING 1")
    calls.query("UPDATE telesto.partitions SET place = 1 WHERE line = 4 RETURNING 1")
    swept = consuming.sweep("due_partitions")
    assert (swept["done"], swept["queue_ids"], swept["receiver_ids"]) == (1, [queue], [0])
    assert names_of(claim_all(consuming, consumer)) == ["a1", "a2", "a3"]


def test_a_delayed_head_blocks_its_partition(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1")
    put_in_partitions(calls, client, queue, "a2", delay_ms=HOUR_MS)
    put_in_partitions(calls, client, queue, "a3", "b1")
    assert sorted(names_of(claim_all(consuming, consumer))) == ["a1", "b1"]
    calls.query("UPDATE telesto.keyed_messages SET due_at = now() WHERE due_at IS NOT NULL RETURNING 1")
    calls.query("UPDATE telesto.partitions SET place = 1 WHERE line = 4 RETURNING 1")
    consuming.sweep("due_partitions")
    assert names_of(claim_all(consuming, consumer)) == ["a2", "a3"]


def test_what_expired_in_a_partition_is_passed_over(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, queue: int
) -> None:
    calls.query("UPDATE telesto.queues SET bury_expired = true RETURNING 1")
    put_in_partitions(calls, client, queue, "a1", "b1", life_ms=HOUR_MS)
    put_in_partitions(calls, client, queue, "a2")
    calls.query(
        "UPDATE telesto.keyed_messages SET expires_at = now() WHERE expires_at IS NOT NULL RETURNING 1"
    )
    assert names_of(claim_all(consuming, consumer)) == ["a2"]
    assert calls.statistics(queue)["depth"] == 2
    assert consuming.sweep("expired_keyed")["done"] == 2
    assert calls.statistics(queue)["depth"] == 0
    letters = calls.rows("list_dead_letters", queue, 0, 10, 1 << 20)
    assert [(letter["body"], letter["reason"]) for letter in letters] == [
        (b"a1", "expired"),
        (b"b1", "expired"),
    ]


def test_a_dead_message_lets_its_partition_go_on_and_comes_back_by_redriving(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, queue: int
) -> None:
    calls.query("UPDATE telesto.queues SET max_attempts = 1 RETURNING 1")
    put_in_partitions(calls, client, queue, "a1", "a2", "a3")
    leases = claim_all(consuming, consumer)
    consuming.nack(client, leases[0])
    again = claim_all(consuming, consumer)
    assert names_of(again) == ["a2", "a3"]
    consuming.ack(client, *again)
    assert calls.numbered("settle_letters", client, 0x6D, queue, None, True, 10, 0)["settled"] == 1
    put_in_partitions(calls, client, queue, "a4")
    assert names_of(claim_all(consuming, consumer)) == ["a1", "a4"]


def test_a_dead_head_alone_leaves_an_empty_partition(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, queue: int
) -> None:
    calls.query("UPDATE telesto.queues SET max_attempts = 1 RETURNING 1")
    put_in_partitions(calls, client, queue, "a1")
    consuming.nack(client, *claim_all(consuming, consumer))
    assert claim_all(consuming, consumer) == []
    put_in_partitions(calls, client, queue, "a2")
    assert names_of(claim_all(consuming, consumer)) == ["a2"]


def test_a_lost_claim_of_partitions_is_recovered(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "a3", priority=3)
    seen = consuming.claim(consumer, count=1).leases[0].message["claim_id"]
    put_in_partitions(calls, client, queue, "a4", priority=9)
    lost = consuming.claim(consumer, count=5)
    recovered = consuming.recover([consumer], 1, seen)
    assert names_of(recovered.leases) == names_of(lost.leases) == ["a2", "a3", "a4"]
    assert {lease.lease_id for lease in recovered.leases} == {lease.lease_id for lease in lost.leases}


def test_purging_and_deleting_reach_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1")
    consuming.claim(consumer, count=1)
    assert calls.numbered("purge_queue", client, queue, 100)["removed"] == 2
    assert claim_all(consuming, consumer) == []
    put_in_partitions(calls, client, queue, "a3", "c1")
    assert sorted(names_of(claim_all(consuming, consumer))) == ["a3", "c1"]
    put_in_partitions(calls, client, queue, *"defg")
    calls.numbered("delete_queue", client, queue)
    while consuming.sweep("deleted_queues", 2)["more"]:
        pass
    consuming.leave(consumer)
    for table in ("keyed_messages", "partition_arrivals", "partition_states", "leases"):
        assert calls.query(f"SELECT * FROM telesto.{table}") == []


def test_sql_users_put_into_partitions(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    for name in ("a1", "b1", "a2"):
        calls.query(
            "SELECT telesto.put_message(%s, %s, convert_to(%s, 'UTF8'), partition_key => %s)",
            client.client_id,
            queue,
            name,
            name[0],
        )
    placed = calls.row("place_staged", 100)
    assert (placed["queue_ids"], placed["receiver_ids"], placed["counts"]) == ([queue], [0], [3])
    leases = claim_all(consuming, consumer)
    assert (of(leases, "a"), of(leases, "b")) == (["a1", "a2"], ["b1"])
    with pytest.raises(psycopg.DatabaseError, match="not both"):
        calls.query(
            "SELECT telesto.put_message(%s, %s, 'x', receiver_id => 1, partition_key => 'a')",
            client.client_id,
            queue,
        )
    with pytest.raises(psycopg.DatabaseError, match="characters"):
        calls.query("SELECT telesto.put_message(%s, %s, 'x', partition_key => '')", client.client_id, queue)


# ---------------------------------------------------------------------------------- evening out
def test_a_partition_stays_with_its_owner(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    consumers = [consuming.join(client, queue) for _ in range(2)]
    owners: dict[str, set[int]] = {"a": set(), "b": set()}
    for turn in range(5):
        put_in_partitions(calls, client, queue, f"a{turn}", f"b{turn}")
        for lease in claim_all(consuming, *reversed(consumers)):
            owners[lease.body.decode()[0]].add(lease.consumer.consumer_id)
            consuming.ack(client, lease)
    assert [len(owner) for owner in owners.values()] == [1, 1]
    assert owners["a"] != owners["b"]


def test_a_new_consumer_gets_what_is_not_leased_until_the_load_is_even(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    first = consuming.join(client, queue)
    put_in_partitions(calls, client, queue, *[f"{key}{i}" for key in "abcdef" for i in range(3)])
    held = consuming.claim(first, count=2).leases
    second = consuming.join(client, queue)
    leases: list[Lease] = []
    for _ in range(4):
        leases += consuming.claim(second, count=20).leases
    mine = {name[0] for name in names_of(leases)}
    assert len(mine) == 3
    assert not mine & {name[0] for name in names_of(held)}
    for key in mine:
        assert of(leases, key) == [f"{key}{i}" for i in range(3)]
    assert {name[0] for name in names_of(claim_all(consuming, first))} == set("abcdef") - mine


def test_what_is_leased_is_answered_before_its_partition_moves(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    first = consuming.join(client, queue)
    put_in_partitions(calls, client, queue, *[f"{key}{i}" for i in range(3) for key in "ab"])
    held = {lease.body.decode(): lease for lease in consuming.claim(first, count=2).leases}
    assert sorted(held) == ["a0", "b0"]
    second = consuming.join(client, queue)
    assert consuming.claim(second, count=9).leases == []
    rest = claim_all(consuming, first)
    stays = rest[0].body.decode()[0]
    moves = "b" if stays == "a" else "a"
    assert names_of(rest) == [f"{stays}1", f"{stays}2"]
    consuming.ack(client, held[f"{moves}0"])
    assert names_of(claim_all(consuming, first, second)) == [f"{moves}1", f"{moves}2"]


def test_a_partition_in_steady_use_moves_too(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    first = consuming.join(client, queue)
    put_in_partitions(calls, client, queue, "a0", "b0", "c0", "d0")
    held = claim_all(consuming, first)
    second = consuming.join(client, queue)
    orders: dict[str, list[str]] = {key: [f"{key}0"] for key in "abcd"}
    seen = set()
    for turn in range(1, 12):
        put_in_partitions(calls, client, queue, *[f"{key}{turn}" for key in "abcd"])
        leases = claim_all(consuming, first, second)
        for lease in held:
            consuming.ack(client, lease)
        held = leases
        for name in names_of(leases):
            orders[name[0]].append(name)
        seen |= {(lease.body.decode()[0], lease.consumer.consumer_id) for lease in leases if turn > 8}
    held += claim_all(consuming, first, second)
    for key, order in orders.items():
        assert order == [f"{key}{turn}" for turn in range(len(order))]
    assert Counter(owner for _, owner in seen) == {first.consumer_id: 2, second.consumer_id: 2}


def test_what_another_transaction_acknowledges_holds_up_its_partition_only(
    calls: Calls,
    other: psycopg.Connection,
    consuming: Consuming,
    client: Client,
    queue: int,
    consumer: Consumer,
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1")
    leases = {lease.body: lease for lease in claim_all(consuming, consumer)}
    other.execute("DELETE FROM telesto.leases WHERE message_id = %s", (leases[b"a1"].message_id,))
    heir = consuming.join(client, queue)
    consuming.leave(consumer, counted=True)
    assert names_of(claim_all(consuming, heir)) == ["b1"]
    other.rollback()
    consuming.age(3600)
    consuming.sweep()
    consuming.sweep("partitions")
    assert names_of([lease for lease in claim_all(consuming, heir) if lease.body != b"b1"]) == ["a1", "a2"]


def test_a_claim_tells_that_there_are_more_arrivals(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    elements = [Element(queue, b"x", partition=f"key {i}") for i in range(1_001)]
    calls.put([Put(client, elements)])
    assert consuming.claim(consumer, count=1).more


# ---------------------------------------------------------------------------------- nothing is left over
def forget_idle(consuming: Consuming) -> None:
    """Sweep partitions as often as it takes for those without messages to be forgotten."""
    for _ in range(3):
        consuming.sweep("partitions")


@pytest.mark.parametrize("known", ["unseen", "unowned", "owned"])
@pytest.mark.parametrize("way", ["purge", "expiry"])
def test_nothing_is_left_of_partitions_whose_messages_are_removed(
    calls: Calls, consuming: Consuming, client: Client, queue: int, known: str, way: str
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1", life_ms=HOUR_MS)
    put_in_partitions(calls, client, queue, "c1", life_ms=HOUR_MS, delay_ms=HOUR_MS)
    if known != "unseen":
        member = consuming.join(client, queue)
        assert consuming.claim(member, slots=[]).leases == []
        if known == "unowned":
            consuming.leave(member)
    if way == "purge":
        assert calls.numbered("purge_queue", client, queue, 100, 0)["removed"] == 4
    else:
        calls.connection.execute("UPDATE telesto.keyed_messages SET expires_at = clock_timestamp()")
        assert consuming.sweep("expired_keyed")["done"] == 4
    forget_idle(consuming)
    assert partitions(calls) == []
    assert calls.query("SELECT * FROM telesto.partition_arrivals") == []
    put_in_partitions(calls, client, queue, "a3")
    assert names_of(claim_all(consuming, consuming.join(client, queue))) == ["a3"]


def test_a_purge_in_parts_loses_no_partition(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    put_in_partitions(calls, client, queue, "a1", "a2", "b1", "c1")
    answer = calls.numbered("purge_queue", client, queue, 2, 0)
    assert (answer["removed"], answer["more"]) == (2, True)
    assert len(claim_all(consuming, consuming.join(client, queue))) == 2
