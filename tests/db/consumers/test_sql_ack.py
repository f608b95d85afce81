"""telesto.ack: an application acknowledges in its own transaction, against all others who want the lease."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from consumer_calls import LEASE_LOST, Consumer, Consuming, Lease
from procedure_calls import Calls, Client, Element, Put, until_blocked

pytestmark = pytest.mark.usefixtures("consistent")

ACK = "SELECT telesto.ack(%s, %s, %s)"
WORK = "INSERT INTO work VALUES (%s)"
HELD = "SELECT classid::bigint >> 24 AS kind FROM pg_locks WHERE locktype = 'advisory' AND pid = %s"
ACKS_OF_LEASES = 6

Open = Callable[[], Calls]


@pytest.fixture
def queue(calls: Calls, client: Client) -> int:
    queue = calls.create_queue(client)
    calls.query("UPDATE telesto.queues SET backoff_ms = 0 RETURNING 1")
    return queue


@pytest.fixture
def application(database_url: str) -> Iterator[psycopg.Connection]:
    """The application's connection, in the middle of a transaction from its first statement on."""
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE work (message_id bigint)")
        connection.commit()
        yield connection


@pytest.fixture(autouse=True)
def impatient(calls: Calls) -> None:
    """A call of the middleware that waits for the application's transaction fails."""
    calls.connection.execute("SET lock_timeout = '30s'")


def leased(calls: Calls, consuming: Consuming, consumer: Consumer, count: int = 1) -> list[Lease]:
    calls.put_bodies(consumer.client, consumer.queue, *[b"%d" % number for number in range(count)])
    leases = consuming.claim(consumer, count=count).leases
    assert len(leases) == count
    return leases


def begin(application: psycopg.Connection, lease: Lease) -> None:
    """Work on a message and acknowledge it, without a commit."""
    application.execute(ACK, lease.ref)
    application.execute(WORK, (lease.message_id,))


def work_done(calls: Calls) -> list[int]:
    return [row["message_id"] for row in calls.query("SELECT message_id FROM work")]


def refused(application: psycopg.Connection, lease: Lease) -> str | None:
    """The work and the acknowledgement are refused together; returns the SQLSTATE."""
    application.execute(WORK, (lease.message_id,))
    with pytest.raises(psycopg.Error) as caught:
        application.execute(ACK, lease.ref)
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        application.execute("SELECT 1")
    application.rollback()
    return caught.value.sqlstate


def test_the_work_and_the_acknowledgement_commit_together(
    calls: Calls, consuming: Consuming, consumer: Consumer, application: psycopg.Connection
) -> None:
    (lease,) = leased(calls, consuming, consumer)
    begin(application, lease)
    assert calls.query("SELECT 1 FROM telesto.leases") != []
    application.commit()
    assert calls.query("SELECT 1 FROM telesto.leases") == []
    assert work_done(calls) == [lease.message_id]
    (record,) = calls.query("SELECT * FROM telesto.history")
    assert (record["message_id"], record["ending"]) == (lease.message_id, "acknowledged")
    assert (record["client_id"], record["consumer_id"]) == (consumer.client.client_id, consumer.consumer_id)
    assert record["number"] == lease.lease_id
    assert consuming.ack(consumer.client, lease) == [LEASE_LOST]


def test_a_rollback_leaves_the_lease_as_it_was(
    calls: Calls, consuming: Consuming, consumer: Consumer, application: psycopg.Connection
) -> None:
    (lease,) = leased(calls, consuming, consumer)
    begin(application, lease)
    application.rollback()
    assert work_done(calls) == []
    assert calls.query("SELECT 1 FROM telesto.history") == []
    assert consuming.touch(consumer.client, lease) == [None]
    assert consuming.ack(consumer.client, lease) == [None]


def test_what_is_no_lease_is_refused_with_the_work(
    calls: Calls, consuming: Consuming, consumer: Consumer, application: psycopg.Connection
) -> None:
    first, second, third = leased(calls, consuming, consumer, 3)
    consuming.ack(consumer.client, first)
    assert refused(application, first) == "TL027"
    consuming.nack(consumer.client, second)
    (again,) = consuming.claim(consumer).leases
    assert refused(application, second) == "TL027"
    begin(application, again)
    assert refused(application, again) == "TL027"
    application.execute(ACK, again.ref)
    application.commit()
    assert work_done(calls) == []
    assert calls.query("SELECT message_id FROM telesto.leases") == [{"message_id": third.message_id}]


@pytest.mark.parametrize("missing", range(3))
def test_all_three_names_are_needed(application: psycopg.Connection, missing: int) -> None:
    names: list[int | None] = [1, 1, 1]
    names[missing] = None
    with pytest.raises(psycopg.Error, match="must be given") as caught:
        application.execute(ACK, names)
    assert caught.value.sqlstate == "TL012"


# ---------------------------------------------------------------------------------- the time of the lease
@pytest.mark.parametrize("committed", [True, False])
def test_a_lease_that_runs_out_during_the_transaction_stays_until_it_ends(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    consumer: Consumer,
    application: psycopg.Connection,
    committed: bool,
) -> None:
    (lease,) = leased(calls, consuming, consumer)
    consuming.keep(lease, begun_ms=0)
    other = consuming.join(client, consumer.queue)
    consuming.age(31)
    begin(application, lease)
    for _ in range(3):
        assert consuming.sweep()["done"] == 0
        assert consuming.claim(other).leases == []
    if committed:
        application.commit()
    else:
        application.rollback()
    assert consuming.sweep()["done"] == (0 if committed else 1)
    assert [again.message["attempt"] for again in consuming.claim(other).leases] == ([] if committed else [2])
    assert work_done(calls) == ([lease.message_id] if committed else [])
    assert consuming.lost() == ([] if committed else [lease.ref])


def test_a_lease_that_is_held_for_long_does_not_keep_the_sweep_from_moving_on(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, application: psycopg.Connection
) -> None:
    held, late = leased(calls, consuming, consumer, 2)
    consuming.age(3600)
    begin(application, held)
    assert consuming.sweep()["done"] == 1
    assert consuming.lost() == [late.ref]
    looked = "SELECT position / 1e6 > extract(epoch FROM now()) - 1800 FROM telesto.jobs WHERE job = 'leases'"
    assert calls.scalar(looked)
    application.rollback()
    # A minute later.
    calls.query("UPDATE telesto.jobs SET position = position - 60000000 WHERE job = 'leases' RETURNING 1")
    assert consuming.sweep()["done"] == 1
    assert consuming.lost() == [held.ref]


def test_a_lease_that_ran_out_before_is_not_acknowledged(
    calls: Calls,
    consuming: Consuming,
    consumer: Consumer,
    application: psycopg.Connection,
    pool: ThreadPoolExecutor,
    open_calls: Open,
) -> None:
    (lease,) = leased(calls, consuming, consumer)
    consuming.age(3600)
    observer = open_calls()
    with calls.connection.transaction():
        assert consuming.sweep()["done"] == 1
        work = pool.submit(refused, application, lease)
        while not observer.scalar(
            "SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'",
            application.info.backend_pid,
        ):
            assert not work.done()
    assert work.result() == "TL027"
    assert work_done(calls) == []
    (again,) = consuming.claim(consumer).leases
    begin(application, again)
    application.commit()
    assert work_done(calls) == [lease.message_id]


@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_other_isolation_levels_are_as_safe(
    calls: Calls, consuming: Consuming, consumer: Consumer, application: psycopg.Connection, level: str
) -> None:
    first, second, third, fourth = leased(calls, consuming, consumer, 4)
    application.isolation_level = psycopg.IsolationLevel[level.replace(" ", "_")]
    begin(application, first)
    consuming.touch(consumer.client, second)
    consuming.ack(consumer.client, third)
    begin(application, fourth)
    application.commit()
    for lease in (second, third):
        application.execute("SELECT 1")
        consuming.touch(consumer.client, second)
        if lease is third:
            assert refused(application, lease) == "TL027"
        else:
            assert refused(application, lease) == "40001"
    assert work_done(calls) == [first.message_id, fourth.message_id]
    begin(application, second)
    application.commit()


# ---------------------------------------------------------------------------------- whom it holds up
def test_an_open_transaction_holds_up_nobody(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, application: psycopg.Connection
) -> None:
    lease, *others = leased(calls, consuming, consumer, 8)
    consuming.age(3600)
    begin(application, lease)
    held = calls.query(HELD, application.info.backend_pid)
    assert [row["kind"] for row in held] == [ACKS_OF_LEASES]
    assert consuming.touch(client, lease, others[0]) == [None, None]
    assert consuming.ack(client, others[0], lease, others[1]) == [None, LEASE_LOST, None]
    assert consuming.nack(client, others[2], lease) == [None, LEASE_LOST]
    calls.put_bodies(client, consumer.queue, b"new")
    assert consuming.claim(consumer, count=9).bodies == [b"3", b"new"]
    assert consuming.sweep()["done"] == 4
    consuming.leave(consumer)
    application.commit()
    heir = consuming.join(client, consumer.queue)
    assert consuming.claim(heir, count=20).bodies == [b"3", b"4", b"5", b"6", b"7", b"new"]


def test_a_takeover_leaves_it_to_the_transaction(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, application: psycopg.Connection
) -> None:
    first, second = leased(calls, consuming, consumer, 2)
    begin(application, first)
    successor = calls.take_over(client)
    assert consuming.sweep()["done"] == 1
    heir = consuming.join(successor, consumer.queue)
    assert consuming.claim(heir, count=9).bodies == [second.body]
    application.commit()
    assert consuming.claim(heir, count=9).bodies == []
    assert work_done(calls) == [first.message_id]
    assert refused(application, second) == "TL027"


@pytest.mark.parametrize("answer", ["ack", "touch"])
def test_a_middleware_waits_for_what_is_only_touched(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    consumer: Consumer,
    pool: ThreadPoolExecutor,
    open_calls: Open,
    answer: str,
) -> None:
    first, second = leased(calls, consuming, consumer, 2)
    toucher, observer = Consuming(open_calls(), "127.0.0.1:7003"), open_calls()
    with toucher.calls.connection.transaction():
        assert toucher.touch(client, first) == [None]
        work = pool.submit(getattr(consuming, answer), client, second, first)
        until_blocked(observer, calls)
    assert work.result() == [None, None]


@pytest.mark.parametrize("committed", [True, False])
@pytest.mark.parametrize("ends", ["it is lost", "its middleware dies", "its client goes on elsewhere"])
def test_what_is_held_as_its_consumer_ends_comes_back_without_a_commit(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    consumer: Consumer,
    application: psycopg.Connection,
    ends: str,
    committed: bool,
) -> None:
    """Soon, whatever the lease. A process that is killed may end before PostgreSQL has rolled back."""
    held, other = leased(calls, consuming, consumer, 2)
    begin(application, held)
    survivor = Consuming(calls, "127.0.0.1:7002")
    if ends == "it is lost":
        consuming.leave(consumer, counted=True, begun=[held])
    elif ends == "its middleware dies":
        calls.value("unregister_middleware", consuming.middleware)
    heir = survivor.join(calls.take_over(client), consumer.queue)
    survivor.sweep()
    assert survivor.claim(heir, count=9).bodies == [other.body]
    assert calls.statistics(consumer.queue)["leased"] == 2
    assert survivor.sweep()["done"] == 0
    if committed:
        application.commit()
    else:
        application.rollback()
    assert survivor.sweep()["done"] == (0 if committed else 1)
    back = survivor.claim(heir, count=9).leases
    assert [(lease.message_id, lease.message["attempt"], lease.message["redelivered"]) for lease in back] == (
        [] if committed else [(held.message_id, 2, True)]
    )
    assert calls.query("SELECT 1 FROM telesto.ended_consumers") == []
    assert calls.statistics(consumer.queue)["leased"] == (1 if committed else 2)


def test_a_consumer_that_leaves_while_its_transaction_is_open_does_not_count(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, application: psycopg.Connection
) -> None:
    (lease,) = leased(calls, consuming, consumer)
    begin(application, lease)
    consuming.leave(consumer)
    application.rollback()
    assert consuming.sweep()["done"] == 1
    (back,) = consuming.claim(consuming.join(client, consumer.queue)).leases
    assert (back.message_id, back.message["attempt"]) == (lease.message_id, 1)


# ---------------------------------------------------------------------------------- partitions
@pytest.mark.parametrize("committed", [True, False])
def test_a_partition_goes_on_when_the_transaction_ends(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    consumer: Consumer,
    application: psycopg.Connection,
    committed: bool,
) -> None:
    calls.put([Put(client, [Element(consumer.queue, b"a%d" % i, partition="a") for i in range(3)])])
    first, *_ = consuming.claim(consumer, count=3).leases
    heir = consuming.join(client, consumer.queue)
    begin(application, first)
    consuming.leave(consumer, counted=True)
    for _ in range(3):
        consuming.sweep("partitions")
        assert consuming.claim(heir, count=3).leases == []
    if committed:
        application.commit()
        assert consuming.claim(heir, count=3).bodies == [b"a1", b"a2"]
    else:
        application.rollback()
        assert consuming.claim(heir, count=3).bodies == []
        consuming.sweep()
        assert consuming.claim(heir, count=3).bodies == [b"a0", b"a1", b"a2"]
