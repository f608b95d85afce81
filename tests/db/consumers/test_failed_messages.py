"""Messages that failed, at the procedures: another consumer gets them, where there is one."""

import pytest

from consumer_calls import Consumer, Consuming, Lease, names_of, put_in_partitions
from procedure_calls import Calls, Client

pytestmark = pytest.mark.usefixtures("consistent")

HOUR_MS = 3_600_000


@pytest.fixture
def first(consuming: Consuming, client: Client, queue: int) -> Consumer:
    return consuming.join(client, queue)


@pytest.fixture
def second(consuming: Consuming, client: Client, queue: int) -> Consumer:
    return consuming.join(client, queue)


def claimed_by(consuming: Consuming, *consumers: Consumer, count: int = 1) -> list[Lease]:
    keep_on(consuming.calls)
    return consuming.claim(*consumers, count=count).leases


def keep_on(calls: Calls) -> None:
    """What is kept for others is kept for long: the machine may be slow."""
    calls.connection.execute(
        "UPDATE telesto.messages SET kept_until = clock_timestamp() + interval '20 seconds'"
        " WHERE kept_until IS NOT NULL"
    )


def wait_is_over(calls: Calls) -> None:
    calls.connection.execute(
        "UPDATE telesto.messages SET kept_until = clock_timestamp() WHERE kept_until IS NOT NULL"
    )


def fail(consuming: Consuming, client: Client, consumer: Consumer, name: str, **options: int) -> None:
    (lease,) = claimed_by(consuming, consumer)
    assert lease.body.decode() == name
    assert consuming.nack(client, lease, **options) == [None]


# ---------------------------------------------------------------------------------- without a key
@pytest.mark.parametrize("way", ["given back", "lease ends"])
def test_a_message_that_failed_is_for_another_consumer(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer, way: str
) -> None:
    calls.put_bodies(client, first.queue, b"bad", b"good", b"better")
    (bad,) = claimed_by(consuming, first)
    if way == "given back":
        consuming.nack(client, bad)
    else:
        consuming.keep(bad, begun_ms=0)
        consuming.age(3_600)
        consuming.sweep()
    keep_on(calls)
    claimed = consuming.claim(first, count=1)
    assert (names_of(claimed.leases), claimed.more) == (["good"], True)
    assert names_of(claimed_by(consuming, first)) == ["better"]
    claimed = consuming.claim(first)
    assert (claimed.leases, claimed.more) == ([], True)
    (again,) = claimed_by(consuming, second)
    assert (again.body, again.message["attempt"]) == (b"bad", 2)
    assert calls.statistics(first.queue)["depth"] == 0


def test_two_consumers_take_turns_until_it_dies(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad")
    order = []
    for attempt in range(1, 6):
        # Each time the one that had it last asks first.
        (lease,) = claimed_by(consuming, first, second, count=3)
        assert lease.message["attempt"] == attempt
        order.append(lease.consumer.consumer_id)
        consuming.nack(client, lease)
    ids = [first.consumer_id, second.consumer_id]
    assert order == [ids[0], ids[1], ids[0], ids[1], ids[0]]
    assert calls.scalar("SELECT count(*) FROM telesto.dead_letters") == 1


def test_in_one_claim_each_gets_what_failed_with_the_other(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, *(b"%d" % i for i in range(6)))
    leases = claimed_by(consuming, first, second, count=3)
    failed_with = {lease.body: lease.consumer.consumer_id for lease in leases}
    consuming.nack(client, *leases)
    again = claimed_by(consuming, first, second, count=3)
    assert len(again) == 6
    assert all(lease.consumer.consumer_id != failed_with[lease.body] for lease in again)


def test_the_only_consumer_gets_it_again(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad", b"good")
    for _ in range(4):
        fail(consuming, client, first, "bad")
    assert names_of(claimed_by(consuming, first, count=2)) == ["bad", "good"]


@pytest.mark.parametrize("way", ["leaves", "slow", "paused", "has no room"])
def test_nobody_waits_for_one_that_does_not_come(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer, way: str
) -> None:
    calls.put_bodies(client, first.queue, b"bad")
    fail(consuming, client, first, "bad")
    assert claimed_by(consuming, first) == []
    if way == "leaves":
        consuming.leave(second)
    elif way == "slow":
        consuming.change(second, slow=True)
    elif way == "paused":
        consuming.change(second, paused=True)
    else:
        wait_is_over(calls)
        assert names_of(consuming.claim(first).leases) == ["bad"]
        return
    assert names_of(claimed_by(consuming, first)) == ["bad"]


@pytest.mark.parametrize("attempt", [1, 2, 3, 4])
def test_how_long_it_is_kept_for_others(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, attempt: int
) -> None:
    calls.put_bodies(client, first.queue, b"bad")
    for _ in range(attempt):
        fail(consuming, client, first, "bad", delay_ms=0)
    kept = calls.scalar(
        "SELECT kept_until - clock_timestamp() <= interval '2 seconds'"
        " AND kept_until <= clock_timestamp() + interval '30 seconds' FROM telesto.messages"
    )
    assert kept is (attempt < 4)


def test_the_wait_begins_when_it_is_due(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad")
    fail(consuming, client, first, "bad", delay_ms=HOUR_MS)
    assert calls.scalar("SELECT kept_until - due_at = interval '2 seconds' FROM telesto.delayed_messages")
    calls.connection.execute("UPDATE telesto.delayed_messages SET due_at = clock_timestamp()")
    assert consuming.sweep("delayed")["done"] == 1
    assert claimed_by(consuming, first) == []
    assert names_of(claimed_by(consuming, second)) == ["bad"]


def test_a_clock_that_was_set_back_keeps_nothing(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad")
    fail(consuming, client, first, "bad")
    calls.connection.execute("UPDATE telesto.messages SET kept_until = clock_timestamp() + interval '1 hour'")
    assert names_of(consuming.claim(first).leases) == ["bad"]


def test_another_one_that_gives_it_back_untried_changes_nothing(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    third = consuming.join(client, first.queue)
    calls.put_bodies(client, first.queue, b"bad")
    fail(consuming, client, first, "bad")
    assert names_of(claimed_by(consuming, second)) == ["bad"]
    consuming.leave(second)
    assert claimed_by(consuming, first) == []
    (lease,) = claimed_by(consuming, third)
    assert lease.message["attempt"] == 2


def test_what_is_too_large_for_the_other_holds_nothing_up(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad" * 100, b"good", b"better")
    fail(consuming, client, first, "bad" * 100)
    keep_on(calls)
    claimed = consuming.claim(first, second, largest=10)
    assert (names_of(claimed.leases), claimed.more) == (["good", "better"], True)


def test_many_that_wait_for_others_are_passed_over_within_bounds(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    for _ in range(3):
        calls.put_bodies(client, first.queue, *[b"bad"] * 200)
    calls.put_bodies(client, first.queue, b"low", priority=1)
    calls.put_bodies(client, first.queue, b"high", priority=9)
    leases = claimed_by(consuming, first, count=601)
    high = leases.pop(0)
    consuming.nack(client, *leases)
    consuming.nack(client, high, failed=False)
    got = claimed_by(consuming, first, count=5)
    assert names_of(got) == ["high", "low"]
    again = claimed_by(consuming, second, count=700)
    assert [lease.message_id for lease in again] == [lease.message_id for lease in leases]


def test_plain_readers_get_what_failed(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad", b"good")
    fail(consuming, client, first, "bad")
    assert names_of(claimed_by(consuming, first)) == ["good"]
    assert calls.take_one(client, first.queue).bodies == [b"bad"]


# ---------------------------------------------------------------------------------- partitions
def owner_of(consuming: Consuming, *consumers: Consumer) -> tuple[int, Lease]:
    """Claim until something comes."""
    while True:
        claimed = consuming.claim(*consumers)
        if claimed.leases:
            (lease,) = claimed.leases
            return lease.consumer.consumer_id, lease
        assert claimed.more


def test_a_partition_moves_after_three_failures_in_a_row_and_before_the_last_attempt(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    put_in_partitions(calls, client, first.queue, "a1", "a2")
    owners = []
    for attempt in range(1, 6):
        owner, lease = owner_of(consuming, first, second)
        assert (lease.body, lease.message["attempt"]) == (b"a1", attempt)
        owners.append(owner)
        consuming.nack(client, lease)
    ids = [first.consumer_id, second.consumer_id]
    assert owners == [ids[0], ids[0], ids[0], ids[1], ids[0]]
    assert calls.scalar("SELECT attempt FROM telesto.dead_letters") == 5
    owner, lease = owner_of(consuming, first, second)
    assert (owner, lease.body) == (first.consumer_id, b"a2")


def test_a_partition_moves_whoever_asks_and_however_it_comes_back(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    """The consumer that failed has no credit left: it is the other's middleware that asks."""
    put_in_partitions(calls, client, first.queue, "a1")
    for _ in range(2):
        fail(consuming, client, first, "a1")
    (lease,) = consuming.claim(first).leases
    consuming.nack(client, lease, delay_ms=HOUR_MS)
    put_in_partitions(calls, client, first.queue, "b1", "c1", "d1")
    consuming.claim(first, slots=[])
    calls.connection.execute("UPDATE telesto.keyed_messages SET due_at = clock_timestamp()")
    calls.connection.execute("UPDATE telesto.partitions SET place = 1 WHERE line = 4")
    assert consuming.sweep("due_partitions")["queue_ids"] == [first.queue]
    names = []
    while leases := consuming.claim(second, count=9).leases:
        names += names_of(leases)
    assert "a1" in names
    assert len(names) < 4


def test_the_load_is_not_evened_out_with_what_failed(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    put_in_partitions(calls, client, first.queue, "a1", "b1")
    (mine,) = consuming.claim(first).leases
    (others,) = consuming.claim(second).leases
    for _ in range(2):
        consuming.nack(client, mine)
        (mine,) = consuming.claim(first).leases
    consuming.nack(client, mine)
    for _ in range(5):  # it has none, the other two
        assert consuming.claim(first).leases == []
    consuming.ack(client, others)
    assert names_of(consuming.claim(second).leases) == [mine.body.decode()]


@pytest.mark.parametrize("way", ["leaves", "slow", "paused", "was never there"])
def test_a_partition_stays_where_there_is_no_other(
    calls: Calls, consuming: Consuming, client: Client, queue: int, first: Consumer, way: str
) -> None:
    second = None if way == "was never there" else consuming.join(client, queue)
    put_in_partitions(calls, client, queue, "a1", "a2")
    for _ in range(3):
        fail(consuming, client, first, "a1")
    if second is not None:
        consuming.claim(first, slots=[])  # the other one has it now
        if way == "leaves":
            consuming.leave(second)
        else:
            consuming.change(second, slow=way == "slow", paused=way == "paused")
    assert names_of([owner_of(consuming, first)[1]]) == ["a1"]


def test_when_the_other_leaves_a_third_one_gets_it(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    put_in_partitions(calls, client, first.queue, "a1")
    for _ in range(3):
        fail(consuming, client, first, "a1")
    third = consuming.join(client, first.queue)
    consuming.claim(first, slots=[])
    consuming.leave(second)
    assert consuming.claim(first).leases == []
    assert names_of(consuming.claim(third).leases) == ["a1"]


def test_one_that_failed_behind_another_is_not_given_with_it(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    put_in_partitions(calls, client, first.queue, "a1", "a2")
    for _ in range(3):
        leases = consuming.claim(first, count=2).leases
        assert names_of(leases) == ["a1", "a2"]
        consuming.nack(client, leases[1])
        consuming.nack(client, leases[0], failed=False)
    (lease,) = consuming.claim(first, count=2).leases
    assert lease.body == b"a1"
    calls.connection.execute("UPDATE telesto.partitions SET place = 1 WHERE line = 4")
    consuming.sweep("due_partitions")
    # Nothing moves before what is in flight is answered.
    assert consuming.claim(first, second, count=2).leases == []
    consuming.ack(client, lease)
    assert names_of(consuming.claim(second, count=2).leases) == ["a2"]


def test_a_claim_tells_that_something_is_kept_for_others(
    calls: Calls, consuming: Consuming, client: Client, first: Consumer, second: Consumer
) -> None:
    calls.put_bodies(client, first.queue, b"bad")
    fail(consuming, client, first, "bad")
    keep_on(calls)
    rows = calls.rows(
        "claim_batch",
        *([first.queue], [first.consumer_id], [client.client_id], [client.session], [0]),
        *([1 << 20], [1 << 20], [False], [1], 1 << 20),
    )
    assert [(row["kind"], row["request"]) for row in rows] == [("more", None)]
