"""Steps of the database's clock: what was to happen some time later happens then, however the clock was set.

A clock that is set cannot be had in a test. Moving all stored times the other way is the same.
"""

from typing import Any

import psycopg
import pytest

from consumer_calls import Consumer, Consuming, put_in_partitions
from procedure_calls import Calls, Client

pytestmark = pytest.mark.usefixtures("consistent")

HOUR_MS = 3_600_000
SECOND_MIDDLEWARE = "127.0.0.1:7002"
#: What belongs to a time, and where it stands.
TIMES = {
    "leases": ("deadline",),
    "delayed_messages": ("due_at", "expires_at"),
    "keyed_messages": ("due_at", "expires_at"),
    "consumers": ("slow_until",),
    "middlewares": ("heartbeat_at",),
    "jobs": ("deadline",),
}
EARLIER = "SELECT clock_timestamp() - interval '1 hour' + interval '1 second'"
LEFT = "SELECT extract(epoch FROM min({column}) - clock_timestamp())::float8 FROM telesto.{table}"


def look(calls: Calls) -> Any:
    """What a middleware sees of the clock."""
    return calls.connection.execute("SELECT * FROM telesto.look_at_clock()").fetchone()


class Clock:
    """The database's clock, and what a middleware saw of it before it was set."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.before = look(calls)
        self.step_ms = 0

    def step(self, milliseconds: int) -> None:
        """Sets the clock."""
        self.step_ms = milliseconds
        for table, columns in TIMES.items():
            for column in columns:
                self._calls.connection.execute(
                    f"UPDATE telesto.{table} SET {column} = {column} - make_interval(secs => %s)".encode(),
                    (milliseconds / 1000,),
                )
        self._calls.connection.execute(
            b"UPDATE telesto.partitions SET place = place - %d WHERE line = 4" % (milliseconds * 1000)
        )
        self._calls.connection.execute(
            b"UPDATE telesto.jobs SET position = greatest(0, position - %d)"
            b" WHERE job IN ('leases', 'delayed', 'due_partitions', 'expired', 'expired_keyed')"
            % (milliseconds * 1000)
        )

    def note(self) -> bool:
        """Notes the step, as the middleware does that noticed it."""
        return bool(
            self._calls.value("note_clock_step", self.step_ms, self.before["steps"], self.before["last_id"])
        )


def left_s(calls: Calls, table: str, column: str) -> float:
    """How long it takes until the first thing happens."""
    return float(calls.scalar(LEFT.format(table=table, column=column)))


def let_half_an_hour_pass(calls: Calls) -> None:
    """Let a little more than that go by for what is not due."""
    for table in ("delayed_messages", "keyed_messages"):
        calls.connection.execute(
            f"UPDATE telesto.{table} SET due_at = due_at - interval '31 minutes'".encode()
        )
    calls.connection.execute("UPDATE telesto.partitions SET place = place - 31 * 60 * 1000000 WHERE line = 4")
    calls.connection.execute(
        "UPDATE telesto.jobs SET position = 0 WHERE job IN ('delayed', 'due_partitions')"
    )


def sweep_until(consuming: Consuming, job: str, latest: Any) -> int:
    """Does a turn of a job that knows how far the clock may be; returns how much was done."""
    row = consuming.calls.row("sweep", consuming.middleware, job, 1_000, 30.0, 604_800.0, latest)
    assert row["elected"]
    return int(row["done"])


@pytest.mark.parametrize("hours", [1, -1])
def test_leases_begin_anew_and_then_end_in_their_time(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, hours: int
) -> None:
    calls.put_bodies(client, queue, b"one", b"two")
    leases = consuming.claim(consumer, count=2).leases
    assert consuming.sweep()["done"] == 0
    clock = Clock(calls)
    clock.step(hours * HOUR_MS)
    if hours > 0:
        # The middleware knows that no hour has passed.
        assert sweep_until(consuming, "leases", calls.scalar(EARLIER)) == 0
    assert clock.note()
    assert consuming.sweep()["done"] == 0
    assert 20 < left_s(calls, "leases", "deadline") <= 30
    assert consuming.ack(client, leases[0]) == [None]
    consuming.age(31)
    assert consuming.sweep()["done"] == 1
    assert consuming.ack(client, leases[1]) != [None]


@pytest.mark.parametrize("hours", [1, -1])
def test_what_is_delayed_comes_in_its_time(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, hours: int
) -> None:
    calls.put_bodies(client, queue, b"soon", delay_ms=HOUR_MS // 2)
    assert consuming.sweep("delayed")["done"] == 0
    clock = Clock(calls)
    clock.step(hours * HOUR_MS)
    calls.put_bodies(client, queue, b"put since", delay_ms=2 * HOUR_MS)
    if hours > 0:
        assert sweep_until(consuming, "delayed", calls.scalar(EARLIER)) == 0
    assert clock.note()
    assert consuming.sweep("delayed")["done"] == 0
    assert 1_700 < left_s(calls, "delayed_messages", "due_at") <= 1_800
    let_half_an_hour_pass(calls)
    assert consuming.sweep("delayed")["done"] == 1
    assert consuming.claim(consumer, count=5).bodies == [b"soon"]
    assert 5_300 < left_s(calls, "delayed_messages", "due_at") <= 5_400


@pytest.mark.parametrize("hours", [1, -1])
def test_partitions_that_back_off_go_on_in_their_time(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, hours: int
) -> None:
    put_in_partitions(calls, client, queue, "a1")
    (lease,) = consuming.claim(consumer).leases
    consuming.nack(client, lease, delay_ms=HOUR_MS // 2)
    assert consuming.sweep("due_partitions")["done"] == 0
    clock = Clock(calls)
    clock.step(hours * HOUR_MS)
    if hours > 0:
        assert sweep_until(consuming, "due_partitions", calls.scalar(EARLIER)) == 0
    assert clock.note()
    assert consuming.sweep("due_partitions")["done"] == 0
    assert 1_700 < left_s(calls, "keyed_messages", "due_at") <= 1_800
    let_half_an_hour_pass(calls)
    assert consuming.sweep("due_partitions")["done"] == 1
    assert consuming.claim(consumer).bodies == [b"a1"]


def test_what_expires_first_comes_no_later_than_that(
    calls: Calls, client: Client, queue: int, consuming: Consuming
) -> None:
    calls.put_bodies(client, queue, b"short", delay_ms=HOUR_MS // 2, life_ms=HOUR_MS)
    clock = Clock(calls)
    clock.step(HOUR_MS)
    assert clock.note()
    assert calls.scalar("SELECT due_at = expires_at FROM telesto.delayed_messages")


@pytest.mark.parametrize("hours", [1, -1])
def test_a_step_is_noted_once(
    calls: Calls, client: Client, queue: int, consuming: Consuming, hours: int
) -> None:
    calls.put_bodies(client, queue, b"later", delay_ms=3 * HOUR_MS)
    clock = Clock(calls)
    clock.step(hours * HOUR_MS)
    assert clock.note()
    assert not clock.note()
    assert 10_700 < left_s(calls, "delayed_messages", "due_at") <= 10_800
    assert look(calls)["steps"] == clock.before["steps"] + 1


@pytest.mark.parametrize("hours", [1, -1])
def test_middlewares_have_as_long_as_ever_to_show_that_they_live(
    calls: Calls, consuming: Consuming, hours: int
) -> None:
    other = Consuming(calls, SECOND_MIDDLEWARE)
    clock = Clock(calls)
    clock.step(hours * HOUR_MS)
    if hours > 0:
        rows = calls.rows("heartbeat", consuming.middleware, [], 6.0, calls.scalar(EARLIER))
        assert all(row["alive"] for row in rows)
    assert clock.note()
    rows = calls.rows("heartbeat", consuming.middleware, [], 6.0)
    assert all(row["alive"] for row in rows)
    calls.connection.execute(
        "UPDATE telesto.middlewares SET heartbeat_at = heartbeat_at - interval '7 seconds'"
    )
    rows = calls.rows("heartbeat", consuming.middleware, [], 6.0)
    assert {row["middleware_id"]: row["alive"] for row in rows} == {
        consuming.middleware: True,
        other.middleware: False,
    }


@pytest.mark.parametrize("job", ["leases", "topics"])
def test_a_job_is_free_although_it_was_given_until_a_time_that_is_far_now(
    calls: Calls, consuming: Consuming, job: str
) -> None:
    other = Consuming(calls, SECOND_MIDDLEWARE)
    assert consuming.sweep(job)["elected"]
    assert not other.sweep(job)["elected"]
    Clock(calls).step(-HOUR_MS)
    assert other.sweep(job)["elected"]
    assert not consuming.sweep(job)["elected"]


def test_a_job_goes_on_although_its_last_look_was_at_a_time_that_is_yet_to_come(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer
) -> None:
    consuming.sweep()
    Clock(calls).step(-HOUR_MS)
    calls.put_bodies(client, queue, b"one")
    consuming.claim(consumer)
    consuming.age(31)
    assert consuming.sweep()["done"] == 1


@pytest.mark.parametrize("hours", [1, -1])
def test_a_slow_consumer_is_slow_for_as_long_as_ever(
    calls: Calls, consuming: Consuming, consumer: Consumer, hours: int
) -> None:
    consuming.change(consumer, slow=True)
    before = left_s(calls, "consumers", "slow_until")
    clock = Clock(calls)
    clock.step(hours * HOUR_MS)
    assert clock.note()
    assert before - 100 < left_s(calls, "consumers", "slow_until") <= before


def test_a_lease_that_is_being_acknowledged_is_not_waited_for(
    calls: Calls,
    other: psycopg.Connection,
    consuming: Consuming,
    client: Client,
    queue: int,
    consumer: Consumer,
) -> None:
    calls.put_bodies(client, queue, b"one")
    consuming.claim(consumer)
    clock = Clock(calls)
    clock.step(-HOUR_MS)
    other.execute("SELECT FROM telesto.leases FOR UPDATE")
    assert clock.note()
    assert left_s(calls, "leases", "deadline") > 3_600
