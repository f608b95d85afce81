"""Messages that wait, expire or die: delays, backoff, expiry, dead letters."""

from typing import Any

import pytest

from consumer_calls import Consumer, Consuming
from procedure_calls import QUEUE_FULL, QUEUE_NOT_EXISTING, Calls, Client, Element, Put

pytestmark = pytest.mark.usefixtures("consistent")

HOUR_MS = 3_600_000
REDRIVE, DELETE = 0x6D, 0x6F


def let_pass(calls: Calls, milliseconds: int) -> None:
    """Let so much time go by for what is delayed or expires."""
    calls.connection.execute(
        "UPDATE telesto.delayed_messages SET due_at = due_at - make_interval(secs => %(s)s),"
        " expires_at = expires_at - make_interval(secs => %(s)s)",
        {"s": milliseconds / 1000},
    )
    for table in ("messages", "leases", "deliveries"):
        calls.connection.execute(
            f"UPDATE telesto.{table} SET expires_at = expires_at - make_interval(secs => %s)".encode(),
            (milliseconds / 1000,),
        )


def surface(consuming: Consuming) -> list[int]:
    """Sweep what is delayed; return the receivers of what came to sight."""
    return list(consuming.sweep("delayed")["receiver_ids"] or [])


# ---------------------------------------------------------------------------------- delay
def test_a_delayed_message_is_hidden_until_its_time(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    (delayed,) = calls.put_bodies(client, queue, b"later", delay_ms=HOUR_MS)
    calls.put_bodies(client, queue, b"now")
    assert calls.statistics(queue)["depth"] == 2
    assert surface(consuming) == []
    assert consuming.claim(consumer, count=5).bodies == [b"now"]
    assert calls.take_one(client, queue, max_messages=5).bodies == []
    let_pass(calls, HOUR_MS)
    assert surface(consuming) == [0]
    (lease,) = consuming.claim(consumer, count=5).leases
    assert (lease.message_id, lease.message["attempt"], lease.message["redelivered"]) == (delayed, 1, False)
    assert calls.statistics(queue)["depth"] == 0


def test_a_delayed_message_keeps_its_place(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"first", delay_ms=HOUR_MS)
    calls.put_bodies(client, queue, b"second", b"third")
    assert calls.take_one(client, queue).bodies == [b"second"]
    let_pass(calls, HOUR_MS)
    surface(consuming)
    assert calls.take_one(client, queue, max_messages=5).bodies == [b"first", b"third"]


def test_delayed_and_directed(calls: Calls, consuming: Consuming, client: Client, queue: int) -> None:
    other = calls.register()
    calls.put_bodies(client, queue, b"hers", b"too", receiver=other.client_id, delay_ms=HOUR_MS)
    calls.put_bodies(client, queue, b"anyone's")
    assert calls.take_one(other, queue, max_messages=5).bodies == [b"anyone's"]
    let_pass(calls, HOUR_MS)
    assert surface(consuming) == [other.client_id] * 2
    assert calls.take_one(client, queue).bodies == []
    assert calls.take_one(other, queue, max_messages=5).bodies == [b"hers", b"too"]


def test_what_is_delayed_counts_for_the_bound(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, max_messages=2)
    calls.put_bodies(client, queue, b"1", b"2", delay_ms=HOUR_MS)
    (answer,) = calls.put([Put(client, [Element(queue)])])
    assert answer.errors == [QUEUE_FULL]


def test_a_batch_of_both(calls: Calls, consuming: Consuming, client: Client, queue: int) -> None:
    elements = [Element(queue, b"%d" % i, delay_ms=HOUR_MS if i % 2 else None) for i in range(10)]
    calls.put([Put(client, elements), Put(client, [Element(1 << 40, delay_ms=5)])])
    assert calls.take_one(client, queue, max_messages=20).bodies == [b"%d" % i for i in range(0, 10, 2)]
    let_pass(calls, HOUR_MS)
    surface(consuming)
    assert calls.take_one(client, queue, max_messages=20).bodies == [b"%d" % i for i in range(1, 10, 2)]


def test_a_sweep_is_bounded_and_goes_on(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    for i in range(5):
        calls.put_bodies(client, queue, b"%d" % i, delay_ms=HOUR_MS + i)
    let_pass(calls, 2 * HOUR_MS)
    found = [consuming.sweep("delayed", 2) for _ in range(3)]
    assert [(swept["done"], swept["more"]) for swept in found] == [(2, True), (2, True), (1, False)]
    assert calls.take_one(client, queue, max_messages=9).bodies == [b"%d" % i for i in range(5)]


def test_purging_and_deleting_reach_what_is_delayed(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1", b"2", delay_ms=HOUR_MS)
    calls.put_bodies(client, queue, b"3")
    assert calls.numbered("purge_queue", client, queue, 100)["removed"] == 3
    calls.put_bodies(client, queue, *[b"x"] * 5, delay_ms=HOUR_MS)
    calls.numbered("delete_queue", client, queue)
    swept = [consuming.sweep("deleted_queues", 2) for _ in range(4)]
    assert [row["done"] for row in swept] == [2, 2, 1, 0]
    assert calls.query("SELECT * FROM telesto.delayed_messages") == []


def test_what_is_delayed_in_a_deleted_queue_is_dropped_when_it_is_due(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1", delay_ms=HOUR_MS)
    calls.numbered("delete_queue", client, queue)
    let_pass(calls, HOUR_MS)
    assert surface(consuming) == []
    assert calls.query("SELECT * FROM telesto.messages") == []


def test_sql_users_delay_and_let_expire(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    calls.query("SELECT telesto.put_message(%s, %s, 'later', delay => '1 hour')", client.client_id, queue)
    calls.query("SELECT telesto.put_message(%s, %s, 'short', expires => '1 hour')", client.client_id, queue)
    placed = calls.row("place_staged", 100)
    assert placed["counts"] == [1]
    let_pass(calls, HOUR_MS)
    assert surface(consuming) == [0]
    assert calls.take_one(client, queue, max_messages=5).bodies == [b"later"]
    assert consuming.sweep("expired")["done"] == 1


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("delay => '-0.0001 s'", "delay -00:00:00.0001 is not between 00:00:00 and 3650 days"),
        ("delay => '11 years'", "delay 11 years is not between"),
        ("expires => '0'", "expires 00:00:00 is not between 00:00:00.001 and 3650 days"),
    ],
)
def test_sql_users_are_told_what_is_wrong(
    calls: Calls, client: Client, queue: int, option: str, said: str
) -> None:
    with pytest.raises(Exception, match=said):
        calls.query(f"SELECT telesto.put_message(%s, %s, 'x', {option})", client.client_id, queue)


# ---------------------------------------------------------------------------------- backoff
def test_a_failed_attempt_backs_off(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1")
    (lease,) = consuming.claim(consumer).leases
    assert consuming.nack(client, lease, delay_ms=None) == [None]
    assert consuming.claim(consumer).leases == []
    let_pass(calls, 1_000)
    surface(consuming)
    (lease,) = consuming.claim(consumer).leases
    assert (lease.message["attempt"], lease.message["redelivered"]) == (2, True)
    consuming.nack(client, lease, failed=False, delay_ms=None)
    assert [lease.message["attempt"] for lease in consuming.claim(consumer).leases] == [2]


def test_the_backoff_doubles_up_to_its_bound(calls: Calls) -> None:
    for attempt, most in [(1, 100), (2, 200), (3, 400), (4, 500), (1000, 500)]:
        waits = [calls.value("backoff", attempt, 100, 500) for _ in range(50)]
        assert most / 2 <= min(waits) <= max(waits) <= most
        assert len(set(waits)) > 1
    assert calls.value("backoff", 3, 0, 500) == 0


def test_a_message_can_be_given_back_for_a_time(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1", b"2")
    first, second = consuming.claim(consumer, count=2).leases
    consuming.nack(client, first, delay_ms=HOUR_MS)
    consuming.nack(client, second, failed=False, delay_ms=HOUR_MS)
    assert consuming.claim(consumer, count=2).leases == []
    let_pass(calls, HOUR_MS)
    surface(consuming)
    assert [lease.message["attempt"] for lease in consuming.claim(consumer, count=2).leases] == [2, 1]


# ---------------------------------------------------------------------------------- expiry
@pytest.mark.parametrize("directed", [False, True])
def test_what_has_expired_is_never_handed_over(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, directed: bool
) -> None:
    receiver = client.client_id if directed else 0
    calls.put_bodies(client, queue, b"short", life_ms=HOUR_MS, receiver=receiver)
    calls.put_bodies(client, queue, b"long", life_ms=3 * HOUR_MS, receiver=receiver)
    calls.put_bodies(client, queue, b"for ever", receiver=receiver)
    let_pass(calls, HOUR_MS)
    bodies = [row["body"] for row in calls.rows("browse_messages", client.client_id, queue, 0, 10, 1 << 20)]
    assert bodies == [b"long", b"for ever"]
    assert calls.take_one(client, queue).bodies == [b"long"]
    let_pass(calls, 3 * HOUR_MS)
    assert calls.select_one(client, queue, mode=2).bodies == [b"for ever"]
    assert consuming.claim(consumer, count=5).leases == []
    assert calls.statistics(queue)["depth"] == 1
    assert consuming.sweep("expired")["done"] == 1
    assert calls.statistics(queue)["depth"] == 0
    assert calls.query("SELECT * FROM telesto.dead_letters") == []


def test_the_shorter_of_the_message_and_its_queue_holds(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, expires_ms=2 * HOUR_MS)
    for body, life_ms in ((b"1", HOUR_MS), (b"2", None), (b"3", 9 * HOUR_MS)):
        calls.put_bodies(client, queue, body, life_ms=life_ms)
    let_pass(calls, HOUR_MS)
    assert calls.take_one(client, queue).bodies == [b"2"]
    let_pass(calls, HOUR_MS)
    assert calls.take_one(client, queue).bodies == []


def test_what_has_expired_is_buried_if_the_queue_says_so(
    calls: Calls, consuming: Consuming, client: Client
) -> None:
    queue = calls.create_queue(client, bury_expired=True)
    calls.put_bodies(client, queue, b"1", life_ms=HOUR_MS)
    calls.put_bodies(client, queue, b"2", life_ms=HOUR_MS, delay_ms=9 * HOUR_MS)
    let_pass(calls, HOUR_MS)
    assert surface(consuming) == [0]
    assert calls.take_one(client, queue).bodies == []
    assert consuming.sweep("expired")["done"] == 2
    letters = calls.rows("list_dead_letters", queue, 0, 10, 1 << 20)
    assert [(letter["body"], letter["reason"], letter["client_id"]) for letter in letters] == [
        (b"1", "expired", 0),
        (b"2", "expired", 0),
    ]


def test_what_was_handed_over_in_time_may_be_answered_later(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.put_bodies(client, queue, b"1", b"2", life_ms=HOUR_MS)
    first, second = consuming.claim(consumer, count=2).leases
    let_pass(calls, HOUR_MS)
    consuming.sweep("expired")
    assert consuming.ack(client, first) == [None]
    assert consuming.nack(client, second) == [None]
    assert consuming.claim(consumer).leases == []
    assert consuming.sweep("expired")["done"] == 1


def test_what_was_released_expires_all_the_same(calls: Calls, client: Client, queue: int) -> None:
    calls.put_bodies(client, queue, b"1", life_ms=HOUR_MS)
    taken = calls.take_one(client, queue)
    let_pass(calls, HOUR_MS)
    calls.release(client, (client.session, taken.number, 0))
    assert calls.take_one(client, queue).bodies == []


# ---------------------------------------------------------------------------------- dead letters
def kill(calls: Calls, consuming: Consuming, client: Client, queue: int, *bodies: bytes) -> list[int]:
    """Let messages fail for good; return their ids."""
    calls.query("UPDATE telesto.queues SET max_attempts = 1 RETURNING 1")
    calls.put_bodies(client, queue, *bodies)
    consumer = consuming.join(client, queue)
    leases = consuming.claim(consumer, count=len(bodies)).leases
    consuming.nack(client, *leases)
    consuming.leave(consumer)
    return [lease.message_id for lease in leases]


def settle(
    calls: Calls, client: Client, method: int, queue: int, ids: list[int] | None, max_rows: int = 100
) -> dict[str, Any]:
    return calls.numbered("settle_letters", client, method, queue, ids, method == REDRIVE, max_rows, 0)


def letters(calls: Calls, queue: int, **options: Any) -> list[dict[str, Any]]:
    return calls.rows(
        "list_dead_letters",
        queue,
        options.get("after", 0),
        options.get("rows", 10),
        options.get("size", 1 << 20),
    )


def test_dead_letters_are_listed_by_page(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    ids = kill(calls, consuming, client, queue, b"1", b"22", b"333")
    assert [letter["message_id"] for letter in letters(calls, queue)] == ids
    assert [letter["reason"] for letter in letters(calls, queue)] == ["failed"] * 3
    assert [letter["client_id"] for letter in letters(calls, queue)] == [client.client_id] * 3
    assert [letter["attempt"] for letter in letters(calls, queue)] == [1] * 3
    assert [letter["body"] for letter in letters(calls, queue, after=ids[0], rows=1)] == [b"22"]
    assert [letter["body"] for letter in letters(calls, queue, size=0)] == [b"1"]
    assert [letter["body"] for letter in letters(calls, queue, size=3)] == [b"1", b"22"]


def test_redriving_gives_the_message_back_as_if_never_attempted(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    ids = kill(calls, consuming, client, queue, b"1", b"2", b"3")
    row = settle(calls, client, REDRIVE, queue, [ids[2], ids[0], ids[0], 1 << 40])
    assert (row["error"], row["settled"], row["queue_ids"]) == (None, 2, [queue] * 2)
    taken = calls.take_one(client, queue, max_messages=5)
    assert taken.ids == [ids[0], ids[2]]
    assert [(message["attempt"], message["redelivered"]) for message in taken.messages] == [(1, True)] * 2
    assert [letter["message_id"] for letter in letters(calls, queue)] == [ids[1]]
    assert calls.operations(client)[-1][2:] == ([2], None)


def test_all_letters_are_settled_in_bounded_calls(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    kill(calls, consuming, client, queue, b"1", b"2", b"3")
    first = settle(calls, client, REDRIVE, queue, None, max_rows=2)
    assert (first["settled"], first["more"]) == (2, True)
    last = settle(calls, client, DELETE, queue, None, max_rows=2)
    assert (last["settled"], last["more"], last["queue_ids"]) == (1, False, None)
    assert letters(calls, queue) == []
    assert calls.take_one(client, queue, max_messages=5).bodies == [b"1", b"2"]


def test_what_expired_does_not_expire_again_when_it_is_redriven(
    calls: Calls, consuming: Consuming, client: Client
) -> None:
    queue = calls.create_queue(client, bury_expired=True, expires_ms=HOUR_MS)
    calls.put_bodies(client, queue, b"1")
    let_pass(calls, HOUR_MS)
    consuming.sweep("expired")
    assert settle(calls, client, REDRIVE, queue, None)["settled"] == 1
    assert calls.take_one(client, queue).bodies == [b"1"]


def test_letters_of_a_queue_that_is_gone(
    calls: Calls, consuming: Consuming, client: Client, queue: int
) -> None:
    kill(calls, consuming, client, queue, b"1")
    calls.numbered("delete_queue", client, queue)
    assert len(letters(calls, queue)) == 1
    assert settle(calls, client, REDRIVE, queue, None)["error"] == QUEUE_NOT_EXISTING
    assert len(letters(calls, queue)) == 1
    assert settle(calls, client, DELETE, queue, None)["settled"] == 1


@pytest.mark.parametrize(("end", "reason"), [("late", "late"), ("lost", "lost")])
def test_the_reason_tells_how_the_last_attempt_ended(
    calls: Calls, consuming: Consuming, client: Client, queue: int, end: str, reason: str
) -> None:
    calls.query("UPDATE telesto.queues SET max_attempts = 1 RETURNING 1")
    calls.put_bodies(client, queue, b"1")
    consumer = consuming.join(client, queue)
    (lease,) = consuming.claim(consumer).leases
    if end == "late":
        consuming.keep(lease, begun_ms=0)
        consuming.age(3600)
        consuming.sweep()
    else:
        consuming.leave(consumer, counted=True, begun=[lease])
    assert [letter["reason"] for letter in letters(calls, queue)] == [reason]


# ---------------------------------------------------------------------------------- what a queue holds

KINDS = ("ready", "delayed", "backing_off", "keyed", "leased", "dead")


def kinds(calls: Calls, queue: int, max_rows: int = 100) -> tuple[int, ...]:
    """What a queue holds, kind by kind; what waits adds up to the depth."""
    figures = calls.statistics(queue, max_rows)
    assert (sum(figures[name] for name in KINDS[:4]) == figures["depth"]) or not figures["exact"]
    return tuple(figures[name] for name in KINDS)


def test_figures_tell_what_waits_for_what(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    calls.create_queue(client)
    assert kinds(calls, queue) == (0, 0, 0, 0, 0, 0)
    assert calls.statistics(queue)["oldest_age_ms"] is None
    calls.put([Put(client, [Element(queue, priority=n) for n in (5, 4, 3)])])
    calls.put([Put(client, [Element(queue, receiver=client.client_id)])])
    calls.put([Put(client, [Element(queue, delay_ms=HOUR_MS)])])
    assert kinds(calls, queue) == (4, 1, 0, 0, 0, 0)
    first, second = consuming.claim(consumer, count=2).leases
    assert kinds(calls, queue) == (2, 1, 0, 0, 2, 0)
    consuming.nack(client, first, delay_ms=HOUR_MS)
    assert kinds(calls, queue) == (2, 1, 1, 0, 1, 0)
    consuming.ack(client, second)
    assert kinds(calls, queue) == (2, 1, 1, 0, 0, 0)
    mortal = calls.create_queue(client, max_attempts=1)
    calls.put([Put(client, [Element(mortal)])])
    (lease,) = consuming.claim(consuming.join(client, mortal)).leases
    consuming.nack(client, lease)
    assert kinds(calls, mortal) == (0, 0, 0, 0, 0, 1)


def test_figures_tell_what_waits_behind_its_key(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    def put(key: str, **options: Any) -> None:
        calls.put([Put(client, [Element(queue, partition=key, **options)])])

    for key in "aaabbc":
        put(key)
    put("a", delay_ms=HOUR_MS)
    put("d", delay_ms=HOUR_MS)
    put("d")
    assert kinds(calls, queue) == (3, 2, 0, 4, 0, 0)
    leases = consuming.claim(consumer, count=1).leases
    while len(leases) < 2:
        leases += consuming.claim(consumer, count=1).leases
    held = {lease.message["partition_key"] for lease in leases}
    ready = 3 - len(held)
    assert kinds(calls, queue) == (ready, 2, 0, 9 - 2 - 2 - ready, 2, 0)
    calls.put([Put(client, [Element(queue)])])
    assert kinds(calls, queue)[0] == ready + 1
    consuming.nack(client, leases[-1], delay_ms=HOUR_MS)
    assert kinds(calls, queue)[1:3] == (2, 1)


def test_figures_tell_the_age_of_what_has_waited_longest(calls: Calls, client: Client, queue: int) -> None:
    def age(table: str, seconds: int, condition: str = "true") -> None:
        calls.connection.execute(
            f"UPDATE telesto.{table} SET time_of_arrival = time_of_arrival - make_interval(secs => %s)"
            f" WHERE queue_id = %s AND {condition}".encode(),
            (seconds, queue),
        )

    def oldest() -> int:
        return int(calls.statistics(queue)["oldest_age_ms"]) // 1_000_000

    for priority in (1, 9):
        calls.put([Put(client, [Element(queue, priority=priority)])])
    assert oldest() == 0
    age("messages", 1_000, "priority = 1")
    assert oldest() == 1
    calls.put([Put(client, [Element(queue, receiver=client.client_id)])])
    age("messages", 9_000, "receiver_id > 0")
    assert oldest() == 1
    calls.put([Put(client, [Element(queue, delay_ms=HOUR_MS)])])
    age("delayed_messages", 3_000)
    assert oldest() == 3
    calls.put([Put(client, [Element(queue, partition="a")])])
    age("keyed_messages", 4_000)
    assert oldest() == 4


def test_figures_count_no_more_of_a_kind_than_they_may(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    for options in ({}, {"delay_ms": HOUR_MS}, {"partition": "a"}, {"receiver": client.client_id}):
        calls.put([Put(client, [Element(queue, **options)] * 20)])  # type: ignore[arg-type]
    figures = calls.statistics(queue, 10)
    assert (figures["depth"], figures["directed_depth"], figures["exact"]) == (80, 20, False)
    assert kinds(calls, queue, 10) == (41, 10, 0, 9, 0, 0)
    assert kinds(calls, queue, 21) == (41, 20, 0, 19, 0, 0)
    assert calls.statistics(queue, 21)["exact"]
    consuming.claim(consumer, count=20)
    assert kinds(calls, queue, 10)[4] == 10
