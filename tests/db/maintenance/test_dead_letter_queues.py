"""Dead letters that go on to the dead letter queue of their queue."""

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from consumer_calls import Consumer, Consuming
from procedure_calls import QUEUE_NOT_EXISTING, Calls, Client, Element, Put

pytestmark = pytest.mark.usefixtures("consistent")

IN_A_RING = 12
REDRIVE = 0x6D
HOUR_MS = 3_600_000
CHANGE = "SELECT telesto.update_queue(%s, dead_letter_queue => name) FROM telesto.queues WHERE queue_id = %s"


@pytest.fixture
def morgue(calls: Calls, client: Client) -> int:
    return calls.create_queue(client)


@pytest.fixture
def queue(calls: Calls, client: Client, morgue: int) -> int:
    return calls.create_queue(client, max_attempts=1, dead_letter_queue=morgue)


def die(
    calls: Calls, consuming: Consuming, client: Client, consumer: Consumer, *elements: Element
) -> list[int]:
    """Put messages and have their only attempt fail; return their ids."""
    calls.put([Put(client, list(elements))])
    leases = [lease for _ in range(2) for lease in consuming.claim(consumer, count=len(elements)).leases]
    assert len(leases) == len(elements)
    consuming.nack(client, *leases)
    return sorted(lease.message_id for lease in leases)


def letters(calls: Calls, queue: int) -> list[bytes]:
    return [bytes(row["body"]) for row in calls.rows("list_dead_letters", queue, 0, 100, 1 << 20)]


def update(calls: Calls, client: Client, queue: int, **settings: Any) -> int | None:
    row = calls.numbered("update_queue", client, queue, Jsonb(settings), number=0)
    return None if row["error"] is None else int(row["error"])


def test_a_dead_message_goes_on_with_all_that_is_known_of_it(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    (dead,) = die(calls, consuming, client, consumer, Element(queue, b"a", priority=7, context=5))
    assert letters(calls, queue) == [b"a"]
    assert consuming.sweep("dead_letters")["queue_ids"] == [morgue]
    assert letters(calls, queue) == []
    (lease,) = consuming.claim(consuming.join(client, morgue)).leases
    message = lease.message
    assert (lease.body, message["priority"], message["context"], message["attempt"]) == (b"a", 7, 5, 1)
    assert (message["sender_id"], message["redelivered"]) == (client.client_id, True)
    origin = dict(message["origin"])
    assert origin.pop("died_at") > 1_700_000_000_000_000
    assert origin == {"queue_id": queue, "message_id": dead, "reason": "failed", "attempt": 1}
    assert lease.message_id > dead


def test_where_a_letter_comes_from_stays_known_over_every_way_back(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    die(calls, consuming, client, consumer, Element(queue, b"a"))
    consuming.sweep("dead_letters")
    undertaker = consuming.join(client, morgue)
    seen = []
    for delay_ms in (0, 60_000, None):
        (lease,) = consuming.claim(undertaker).leases
        seen.append(lease.message["origin"]["queue_id"])
        consuming.nack(client, lease, failed=False, delay_ms=delay_ms)
        calls.connection.execute("UPDATE telesto.delayed_messages SET due_at = clock_timestamp()")
        consuming.sweep("delayed")
    (row,) = calls.rows("browse_messages", client.client_id, morgue, 0, 10, 1 << 20)
    (read,) = calls.take_one(client, morgue).origins
    assert [*seen, row["origin"]["queue_id"], read["queue_id"]] == [queue] * 5
    (handed,) = calls.rows(
        "list_unconfirmed_hand_overs", client.client_id, client.session, 0, 0, 0, 9, 1 << 20
    )
    assert handed["origin"]["queue_id"] == queue


def test_messages_of_partitions_and_for_one_receiver_stay_what_they_are(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    elements = [Element(queue, name, partition="p") for name in (b"p1", b"p2")]
    die(calls, consuming, client, consumer, *elements, Element(queue, b"mine", receiver=client.client_id))
    while consuming.sweep("dead_letters")["done"]:
        pass
    other = calls.register()
    assert calls.take_one(other, morgue, max_messages=9).bodies == []
    assert calls.take_one(client, morgue, max_messages=9).bodies == [b"mine"]
    leases = consuming.claim(consuming.join(other, morgue), count=9).leases
    assert [(lease.body, lease.message["partition_key"]) for lease in leases] == [(b"p1", "p"), (b"p2", "p")]


def test_what_has_expired_goes_on_if_it_is_buried(calls: Calls, consuming: Consuming, client: Client) -> None:
    morgue = calls.create_queue(client)
    for buried in (True, False):
        queue = calls.create_queue(client, dead_letter_queue=morgue, bury_expired=buried, expires_ms=HOUR_MS)
        calls.put_bodies(client, queue, str(buried).encode())
    calls.connection.execute("UPDATE telesto.messages SET expires_at = now() - interval '1 second'")
    consuming.sweep("expired")
    consuming.sweep("dead_letters")
    assert calls.take_one(client, morgue, max_messages=9).bodies == [b"True"]


def test_letters_stay_while_the_dead_letter_queue_is_full(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    assert update(calls, client, morgue, max_messages=2) is None
    die(calls, consuming, client, consumer, *(Element(queue, name) for name in (b"1", b"2", b"3")))
    swept = consuming.sweep("dead_letters")
    assert (swept["done"], swept["more"]) == (2, False)
    assert letters(calls, queue) == [b"3"]
    assert consuming.sweep("dead_letters")["done"] == 0
    assert calls.take_one(client, morgue).bodies == [b"1"]
    assert consuming.sweep("dead_letters")["done"] == 1
    assert (letters(calls, queue), calls.statistics(morgue)["depth"]) == ([], 2)


def test_letters_of_several_queues_share_the_space(
    calls: Calls, consuming: Consuming, client: Client
) -> None:
    morgue = calls.create_queue(client, max_messages=3)
    queues = [calls.create_queue(client, max_attempts=1, dead_letter_queue=morgue) for _ in range(2)]
    for queue in queues:
        consumer = consuming.join(client, queue)
        die(calls, consuming, client, consumer, Element(queue, b"1"), Element(queue, b"2"))
    assert consuming.sweep("dead_letters")["done"] == 3
    assert sum(len(letters(calls, queue)) for queue in queues) == 1


def test_a_turn_is_bounded(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    die(calls, consuming, client, consumer, *(Element(queue, name) for name in (b"1", b"2", b"3")))
    turns = [consuming.sweep("dead_letters", max_rows=2) for _ in range(2)]
    assert [(turn["done"], turn["more"]) for turn in turns] == [(2, True), (1, False)]
    assert calls.take_one(client, morgue, max_messages=9).bodies == [b"1", b"2", b"3"]


def test_letters_stay_when_the_dead_letter_queue_is_deleted(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    (dead,) = die(calls, consuming, client, consumer, Element(queue, b"a"))
    calls.numbered("delete_queue", client, morgue)
    assert consuming.sweep("dead_letters")["done"] == 0
    assert letters(calls, queue) == [b"a"]
    calls.numbered("settle_letters", client, REDRIVE, queue, [dead], True, 10, 0)
    assert consuming.claim(consumer).bodies == [b"a"]


def test_letters_from_before_go_on_once_there_is_a_dead_letter_queue(
    calls: Calls, consuming: Consuming, client: Client, morgue: int
) -> None:
    queue = calls.create_queue(client, max_attempts=1)
    die(calls, consuming, client, consuming.join(client, queue), Element(queue, b"a"))
    assert consuming.sweep("dead_letters")["done"] == 0
    assert update(calls, client, queue, dead_letter_queue=morgue) is None
    assert consuming.sweep("dead_letters")["done"] == 1
    assert update(calls, client, queue, dead_letter_queue=None) is None
    assert calls.row("get_queue_settings", queue)["settings"]["dead_letter_queue"] is None


def test_a_letter_that_dies_again_stays_or_goes_further(
    calls: Calls, consuming: Consuming, client: Client, queue: int, morgue: int, consumer: Consumer
) -> None:
    last = calls.create_queue(client)
    update(calls, client, morgue, max_attempts=1)
    die(calls, consuming, client, consumer, Element(queue, b"a"))
    consuming.sweep("dead_letters")
    (lease,) = consuming.claim(consuming.join(client, morgue)).leases
    consuming.nack(client, lease)
    (letter,) = calls.rows("list_dead_letters", morgue, 0, 9, 1 << 20)
    assert letter["origin"]["queue_id"] == queue
    update(calls, client, morgue, dead_letter_queue=last)
    consuming.sweep("dead_letters")
    assert calls.take_one(client, last).origins[0]["queue_id"] == morgue


def test_a_ring_of_dead_letter_queues_is_refused(
    calls: Calls, client: Client, queue: int, morgue: int
) -> None:
    last = calls.create_queue(client)
    assert update(calls, client, queue, dead_letter_queue=queue) == IN_A_RING
    assert update(calls, client, morgue, dead_letter_queue=last) is None
    assert update(calls, client, last, dead_letter_queue=queue) == IN_A_RING
    assert update(calls, client, last, dead_letter_queue=last + 1) == QUEUE_NOT_EXISTING
    row = calls.numbered("create_queue", client, "new", Jsonb({"dead_letter_queue": last + 1}))
    assert (row["error"], row["queue_id"], row["missing_queue"]) == (QUEUE_NOT_EXISTING, None, last + 1)
    calls.numbered("delete_queue", client, last)
    assert update(calls, client, queue, dead_letter_queue=morgue) is None


def test_two_changes_at_once_make_no_ring(
    calls: Calls, client: Client, queue: int, morgue: int, database_url: str
) -> None:
    update(calls, client, queue, dead_letter_queue=None)
    with psycopg.connect(database_url) as other:
        other.execute(CHANGE, (queue, morgue))
        with psycopg.connect(database_url, autocommit=True) as late:
            late.execute("SET lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                late.execute(CHANGE, (morgue, queue))
        other.commit()
    assert update(calls, client, morgue, dead_letter_queue=queue) == IN_A_RING


@pytest.mark.parametrize(("wrong", "state"), [("own", "TL012"), ("nowhere", "TL007")])
def test_sql_says_what_is_wrong_with_a_dead_letter_queue(
    calls: Calls, client: Client, wrong: str, state: str
) -> None:
    queue = calls.create_queue(client, name="own")
    with pytest.raises(psycopg.Error) as caught:
        calls.scalar("SELECT telesto.update_queue(%s, dead_letter_queue => %s)", queue, wrong)
    assert caught.value.sqlstate == state


def test_a_letter_that_is_being_settled_is_left_alone(
    calls: Calls, consuming: Consuming, client: Client, queue: int, consumer: Consumer, database_url: str
) -> None:
    dead = die(calls, consuming, client, consumer, Element(queue, b"1"), Element(queue, b"2"))
    with psycopg.connect(database_url) as other:
        other.execute("SELECT FROM telesto.dead_letters WHERE message_id = %s FOR UPDATE", (dead[0],))
        assert consuming.sweep("dead_letters")["done"] == 1
    assert letters(calls, queue) == [b"1"]
    assert consuming.sweep("dead_letters")["done"] == 1


def test_two_middlewares_move_each_letter_once(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    queue: int,
    morgue: int,
    consumer: Consumer,
    database_url: str,
) -> None:
    die(calls, consuming, client, consumer, *(Element(queue, str(i).encode()) for i in range(5)))
    with psycopg.connect(database_url) as first, psycopg.connect(database_url, autocommit=True) as second:
        turn = "SELECT done FROM telesto.sweep_dead_letters(100)"
        assert first.execute(turn).fetchone() == (5,)
        assert second.execute(turn).fetchone() == (0,)
        first.rollback()
        assert second.execute(turn).fetchone() == (5,)
    assert calls.statistics(morgue)["depth"] == 5
