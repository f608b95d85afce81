"""Headers of messages: they go wherever their message goes, and count as bytes of its body."""

from collections.abc import Callable
from typing import Any

import pytest

from consumer_calls import Consumer, Consuming
from procedure_calls import MESSAGE_TOO_LARGE, Calls, Client, Element, Put, Read

pytestmark = pytest.mark.usefixtures("consistent")

HEADERS = {"tenant": "north", "content-type": "text/plain; charset=utf-8", "empty": ""}
#: What they count for: 16, and 4 and its name and value for each.
HEADERS_BYTES = 16 + sum(4 + len(name) + len(value) for name, value in HEADERS.items())
EVERYTHING = 1 << 20


def put(calls: Calls, client: Client, queue: int, **options: Any) -> int:
    """Put a message with headers beside one without; return its id."""
    elements = [Element(queue, b"with", headers=HEADERS, **options), Element(queue, b"without", **options)]
    (answer,) = calls.put([Put(client, elements)])
    assert answer.errors == [None, None]
    return answer.message_ids[0]


def headers_of(rows: list[dict[str, Any]]) -> list[dict[str, str] | None]:
    assert [bytes(row["body"]) for row in rows] == [b"with", b"without"][: len(rows)]
    return [row["headers"] for row in rows]


def take(calls: Calls, client: Client, queue: int) -> list[dict[str, Any]]:
    number = client.next_number()
    return calls.rows(
        "take_batch", [client.client_id], [client.session], [number], [queue], [2], [EVERYTHING], [], [], []
    )


def test_a_read_a_takeover_and_what_is_given_back(calls: Calls, client: Client, queue: int) -> None:
    put(calls, client, queue)
    assert headers_of(calls.rows("browse_messages", client.client_id, queue, 0, 10, EVERYTHING)) == [
        HEADERS,
        None,
    ]
    assert headers_of(take(calls, client, queue)) == [HEADERS, None]
    client = calls.take_over(client)
    listed = calls.rows(
        "list_unconfirmed_hand_overs", client.client_id, client.session, 0, 0, 0, 10, EVERYTHING
    )
    assert headers_of(listed) == [HEADERS, None]
    calls.release(client, *((row["session"], row["number"], row["message_id"]) for row in listed))
    assert headers_of(take(calls, client, queue)) == [HEADERS, None]


def test_a_read_of_one_sender(calls: Calls, client: Client, queue: int) -> None:
    put(calls, client, queue)
    rows = calls.rows(
        "take_selected_batch",
        [client.client_id],
        [client.session],
        [client.next_number()],
        [queue],
        [2],
        [EVERYTHING],
        [],
        [],
        [],
        [client.client_id],
        [2],
        [None],
    )
    assert headers_of(rows) == [HEADERS, None]


@pytest.mark.parametrize("partition", [None, "k"])
@pytest.mark.parametrize("delay_ms", [None, 1])
def test_a_consumer_a_nack_and_a_dead_letter_that_is_sent_back(
    calls: Calls,
    consuming: Consuming,
    client: Client,
    consumer: Consumer,
    partition: str | None,
    delay_ms: int | None,
) -> None:
    queue = consumer.queue
    put(calls, client, queue, partition=partition, delay_ms=delay_ms)

    def arrive() -> None:
        calls.connection.execute("SELECT pg_sleep(0.005)")
        for job in ("delayed", "due_partitions"):
            consuming.sweep(job)

    def claim() -> list[Any]:
        arrive()
        leases = [lease for _ in range(2) for lease in consuming.claim(consumer, count=2).leases]
        leases.sort(key=lambda lease: lease.message_id)
        assert headers_of([lease.message for lease in leases]) == [HEADERS, None]
        return leases

    leases = claim()
    recovered = sorted(consuming.recover([consumer], 0).leases, key=lambda lease: lease.message_id)
    assert headers_of([lease.message for lease in recovered]) == [HEADERS, None]
    consuming.nack(client, *leases, failed=False, delay_ms=0)
    consuming.nack(client, *claim(), failed=False, delay_ms=1)
    calls.connection.execute("UPDATE telesto.queues SET max_attempts = 1")
    consuming.nack(client, *claim())
    assert headers_of(calls.rows("list_dead_letters", queue, 0, 10, EVERYTHING)) == [HEADERS, None]
    settled = calls.numbered("settle_letters", client, 0x6D, queue, None, True, 10)
    assert settled["settled"] == 2
    consuming.ack(client, *claim())
    ended = calls.query(
        "SELECT headers FROM telesto.history WHERE ending = 'acknowledged' ORDER BY message_id"
    )
    assert [row["headers"] for row in ended] == [HEADERS, None]


@pytest.mark.parametrize("partition", [None, "k"])
def test_a_dead_letter_that_goes_on(
    calls: Calls, consuming: Consuming, client: Client, partition: str | None
) -> None:
    morgue = calls.create_queue(client)
    queue = calls.create_queue(client, max_attempts=1, dead_letter_queue=morgue)
    put(calls, client, queue, partition=partition)
    consumer = consuming.join(client, queue)
    for _ in range(2):
        consuming.nack(client, *consuming.claim(consumer, count=2).leases)
    consuming.sweep("dead_letters")
    undertaker = consuming.join(client, morgue)
    leases = [lease for _ in range(2) for lease in consuming.claim(undertaker, count=2).leases]
    assert headers_of([lease.message for lease in leases]) == [HEADERS, None]


@pytest.mark.parametrize("options", [{}, {"delay_ms": 60_000}, {"partition": "k"}], ids=str)
def test_what_expires_is_buried_with_them(
    calls: Calls, consuming: Consuming, client: Client, options: dict[str, Any]
) -> None:
    queue = calls.create_queue(client, bury_expired=True)
    put(calls, client, queue, life_ms=1, **options)
    calls.connection.execute("SELECT pg_sleep(0.01)")
    for job in ("delayed", "expired", "expired_keyed"):
        consuming.sweep(job)
    assert headers_of(calls.rows("list_dead_letters", queue, 0, 10, EVERYTHING)) == [HEADERS, None]


def test_a_hand_over_that_is_not_confirmed_dies_with_them(calls: Calls, client: Client, queue: int) -> None:
    put(calls, client, queue)
    take(calls, client, queue)
    calls.value("bury_deliveries", client.client_id, "infinity", 10)
    assert headers_of(calls.rows("list_dead_letters", queue, 0, 10, EVERYTHING)) == [HEADERS, None]


def show(calls: Calls, message_id: int, asking: Client, max_bytes: int = EVERYTHING) -> list[Any]:
    rows = calls.rows("get_message_history", message_id, 0, asking.client_id, 100, max_bytes, 1000)
    return [(row["state"], row["headers"]) for row in rows]


def test_the_history_shows_them_where_the_message_is_and_in_the_last_record(
    calls: Calls, client: Client, queue: int
) -> None:
    message_id = put(calls, client, queue)
    assert show(calls, message_id, client) == [("ready", HEADERS)]
    take(calls, client, queue)
    assert show(calls, message_id, client) == [("handed_over", HEADERS)]
    number = calls.query("SELECT number FROM telesto.deliveries")[0]["number"]
    calls.release(client, (client.session, number, message_id))
    assert show(calls, message_id, client) == [("returned", None), ("ready", HEADERS)]
    taken = calls.take_one(client, queue)
    calls.confirm(client, (client.session, taken.number, 0))
    assert show(calls, message_id, client) == [("returned", None), ("confirmed", HEADERS)]
    assert show(calls, message_id, client, HEADERS_BYTES - 1) == [("returned", None), ("confirmed", None)]


@pytest.mark.parametrize("end", ["purge_queue", "delete_queue"])
def test_the_history_keeps_them_of_what_goes_with_its_queue(
    calls: Calls, client: Client, queue: int, end: str
) -> None:
    message_id = put(calls, client, queue)
    row = calls.numbered(end, client, 0x61, queue) if end == "purge_queue" else None
    if row is None:
        calls.numbered(end, client, queue)
        calls.row("sweep", calls.value("register_middleware", "127.0.0.1:1", "1.0"), "deleted_queues", 100)
    assert show(calls, message_id, client)[-1][1] == HEADERS


def test_the_history_shows_them_to_nobody_but_sender_and_receiver(
    calls: Calls, client: Client, queue: int
) -> None:
    receiver, stranger = calls.register(), calls.register()
    message_id = put(calls, client, queue, receiver=receiver.client_id)
    for asking, seen in ((client, HEADERS), (receiver, HEADERS), (stranger, None)):
        assert show(calls, message_id, asking) == [("ready", seen)]


Sized = Callable[[Calls, Client, int, int], bool]


def reads(calls: Calls, client: Client, queue: int, max_bytes: int) -> bool:
    return calls.take([Read(client, queue, max_bytes=max_bytes)])[0].error != MESSAGE_TOO_LARGE


def reads_selected(calls: Calls, client: Client, queue: int, max_bytes: int) -> bool:
    read = Read(client, queue, max_bytes=max_bytes, sender=client.client_id)
    return calls.select([read])[0].error != MESSAGE_TOO_LARGE


def reads_two(calls: Calls, client: Client, queue: int, max_bytes: int) -> bool:
    # A message for the reader alone has the batch planned element by element.
    calls.put_bodies(client, queue, b"", receiver=client.client_id, priority=1)
    return (
        calls.take([Read(client, queue, max_messages=2, max_bytes=max_bytes)])[0].error != MESSAGE_TOO_LARGE
    )


def claims(calls: Calls, client: Client, queue: int, max_bytes: int) -> bool:
    consuming = Consuming(calls)
    return bool(consuming.claim(consuming.join(client, queue), max_bytes=max_bytes).leases)


@pytest.mark.parametrize("gets", [reads, reads_selected, reads_two, claims])
def test_they_count_as_bytes_of_the_body(calls: Calls, client: Client, gets: Sized) -> None:
    for short in (True, False):
        queue = calls.create_queue(client)
        put(calls, client, queue)
        assert gets(calls, client, queue, len(b"with") + HEADERS_BYTES - short) is not short


def test_they_count_as_bytes_of_a_partitions_body(calls: Calls, client: Client) -> None:
    for short in (True, False):
        queue = calls.create_queue(client)
        put(calls, client, queue, partition="k")
        assert claims(calls, client, queue, len(b"with") + HEADERS_BYTES - short) is not short


def test_they_count_as_bytes_of_pages(calls: Calls, consuming: Consuming, client: Client) -> None:
    queue = calls.create_queue(client, max_attempts=1)
    enough = len(b"with") + HEADERS_BYTES + len(b"without")

    def page(name: str, *arguments: int) -> list[int]:
        return [len(calls.rows(name, *arguments, 10, size)) for size in (enough - 1, enough)]

    put(calls, client, queue)
    assert page("browse_messages", client.client_id, queue, 0) == [1, 2]
    consuming.nack(client, *consuming.claim(consuming.join(client, queue), count=2).leases)
    assert page("list_dead_letters", queue, 0) == [1, 2]
    calls.numbered("settle_letters", client, 0x6D, queue, None, True, 10)
    take(calls, client, queue)
    client = calls.take_over(client)
    assert page("list_unconfirmed_hand_overs", client.client_id, client.session, 0, 0, 0) == [1, 2]
