"""The list of middlewares, their interests and wake-ups, and the jobs that one of them does."""

import psycopg
import pytest

from procedure_calls import Calls, Client

HEARD = (
    "UPDATE telesto.middlewares SET heartbeat_at = now() - %s::interval WHERE middleware_id = %s RETURNING 1"
)
ON_ANOTHER_SERVER = """
UPDATE telesto.middlewares SET server_started_at = server_started_at - interval '1 hour'
WHERE middleware_id = %s RETURNING 1
"""
AGED = """
UPDATE telesto.deliveries SET handed_over_at = now() - interval '8 days' WHERE client_id = %s RETURNING 1
"""
INTERESTS = "SELECT middleware_id, queue_id FROM telesto.interests ORDER BY 1, 2"


def middleware(calls: Calls, address: str = "host:7001") -> int:
    return int(calls.value("register_middleware", address, "0.1.0"))


def test_a_heartbeat_lists_all_that_live(calls: Calls) -> None:
    first, second = middleware(calls, "a:1"), middleware(calls, "b:1")
    rows = calls.rows("heartbeat", first, [1, 2], 10.0)
    assert sorted((row["middleware_id"], row["address"], row["alive"]) for row in rows) == [
        (first, "a:1", True),
        (second, "b:1", True),
    ]
    assert calls.scalar("SELECT pids FROM telesto.middlewares WHERE middleware_id = %s", first) == [1, 2]


def test_a_silent_middleware_is_removed_with_its_backends_interests_and_jobs(
    calls: Calls, database_url: str
) -> None:
    silent, other = middleware(calls), middleware(calls)
    with psycopg.connect(database_url, autocommit=True) as victim:
        calls.rows("heartbeat", silent, [victim.info.backend_pid], 10.0)
        calls.rows("register_interest", silent, [1])
        assert calls.row("sweep", silent, "unconfirmed")["elected"]
        rows = calls.rows("heartbeat", other, [], -1.0)
        assert sorted((row["middleware_id"], row["alive"]) for row in rows) == [
            (silent, False),
            (other, True),
        ]
        with pytest.raises(psycopg.OperationalError):
            victim.execute("SELECT 1")
    assert calls.query(INTERESTS) == []
    assert calls.row("sweep", other, "unconfirmed")["elected"]
    assert [row["middleware_id"] for row in calls.rows("heartbeat", silent, [], 10.0)] == [other]


def test_a_process_that_is_younger_than_the_last_sign_of_life_is_spared(
    calls: Calls, database_url: str
) -> None:
    silent, other = middleware(calls), middleware(calls)
    with psycopg.connect(database_url, autocommit=True) as young:
        calls.rows("heartbeat", silent, [young.info.backend_pid], 10.0)
        calls.query(HEARD, "1 minute", silent)
        assert len(calls.rows("heartbeat", other, [], 10.0)) == 2
        assert young.execute("SELECT 1").fetchone() == (1,)


def test_processes_of_another_server_are_spared(calls: Calls, database_url: str) -> None:
    """After a failover or a restart the numbers are those of other processes."""
    silent, other = middleware(calls), middleware(calls)
    with psycopg.connect(database_url, autocommit=True) as stranger:
        calls.rows("heartbeat", silent, [stranger.info.backend_pid], 10.0)
        calls.query(ON_ANOTHER_SERVER, silent)
        assert len(calls.rows("heartbeat", other, [], -1.0)) == 2
        assert stranger.execute("SELECT 1").fetchone() == (1,)


def test_a_middleware_that_stops_leaves_nothing(calls: Calls) -> None:
    one = middleware(calls)
    calls.rows("register_interest", one, [1, 2])
    calls.row("sweep", one, "unconfirmed")
    calls.value("unregister_middleware", one)
    assert calls.query(INTERESTS) == []
    assert calls.scalar("SELECT holder FROM telesto.jobs") == 0


def test_interests_are_kept_per_middleware(calls: Calls) -> None:
    one, two = middleware(calls), middleware(calls)
    calls.rows("register_interest", one, [1, 2, 2])
    calls.rows("register_interest", one, [2, 3])
    calls.rows("register_interest", two, [2])
    calls.rows("withdraw_interest", one, [1, 2, 9])
    calls.rows("register_interest", 1 << 40, [1])
    assert [tuple(row.values()) for row in calls.query(INTERESTS)] == [(one, 3), (two, 2)]


def listen(calls: Calls) -> None:
    calls.connection.execute("LISTEN telesto_wake")


def payloads(calls: Calls) -> list[str]:
    calls.query("SELECT 1")
    return [notification.payload for notification in calls.connection.notifies(timeout=0)]


def test_only_queues_in_which_another_one_is_interested_are_told(calls: Calls) -> None:
    sender, other = middleware(calls), middleware(calls)
    calls.rows("register_interest", sender, [1, 2])
    calls.rows("register_interest", other, [2, 3])
    listen(calls)
    calls.value("notify_puts", sender, [1, 2, 3, 4], [0, 7, 0, 0], [5, 6, 0, 8])
    assert payloads(calls) == [f"{sender};2:7:6,3:0:0"]
    calls.value("notify_puts", sender, [1, 4], [0, 0], [1, 1])
    assert payloads(calls) == []


def test_a_long_list_is_told_in_parts(calls: Calls) -> None:
    sender, other = middleware(calls), middleware(calls)
    calls.rows("register_interest", other, [1 << 62])
    listen(calls)
    items = [(1 << 62, (1 << 62) + i, 2_000_000_000) for i in range(600)]
    calls.value("notify_puts", sender, *[list(column) for column in zip(*items, strict=True)])
    parts = payloads(calls)
    assert all(len(part) < 7000 for part in parts)
    told = [item for part in parts for item in part.removeprefix(f"{sender};").split(",")]
    assert told == [":".join(map(str, item)) for item in items]


def test_a_job_belongs_to_one_until_its_deadline(calls: Calls) -> None:
    assert calls.row("sweep", 1, "unconfirmed", 10, 60.0)["elected"]
    assert not calls.row("sweep", 2, "unconfirmed", 10, 60.0)["elected"]
    assert calls.row("sweep", 2, "deleted_queues", 10, 60.0)["elected"]
    assert calls.row("sweep", 1, "unconfirmed", 10, -1.0)["elected"]
    assert calls.row("sweep", 2, "unconfirmed", 10, 60.0)["elected"]
    assert not calls.row("sweep", 1, "unconfirmed", 10, 60.0)["elected"]


def test_an_election_does_not_wait(calls: Calls, other: psycopg.Connection) -> None:
    calls.row("sweep", 1, "unconfirmed", 10, -1.0)
    other.execute("SELECT telesto.sweep(1, 'unconfirmed')")
    assert not calls.row("sweep", 2, "unconfirmed")["elected"]


def test_an_unknown_job_is_refused(calls: Calls) -> None:
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        calls.row("sweep", 1, "laundry")


def test_what_is_unconfirmed_for_too_long_goes_to_the_dead_letters(calls: Calls) -> None:
    late, punctual = calls.register(), calls.register()
    queue = calls.create_queue(late)
    ids = calls.put_bodies(late, queue, *[b"body"] * 3, priority=8, context=4)
    read = calls.take_one(late, queue, max_messages=2)
    calls.take_one(punctual, queue)
    calls.query(AGED, late.client_id)
    row = calls.row("sweep", 1, "unconfirmed")
    assert (row["done"], row["more"]) == (2, False)
    letters = calls.query("SELECT * FROM telesto.dead_letters ORDER BY message_id")
    assert [letter["message_id"] for letter in letters] == ids[:2]
    assert {
        name: letters[0][name]
        for name in ("client_id", "session", "number", "reason", "priority", "context", "body", "attempt")
    } == {
        "client_id": late.client_id,
        "session": 1,
        "number": read.number,
        "reason": "unconfirmed",
        "priority": 8,
        "context": 4,
        "body": b"body",
        "attempt": 1,
    }
    assert calls.deliveries(late) == []
    assert len(calls.deliveries(punctual)) == 1


def test_a_client_at_work_is_left_for_the_next_round(calls: Calls, other: psycopg.Connection) -> None:
    busy, idle = calls.register(), calls.register()
    queue = calls.create_queue(busy)
    calls.put_bodies(busy, queue, b"1", b"2")
    for client in (busy, idle):
        calls.take_one(client, queue)
        calls.query(AGED, client.client_id)
    other.execute("SELECT pg_advisory_xact_lock_shared(telesto.client_lock_key(%s))", (busy.client_id,))
    assert calls.row("sweep", 1, "unconfirmed")["done"] == 1
    other.rollback()
    assert calls.row("sweep", 1, "unconfirmed")["done"] == 1


def test_a_round_of_retention_is_walked_in_turns(calls: Calls) -> None:
    clients = [calls.register() for _ in range(5)]
    queue = calls.create_queue(clients[0])
    for client in clients:
        calls.put_bodies(client, queue, b"1", b"2", b"3")
        calls.take_one(client, queue, max_messages=3)
        calls.query(AGED, client.client_id)
    turns = []
    while not turns or turns[-1]["more"]:
        turns.append(calls.row("sweep", 1, "unconfirmed", 2))
    # Two of each client in this round, the rest in the next.
    assert sum(turn["done"] for turn in turns) == 10
    assert len(turns) > 3
    assert calls.row("sweep", 1, "unconfirmed", 100)["done"] == 5


def test_the_age_of_retention_is_the_callers(calls: Calls, client: Client, queue: int) -> None:
    calls.put_bodies(client, queue, b"1")
    calls.take_one(client, queue)
    assert calls.row("sweep", 1, "unconfirmed", 10, 30.0, 3600.0)["done"] == 0
    assert calls.row("sweep", 1, "unconfirmed", 10, 30.0, -1.0)["done"] == 1
