"""Creating, finding, listing, browsing, purging and deleting queues."""

import psycopg
import pytest
from psycopg.types.json import Jsonb

from procedure_calls import QUEUE_NAME_NOT_UNIQUE, QUEUE_NOT_EXISTING, Calls, Client, Element, Put

NO_QUEUE = 1 << 40
LEFT = "SELECT count(*) FROM telesto.messages WHERE queue_id = %s"


def test_a_new_queue_is_empty_and_recorded(calls: Calls, client: Client) -> None:
    row = calls.numbered("create_queue", client, "orders", Jsonb({"max_messages": 7}))
    assert row["error"] is None
    assert calls.statistics(row["queue_id"]) == {
        "error": None,
        "depth": 0,
        "directed_depth": 0,
        "put_total": 0,
        "taken_total": 0,
        "max_messages": 7,
        "ready": 0,
        "delayed": 0,
        "backing_off": 0,
        "keyed": 0,
        "leased": 0,
        "dead": 0,
        "oldest_age_ms": None,
        "exact": True,
    }
    assert calls.operations(client) == [(1, 1, [row["queue_id"]], None)]


def test_a_name_is_given_once(calls: Calls, client: Client) -> None:
    calls.create_queue(client, name="orders")
    row = calls.numbered("create_queue", client, "orders", None)
    assert (row["error"], row["queue_id"]) == (QUEUE_NAME_NOT_UNIQUE, None)
    assert calls.operations(client) == [(1, 1, [0], [QUEUE_NAME_NOT_UNIQUE])]


@pytest.mark.parametrize(
    ("name", "max_messages"), [("", None), ("n" * 256, None), ("n", 0)], ids=["empty", "long", "no room"]
)
def test_what_the_middleware_should_have_refused_is_refused(
    calls: Calls, name: str, max_messages: int | None
) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        calls.numbered("create_queue", calls.register(), name, Jsonb({"max_messages": max_messages}))


def test_queues_are_found_by_name_and_by_id(calls: Calls) -> None:
    queue = calls.create_queue(calls.register(), name="orders")
    assert calls.row("get_queue_id", "orders") == {"error": None, "queue_id": queue}
    assert calls.row("get_queue_id", "nothing") == {"error": QUEUE_NOT_EXISTING, "queue_id": None}
    assert calls.row("get_queue_name", queue) == {"error": None, "queue_name": "orders"}
    assert calls.row("get_queue_name", NO_QUEUE) == {"error": QUEUE_NOT_EXISTING, "queue_name": None}
    assert calls.statistics(NO_QUEUE)["error"] == QUEUE_NOT_EXISTING


def test_queues_are_listed_page_by_page(calls: Calls, client: Client) -> None:
    queues = [calls.create_queue(client, bound) for bound in (None, 3, None)]
    pages = [calls.rows("list_queues", after, 2) for after in (0, queues[1], queues[2])]
    assert [[row["queue_id"] for row in page] for page in pages] == [queues[:2], queues[2:], []]
    assert [row["max_messages"] for row in pages[0]] == [None, 3]


def test_active_queues_hold_what_the_client_may_read(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    common, own, others, empty, emptied = (calls.create_queue(client) for _ in range(5))
    calls.put_bodies(client, common, b"1")
    calls.put_bodies(client, own, b"1", receiver=reader.client_id)
    calls.put_bodies(client, others, b"1", receiver=client.client_id)
    calls.put_bodies(client, emptied, b"1")
    calls.take_one(client, emptied)
    active = [row["queue_id"] for row in calls.rows("list_active_queues", reader.client_id, 0, 10)]
    assert active == [common, own]
    assert empty not in active
    after = calls.rows("list_active_queues", reader.client_id, common, 10)
    assert [row["queue_id"] for row in after] == [own]
    assert len(calls.rows("list_active_queues", client.client_id, 0, 1)) == 1


def test_browsing_shows_what_the_client_may_read_by_age(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    elements = [
        Element(queue, b"12", priority=9),
        Element(queue, b"3456", priority=1, receiver=reader.client_id),
        Element(queue, b"7", receiver=client.client_id),
        Element(queue, b"8", priority=10),
    ]
    (put,) = calls.put([Put(client, elements)])
    ids = put.message_ids

    def page(after: int, max_rows: int, max_bytes: int) -> list[int]:
        rows = calls.rows("browse_messages", reader.client_id, queue, after, max_rows, max_bytes)
        assert all(row["attempt"] == 0 for row in rows)
        return [row["message_id"] for row in rows]

    assert page(0, 10, 100) == [ids[0], ids[1], ids[3]]
    assert page(0, 2, 100) == ids[:2]
    assert page(0, 10, 6) == ids[:2]
    assert page(ids[0], 10, 0) == [ids[1]]
    assert page(ids[3], 10, 100) == []
    assert calls.statistics(queue)["depth"] == 4


def test_browsing_shows_nothing_that_was_taken(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, b"1", b"2", b"3")
    calls.take_one(client, queue, max_messages=2)
    assert [
        row["message_id"] for row in calls.rows("browse_messages", client.client_id, queue, 0, 9, 99)
    ] == [ids[2]]
    (row,) = calls.rows("browse_messages", client.client_id, NO_QUEUE, 0, 9, 99)
    assert row["error"] == QUEUE_NOT_EXISTING


def test_ready_queues_are_told_from_empty_and_deleted_ones(calls: Calls, client: Client) -> None:
    full, empty = calls.create_queue(client), calls.create_queue(client)
    calls.put_bodies(client, full, b"1", b"2")
    calls.take_one(client, full)
    rows = calls.rows("ready_queues", [NO_QUEUE, empty, full])
    assert {row["queue_id"]: (row["depth"], row["exists"]) for row in rows} == {
        NO_QUEUE: (0, False),
        empty: (0, True),
        full: (1, True),
    }


def test_a_purge_of_several_calls_leaves_one_record(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    calls.put_bodies(client, queue, *[b"x"] * 4)
    calls.put_bodies(client, queue, *[b"x"] * 3, receiver=reader.client_id)
    handed = calls.take_one(client, queue)
    number = client.next_number()
    removed, answers = 0, []
    for _ in range(3):
        answer = calls.numbered("purge_queue", client, queue, 2, removed, number=number)
        removed += answer["removed"]
        answers.append((answer["error"], answer["removed"], answer["more"]))
    assert answers == [(None, 2, True), (None, 2, True), (None, 2, False)]
    assert calls.operations(client)[-1] == (1, number, [6], None)
    assert calls.statistics(queue)["depth"] == 0
    assert calls.statistics(queue)["directed_depth"] == 0
    assert calls.deliveries(client) == [(1, handed.number, handed.ids[0])]


def test_purging_an_empty_or_unknown_queue(calls: Calls, client: Client, queue: int) -> None:
    empty = calls.numbered("purge_queue", client, queue, 10)
    unknown = calls.numbered("purge_queue", client, NO_QUEUE, 10)
    assert empty == {"error": None, "removed": 0, "more": False}
    assert unknown == {"error": QUEUE_NOT_EXISTING, "removed": 0, "more": False}
    assert [errors for _, _, _, errors in calls.operations(client)] == [None, [QUEUE_NOT_EXISTING]]


def test_a_purged_queue_goes_on(calls: Calls, client: Client, queue: int) -> None:
    for priority in (2, 7, 9):
        calls.put_bodies(client, queue, b"1", b"2", priority=priority)
    calls.numbered("purge_queue", client, queue, 100)
    (message_id,) = calls.put_bodies(client, queue, b"3", priority=1)
    assert calls.take_one(client, queue, max_messages=5).ids == [message_id]


def test_a_deleted_queue_is_gone_at_once_and_its_messages_later(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, name="orders")
    calls.put_bodies(client, queue, *[b"x"] * 5)
    calls.put_bodies(client, queue, *[b"x"] * 20, receiver=client.client_id)
    calls.take_one(client, queue, max_messages=23)
    row = calls.numbered("delete_queue", client, queue)
    assert row["error"] is None
    assert calls.numbered("delete_queue", client, queue)["error"] == QUEUE_NOT_EXISTING
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [QUEUE_NOT_EXISTING]
    assert calls.take_one(client, queue).error == QUEUE_NOT_EXISTING
    assert calls.select_one(client, queue).error == QUEUE_NOT_EXISTING
    assert calls.scalar(LEFT, queue) == 2
    sweep = calls.row("sweep", 1, "deleted_queues")
    assert (sweep["elected"], sweep["done"], sweep["more"]) == (True, 2, False)
    for table in ("messages", "receiver_states", "put_states", "take_states", "deleted_queues"):
        assert calls.scalar(f"SELECT count(*) FROM telesto.{table}") == 0
    assert len(calls.deliveries(client)) == 23


def test_the_name_of_a_deleted_queue_is_free(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, name="orders")
    calls.numbered("delete_queue", client, queue)
    assert calls.create_queue(client, name="orders") > queue


def test_messages_of_deleted_queues_are_removed_in_chunks(calls: Calls, client: Client) -> None:
    first, kept, last = (calls.create_queue(client) for _ in range(3))
    for queue in (first, kept, last):
        calls.put([Put(client, [Element(queue, priority=p) for p in (1, 5, 10, 5)])])
        calls.put([Put(client, [Element(queue, receiver=client.client_id)])])
    for queue in (first, last):
        calls.numbered("delete_queue", client, queue)
    turns = []
    while not turns or turns[-1][1]:
        row = calls.row("sweep", 1, "deleted_queues", 2)
        turns.append((row["done"], row["more"]))
    assert sum(done for done, _ in turns) == 10
    assert all(done <= 2 for done, _ in turns)
    assert [calls.scalar(LEFT, queue) for queue in (first, kept, last)] == [0, 5, 0]
