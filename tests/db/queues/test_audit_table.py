"""The table of the audit log: what is changed in SQL, and who takes it to a file."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

VERIFIER = "SCRAM-SHA-256$4096:c2FsdA==$c3RvcmVk:c2VydmVy"


@pytest.fixture
def sql(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


def lines(sql: psycopg.Connection) -> list[tuple[str, dict[str, Any]]]:
    rows = sql.execute("SELECT event, details FROM telesto.audit ORDER BY audit_id").fetchall()
    return [
        (event, {name: value for name, value in details.items() if name not in ("role", "peer")})
        for event, details in rows
    ]


def taken(sql: psycopg.Connection, most: int = 1_000) -> list[str]:
    return [event for (event,) in sql.execute("SELECT event FROM telesto.take_audit(%s)", (most,))]


def test_what_sql_changes_is_noted_with_the_role(sql: psycopg.Connection) -> None:
    (queue_id,) = sql.execute("SELECT telesto.create_queue('one', max_attempts => 3)").fetchone() or ()
    sql.execute("SELECT telesto.declare_queue('one')")
    sql.execute("SELECT telesto.declare_queue('one', max_attempts => 4, update_settings => true)")
    sql.execute("SELECT telesto.declare_queue('one', max_attempts => 4, update_settings => true)")
    sql.execute("SELECT telesto.update_queue(%s, lease => '5 s')", (queue_id,))
    sql.execute("SELECT telesto.delete_queue(%s)", (queue_id,))
    (client_id,) = sql.execute("SELECT telesto.declare_client('shop')").fetchone() or ()
    sql.execute("SELECT telesto.declare_client('shop')")
    sql.execute("SELECT telesto.delete_client(%s)", (client_id,))
    queue, client = {"queue_id": queue_id}, {"client_id": client_id}
    assert lines(sql) == [
        ("queue_created", queue | {"queue_name": "one", "settings": {"max_attempts": 3}}),
        ("queue_changed", queue | {"settings": {"max_attempts": 4}}),
        ("queue_changed", queue | {"settings": {"lease_ms": 5_000}}),
        ("queue_deleted", queue),
        ("client_registered", client | {"client_name": "shop"}),
        ("client_deleted", client),
    ]
    (role,) = sql.execute("SELECT session_user::text").fetchone() or ()
    roles = sql.execute(
        "SELECT DISTINCT details ->> 'role', details ->> 'peer' FROM telesto.audit"
    ).fetchall()
    assert [found for found, _ in roles] == [role]


def test_a_transaction_that_is_rolled_back_has_done_nothing(sql: psycopg.Connection) -> None:
    with sql.transaction(force_rollback=True):
        sql.execute("SELECT telesto.create_queue('one')")
    with pytest.raises(psycopg.Error):
        sql.execute("SELECT telesto.delete_queue(1234567)")
    assert lines(sql) == []


def test_users_are_noted_without_what_their_password_is_checked_by(sql: psycopg.Connection) -> None:
    insert = (
        "INSERT INTO telesto.users (name, verifier, put) VALUES ('bob', %s, '{orders-*}') RETURNING user_id"
    )
    (user_id,) = sql.execute(insert, (VERIFIER,)).fetchone() or ()
    sql.execute("UPDATE telesto.users SET enabled = false, verifier = verifier || 'x'")
    sql.execute("UPDATE telesto.users SET enabled = false")
    sql.execute("INSERT INTO telesto.sql_users VALUES ('postgres', %s)", (user_id,))
    sql.execute("DELETE FROM telesto.users")
    user = {"user_id": user_id, "user": "bob"}
    found = lines(sql)
    assert [event for event, _ in found] == [
        "user_added", "user_changed", "user_changed", "sql_user_added", "user_deleted", "sql_user_deleted",
    ]  # fmt: skip
    added, changed, unchanged, mapped, deleted, unmapped = (details for _, details in found)
    assert {name: added[name] for name in user} == user
    assert (added["changed"]["put"], added["changed"]["verifier"]) == (["orders-*"], "changed")
    assert changed == user | {"changed": {"enabled": False, "verifier": "changed"}}
    assert unchanged == user
    assert (mapped["user_id"], mapped["role_name"]) == (user_id, "postgres")
    assert deleted["changed"]["put"] == ["orders-*"]
    assert unmapped["role_name"] == "postgres"
    (leaked,) = (
        sql.execute("SELECT count(*) FROM telesto.audit WHERE details::text LIKE '%%SCRAM%%'").fetchone()
        or ()
    )
    assert leaked == 0


def test_a_quota_that_is_lifted_is_noted_as_such(sql: psycopg.Connection) -> None:
    sql.execute("INSERT INTO telesto.users (name, max_queues, max_clients) VALUES ('bob', 3, 4)")
    sql.execute("UPDATE telesto.users SET max_queues = NULL, max_clients = 5")
    (_, added), (_, changed) = lines(sql)
    assert added["changed"].keys() >= {"max_queues", "max_clients"}
    assert changed["changed"] == {"max_queues": None, "max_clients": 5}


def test_each_line_is_taken_once_in_order(sql: psycopg.Connection, database_url: str) -> None:
    for number in range(300):
        sql.execute("SELECT telesto.audit_sql(%s, '{}')", (f"{number:03}",))

    def take(_: int) -> list[str]:
        with psycopg.connect(database_url, autocommit=True) as connection:
            found: list[str] = []
            while some := taken(connection, 7):
                assert some == sorted(some)
                found += some
            return found

    with ThreadPoolExecutor(3) as pool:
        found = [event for some in pool.map(take, range(3)) for event in some]
    assert sorted(found) == [f"{number:03}" for number in range(300)]
    assert taken(sql) == []


def test_what_a_middleware_keeps_there_is_not_taken_again(sql: psycopg.Connection) -> None:
    line = {"time": "2026-11-30T12:00:00+00:00", "event": "queue_deleted", "outcome": "refused", "code": "X"}
    sql.execute("SELECT telesto.write_audit(%s)", ([Jsonb(line), Jsonb(line | {"outcome": "done"})],))
    assert lines(sql) == [("queue_deleted", {"code": "X"})] * 2
    outcomes = sql.execute("SELECT outcome, at::text FROM telesto.audit ORDER BY audit_id").fetchall()
    assert [outcome for outcome, _ in outcomes] == ["refused", "done"]
    assert taken(sql) == []


def test_old_lines_are_removed(sql: psycopg.Connection) -> None:
    for days in (1, 5, 20, 30):
        sql.execute("SELECT telesto.audit_sql(%s, '{}')", (str(days),))
        sql.execute(
            "UPDATE telesto.audit SET at = now() - make_interval(days => %s) WHERE event = %s",
            (days, str(days)),
        )
    (middleware_id,) = (
        sql.execute("SELECT telesto.register_middleware('127.0.0.1:1', '1.0')").fetchone() or ()
    )
    sweep = "SELECT done, more FROM telesto.sweep(%s, 'audit', %s, audit_days => 10)"
    assert sql.execute(sweep, (middleware_id, 1)).fetchone() == (1, True)
    assert sql.execute(sweep, (middleware_id, 10)).fetchone() == (1, False)
    assert [event for event, _ in lines(sql)] == ["1", "5"]
