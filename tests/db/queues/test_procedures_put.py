"""put_batch: ids, order, refusals, repeated numbers, records, locks."""

import psycopg
import pytest

from procedure_calls import (
    BUSY,
    NUMBER_REPEATED,
    QUEUE_FULL,
    QUEUE_NOT_EXISTING,
    SESSION_FENCED,
    Calls,
    Client,
    Element,
    Put,
)

NO_QUEUE = 1 << 40
PUT_LOCK = "SELECT pg_advisory_xact_lock(telesto.put_lock_key(%s))"


def test_ids_rise_in_the_order_of_the_elements(calls: Calls, client: Client) -> None:
    first, second = calls.create_queue(client), calls.create_queue(client)
    answers = calls.put(
        [Put(client, [Element(second), Element(first), Element(second)]), Put(client, [Element(first)])]
    )
    ids = [message_id for answer in answers for message_id in answer.message_ids]
    assert ids == sorted(ids)
    assert len(set(ids)) == 4


def test_a_message_keeps_what_it_was_put_with(calls: Calls) -> None:
    client, receiver = calls.register(), calls.register()
    queue = calls.create_queue(client)
    body = bytes(range(256)) * 40
    (message_id,) = calls.put_bodies(
        client, queue, body, receiver=receiver.client_id, priority=10, context=-7
    )
    (message,) = calls.take_one(receiver, queue).messages
    assert message == {
        "message_id": message_id,
        "queue_id": queue,
        "sender_id": client.client_id,
        "receiver_id": receiver.client_id,
        "priority": 10,
        "attempt": 1,
        "redelivered": False,
        "context": -7,
        "body": body,
    }


def test_what_is_over_when_it_is_put_is_not_stored(calls: Calls, client: Client) -> None:
    first, second = calls.create_queue(client, max_messages=3), calls.create_queue(client, bury_expired=True)
    answers = calls.put(
        [
            Put(client, [Element(first, b"1"), Element(first, b"over", life_ms=0, key="a")]),
            Put(client, [Element(second, b"over", life_ms=0, delay_ms=5)]),
            Put(client, [Element(second, b"over", life_ms=0, partition="a"), Element(first, b"2", key="a")]),
            Put(client, [Element(NO_QUEUE, b"over", life_ms=0)]),
            Put(client, [Element(second, b"late", life_ms=0, receiver=client.client_id, context=7)]),
        ]
    )
    stored = [[message_id > 0 for message_id in answer.message_ids] for answer in answers]
    assert stored == [[True, False], [False], [False, True], [False], [False]]
    assert [answer.errors for answer in answers] == [
        [None] * 2,
        [None],
        [None, None],
        [QUEUE_NOT_EXISTING],
        [None],
    ]
    assert calls.take_one(client, first, max_messages=9).bodies == [b"1", b"2"]
    tables = ("messages", "delayed_messages", "keyed_messages", "dead_letters", "partition_arrivals")
    assert [calls.scalar(f"SELECT count(*) FROM telesto.{table}") for table in tables] == [0] * len(tables)
    again = Put(client, [Element(second, b"not stored")], number=answers[-1].number)
    assert calls.put([again])[0].errors == [NUMBER_REPEATED]


def test_times_of_arrival_rise_with_the_ids(calls: Calls, client: Client, queue: int) -> None:
    for _ in range(3):
        calls.put_bodies(client, queue, b"1", b"2")
    assert calls.scalar(
        "SELECT array_agg(time_of_arrival ORDER BY message_id)"
        " = array_agg(time_of_arrival ORDER BY time_of_arrival) FROM telesto.messages"
    )


def test_an_executed_request_leaves_its_results(calls: Calls, client: Client) -> None:
    queue = calls.create_queue(client, max_messages=2)
    simple, mixed, refused = calls.put(
        [
            Put(client, [Element(queue)]),
            Put(client, [Element(queue), Element(NO_QUEUE), Element(queue)]),
            Put(client, [Element(NO_QUEUE)]),
        ]
    )
    assert mixed.errors == [None, QUEUE_NOT_EXISTING, QUEUE_FULL]
    assert calls.operations(client) == [
        (1, simple.number, simple.message_ids, None),
        (1, mixed.number, mixed.message_ids, mixed.errors),
        (1, refused.number, [0], [QUEUE_NOT_EXISTING]),
    ]


def test_number_zero_leaves_no_record(calls: Calls, client: Client, queue: int) -> None:
    answers = calls.put([Put(client, [Element(queue)], number=number) for number in (0, 4, 0)])
    assert [answer.errors for answer in answers] == [[None]] * 3
    assert [number for _, number, _, _ in calls.operations(client)] == [4]


def test_a_bounded_queue_takes_the_first_and_refuses_the_rest(calls: Calls, client: Client) -> None:
    queue, other = calls.create_queue(client, max_messages=3), calls.create_queue(client)
    answers = calls.put([Put(client, [Element(queue), Element(other)]) for _ in range(4)])
    assert [answer.errors for answer in answers] == [[None, None]] * 3 + [[QUEUE_FULL, None]]
    calls.take_one(client, queue)
    assert calls.put([Put(client, [Element(queue), Element(queue)])])[0].errors == [None, QUEUE_FULL]
    assert calls.statistics(queue)["depth"] == 3


@pytest.mark.parametrize("rest", [0, 1], ids=["alone", "with another queue"])
def test_a_queue_that_must_not_take_a_message_refuses_it(calls: Calls, client: Client, rest: int) -> None:
    queue, other = calls.create_queue(client), calls.create_queue(client)
    elements = [Element(-queue)] + [Element(other)] * rest
    answer = calls.put([Put(client, elements, number=1)])[0]
    assert answer.errors == [QUEUE_FULL] + [None] * rest
    assert answer.message_ids[0] == 0
    assert calls.operations(client) == [(1, 1, answer.message_ids, [QUEUE_FULL] + [None] * rest)]
    assert (calls.statistics(queue)["put_total"], calls.statistics(other)["put_total"]) == (0, rest)


def test_a_queue_that_must_not_take_a_message_is_not_waited_for(
    calls: Calls, client: Client, other: psycopg.Connection
) -> None:
    locked, free = calls.create_queue(client), calls.create_queue(client)
    other.execute("SELECT pg_advisory_xact_lock(telesto.put_lock_key(%s))", (locked,))
    answers = calls.put([Put(client, [Element(-locked)]), Put(client, [Element(free)])])
    assert [answer.errors for answer in answers] == [[QUEUE_FULL], [None]]


@pytest.mark.parametrize("elements", [1, 2], ids=["one element", "several elements"])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "among others"])
def test_a_repeated_number_is_told_and_its_neighbours_are_done(
    calls: Calls, elements: int, others: int
) -> None:
    client, neighbour = calls.register(), calls.register()
    queue = calls.create_queue(client)
    batch = [Put(client, [Element(queue)] * elements, number=1)] + [Put(neighbour, [Element(queue)])] * others
    first, second = calls.put(batch), calls.put(batch)
    assert first[0].errors == [None] * elements
    assert second[0].errors == [NUMBER_REPEATED] * elements
    assert second[0].message_ids == [0] * elements
    assert [answer.errors for answer in second[1:]] == [[None]] * others
    assert calls.statistics(queue)["put_total"] == elements + 2 * others
    assert calls.operations(client) == [(1, 1, first[0].message_ids, None)]


def test_a_number_twice_in_a_batch_is_executed_once(calls: Calls, client: Client, queue: int) -> None:
    answers = calls.put([Put(client, [Element(queue, body)], number=9) for body in (b"1", b"2")])
    assert sorted(answer.errors[0] or 0 for answer in answers) == [0, NUMBER_REPEATED]
    assert calls.statistics(queue)["depth"] == 1
    (record,) = calls.operations(client)
    assert record[2] in [answer.message_ids for answer in answers]


def test_a_repeated_number_takes_no_space_in_a_bounded_queue(calls: Calls) -> None:
    client, neighbour = calls.register(), calls.register()
    queue = calls.create_queue(client, max_messages=2)
    calls.put([Put(client, [Element(queue)], number=1)])
    answers = calls.put([Put(client, [Element(queue)], number=1), Put(neighbour, [Element(queue)])])
    assert [answer.errors for answer in answers] == [[NUMBER_REPEATED], [None]]


def test_an_element_that_the_database_refuses_fails_the_batch_and_nothing_else(
    calls: Calls, client: Client, queue: int
) -> None:
    for element in (Element(queue, priority=11), Element(queue, priority=0), Element(queue, receiver=-1)):
        with pytest.raises(psycopg.errors.CheckViolation):
            calls.put([Put(client, [Element(queue), element])])
    assert calls.statistics(queue)["put_total"] == 0
    assert calls.operations(client) == []


def test_requests_of_one_client_in_two_sessions_are_told_apart(
    calls: Calls, client: Client, queue: int
) -> None:
    successor = calls.take_over(client)
    old, new = calls.put([Put(client, [Element(queue)]), Put(successor, [Element(queue)])])
    assert (old.errors, new.errors) == ([SESSION_FENCED], [None])


def test_a_busy_queue_puts_off_its_requests_and_what_their_clients_send_after_them(
    calls: Calls, other: psycopg.Connection
) -> None:
    client, neighbour = calls.register(), calls.register()
    busy, free = calls.create_queue(client), calls.create_queue(client)
    other.execute(PUT_LOCK, (busy,))
    answers = calls.put(
        [
            Put(client, [Element(free)]),
            Put(client, [Element(free), Element(busy)]),
            Put(client, [Element(free)]),
            Put(neighbour, [Element(free)]),
            Put(neighbour, [Element(busy)]),
        ]
    )
    assert [answer.errors for answer in answers] == [[None], [BUSY, BUSY], [BUSY], [None], [BUSY]]
    assert calls.statistics(free)["depth"] == 2
    assert len(calls.operations(client)) == len(calls.operations(neighbour)) == 1


def test_confirmations_of_a_client_that_was_put_off_are_done(
    calls: Calls, client: Client, other: psycopg.Connection
) -> None:
    busy, free = calls.create_queue(client), calls.create_queue(client)
    calls.put_bodies(client, free, b"1")
    other.execute(PUT_LOCK, (busy,))
    (answer,) = calls.put([Put(client, [Element(busy), Element(free)])], confirmed=[(client.client_id, 1, 1)])
    assert answer.errors == [BUSY, BUSY]
    assert calls.operations(client) == []


def test_putting_needs_no_take_lock(calls: Calls, client: Client, other: psycopg.Connection) -> None:
    queue = calls.create_queue(client, max_messages=5)
    other.execute("SELECT pg_advisory_xact_lock(telesto.take_lock_key(%s))", (queue,))
    assert calls.put([Put(client, [Element(queue)])])[0].errors == [None]


def test_a_put_keeps_one_version_of_the_state(calls: Calls) -> None:
    client, receiver = calls.register(), calls.register()
    queue = calls.create_queue(client)
    for _ in range(3):
        calls.put_bodies(client, queue, b"1", b"2")
    (last,) = calls.put_bodies(client, queue, b"3", receiver=receiver.client_id)
    assert calls.query("SELECT * FROM telesto.put_states WHERE queue_id = %s", queue) == [
        {
            "queue_id": queue,
            "hidden_total": 0,
            "version": 5,
            "total": 7,
            "directed_total": 1,
            "last_id": last,
            "upper": [0] * 4 + [last] + [0] * 5,
        }
    ]
