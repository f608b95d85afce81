"""The history: what each way to end leaves, what is known of a message, the partitions and their job."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from consumer_calls import Consuming
from procedure_calls import Calls, Client, Element, Put, Read
from telesto.db.checks.findings import find_contradictions

MESSAGE_NOT_EXISTING = 64
MIDDLEWARE = 3
EVERYTHING = 1 << 20
DAY = timedelta(days=1)
TURNS_MAX = 5
ENDINGS = "SELECT ending::text FROM telesto.history WHERE message_id = %s ORDER BY ended_at, transaction_id"

Open = Callable[[], Calls]


def show(calls: Calls, message_id: int, queue: int = 0, asking: Client | None = None, **bounds: int) -> Any:
    """All rows that are known of a message."""
    return calls.rows(
        "get_message_history",
        message_id,
        queue,
        asking.client_id if asking else 0,
        bounds.get("max_records", 100),
        bounds.get("max_bytes", EVERYTHING),
        bounds.get("max_probes", 1000),
    )


def states(calls: Calls, message_id: int) -> list[str]:
    return [row["state"] for row in show(calls, message_id)]


def endings(calls: Calls, message_id: int) -> list[str]:
    return [row["ending"] for row in calls.query(ENDINGS, message_id)]


def put_through(
    calls: Calls, client: Client, queue: int, middleware: int = MIDDLEWARE, **options: Any
) -> int:
    """Put a message through a middleware; return its id."""
    number, element = client.next_number(), Element(queue, **options)
    row = calls.row(
        "put_batch",
        [client.client_id],
        [client.session],
        [number],
        [0x31],
        [1],
        [queue],
        [element.receiver],
        [element.priority],
        [element.context],
        [element.body],
        [],
        [],
        [],
        None,
        None if element.delay_ms is None else [element.delay_ms],
        None if element.life_ms is None else [element.life_ms],
        None if element.partition is None else [element.partition],
        middleware,
    )
    assert row["errors"] is None
    return int(row["message_ids"][0])


def take_through(calls: Calls, client: Client, queue: int, middleware: int = MIDDLEWARE, **read: Any) -> int:
    """Read one message through a middleware; return the number of the read."""
    number = read.get("number", client.next_number())
    rows = calls.rows(
        "take_batch",
        [client.client_id],
        [client.session],
        [number],
        [queue],
        [1],
        [EVERYTHING],
        [],
        [],
        [],
        middleware,
    )
    assert len(rows) == 1
    return int(number)


def sweep(calls: Calls, moment: datetime, max_rows: int = 1000) -> dict[str, Any]:
    """Turns of the job until there is no more to do; return what the last one gave."""
    for _ in range(TURNS_MAX):
        turn = calls.row("sweep_history", moment, max_rows)
        if not turn["more"]:
            return turn
    pytest.fail("the job finds no end")


def partition_days(calls: Calls) -> list[date]:
    found: list[date] = calls.scalar("SELECT days FROM telesto.history_calendar")
    return found


def check(calls: Calls) -> None:
    assert find_contradictions(calls.connection) == [] or pytest.fail(
        str(find_contradictions(calls.connection))
    )


@pytest.fixture
def now(calls: Calls) -> datetime:
    found: datetime = calls.scalar("SELECT clock_timestamp()")
    return found.astimezone(UTC)


# --- what a queue keeps -------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("settings", "kept", "body"),
    [({"history": "none"}, False, None), ({}, True, None), ({"history": "full"}, True, b"hello")],
    ids=["none", "default", "full"],
)
def test_a_confirmed_message_leaves_what_its_queue_keeps(
    calls: Calls, client: Client, settings: dict[str, str], kept: bool, body: bytes | None
) -> None:
    queue = calls.create_queue(client, **settings)
    (message_id,) = calls.put_bodies(client, queue, b"hello")
    read = calls.take_one(client, queue)
    calls.confirm(client, (client.session, read.number, 0))
    if not kept:
        assert show(calls, message_id)[0]["error"] == MESSAGE_NOT_EXISTING
        return
    (row,) = show(calls, message_id)
    assert (row["state"], row["body"], row["attempt"], row["queue_id"]) == ("confirmed", body, 1, queue)


@pytest.mark.parametrize("days", [0, 367])
def test_days_that_cannot_be_kept_are_refused(calls: Calls, days: int) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        calls.create_queue(calls.register(), history_days=days)


def test_the_setting_at_the_put_counts(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, history="none")
    (before,) = calls.put_bodies(client, queue, b"before")
    assert calls.numbered("update_queue", client, queue, Jsonb({"history": "full"}))["error"] is None
    (after,) = calls.put_bodies(client, queue, b"after")
    read = calls.take_one(client, queue, max_messages=2)
    calls.confirm(client, (client.session, read.number, 0))
    assert (endings(calls, before), endings(calls, after)) == ([], ["confirmed"])


def test_queues_of_one_batch_keep_each_what_it_should(calls: Calls, client: Client) -> None:
    queues = [calls.create_queue(client, history=history) for history in ("full", "none", "metadata")]
    (answer,) = calls.put([Put(client, [Element(queue, b"x") for queue in queues])])
    reads = calls.take([Read(client, queue) for queue in queues])
    calls.put([], ())
    calls.confirm(client, *[(client.session, read.number, 0) for read in reads])
    shown = [show(calls, message_id)[0] for message_id in answer.message_ids]
    assert [row["state"] for row in shown] == ["confirmed", None, "confirmed"]
    assert [row["body"] for row in shown] == [b"x", None, None]


# --- who, when, through which middleware -------------------------------------------------------------
def test_a_message_is_told_by_whom_and_through_which_middlewares_it_went(calls: Calls) -> None:
    first = calls.value("register_middleware", "10.0.0.1:7001", "1.0")
    second = calls.value("register_middleware", "10.0.0.2:7001", "1.0")
    sender, reader = calls.register("shop"), calls.register("worker")
    queue = calls.create_queue(sender, name="orders")
    message_id = put_through(calls, sender, queue, first, context=7)
    (waiting,) = show(calls, message_id)
    assert waiting["state"] == "ready"
    assert (waiting["client_id"], waiting["handed_over_at"], waiting["ended_at"]) == (None, None, None)

    number = take_through(calls, reader, queue, second)
    (handed,) = show(calls, message_id)
    assert handed["state"] == "handed_over"
    calls.confirm(reader, (reader.session, number, 0))
    (over,) = show(calls, message_id)
    for row in (handed, over):
        assert (row["queue_name"], row["sender_name"], row["client_name"]) == ("orders", "shop", "worker")
        assert (row["put_through"], row["put_address"]) == (first, "10.0.0.1:7001")
        assert (row["handed_over_through"], row["handed_over_address"]) == (second, "10.0.0.2:7001")
        assert (row["session"], row["number"], row["context"]) == (reader.session, number, 7)
        assert row["consumer_id"] is None
    assert over["state"] == "confirmed"
    assert over["time_of_arrival"] == waiting["time_of_arrival"] == handed["time_of_arrival"]
    assert over["time_of_arrival"] <= handed["handed_over_at"] == over["handed_over_at"] <= over["ended_at"]


def test_names_that_are_gone_are_left_out_and_the_rest_stays(calls: Calls) -> None:
    middleware = calls.value("register_middleware", "10.0.0.1:7001", "1.0")
    sender, reader = calls.register(), calls.register()
    queue = calls.create_queue(sender)
    message_id = put_through(calls, sender, queue, middleware)
    number = take_through(calls, reader, queue, middleware)
    calls.confirm(reader, (reader.session, number, 0))
    calls.row("unregister_middleware", middleware)
    calls.numbered("delete_queue", sender, queue)
    calls.numbered("delete_client", reader)
    calls.numbered("delete_client", sender)
    (row,) = show(calls, message_id)
    assert (row["queue_name"], row["sender_name"], row["client_name"]) == (None, None, None)
    assert (row["queue_id"], row["sender_id"], row["client_id"]) == (
        queue,
        sender.client_id,
        reader.client_id,
    )
    assert row["put_address"] == "10.0.0.1:7001", "the address of a middleware that is gone is known still"


def test_nothing_is_known_of_an_unknown_message(calls: Calls) -> None:
    (row,) = show(calls, 1 << 40)
    assert (row["error"], row["complete"]) == (MESSAGE_NOT_EXISTING, True)


def test_only_the_named_queue_is_looked_in(calls: Calls, client: Client) -> None:
    queue, other = calls.create_queue(client), calls.create_queue(client)
    (message_id,) = calls.put_bodies(client, queue, b"x")
    assert show(calls, message_id, queue)[0]["state"] == "ready"
    assert show(calls, message_id, other)[0]["error"] == MESSAGE_NOT_EXISTING


@pytest.mark.parametrize("receiver", [True, False])
def test_a_message_is_found_wherever_it_waits(calls: Calls, receiver: bool) -> None:
    client, reader = calls.register(), calls.register()
    queues = [calls.create_queue(client) for _ in range(3)]
    for queue in queues:
        calls.put_bodies(client, queue, b"before", receiver=reader.client_id)
    ids = [
        calls.put_bodies(
            client, queue, b"x", priority=priority, receiver=reader.client_id if receiver else 0
        )[0]
        for queue in queues
        for priority in (1, 10)
    ]
    assert [states(calls, message_id) for message_id in ids] == [["ready"]] * 6


def test_a_search_that_was_cut_short_says_so(calls: Calls, client: Client, queue: int) -> None:
    for _ in range(5):
        (message_id,) = calls.put_bodies(client, queue, b"x", receiver=calls.register().client_id)
    (row,) = show(calls, message_id, max_probes=2)
    assert (row["error"], row["complete"]) == (MESSAGE_NOT_EXISTING, False)
    assert show(calls, message_id, max_probes=1000)[0]["state"] == "ready"


# --- ways to end --------------------------------------------------------------------------------
def test_a_delayed_message_is_told_until_when(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, history="full")
    message_id = put_through(calls, client, queue, delay_ms=3_600_000)
    (row,) = show(calls, message_id)
    assert (row["state"], row["put_through"]) == ("delayed", MIDDLEWARE)
    assert row["due_at"] - row["time_of_arrival"] == timedelta(hours=1)
    calls.connection.execute("UPDATE telesto.delayed_messages SET due_at = now()")
    Consuming(calls).sweep("delayed")
    assert [row["put_through"] for row in show(calls, message_id)] == [MIDDLEWARE]
    read = calls.take_one(client, queue)
    calls.confirm(client, (client.session, read.number, 0))
    assert states(calls, message_id) == ["confirmed"]


@pytest.mark.parametrize("delay_ms", [None, 3_600_000])
@pytest.mark.parametrize("way", ["purged", "deleted"])
def test_what_leaves_with_its_queue_or_by_a_purge_is_known(
    calls: Calls, client: Client, way: str, delay_ms: int | None
) -> None:
    queue = calls.create_queue(client, history="full")
    message_id = put_through(calls, client, queue, delay_ms=delay_ms, body=b"hello")
    if way == "purged":
        assert calls.numbered("purge_queue", client, queue, 10)["removed"] == 1
    else:
        calls.numbered("delete_queue", client, queue)
        Consuming(calls).sweep("deleted_queues")
    (row,) = show(calls, message_id)
    assert (row["state"], row["body"], row["client_id"]) == (way, b"hello", None)


@pytest.mark.parametrize("bury", [False, True])
def test_what_expired_is_known(calls: Calls, client: Client, bury: bool) -> None:
    queue = calls.create_queue(client, bury_expired=bury)
    message_id = put_through(calls, client, queue, life_ms=1)
    consuming = Consuming(calls)
    calls.connection.execute("UPDATE telesto.messages SET expires_at = now() - interval '1 second'")
    consuming.sweep("expired")
    assert states(calls, message_id) == (["dead", "dead_letter"] if bury else ["expired"])
    assert show(calls, message_id)[0]["reason"] == ("expired" if bury else None)


def test_a_read_without_a_record_is_known_as_such(calls: Calls, client: Client, queue: int) -> None:
    (message_id,) = calls.put_bodies(client, queue, b"x")
    take_through(calls, client, queue, number=0)
    (row,) = show(calls, message_id)
    assert (row["state"], row["number"], row["handed_over_through"]) == ("unrecorded", 0, MIDDLEWARE)


def test_what_was_given_back_and_then_confirmed_is_known_twice(calls: Calls) -> None:
    first, second = calls.register("first"), calls.register("second")
    queue = calls.create_queue(first, history="full")
    message_id = put_through(calls, first, queue)
    number = take_through(calls, first, queue)
    calls.release(first, (first.session, number, 0))
    assert states(calls, message_id) == ["returned", "ready"]
    number = take_through(calls, second, queue)
    calls.confirm(second, (second.session, number, 0))
    rows = show(calls, message_id)
    assert [(row["state"], row["client_name"], row["attempt"]) for row in rows] == [
        ("returned", "first", 1),
        ("confirmed", "second", 2),
    ]
    assert [row["body"] for row in rows] == [None, b"body"]
    assert [row["put_through"] for row in rows] == [MIDDLEWARE, MIDDLEWARE]


def test_what_a_deleted_client_had_comes_back(calls: Calls) -> None:
    sender, reader = calls.register(), calls.register()
    queue = calls.create_queue(sender)
    (message_id,) = calls.put_bodies(sender, queue, b"x")
    take_through(calls, reader, queue)
    calls.numbered("delete_client", reader)
    assert states(calls, message_id) == ["returned", "ready"]


def test_a_hand_over_that_nobody_confirmed_dies(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, history="full")
    message_id = put_through(calls, client, queue)
    take_through(calls, client, queue)
    calls.connection.execute("UPDATE telesto.deliveries SET handed_over_at = now() - interval '8 days'")
    Consuming(calls).sweep("unconfirmed")
    rows = show(calls, message_id)
    assert [row["state"] for row in rows] == ["dead", "dead_letter"]
    assert [row["reason"] for row in rows] == ["unconfirmed", "unconfirmed"]
    assert [row["handed_over_through"] for row in rows] == [MIDDLEWARE, MIDDLEWARE]
    assert (rows[0]["body"], rows[0]["number"]) == (b"body", 2)


def test_a_put_that_confirms_a_read_ends_the_message(calls: Calls, client: Client, queue: int) -> None:
    (message_id,) = calls.put_bodies(client, queue, b"x")
    read = calls.take_one(client, queue)
    calls.put([Put(client, [Element(queue)])], [(client.client_id, client.session, read.number)])
    assert states(calls, message_id) == ["confirmed"]


# --- consumers ----------------------------------------------------------------------------------
def test_what_a_consumer_has_and_acknowledges_is_known(calls: Calls) -> None:
    sender, worker = calls.register(), calls.register("worker")
    queue = calls.create_queue(sender, history="full")
    consuming = Consuming(calls)
    message_id = put_through(calls, sender, queue, body=b"hello")
    consumer = consuming.join(worker, queue)
    (lease,) = consuming.claim(consumer).leases
    (leased,) = show(calls, message_id)
    assert leased["state"] == "leased"
    assert leased["deadline"] - leased["handed_over_at"] == timedelta(seconds=30)
    assert leased["body"] is None
    assert consuming.ack(worker, lease) == [None]
    (over,) = show(calls, message_id)
    assert (over["state"], over["body"]) == ("acknowledged", b"hello")
    for row in (leased, over):
        assert (row["client_name"], row["consumer_id"]) == ("worker", consumer.consumer_id)
        assert (row["number"], row["session"]) == (lease.lease_id, None)
        assert (row["put_through"], row["handed_over_through"]) == (MIDDLEWARE, consuming.middleware)
        assert row["attempt"] == 1


def test_only_who_has_the_lease_ends_the_message(calls: Calls) -> None:
    sender, worker, thief = calls.register(), calls.register(), calls.register()
    queue = calls.create_queue(sender)
    consuming = Consuming(calls)
    (message_id,) = calls.put_bodies(sender, queue, b"x")
    (lease,) = consuming.claim(consuming.join(worker, queue)).leases
    assert consuming.ack(thief, lease) == [27]
    assert endings(calls, message_id) == []
    consuming.touch(worker, lease)
    assert consuming.ack(worker, lease) == [None]
    assert consuming.ack(worker, lease) == [27]
    assert endings(calls, message_id) == ["acknowledged"], "once, however often it was acknowledged"


@pytest.mark.parametrize("delay_ms", [0, 3_600_000])
def test_each_failed_attempt_is_known_until_the_message_dies(calls: Calls, delay_ms: int) -> None:
    sender, worker = calls.register(), calls.register()
    queue = calls.create_queue(sender, history="full", max_attempts=2)
    consuming = Consuming(calls)
    message_id = put_through(calls, sender, queue)
    consumer = consuming.join(worker, queue)
    (lease,) = consuming.claim(consumer).leases
    consuming.nack(worker, lease, delay_ms=delay_ms)
    assert states(calls, message_id) == ["returned", "delayed" if delay_ms else "ready"]
    calls.connection.execute("UPDATE telesto.delayed_messages SET due_at = now()")
    consuming.sweep("delayed")
    (lease,) = consuming.claim(consumer).leases
    consuming.nack(worker, lease, delay_ms=0)
    rows = show(calls, message_id)
    assert [(row["state"], row["reason"], row["attempt"]) for row in rows] == [
        ("returned", "failed", 1),
        ("dead", "failed", 2),
        ("dead_letter", "failed", 2),
    ]
    assert [row["body"] for row in rows] == [None, b"body", None]
    assert rows[2]["put_through"] == MIDDLEWARE
    assert rows[2]["handed_over_at"] == rows[1]["handed_over_at"]


def test_what_died_and_was_sent_back_keeps_its_history(calls: Calls) -> None:
    sender, worker = calls.register(), calls.register()
    queue = calls.create_queue(sender, max_attempts=1)
    consuming = Consuming(calls)
    message_id = put_through(calls, sender, queue)
    consumer = consuming.join(worker, queue)
    (lease,) = consuming.claim(consumer).leases
    consuming.nack(worker, lease)
    calls.numbered("settle_letters", sender, 0x6D, queue, [message_id], True, 10)
    assert states(calls, message_id) == ["dead", "ready"]
    assert show(calls, message_id)[1]["put_through"] == MIDDLEWARE
    (lease,) = consuming.claim(consumer).leases
    consuming.ack(worker, lease)
    assert states(calls, message_id) == ["dead", "acknowledged"]


def test_leases_that_ran_out_or_were_left_are_known(calls: Calls) -> None:
    sender, worker = calls.register(), calls.register()
    queue = calls.create_queue(sender, backoff_ms=0)
    consuming = Consuming(calls)
    (message_id,) = calls.put_bodies(sender, queue, b"x")
    consumer = consuming.join(worker, queue)
    (lease,) = consuming.claim(consumer).leases
    consuming.keep(lease, begun_ms=0)
    consuming.age(60)
    consuming.sweep()
    consuming.claim(consumer)
    consuming.leave(consumer)
    rows = show(calls, message_id)
    assert [(row["state"], row["reason"]) for row in rows] == [
        ("returned", "late"),
        ("returned", "given back"),
        ("ready", None),
    ]


def test_what_a_consumer_has_of_a_deleted_queue_goes_with_it(calls: Calls) -> None:
    sender, worker = calls.register(), calls.register()
    queue = calls.create_queue(sender)
    consuming = Consuming(calls)
    (message_id,) = calls.put_bodies(sender, queue, b"x")
    consumer = consuming.join(worker, queue)
    consuming.claim(consumer)
    calls.numbered("delete_queue", sender, queue)
    consuming.leave(consumer)
    assert endings(calls, message_id) == ["deleted"]


def test_messages_of_partitions_are_known(calls: Calls) -> None:
    sender, worker = calls.register(), calls.register()
    queue = calls.create_queue(sender, history="full", max_attempts=2, backoff_ms=0)
    consuming = Consuming(calls)
    ids = [put_through(calls, sender, queue, partition="p", body=b"%d" % i) for i in range(3)]
    assert [(row["state"], row["put_through"]) for row in show(calls, ids[1])] == [("ready", MIDDLEWARE)]
    later = put_through(calls, sender, queue, partition="q", delay_ms=3_600_000)
    (row,) = show(calls, later)
    assert (row["state"], row["due_at"] - row["time_of_arrival"]) == ("delayed", timedelta(hours=1))
    consumer = consuming.join(worker, queue)
    leases = claim_all(consuming, consumer, 3)
    assert states(calls, ids[0]) == ["leased"]
    assert consuming.ack(worker, leases[0]) == [None]
    consuming.nack(worker, leases[1], delay_ms=0)
    (over,) = show(calls, ids[0])
    assert (over["state"], over["body"], over["handed_over_through"]) == (
        *("acknowledged", b"0"),
        consuming.middleware,
    )
    assert [(row["state"], row["reason"]) for row in show(calls, ids[1])] == [
        ("returned", "failed"),
        ("ready", None),
    ]
    assert [(row["state"], row["reason"]) for row in show(calls, ids[2])] == [
        ("returned", "given back"),
        ("ready", None),
    ], "what follows in its partition comes back with it"
    (lease, _) = claim_all(consuming, consumer, 2)
    consuming.nack(worker, lease, delay_ms=0)
    assert states(calls, ids[1]) == ["returned", "dead", "dead_letter"]
    calls.numbered("settle_letters", sender, 0x6D, queue, [ids[1]], True, 10)
    assert states(calls, ids[1]) == ["returned", "dead", "ready"]
    calls.numbered("purge_queue", sender, queue, 10)
    assert [endings(calls, message_id)[-1] for message_id in (ids[1], ids[2], later)] == ["purged"] * 3


def claim_all(consuming: Consuming, consumer: Any, count: int) -> list[Any]:
    """Claim until there are so many."""
    leases: list[Any] = []
    for _ in range(20):
        leases += consuming.claim(consumer, count=count).leases
        if len(leases) >= count:
            return leases
    raise AssertionError(leases)


@pytest.mark.parametrize("way", ["deleted", "expired", "dead"])
def test_messages_of_partitions_that_nobody_got_are_known(calls: Calls, client: Client, way: str) -> None:
    queue = calls.create_queue(client, history="full", bury_expired=way == "dead")
    consuming = Consuming(calls)
    message_id = put_through(
        calls, client, queue, partition="p", body=b"hello", life_ms=None if way == "deleted" else 1
    )
    if way == "deleted":
        calls.numbered("delete_queue", client, queue)
        consuming.sweep("deleted_queues")
    else:
        calls.connection.execute("UPDATE telesto.keyed_messages SET expires_at = now() - interval '1 second'")
        consuming.sweep("expired_keyed")
    rows = show(calls, message_id)
    assert [row["state"] for row in rows] == ([way, "dead_letter"] if way == "dead" else [way])
    assert (rows[0]["body"], rows[0]["put_through"]) == (b"hello", MIDDLEWARE)


def test_messages_of_partitions_from_sql_are_kept_as_their_queue_says(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, history="full")
    statement = "SELECT telesto.put_message(%s, %s, 'hello', partition_key => 'p')"
    calls.scalar(statement, client.client_id, queue)
    calls.row("place_staged", 10)
    assert calls.scalar("SELECT history FROM telesto.keyed_messages") == -7


# --- SQL users ----------------------------------------------------------------------------------
def test_messages_from_and_to_sql_are_known(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client, history="full")
    calls.scalar("SELECT telesto.put_message(%s, %s, 'hello')", client.client_id, queue)
    calls.row("place_staged", 10)
    message_id = calls.scalar("SELECT message_id FROM telesto.messages")
    (row,) = show(calls, message_id)
    assert (row["state"], row["put_through"], row["sender_id"]) == ("ready", None, client.client_id)
    with calls.connection.transaction(force_rollback=True):
        calls.query("SELECT * FROM telesto.read_message_by_priority(%s, %s)", reader.client_id, queue)
    assert endings(calls, message_id) == [], "a transaction that was rolled back read nothing"
    (read,) = calls.query("SELECT * FROM telesto.read_message_by_priority(%s, %s)", reader.client_id, queue)
    assert read["message_id"] == message_id
    (row,) = show(calls, message_id)
    assert (row["state"], row["session"], row["number"], row["body"]) == ("confirmed", 0, 0, b"hello")
    assert (row["client_id"], row["handed_over_through"]) == (reader.client_id, None)


def test_delayed_messages_from_sql_are_kept_as_their_queue_says(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, history="full")
    statement = "SELECT telesto.put_message(%s, %s, 'hello', delay => interval '1 hour')"
    calls.scalar(statement, client.client_id, queue)
    calls.row("place_staged", 10)
    assert calls.scalar("SELECT history FROM telesto.delayed_messages") == -7


# --- bodies -------------------------------------------------------------------------------------
def test_a_body_for_one_client_is_shown_to_it_and_to_the_sender_only(calls: Calls) -> None:
    sender, reader, stranger = calls.register(), calls.register(), calls.register()
    queue = calls.create_queue(sender, history="full")
    message_id = put_through(calls, sender, queue, receiver=reader.client_id)
    number = take_through(calls, reader, queue)
    calls.confirm(reader, (reader.session, number, 0))
    shown = {client.name: show(calls, message_id, asking=client)[0]["body"] for client in (sender, reader)}
    assert set(shown.values()) == {b"body"}
    (row,) = show(calls, message_id, asking=stranger)
    assert (row["state"], row["body"]) == ("confirmed", None)


def test_a_body_that_does_not_fit_is_left_out(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, history="full")
    (message_id,) = calls.put_bodies(client, queue, b"x" * 100)
    read = calls.take_one(client, queue)
    calls.confirm(client, (client.session, read.number, 0))
    assert show(calls, message_id, max_bytes=99)[0]["body"] is None
    assert show(calls, message_id, max_bytes=100)[0]["body"] == b"x" * 100


def test_of_many_records_the_latest_are_shown(calls: Calls, client: Client, queue: int) -> None:
    (message_id,) = calls.put_bodies(client, queue, b"x")
    for _ in range(4):
        read = calls.take_one(client, queue)
        calls.release(client, (client.session, read.number, 0))
    rows = show(calls, message_id, max_records=2)
    assert [(row["state"], row["attempt"]) for row in rows] == [
        ("returned", 3),
        ("returned", 4),
        ("ready", 4),
    ]


# --- partitions ---------------------------------------------------------------------------------
def test_what_ends_before_the_first_turn_of_the_job_is_kept(
    calls: Calls, client: Client, queue: int, now: datetime
) -> None:
    assert partition_days(calls) == [date(2000, 1, 1)]
    message_id = confirmed(calls, client, queue)
    for days in range(9):
        sweep(calls, now + days * DAY)
        check(calls)
    assert states(calls, message_id) == ["confirmed"], "kept for the days that the longest setting says"


def confirmed(calls: Calls, client: Client, queue: int) -> int:
    """Put, read and confirm a message; return its id."""
    (message_id,) = calls.put_bodies(client, queue, b"x")
    read = calls.take_one(client, queue)
    calls.confirm(client, (client.session, read.number, 0))
    return message_id


@pytest.mark.parametrize("days", [1, 7, 30])
def test_rows_go_with_their_partition_after_the_days_and_not_before(
    calls: Calls, client: Client, now: datetime, days: int
) -> None:
    queue = calls.create_queue(client, history_days=days)
    sweep(calls, now)
    message_id = confirmed(calls, client, queue)
    end_of_today = datetime.combine(now.date() + DAY, datetime.min.time(), UTC)
    for moment in (end_of_today, end_of_today + days * DAY - timedelta(seconds=1)):
        sweep(calls, moment)
        sweep(calls, moment + timedelta(microseconds=1))
        assert states(calls, message_id) == ["confirmed"], moment
    due = end_of_today + days * DAY
    sweep(calls, due)
    assert states(calls, message_id) == ["confirmed"], "a clock that leaps may come back within the hour"
    sweep(calls, due + timedelta(hours=1))
    assert show(calls, message_id)[0]["error"] == MESSAGE_NOT_EXISTING
    assert due.date() not in partition_days(calls)
    check(calls)


def test_rows_are_dropped_and_never_deleted(calls: Calls, now: datetime) -> None:
    for name in ("sweep_history", "drop_history", "extend_history", "open_history_days", "make_history_day"):
        (source,) = calls.query("SELECT prosrc FROM pg_proc WHERE proname = %s", name)
        assert "DELETE FROM telesto.history " not in source["prosrc"]


def test_midnight_passes_between_two_messages(calls: Calls, client: Client, now: datetime) -> None:
    queue = calls.create_queue(client, history_days=1)
    sweep(calls, now)
    yesterday_days = partition_days(calls)
    sweep(calls, now + DAY)
    assert set(partition_days(calls)) > set(yesterday_days)
    # The same procedure picks another partition the day after.
    picked = [
        calls.scalar(
            "SELECT telesto.history_day((SELECT days FROM telesto.history_calendar), %s::date, 1::smallint)",
            day,
        )
        for day in (now.date(), now.date() + DAY)
    ]
    assert picked == [now.date() + 2 * DAY, now.date() + 3 * DAY]
    message_id = confirmed(calls, client, queue)
    assert calls.scalar("SELECT drop_on FROM telesto.history WHERE message_id = %s", message_id) in picked


def test_partitions_that_are_missing_after_a_long_rest_are_made_and_lose_nothing(
    calls: Calls, client: Client, queue: int, now: datetime
) -> None:
    sweep(calls, now - 60 * DAY)
    assert max(partition_days(calls)) < now.date()
    message_id = confirmed(calls, client, queue)
    # The first turn after the rest must not drop the partition which that went to, though its day is past.
    sweep(calls, now)
    sweep(calls, now + timedelta(hours=2))
    assert states(calls, message_id) == ["confirmed"]
    assert now.date() + 8 * DAY in partition_days(calls)
    later = confirmed(calls, client, queue)
    assert calls.scalar("SELECT drop_on FROM telesto.history WHERE message_id = %s", later) > now.date()
    sweep(calls, now + 20 * DAY)
    sweep(calls, now + 20 * DAY + timedelta(hours=2))
    assert show(calls, message_id)[0]["error"] == show(calls, later)[0]["error"] == MESSAGE_NOT_EXISTING
    check(calls)


def test_a_partition_that_takes_what_has_none_of_its_own_stays(
    calls: Calls, client: Client, queue: int, other: psycopg.Connection, now: datetime
) -> None:
    """The job cannot make partitions while another one alters the table; it must not drop the last either."""
    sweep(calls, now - 60 * DAY)
    message_id = confirmed(calls, client, queue)
    other.execute("LOCK TABLE ONLY telesto.history IN SHARE UPDATE EXCLUSIVE MODE")
    sweep(calls, now)
    sweep(calls, now + timedelta(hours=2))
    other.rollback()
    assert states(calls, message_id) == ["confirmed"]
    sweep(calls, now + timedelta(hours=3))
    assert states(calls, message_id) == ["confirmed"]


def test_two_middlewares_run_the_job_at_once(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor, now: datetime
) -> None:
    middlewares = [calls.value("register_middleware", f"10.0.0.{i}:7001", "1.0") for i in range(2)]
    for middleware, elected in zip(middlewares, (True, False), strict=True):
        assert calls.row("sweep", middleware, "history", 1000)["elected"] is elected
    # Whatever the election says, two at once do no harm.
    connections = [open_calls() for _ in range(2)]
    for days in range(12):
        moment = now + days * DAY + timedelta(hours=days)
        turns = [pool.submit(sweep, each, moment) for each in connections]
        for turn in turns:
            turn.result()
        check(calls)
    days = partition_days(calls)
    assert len(days) == len(set(days)) > 3


def test_a_reader_of_old_history_stops_neither_the_job_nor_messages(
    calls: Calls, client: Client, other: psycopg.Connection, now: datetime
) -> None:
    queue = calls.create_queue(client, history_days=1)
    sweep(calls, now)
    message_id = confirmed(calls, client, queue)
    drop_on = calls.scalar("SELECT drop_on FROM telesto.history")
    other.execute("SELECT count(*) FROM telesto.history")
    calls.connection.execute("SET lock_timeout = '1s'")
    due = datetime.combine(drop_on, datetime.min.time(), UTC)
    for hours in (0, 2):
        sweep(calls, due + timedelta(hours=hours))
    assert states(calls, message_id) == ["confirmed"], "the reader still has it"
    later = confirmed(calls, client, queue)
    assert states(calls, later) == ["confirmed"]
    other.rollback()
    sweep(calls, due + timedelta(hours=3))
    assert endings(calls, message_id) == []


def test_a_reader_of_a_partition_alone_does_not_make_the_job_wait(
    calls: Calls, client: Client, other: psycopg.Connection, now: datetime
) -> None:
    calls.create_queue(client, history_days=1)
    sweep(calls, now)
    due = datetime.combine(now.date() + 2 * DAY, datetime.min.time(), UTC)
    name = f"history_{due:%Y%m%d}"
    calls.connection.execute(
        f"UPDATE telesto.history_partitions SET emptied = true WHERE name = '{name}'".encode()
    )
    other.execute(f"SELECT count(*) FROM telesto.{name}".encode())
    calls.connection.execute("SET lock_timeout = '1s'")
    sweep(calls, due + timedelta(hours=2))
    assert due.date() in partition_days(calls)
    other.rollback()
    sweep(calls, due + timedelta(hours=2))
    assert due.date() not in partition_days(calls)


def test_a_longer_time_is_kept_from_the_change_on(
    calls: Calls, client: Client, queue: int, now: datetime
) -> None:
    sweep(calls, now)
    assert calls.numbered("update_queue", client, queue, Jsonb({"history_days": 90}))["error"] is None
    message_id = confirmed(calls, client, queue)
    sweep(calls, now + 85 * DAY)
    sweep(calls, now + 85 * DAY + timedelta(hours=2))
    assert states(calls, message_id) == ["confirmed"]
    check(calls)


def test_names_of_middlewares_go_when_no_history_speaks_of_them(calls: Calls, now: datetime) -> None:
    gone = calls.value("register_middleware", "10.0.0.1:7001", "1.0")
    there = calls.value("register_middleware", "10.0.0.2:7001", "1.0")
    calls.row("unregister_middleware", gone)
    for days, expected in ((700, [gone, there]), (900, [there])):
        sweep(calls, now + days * DAY)
        known = calls.query("SELECT middleware_id FROM telesto.middleware_names ORDER BY 1")
        assert [row["middleware_id"] for row in known] == expected


def test_all_rows_can_be_read_once_by_their_transactions(
    calls: Calls, client: Client, queue: int, open_calls: Open, other: psycopg.Connection
) -> None:
    """A row whose transaction commits late is not missed by who reads from one horizon to the next."""
    horizon = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
    rows = "SELECT message_id FROM telesto.history WHERE transaction_id >= %s AND transaction_id < %s"
    from_start = calls.scalar(horizon)
    calls.put_bodies(client, queue, b"late", b"soon")
    with open_calls() as late, late.connection.transaction():
        late.query("SELECT * FROM telesto.read_message_by_priority(%s, %s)", client.client_id, queue)
        first = calls.scalar(horizon)
        assert calls.query(rows, from_start, first) == []
    assert calls.scalar("SELECT transaction_id FROM telesto.history") >= first, "the next turn reads it"


# --- checks -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE telesto.history_calendar SET days = days || '2999-01-01'::date",
        "DELETE FROM telesto.history_partitions WHERE name <> 'history_floor'",
        "INSERT INTO telesto.history_partitions (day, due_on, name) VALUES ('2999-01-01', NULL, 'nowhere')",
    ],
)
def test_the_check_finds_partitions_that_do_not_agree(calls: Calls, now: datetime, damage: str) -> None:
    sweep(calls, now)
    check(calls)
    calls.connection.execute(damage.encode())
    assert "history" in " ".join(problem.subject for problem in find_contradictions(calls.connection))
