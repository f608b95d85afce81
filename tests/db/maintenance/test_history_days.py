"""Days of the history: nobody is sent to a partition that it cannot know; what ends is kept long enough."""

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from consumer_calls import Consuming
from procedure_calls import Calls, Client
from telesto.db.checks.findings import find_contradictions

Open = Callable[[], Calls]
DAY = timedelta(days=1)
TURNS_MAX = 5
READ = "SELECT message_id FROM telesto.read_message_by_priority(%s, %s)"
DAYS = "SELECT days FROM telesto.history_calendar"
# Which transactions attached the partitions whose days are noted, and which one noted them.
NOTED_BY = """
SELECT calendar.xmin::text AS noted_by, inherits.xmin::text AS attached_by, partition.day
FROM telesto.history_calendar AS calendar
JOIN telesto.history_partitions AS partition ON partition.day = ANY (calendar.days)
JOIN pg_inherits AS inherits ON inherits.inhrelid = ('telesto.' || partition.name)::regclass
"""


def turn(calls: Calls, moment: datetime) -> dict[str, Any]:
    """One turn of the job, a transaction of its own."""
    return calls.row("sweep_history", moment, 1000)


def turns(calls: Calls, moment: datetime) -> None:
    """As the middleware does it: turn after turn while there is more to do."""
    for _ in range(TURNS_MAX):
        if not turn(calls, moment)["more"]:
            return
    pytest.fail("the job finds no end")


def days_of(calls: Calls) -> list[date]:
    found: list[date] = calls.scalar(DAYS)
    return found


def drop_on(calls: Calls, message_id: int) -> date:
    found: date = calls.scalar("SELECT drop_on FROM telesto.history WHERE message_id = %s", message_id)
    return found


def confirmed(calls: Calls, client: Client, queue: int) -> int:
    (message_id,) = calls.put_bodies(client, queue, b"x")
    read = calls.take_one(client, queue)
    calls.confirm(client, (client.session, read.number, 0))
    return message_id


def kept(calls: Calls, message_id: int) -> bool:
    return bool(calls.scalar("SELECT count(*) FROM telesto.history WHERE message_id = %s", message_id))


@pytest.fixture
def now(calls: Calls) -> datetime:
    found: datetime = calls.scalar("SELECT clock_timestamp()")
    return found.astimezone(UTC)


# --- nobody is sent to a partition that it does not know -----------------------------------------
def test_days_are_noted_by_a_later_transaction_than_makes_their_partitions(
    calls: Calls, client: Client, now: datetime
) -> None:
    """What a commit shows is seen a moment before others are told to forget what they know of a table."""
    for days in (7, 30, 200):
        calls.create_queue(client, history_days=days)
        turns(calls, now)
    for later in range(1, 4):
        turns(calls, now + later * DAY)
    rows = [row for row in calls.query(NOTED_BY) if row["day"] != date(2000, 1, 1)]
    assert len(rows) > 12
    # The last to note is of course not who noted first, so each day is looked at when it is new, too.
    assert all(row["noted_by"] != row["attached_by"] for row in rows)


def test_a_day_is_new_in_the_calendar_only_when_its_partition_is_not(calls: Calls, now: datetime) -> None:
    calls.create_queue(calls.register(), history_days=30)
    known = set(days_of(calls))
    seen = 0
    for hours in range(0, 72, 12):
        for _ in range(3):
            turn(calls, now + timedelta(hours=hours))
            rows = [row for row in calls.query(NOTED_BY) if row["day"] not in known]
            assert all(row["noted_by"] != row["attached_by"] for row in rows), rows
            known |= {row["day"] for row in rows}
            seen += len(rows)
    assert seen >= 8


def test_days_are_not_noted_before_who_makes_partitions_has_told_all(
    calls: Calls, open_calls: Open, now: datetime
) -> None:
    """That a commit can be seen is not enough: it tells others afterwards, and ends its locks last of all."""
    turns(calls, now)
    before = days_of(calls)
    turn(calls, now + DAY)
    assert days_of(calls) == before
    with open_calls() as committing, committing.connection.transaction():
        committing.connection.execute("LOCK TABLE ONLY telesto.history IN SHARE UPDATE EXCLUSIVE MODE")
        turns(calls, now + DAY)
        assert days_of(calls) == before
    turns(calls, now + DAY)
    assert set(days_of(calls)) > set(before)


def test_reads_of_an_open_transaction_find_the_partitions_that_were_made_meanwhile(
    calls: Calls, client: Client, queue: int, other: psycopg.Connection, now: datetime
) -> None:
    """It holds all locks that it needs, so taking them again tells it nothing."""
    ids = calls.put_bodies(client, queue, b"x", b"x", b"x")
    other.execute(READ.encode(), (client.client_id, queue))
    for later in (0, 1):
        turns(calls, now + later * DAY)
        other.execute(READ.encode(), (client.client_id, queue))
    other.commit()
    assert drop_on(calls, ids[0]) == date(2000, 1, 1)
    assert drop_on(calls, ids[1]) == drop_on(calls, ids[2]) == now.date() + 8 * DAY


@pytest.mark.parametrize("isolation", ["READ COMMITTED", "REPEATABLE READ"])
def test_acknowledgements_of_an_open_transaction_find_the_partitions_that_were_made_meanwhile(
    calls: Calls, client: Client, queue: int, other: psycopg.Connection, now: datetime, isolation: str
) -> None:
    ids = calls.put_bodies(client, queue, b"x", b"x", b"x")
    consuming = Consuming(calls)
    consumer = consuming.join(client, queue)
    leases = {lease.message_id: lease.ref for lease in consuming.claim(consumer, count=3).leases}
    acknowledge = "SELECT telesto.ack(%s, %s, %s)"
    other.execute(f"SET TRANSACTION ISOLATION LEVEL {isolation}".encode())
    other.execute(acknowledge, leases[ids[0]])
    for later in (0, 1):
        turns(calls, now + later * DAY)
        other.execute(acknowledge, leases[ids[later + 1]])
    other.commit()
    assert all(kept(calls, message_id) for message_id in ids)
    assert find_contradictions(calls.connection) == []


# --- kept for long enough, though noted later -------------------------------------------------------
def test_a_partition_that_nobody_is_sent_to_yet_does_not_let_the_last_one_go(
    calls: Calls, client: Client, queue: int, now: datetime
) -> None:
    """Between the two transactions the last one that is noted takes what has none of its own."""
    turns(calls, now - 60 * DAY)
    turn(calls, now)
    message_id = confirmed(calls, client, queue)
    assert drop_on(calls, message_id) < now.date()
    # As if nobody could note anything for hours.
    for hours in (0, 2, 4):
        calls.row("drop_history", now + timedelta(hours=hours))
    assert kept(calls, message_id)
    turns(calls, now)
    turns(calls, now + 7 * DAY)
    turns(calls, now + 7 * DAY + timedelta(hours=2))
    assert kept(calls, message_id)
    turns(calls, now + 20 * DAY)
    turns(calls, now + 20 * DAY + timedelta(hours=2))
    assert not kept(calls, message_id)


def test_what_ends_before_a_longer_time_has_its_days_is_kept_as_long_and_nothing_else_is(
    calls: Calls, client: Client, now: datetime
) -> None:
    queue, usual = calls.create_queue(client), calls.create_queue(client)
    turns(calls, now)
    last = max(days_of(calls))
    assert calls.numbered("update_queue", client, queue, Jsonb({"history_days": 90}))["error"] is None
    early = confirmed(calls, client, queue)
    assert drop_on(calls, early) == last
    turns(calls, now)
    late = confirmed(calls, client, queue)
    assert drop_on(calls, late) == now.date() + 91 * DAY
    # What the other queues would send there goes to the next day.
    assert last not in days_of(calls)
    assert max(day for day in days_of(calls) if day < now.date() + 50 * DAY) == last - DAY
    normal = confirmed(calls, client, usual)
    for days in range(1, 60):
        turns(calls, now + days * DAY)
    assert last + DAY in days_of(calls) or not kept(calls, normal)
    turns(calls, now + 90 * DAY)
    turns(calls, now + 90 * DAY + timedelta(hours=2))
    assert [kept(calls, each) for each in (early, late, normal)] == [True, True, False]
    for days in (93, 95):
        turns(calls, now + days * DAY)
        turns(calls, now + days * DAY + timedelta(hours=2))
    assert [kept(calls, each) for each in (early, late)] == [False, False]
    assert find_contradictions(calls.connection) == []


def test_days_wait_for_a_change_of_settings_that_is_under_way(
    calls: Calls, client: Client, queue: int, open_calls: Open, now: datetime
) -> None:
    """For how long the last partition is to be kept depends on it; and it is not held up itself."""
    turns(calls, now - 60 * DAY)
    turn(calls, now)
    before = days_of(calls)
    with open_calls() as changing, changing.connection.transaction():
        changing.query("SELECT telesto.update_queue(%s, history_days => 90)", queue)
        turns(calls, now)
        assert days_of(calls) == before
    message_id = confirmed(calls, client, queue)
    turns(calls, now)
    assert set(days_of(calls)) > set(before)
    turns(calls, now + 89 * DAY)
    turns(calls, now + 89 * DAY + timedelta(hours=2))
    assert kept(calls, message_id)


def test_a_second_job_neither_waits_for_the_first_nor_does_its_work(
    calls: Calls, open_calls: Open, now: datetime
) -> None:
    """Two that touch the same partitions in different orders would end each other by a deadlock."""
    calls.create_queue(calls.register(), history_days=1)
    turns(calls, now)
    due = now + 4 * DAY
    calls.connection.execute("SET lock_timeout = '1s'")
    with open_calls() as first, first.connection.transaction():
        assert turn(first, due)["more"]
        for moment in (due, now, due + DAY):
            assert turn(calls, moment) == {"done": 0, "more": False}
    turns(calls, due + timedelta(hours=2))
    assert find_contradictions(calls.connection) == []
    assert now.date() + 2 * DAY not in days_of(calls)


def test_settings_from_sql_hold_up_neither_each_other_nor_the_partitions(
    calls: Calls, open_calls: Open, now: datetime
) -> None:
    """An application may leave its transaction open for as long as it likes."""
    turns(calls, now)
    calls.connection.execute("SET lock_timeout = '1s'")
    create = "SELECT telesto.create_queue(%s, history_days => %s)"
    with open_calls() as one, one.connection.transaction():
        one.query(create, "one", 20)
        calls.query(create, "two", 40)
        with calls.connection.transaction():
            calls.connection.execute("LOCK TABLE ONLY telesto.history IN SHARE UPDATE EXCLUSIVE MODE NOWAIT")
        turn(calls, now + 2 * DAY)
    turns(calls, now + 2 * DAY)
    assert {now.date() + days * DAY for days in (10, 23, 43)} <= set(days_of(calls))
