"""Registering, identifying, confirming, taking over, releasing and deleting clients."""

import os

import psycopg
import pytest
from psycopg.types.json import Jsonb

from procedure_calls import (
    BUSY,
    CLIENT_NAME_NOT_UNIQUE,
    CLIENT_NOT_EXISTING,
    NUMBER_REPEATED,
    QUEUE_NOT_EXISTING,
    READ_ONLY,
    SESSION_FENCED,
    Calls,
    Client,
    Element,
    Put,
    Read,
)

SHARED_CLIENT_LOCK = "SELECT pg_advisory_xact_lock_shared(telesto.client_lock_key(%s))"
EXCLUSIVE_CLIENT_LOCK = "SELECT pg_advisory_xact_lock(telesto.client_lock_key(%s))"


def test_a_new_client_starts_with_session_one_and_the_incarnation_of_the_database(calls: Calls) -> None:
    row = calls.row("register_client", "alice", READ_ONLY, b"t" * 16)
    assert (row["error"], row["session"]) == (None, 1)
    assert row["incarnation"] == str(calls.scalar("SELECT incarnation FROM telesto.installation"))
    identified = calls.row("identify_client", row["client_id"], "")
    assert set(identified.pop("former")) == {"since"}
    assert (identified.pop("queue_ids"), identified.pop("receiver_ids")) == (None, None)
    assert identified == {
        "error": None,
        "client_id": row["client_id"],
        "client_name": "alice",
        "mode": READ_ONLY,
        "temporary": False,
        "session": 2,
        "incarnation": row["incarnation"],
    }


def test_the_same_token_gives_the_same_client_a_new_session(calls: Calls) -> None:
    client = calls.register("alice")
    again = calls.row("register_client", "alice", 1, client.token)
    assert (again["error"], again["client_id"], again["session"]) == (None, client.client_id, 2)


@pytest.mark.parametrize("token", [b"another", None], ids=["other", "none"])
def test_another_token_finds_the_name_taken(calls: Calls, token: bytes | None) -> None:
    client = calls.register("alice")
    row = calls.row("register_client", "alice", 1, token)
    assert (row["error"], row["client_id"], row["session"]) == (CLIENT_NAME_NOT_UNIQUE, None, None)
    assert calls.take_over(client).session == 2


def test_a_client_without_a_token_cannot_be_registered_again(calls: Calls) -> None:
    assert calls.row("register_client", "alice", 1, None)["error"] is None
    assert calls.row("register_client", "alice", 1, None)["error"] == CLIENT_NAME_NOT_UNIQUE


@pytest.mark.parametrize(
    ("name", "mode", "token"),
    [("", 1, b"t"), ("n" * 256, 1, b"t"), ("a", 3, b"t"), ("a", 1, b""), ("a", 1, b"t" * 65)],
    ids=["no name", "long name", "unknown mode", "empty token", "long token"],
)
def test_what_the_middleware_should_have_refused_is_refused(
    calls: Calls, name: str, mode: int, token: bytes
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        calls.row("register_client", name, mode, token)


def test_a_client_is_found_by_name(calls: Calls) -> None:
    client = calls.register("alice")
    row = calls.row("identify_client", 0, "alice")
    assert (row["client_id"], row["session"]) == (client.client_id, 2)


def test_a_session_is_resumed_by_whom_opened_it_only(calls: Calls) -> None:
    client = calls.register("alice")
    resumed = calls.row("identify_client", client.client_id, "", client.token, True)
    assert (resumed["error"], resumed["session"]) == (None, 2)
    assert calls.row("identify_client", client.client_id, "", b"b" * 16, True)["error"] == SESSION_FENCED
    # Who does not resume takes over, and then nobody before can resume.
    assert calls.row("identify_client", 0, "alice", b"b" * 16, False)["session"] == 3
    assert calls.row("identify_client", client.client_id, "", client.token, True)["error"] == SESSION_FENCED
    assert calls.row("register_client", "alice", 1, client.token)["error"] == CLIENT_NAME_NOT_UNIQUE
    assert calls.row("identify_client", 0, "alice", b"b" * 16, True)["session"] == 4


@pytest.mark.parametrize("resume", [True, False], ids=["resuming", "taking over"])
def test_an_attempt_that_comes_late_is_refused(calls: Calls, resume: bool) -> None:
    token = b"t" * 16
    client = calls.row("register_client", "alice", 1, token, 1)
    assert calls.row("identify_client", 0, "alice", token, resume, 3)["session"] == 2
    for late in (1, 2, 3):
        refused = calls.row("identify_client", client["client_id"], "", token, resume, late)
        assert (refused["error"], refused["session"]) == (SESSION_FENCED, None)
        assert calls.row("register_client", "alice", 1, token, late)["error"] == SESSION_FENCED
    assert calls.row("identify_client", 0, "alice", token, resume, 4)["session"] == 3
    assert calls.row("register_client", "alice", 1, token, 5)["session"] == 4
    # Each process counts by itself.
    assert calls.row("identify_client", 0, "alice", b"b" * 16, False, 1)["session"] == 5


def test_a_session_without_a_token_cannot_be_resumed(calls: Calls) -> None:
    client = calls.register("alice")
    assert calls.row("identify_client", client.client_id, "")["session"] == 2
    assert calls.row("identify_client", client.client_id, "", client.token, True)["error"] == SESSION_FENCED
    assert calls.row("identify_client", client.client_id, "", None, True)["error"] == SESSION_FENCED


def test_a_deleted_client_cannot_be_resumed(calls: Calls) -> None:
    assert calls.row("identify_client", 1 << 40, "", b"t" * 16, True)["error"] == CLIENT_NOT_EXISTING


def test_an_unknown_client_cannot_be_identified(calls: Calls) -> None:
    assert calls.row("identify_client", 0, "nobody")["error"] == CLIENT_NOT_EXISTING
    assert calls.row("identify_client", 1 << 40, "")["error"] == CLIENT_NOT_EXISTING


def test_a_takeover_waits_for_nobody(calls: Calls, other: psycopg.Connection) -> None:
    client = calls.register("alice")
    other.execute(SHARED_CLIENT_LOCK, (client.client_id,))
    assert calls.row("identify_client", client.client_id, "")["error"] == BUSY
    assert calls.row("register_client", "alice", 1, client.token)["error"] == BUSY
    other.rollback()
    assert calls.take_over(client).session == 2


def test_a_takeover_fences_every_request_of_the_session_before(
    calls: Calls, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1")
    calls.take_over(client)
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [SESSION_FENCED]
    assert calls.take_one(client, queue).error == SESSION_FENCED
    assert calls.select_one(client, queue).error == SESSION_FENCED
    assert calls.confirm(client, (1, 1, 0))["errors"] == [SESSION_FENCED]
    assert calls.release(client, (1, 1, 0))["error"] == SESSION_FENCED
    for name, *arguments in (
        ("create_queue", "name", None),
        ("delete_queue", queue),
        ("purge_queue", queue, 10),
        ("delete_client",),
    ):
        assert calls.numbered(name, client, *arguments)["error"] == SESSION_FENCED
    assert _listed_errors(calls, client) == [SESSION_FENCED, SESSION_FENCED]
    assert len(calls.operations(client)) == 1
    assert calls.statistics(queue)["depth"] == 1


def test_during_a_takeover_every_request_is_put_off(
    calls: Calls, client: Client, queue: int, other: psycopg.Connection
) -> None:
    other.execute(EXCLUSIVE_CLIENT_LOCK, (client.client_id,))
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [BUSY]
    assert calls.take_one(client, queue).error == BUSY
    assert calls.select_one(client, queue).error == BUSY
    assert calls.confirm(client, (1, 1, 0))["errors"] == [BUSY]
    assert calls.release(client, (1, 1, 0))["error"] == BUSY
    assert calls.numbered("create_queue", client, "name", None)["error"] == BUSY
    assert calls.numbered("delete_client", client)["error"] == BUSY
    assert calls.statistics(queue)["put_total"] == 0


def test_only_the_clients_of_a_takeover_are_put_off(calls: Calls, other: psycopg.Connection) -> None:
    taken_over, bystander = calls.register(), calls.register()
    queue = calls.create_queue(bystander)
    other.execute(EXCLUSIVE_CLIENT_LOCK, (taken_over.client_id,))
    first, second = calls.put([Put(taken_over, [Element(queue)]), Put(bystander, [Element(queue)])])
    assert (first.errors, second.errors) == ([BUSY], [None])


def test_a_takeover_lists_what_was_executed_and_is_unconfirmed(
    calls: Calls, client: Client, queue: int
) -> None:
    put = calls.put([Put(client, [Element(queue, b"1"), Element(1 << 40), Element(queue, b"2")])])[0]
    read = calls.take_one(client, queue, max_messages=2)
    successor = calls.take_over(client)
    (operation,) = calls.rows("list_unconfirmed_operations", client.client_id, successor.session, 0, 0, 100)
    assert operation == {
        "error": None,
        "session": 1,
        "number": put.number,
        "method_id": 0x31,
        "related_ids": put.message_ids,
        "errors": [None, QUEUE_NOT_EXISTING, None],
    }
    hand_overs = calls.rows(
        "list_unconfirmed_hand_overs", client.client_id, successor.session, 0, 0, 0, 100, 1000
    )
    assert [(row["session"], row["number"], row["body"]) for row in hand_overs] == [
        (1, read.number, b"1"),
        (1, read.number, b"2"),
    ]


def test_the_lists_of_a_takeover_are_paged(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, b"12", b"34", b"5678", b"9")
    calls.take_one(client, queue, max_messages=3)
    calls.take_one(client, queue)
    pages = [
        calls.rows("list_unconfirmed_hand_overs", client.client_id, 1, *after, max_rows, max_bytes)
        for after, max_rows, max_bytes in (
            ((0, 0, 0), 3, 4),
            ((1, 5, ids[1]), 1, 100),
            ((1, 5, ids[1]), 10, 1),
            ((1, 5, ids[2]), 10, 0),
            ((1, 6, ids[3]), 10, 100),
        )
    ]
    assert [[row["message_id"] for row in page] for page in pages] == [
        ids[:2],
        [ids[2]],
        [ids[2]],
        [ids[3]],
        [],
    ]
    numbers = [
        [row["number"] for row in calls.rows("list_unconfirmed_operations", client.client_id, 1, 1, after, 2)]
        for after in (0, 2, 4)
    ]
    assert numbers == [[1, 2], [3, 4], []]


def test_a_takeover_restarts_the_retention_of_what_is_handed_over(
    calls: Calls, client: Client, queue: int
) -> None:
    calls.put_bodies(client, queue, b"1")
    calls.take_one(client, queue)
    calls.query("UPDATE telesto.deliveries SET handed_over_at = now() - interval '6 days' RETURNING 1")
    calls.take_over(client)
    assert calls.scalar("SELECT now() - handed_over_at < interval '1 minute' FROM telesto.deliveries")


def test_confirming_deletes_records_and_counts_what_it_did_not_find(
    calls: Calls, client: Client, queue: int
) -> None:
    ids = calls.put_bodies(client, queue, b"1", b"2", b"3")
    read = calls.take_one(client, queue, max_messages=3)
    assert calls.confirm(client, (1, 1, 0), (1, read.number, ids[1])) == {"errors": None, "unknown": 0}
    assert [number for _, number, _, _ in calls.operations(client)] == [2, 3]
    assert calls.deliveries(client) == [(1, read.number, ids[0]), (1, read.number, ids[2])]
    assert calls.confirm(client, (1, 1, 0), (1, 2, 0), (1, read.number, 0), (1, read.number, ids[1])) == {
        "errors": None,
        "unknown": 2,
    }
    assert (calls.deliveries(client), len(calls.operations(client))) == ([], 1)


@pytest.mark.parametrize("carrier", ["put", "take", "confirm"])
def test_nobody_confirms_for_another_client(calls: Calls, carrier: str) -> None:
    alice, bob = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    calls.put_bodies(alice, queue, b"1")
    read = calls.take_one(alice, queue)
    foreign = [(alice.client_id, 1, 1), (alice.client_id, 1, read.number)]
    match carrier:
        case "put":
            calls.put([Put(bob, [Element(queue)])], foreign)
        case "take":
            calls.take([Read(bob, queue)], foreign)
        case "confirm":
            calls.confirm(bob, (1, 1, 0), (1, read.number, 0))
    assert (len(calls.operations(alice)), len(calls.deliveries(alice))) == (1, 1)


def test_a_successor_confirms_what_earlier_sessions_left(calls: Calls, client: Client, queue: int) -> None:
    calls.put_bodies(client, queue, b"1")
    read = calls.take_one(client, queue)
    successor = calls.take_over(client)
    assert calls.confirm(successor, (1, 1, 0), (1, read.number, 0))["unknown"] == 0
    assert (calls.operations(client), calls.deliveries(client)) == ([], [])


@pytest.mark.parametrize("carrier", ["put", "take", "select", "create", "purge"])
def test_any_numbered_request_carries_confirmations(
    calls: Calls, client: Client, queue: int, carrier: str
) -> None:
    calls.put_bodies(client, queue, b"1", b"2")
    read = calls.take_one(client, queue)
    confirmed = [(client.client_id, 1, 1), (client.client_id, 1, 2), (client.client_id, 1, read.number)]
    match carrier:
        case "put":
            calls.put([Put(client, [Element(queue)], number=0)], confirmed)
        case "take":
            calls.take([_read(client, queue)], confirmed)
        case "select":
            calls.select([_read(client, queue)], confirmed)
        case "create":
            calls.numbered("create_queue", client, "other", None, number=0, confirmed=confirmed)
        case "purge":
            calls.numbered("purge_queue", client, queue, 10, number=0, confirmed=confirmed)
    assert (calls.operations(client), calls.deliveries(client)) == ([], [])


def test_released_messages_return_to_their_old_place_marked_redelivered(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    ids = calls.put_bodies(client, queue, b"1", b"2", b"3")
    own = calls.put_bodies(client, queue, b"own", receiver=reader.client_id, priority=3)
    read = calls.take_one(reader, queue, max_messages=4)
    answer = calls.release(
        reader, (1, read.number, ids[1]), (1, read.number, own[0]), (1, read.number, ids[1]), (1, 77, 0)
    )
    assert sorted(zip(answer["queue_ids"], answer["receiver_ids"], strict=True)) == sorted(
        [(queue, 0), (queue, reader.client_id)]
    )
    assert calls.statistics(queue)["depth"] == 2
    assert calls.statistics(queue)["directed_depth"] == 1
    again = calls.take_one(reader, queue, max_messages=4)
    assert again.ids == [ids[1], own[0]]
    assert [(message["attempt"], message["redelivered"]) for message in again.messages] == [(2, True)] * 2
    assert calls.deliveries(reader)[0] == (1, read.number, ids[0])


def test_what_comes_back_may_exceed_the_bound(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, max_messages=1)
    calls.put_bodies(client, queue, b"1")
    read = calls.take_one(client, queue)
    calls.put_bodies(client, queue, b"2")
    calls.release(client, (1, read.number, 0))
    assert calls.statistics(queue)["depth"] == 2
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [25]


def test_what_belongs_to_a_deleted_queue_does_not_come_back(calls: Calls, client: Client) -> None:
    kept, gone = calls.create_queue(client), calls.create_queue(client)
    for queue in (kept, gone):
        calls.put_bodies(client, queue, b"1")
    reads = [calls.take_one(client, queue) for queue in (kept, gone)]
    calls.numbered("delete_queue", client, gone)
    answer = calls.release(client, *[(1, read.number, 0) for read in reads])
    assert answer["queue_ids"] == [kept]
    assert calls.deliveries(client) == []


def test_releasing_nothing_says_so(calls: Calls, client: Client) -> None:
    assert calls.release(client, (1, 1, 1)) == {"error": None, "queue_ids": None, "receiver_ids": None}


def test_deleting_a_client_gives_back_what_it_does_not_confirm(calls: Calls) -> None:
    client, reader = calls.register(), calls.register("reader")
    queue = calls.create_queue(client)
    ids = calls.put_bodies(client, queue, b"1", b"2")
    own = calls.put_bodies(client, queue, b"own", receiver=reader.client_id)
    first = calls.take_one(reader, queue)
    calls.take_one(reader, queue)
    answer = calls.numbered("delete_client", reader, confirmed=[(reader.client_id, 1, first.number)])
    assert (answer["error"], answer["queue_ids"], answer["receiver_ids"]) == (None, [queue], [0])
    assert (calls.deliveries(reader), calls.operations(reader)) == ([], [])
    assert calls.row("identify_client", reader.client_id, "")["error"] == CLIENT_NOT_EXISTING
    assert calls.take_one(client, queue, max_messages=5).ids == ids[1:]
    assert calls.statistics(queue)["directed_depth"] == len(own)


def test_a_deleted_client_is_no_more_and_its_name_is_free(calls: Calls) -> None:
    client = calls.register("alice")
    queue = calls.create_queue(calls.register())
    calls.numbered("delete_client", client)
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [CLIENT_NOT_EXISTING]
    assert calls.take_one(client, queue).error == CLIENT_NOT_EXISTING
    assert calls.confirm(client, (1, 1, 0))["errors"] == [CLIENT_NOT_EXISTING]
    assert calls.release(client, (1, 1, 0))["error"] == CLIENT_NOT_EXISTING
    assert calls.numbered("delete_client", client)["error"] == CLIENT_NOT_EXISTING
    assert _listed_errors(calls, client) == [CLIENT_NOT_EXISTING, CLIENT_NOT_EXISTING]
    successor = calls.register("alice")
    assert successor.client_id > client.client_id


def test_a_client_with_a_running_transaction_is_not_deleted(
    calls: Calls, client: Client, other: psycopg.Connection
) -> None:
    other.execute(SHARED_CLIENT_LOCK, (client.client_id,))
    assert calls.numbered("delete_client", client)["error"] == BUSY


@pytest.mark.parametrize(
    "name", ["create_queue", "update_queue", "delete_queue", "purge_queue", "delete_client"]
)
def test_a_repeated_number_executes_nothing(calls: Calls, client: Client, queue: int, name: str) -> None:
    calls.put_bodies(client, queue, b"1")
    arguments = {
        "create_queue": (f"q{os.urandom(4).hex()}", None),
        "update_queue": (queue, Jsonb({"max_messages": 1})),
        "delete_queue": (queue,),
        "purge_queue": (queue, 10),
        "delete_client": (),
    }[name]
    assert calls.numbered(name, client, *arguments, number=1)["error"] == NUMBER_REPEATED
    assert calls.statistics(queue)["depth"] == 1


def test_a_snapshot_that_does_not_advance_is_refused(calls: Calls, client: Client, queue: int) -> None:
    calls.connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with pytest.raises(psycopg.errors.InvalidTransactionState), calls.connection.transaction():
        calls.put([Put(client, [Element(queue)])])


def _read(client: Client, queue: int) -> Read:
    return Read(client, queue, number=0)


def _listed_errors(calls: Calls, client: Client) -> list[int]:
    operations = calls.rows("list_unconfirmed_operations", client.client_id, client.session, 0, 0, 10)
    hand_overs = calls.rows(
        "list_unconfirmed_hand_overs", client.client_id, client.session, 0, 0, 0, 10, 1000
    )
    return [row["error"] for row in operations + hand_overs]
