"""Keys of messages: under one key a queue takes one message within its window."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from procedure_calls import QUEUE_FULL, SESSION_FENCED, Calls, Client, Element, Put

Open = Callable[[], Calls]

TABLES = ("message_keys_0", "message_keys_1", "message_keys_2")
WINDOW_MS = 300_000


@pytest.fixture(autouse=True)
def begin_a_generation(calls: Calls) -> None:
    """The test's database is a copy of one that may be older than a generation."""
    calls.connection.execute("UPDATE telesto.key_generation SET began_at = clock_timestamp()")


def put(calls: Calls, client: Client, queue: int, *keys: str | None) -> list[int]:
    """Puts one message for each key in a request of its own; returns the ids, negative for duplicates."""
    answers = calls.put([Put(client, [Element(queue, key=key)]) for key in keys])
    assert all(answer.errors == [None] for answer in answers), answers
    return [answer.message_ids[0] for answer in answers]


def age(calls: Calls, milliseconds: int) -> None:
    """Lets time pass for the keys and their generation."""
    passed = f"interval '{milliseconds} milliseconds'"
    for table in TABLES:
        calls.connection.execute(f"UPDATE telesto.{table} SET put_at = put_at - {passed}".encode())
    calls.connection.execute(f"UPDATE telesto.key_generation SET began_at = began_at - {passed}".encode())


def turn(calls: Calls) -> bool:
    return bool(calls.scalar("SELECT telesto.turn_keys()"))


def kept(calls: Calls) -> int:
    return sum(int(calls.scalar(f"SELECT count(*) FROM telesto.{table}")) for table in TABLES)


def test_a_repeated_key_finds_the_first_message(calls: Calls) -> None:
    alice, bob = calls.register(), calls.register()
    queue, other = calls.create_queue(alice), calls.create_queue(alice)
    (first,) = put(calls, alice, queue, "k")
    assert first > 0
    assert put(calls, bob, queue, "k") == [-first]
    (elsewhere,) = put(calls, alice, other, "k")
    assert elsewhere > first
    calls.take_one(bob, queue)
    assert put(calls, alice, queue, "k", None) == [-first, elsewhere + 1]
    assert (calls.statistics(queue)["put_total"], calls.statistics(other)["put_total"]) == (2, 1)


def test_a_key_twice_in_a_batch(calls: Calls) -> None:
    alice, bob = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    elements = [Element(queue, key="k"), Element(queue, key="m"), Element(queue, key="k")]
    answers = calls.put([Put(alice, elements), Put(bob, [Element(queue, key="m")])])
    first, second = answers[0].message_ids[:2]
    assert [*answers[0].message_ids, *answers[1].message_ids] == [first, second, -first, -second]
    assert calls.statistics(queue)["depth"] == 2
    assert calls.operations(alice)[-1][2] == [first, second, -first]


def test_a_duplicate_behind_a_put_that_was_refused_is_none(calls: Calls) -> None:
    """The first of the key was not executed, so the second is the first that is stored."""
    alice, fenced = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    calls.take_over(fenced)
    answers = calls.put(
        [
            Put(fenced, [Element(queue, key="k")], session=1),
            Put(alice, [Element(queue, key="k")]),
            Put(alice, [Element(queue, key="k")]),
        ]
    )
    assert answers[0].errors == [SESSION_FENCED]
    (stored,), (again,) = answers[1].message_ids, answers[2].message_ids
    assert stored > 0
    assert again == -stored


def test_a_duplicate_takes_no_space(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, max_messages=2)
    elements = [Element(queue, key=key) for key in ("a", "a", "b", "b", "c", "a")]
    (answer,) = calls.put([Put(client, elements)])
    first, _, second = answer.message_ids[:3]
    assert answer.message_ids == [first, -first, second, -second, 0, -first]
    assert answer.errors == [None, None, None, None, QUEUE_FULL, None]
    # What was refused left no key.
    calls.take_one(client, queue)
    assert put(calls, client, queue, "c")[0] > 0


def test_a_first_put_that_is_not_committed_is_waited_for(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    alice, bob = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    other = open_calls()
    with other.connection.transaction():
        (first,) = put(other, alice, queue, "k")
        waiting = pool.submit(put, calls, bob, queue, "k")
        other.connection.execute(UNTIL_SOMEBODY_WAITS)
    assert waiting.result() == [-first]


def test_a_first_put_that_is_rolled_back_was_none(
    calls: Calls, open_calls: Open, pool: ThreadPoolExecutor
) -> None:
    alice, bob = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    other = open_calls()
    with other.connection.transaction() as transaction:
        put(other, alice, queue, "k")
        waiting = pool.submit(put, calls, bob, queue, "k")
        other.connection.execute(UNTIL_SOMEBODY_WAITS)
        raise psycopg.Rollback(transaction)
    assert waiting.result()[0] > 0


def test_beyond_the_window_a_key_is_new(calls: Calls, client: Client, queue: int) -> None:
    (first,) = put(calls, client, queue, "k")
    age(calls, WINDOW_MS - 1_000)
    assert put(calls, client, queue, "k") == [-first]
    age(calls, 1_000)
    (second,) = put(calls, client, queue, "k")
    assert second > first
    assert put(calls, client, queue, "k") == [-second]
    assert kept(calls) == 1


def test_generations_keep_a_key_for_its_window_and_no_longer(
    calls: Calls, client: Client, queue: int
) -> None:
    assert not turn(calls)
    (first,) = put(calls, client, queue, "k")
    age(calls, WINDOW_MS // 2 + 1)
    assert turn(calls)
    (second,) = put(calls, client, queue, "m")
    assert not turn(calls)
    assert put(calls, client, queue, "k") == [-first]
    age(calls, WINDOW_MS // 2 + 1)
    assert turn(calls)
    assert kept(calls) == 2
    assert put(calls, client, queue, "m", "k") == [-second, second + 1]
    age(calls, WINDOW_MS // 2 + 1)
    assert turn(calls)  # the first "k" goes, the second is of the generation before
    assert kept(calls) == 2
    assert put(calls, client, queue, "k") == [-(second + 1)]


def test_a_longer_window_of_any_queue_makes_generations_longer(calls: Calls, client: Client) -> None:
    calls.create_queue(client)
    queue = calls.create_queue(client)
    calls.connection.execute("SELECT telesto.update_queue(%s, dedup_window => '50 minutes')", (queue,))
    (first,) = put(calls, client, queue, "k")
    age(calls, 2 * WINDOW_MS)
    assert not turn(calls)
    assert put(calls, client, queue, "k") == [-first]
    age(calls, 3_000_000)
    assert turn(calls)
    assert put(calls, client, queue, "k")[0] > 0


def test_a_table_that_is_read_is_emptied_later(
    calls: Calls, client: Client, queue: int, other: psycopg.Connection
) -> None:
    put(calls, client, queue, "k")
    for _ in range(2):
        age(calls, WINDOW_MS)
        assert turn(calls)
    age(calls, WINDOW_MS)
    other.execute("SELECT count(*) FROM telesto.message_keys_0")
    assert not turn(calls)
    assert put(calls, client, queue, "m")[0] > 0
    other.rollback()
    assert turn(calls)
    assert kept(calls) == 1


def test_the_job_turns_generations(calls: Calls) -> None:
    calls.create_queue(calls.register())
    middleware_id = calls.scalar("SELECT telesto.register_middleware('here', '1')")
    age(calls, WINDOW_MS)
    assert calls.row("sweep", middleware_id, "message_keys", 1, 30.0, 1.0)["elected"]
    assert calls.scalar("SELECT generation FROM telesto.key_generation") == 1


@pytest.mark.parametrize("placed_between", [False, True], ids=["placed together", "placed one by one"])
def test_staged_messages_have_keys(calls: Calls, client: Client, placed_between: bool) -> None:
    queue, other = calls.create_queue(client), calls.create_queue(client)
    for body, key, target in (("a", "k", queue), ("b", "k", queue), ("c", None, queue), ("d", "k", other)):
        calls.query(
            "SELECT telesto.put_message(%s, %s, convert_to(%s, 'UTF8'), dedup_key => %s)",
            client.client_id,
            target,
            body,
            key,
        )
        if placed_between:
            calls.query("SELECT telesto.place_staged(10)")
    calls.query("SELECT telesto.place_staged(10)")
    assert calls.scalar("SELECT count(*) FROM telesto.staged_messages") == 0
    assert [taken.bodies for taken in (calls.take_one(client, queue, max_messages=9),)] == [[b"a", b"c"]]
    assert calls.take_one(client, other).bodies == [b"d"]
    assert put(calls, client, queue, "k")[0] < 0


@pytest.mark.parametrize("key", ["", "k" * 256])
def test_staged_keys_have_a_bound(calls: Calls, client: Client, queue: int, key: str) -> None:
    with pytest.raises(psycopg.DatabaseError, match="dedup_key") as raised:
        calls.query("SELECT telesto.put_message(%s, %s, 'x', dedup_key => %s)", client.client_id, queue, key)
    assert raised.value.sqlstate == "TL012"


UNTIL_SOMEBODY_WAITS = """
DO $$
BEGIN
    WHILE NOT EXISTS (
        SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    ) LOOP
        PERFORM pg_sleep(0.001);
    END LOOP;
END
$$
"""
