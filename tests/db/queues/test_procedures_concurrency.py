"""What several connections do at the same time: order, exclusion, takeover, waiting."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from procedure_calls import (
    BUSY,
    BY_AGE,
    PATIENCE_S,
    QUEUE_FULL,
    QUEUE_NAME_NOT_UNIQUE,
    SESSION_FENCED,
    Calls,
    Client,
    Element,
    Put,
    Read,
    until_blocked,
)

pytestmark = pytest.mark.usefixtures("consistent")

Open = Callable[[], Calls]


@contextmanager
def blocking(calls: Calls, blocked: Calls, work: Future[Any]) -> Iterator[None]:
    """Assert that the work waits until the block is left."""
    until_blocked(calls, blocked)
    assert not work.done()
    yield


@pytest.mark.parametrize("selective", [False, True], ids=["plain", "selective"])
def test_two_putters_and_two_takers_lose_nothing_and_keep_order(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor, selective: bool
) -> None:
    queue = calls.create_queue(calls.register())
    putters, takers = [calls.register() for _ in range(2)], [calls.register() for _ in range(2)]
    per_putter, size = 40, 10
    start = threading.Barrier(4)
    finished = threading.Event()

    def put(client: Client) -> list[int]:
        own = open_calls()
        start.wait(PATIENCE_S)
        ids = []
        for batch in range(per_putter):
            bodies = [f"{client.client_id}:{batch * size + i}".encode() for i in range(size)]
            ids += own.put_bodies(client, queue, *bodies)
        return ids

    def take(client: Client) -> list[dict[str, Any]]:
        own = open_calls()
        start.wait(PATIENCE_S)
        messages: list[dict[str, Any]] = []
        while True:
            last_round = finished.is_set()
            reads = [Read(client, queue, max_messages=7) for _ in range(2)]
            taken = [m for answer in (own.select if selective else own.take)(reads) for m in answer.messages]
            messages += taken
            if last_round and not taken:
                return messages

    putting = [pool.submit(put, client) for client in putters]
    taking = [pool.submit(take, client) for client in takers]
    put_ids = [work.result(PATIENCE_S) for work in putting]
    finished.set()
    taken = [work.result(PATIENCE_S) for work in taking]

    assert all(ids == sorted(ids) for ids in put_ids)
    for messages in taken:
        ids = [message["message_id"] for message in messages]
        assert ids == sorted(ids)
    everything = sorted((m for messages in taken for m in messages), key=lambda m: m["message_id"])
    assert [m["message_id"] for m in everything] == sorted(i for ids in put_ids for i in ids)
    for client in putters:
        sent = [int(m["body"].split(b":")[1]) for m in everything if m["sender_id"] == client.client_id]
        assert sent == list(range(per_putter * size))


def test_several_queues_are_tried_and_one_is_waited_for(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    client, neighbour = calls.register(), calls.register()
    busy, free = calls.create_queue(client), calls.create_queue(client)
    second = open_calls()
    with calls.connection.transaction():
        (first_id,) = calls.put_bodies(client, busy, b"1")
        answers = second.put([Put(neighbour, [Element(queue)]) for queue in (free, busy)])
        assert [answer.errors for answer in answers] == [[None], [BUSY]]
        waiting = pool.submit(second.put_bodies, neighbour, busy, b"2")
        with blocking(calls, second, waiting):
            pass
    (second_id,) = waiting.result(PATIENCE_S)
    assert calls.take_one(client, busy, max_messages=2).ids == [first_id, second_id]


@pytest.mark.parametrize("kind", ["plain", "by age", "responses"])
def test_takes_of_one_queue_wait_for_each_other(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor, kind: str
) -> None:
    client, neighbour = calls.register(), calls.register()
    queue, other_queue = calls.create_queue(client), calls.create_queue(client)
    options: dict[str, Any] = {"by age": {"mode": BY_AGE}, "responses": {"context": 1}}.get(kind, {})
    own = {"receiver": neighbour.client_id, "context": 1} if kind == "responses" else {}
    ids = calls.put_bodies(client, queue, b"1") + calls.put_bodies(client, queue, b"2", **own)
    second = open_calls()
    take = second.take if kind == "plain" else second.select
    with calls.connection.transaction():
        assert calls.take_one(client, queue).ids == ids[:1]
        refused = take([Read(neighbour, q, **options) for q in (other_queue, queue)])
        assert [answer.error for answer in refused] == [None, BUSY]
        waiting = pool.submit(take, [Read(neighbour, queue, **options)])
        with blocking(calls, second, waiting):
            pass
    assert waiting.result(PATIENCE_S)[0].ids == ids[1:]


def test_a_take_that_is_rolled_back_leaves_its_messages(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    client, neighbour = calls.register(), calls.register()
    queue = calls.create_queue(client)
    ids = calls.put_bodies(client, queue, b"1", b"2")
    second = open_calls()
    with calls.connection.transaction() as transaction:
        calls.take_one(client, queue, max_messages=2)
        waiting = pool.submit(second.take_one, neighbour, queue, max_messages=2)
        with blocking(calls, second, waiting):
            raise psycopg.Rollback(transaction)
    assert waiting.result(PATIENCE_S).ids == ids


def test_puts_that_are_not_committed_are_not_taken(calls: Calls, open_calls: Open) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    (first,) = calls.put_bodies(client, queue, b"1")
    second = open_calls()
    with calls.connection.transaction():
        (later,) = calls.put_bodies(client, queue, b"2", priority=9)
        assert second.take_one(reader, queue, max_messages=5).ids == [first]
    assert second.take_one(reader, queue, max_messages=5).ids == [later]


def test_two_putters_fill_a_bounded_queue_exactly(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    clients = [calls.register() for _ in range(2)]
    queue = calls.create_queue(clients[0], max_messages=50)
    start = threading.Barrier(2)

    def put(client: Client) -> list[int | None]:
        own = open_calls()
        start.wait(PATIENCE_S)
        return [
            answer.errors[0]
            for _ in range(20)
            for answer in own.put([Put(client, [Element(queue)]) for _ in range(4)])
        ]

    errors = [error for work in [pool.submit(put, c) for c in clients] for error in work.result(PATIENCE_S)]
    assert (errors.count(None), errors.count(QUEUE_FULL)) == (50, 110)
    assert calls.statistics(queue)["depth"] == 50


def test_a_takeover_does_not_pass_a_running_batch(
    calls: Calls, client: Client, queue: int, open_calls: Open
) -> None:
    second = open_calls()
    with calls.connection.transaction():
        (message_id,) = calls.put_bodies(client, queue, b"1")
        assert second.row("identify_client", client.client_id, "")["error"] == BUSY
    successor = second.take_over(client)
    listed = second.rows("list_unconfirmed_operations", client.client_id, successor.session, 0, 0, 10)
    assert [row["related_ids"] for row in listed] == [[message_id]]


def test_a_batch_does_not_pass_a_running_takeover(
    calls: Calls, client: Client, queue: int, open_calls: Open
) -> None:
    second = open_calls()
    with calls.connection.transaction():
        calls.take_over(client)
        assert second.put([Put(client, [Element(queue)])])[0].errors == [BUSY]
    assert second.put([Put(client, [Element(queue)])])[0].errors == [SESSION_FENCED]


def test_what_a_takeover_lists_is_final(
    calls: Calls, client: Client, queue: int, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    """Puts race with takeovers: each put is listed by the next takeover if and only if it was done."""
    stop = threading.Event()
    sessions = [client]
    executed: dict[int, set[int]] = {}
    listed: dict[int, set[int]] = {}

    def put() -> None:
        own = open_calls()
        while not stop.is_set():
            current = sessions[-1]
            for answer in own.put([Put(current, [Element(queue)]) for _ in range(3)]):
                assert answer.errors[0] in (None, BUSY, SESSION_FENCED)
                if answer.errors == [None]:
                    executed.setdefault(current.session, set()).add(answer.message_ids[0])

    putting = pool.submit(put)
    while len(listed) < 20:
        row = calls.row("identify_client", client.client_id, "")
        if row["error"] is None:
            rows = calls.rows("list_unconfirmed_operations", client.client_id, row["session"], 0, 0, 1 << 20)
            ids = {i for r in rows if r["session"] == sessions[-1].session for i in r["related_ids"]}
            listed[sessions[-1].session] = ids
            sessions.append(Client(client.client_id, row["session"], client.name))
        elif putting.done():
            break
    stop.set()
    putting.result(PATIENCE_S)
    assert {session: executed.get(session, set()) for session in listed} == listed


@pytest.mark.parametrize("committed", [True, False])
def test_a_queue_name_that_is_being_taken_is_waited_for(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor, committed: bool
) -> None:
    client, neighbour = calls.register(), calls.register()
    second = open_calls()
    with calls.connection.transaction() as transaction:
        calls.create_queue(client, name="orders")
        waiting = pool.submit(second.numbered, "create_queue", neighbour, "orders", None)
        with blocking(calls, second, waiting):
            if not committed:
                raise psycopg.Rollback(transaction)
    assert waiting.result(PATIENCE_S)["error"] == (QUEUE_NAME_NOT_UNIQUE if committed else None)
    assert calls.scalar("SELECT count(*) FROM telesto.queues WHERE name = 'orders'") == 1


def test_a_client_name_that_is_being_taken_is_waited_for(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    second = open_calls()
    with calls.connection.transaction():
        first = calls.row("register_client", "alice", 1, b"token")
        waiting = pool.submit(second.row, "register_client", "alice", 1, b"token")
        with blocking(calls, second, waiting):
            pass
    again = waiting.result(PATIENCE_S)
    assert (again["client_id"], again["session"]) == (first["client_id"], 2)


def test_a_message_is_not_both_confirmed_and_given_back(
    calls: Calls, client: Client, queue: int, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    calls.put_bodies(client, queue, b"1")
    read = calls.take_one(client, queue)
    releasing, confirming = open_calls(), open_calls()
    with calls.connection.transaction():
        calls.query("SELECT pg_advisory_xact_lock(telesto.take_lock_key(%s))", queue)
        release = pool.submit(releasing.release, client, (1, read.number, 0))
        with blocking(confirming, releasing, release):
            assert confirming.confirm(client, (1, read.number, 0))["unknown"] == 0
    assert release.result(PATIENCE_S)["queue_ids"] is None
    assert calls.statistics(queue)["depth"] == 0


def test_deleting_a_queue_waits_for_what_works_in_it(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    client, neighbour = calls.register(), calls.register()
    queue = calls.create_queue(client)
    second = open_calls()
    with calls.connection.transaction():
        calls.put_bodies(client, queue, b"1")
        deleting = pool.submit(second.numbered, "delete_queue", neighbour, queue)
        with blocking(calls, second, deleting):
            calls.take_one(client, queue)
            calls.put_bodies(client, queue, b"2")
    assert deleting.result(PATIENCE_S)["error"] is None
    assert calls.row("sweep", 1, "deleted_queues")["done"] == 1


def test_gone_messages_do_not_come_back_to_a_queue_that_is_being_deleted(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    client, neighbour = calls.register(), calls.register()
    queue = calls.create_queue(client)
    calls.put_bodies(client, queue, b"1")
    read = calls.take_one(client, queue)
    second = open_calls()
    with calls.connection.transaction():
        calls.numbered("delete_queue", neighbour, queue)
        releasing = pool.submit(second.release, client, (1, read.number, 0))
        with blocking(calls, second, releasing):
            pass
    assert releasing.result(PATIENCE_S)["queue_ids"] is None
    assert calls.scalar("SELECT count(*) FROM telesto.messages") == 0


def test_heartbeats_do_not_wait_for_each_other(calls: Calls, open_calls: Open) -> None:
    first, second = (calls.value("register_middleware", f"{name}:1", "0") for name in "ab")
    observer = open_calls()
    with calls.connection.transaction():
        calls.rows("heartbeat", first, [], 10.0)
        rows = observer.rows("heartbeat", second, [], -1.0)
        assert sorted(row["middleware_id"] for row in rows if row["alive"]) == [first, second]
