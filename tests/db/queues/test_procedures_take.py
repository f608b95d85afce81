"""take_batch: order, windows, limits, own messages, records, bounds, locks."""

import random

import psycopg
import pytest

from procedure_calls import BUSY, MESSAGE_TOO_LARGE, QUEUE_NOT_EXISTING, SESSION_FENCED, Calls, Client, Read

TAKE_LOCK = "SELECT pg_advisory_xact_lock(telesto.take_lock_key(%s))"
BOUNDS = "SELECT lower FROM telesto.take_states WHERE queue_id = %s"
OWN_BOUNDS = "SELECT lower FROM telesto.receiver_states WHERE queue_id = %s AND receiver_id = %s"


def test_the_highest_priority_comes_first_and_the_oldest_among_equals(
    calls: Calls, client: Client, queue: int
) -> None:
    low = calls.put_bodies(client, queue, b"1", b"2", priority=1)
    middle = calls.put_bodies(client, queue, b"3", priority=5)
    high = calls.put_bodies(client, queue, b"4", b"5", priority=10)
    assert calls.take_one(client, queue, max_messages=10).ids == high + middle + low


def test_requests_get_their_windows_in_the_order_of_the_batch(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    first, second = calls.create_queue(client), calls.create_queue(client)
    in_first = calls.put_bodies(client, first, *[b"x"] * 6)
    in_second = calls.put_bodies(client, second, *[b"x"] * 2)
    taken = calls.take(
        [
            Read(reader, first, max_messages=2),
            Read(reader, second, max_messages=5),
            Read(client, first, max_messages=3),
            Read(client, second),
            Read(reader, first, max_messages=4),
        ]
    )
    assert [answer.ids for answer in taken] == [in_first[:2], in_second, in_first[2:5], [], in_first[5:]]


def test_single_reads_of_one_queue_get_one_message_each(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, *[b"x"] * 5)
    assert [answer.ids for answer in calls.take([Read(client, queue)] * 7)] == [[i] for i in ids] + [[], []]


def test_a_read_of_no_messages_takes_none(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, b"1", b"2")
    taken = calls.take([Read(client, queue, max_messages=n) for n in (0, 1, 0, 1)])
    assert [answer.ids for answer in taken] == [[], ids[:1], [], ids[1:]]


def test_what_is_for_anyone_and_for_the_reader_is_one_order(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    own_high = calls.put_bodies(client, queue, b"1", priority=6, receiver=reader.client_id)
    common = calls.put_bodies(client, queue, b"2", b"3")
    own = calls.put_bodies(client, queue, b"4", receiver=reader.client_id)
    common_late = calls.put_bodies(client, queue, b"5")
    others = calls.put_bodies(client, queue, b"6", priority=10, receiver=client.client_id)
    assert calls.take_one(reader, queue, max_messages=10).ids == own_high + common + own + common_late
    assert calls.take_one(client, queue, max_messages=10).ids == others


def test_own_messages_are_never_given_to_others(calls: Calls) -> None:
    client, reader, stranger = calls.register(), calls.register(), calls.register()
    queue = calls.create_queue(client)
    own = calls.put_bodies(client, queue, b"1", receiver=reader.client_id)
    common = calls.put_bodies(client, queue, b"2")
    taken = calls.take([Read(stranger, queue), Read(stranger, queue), Read(reader, queue)])
    assert [answer.ids for answer in taken] == [common, [], own]


@pytest.mark.parametrize(
    ("max_bytes", "expected"),
    [(100, [[0, 1, 2], [3]]), (5, [[0, 1], [2]]), (4, [[0, 1], [2]]), (2, [[0], [1]])],
)
def test_a_read_stops_before_the_message_that_exceeds_its_bytes(
    calls: Calls, client: Client, queue: int, max_bytes: int, expected: list[list[int]]
) -> None:
    ids = calls.put_bodies(client, queue, b"12", b"34", b"56", b"78")
    taken = calls.take([Read(client, queue, 3, max_bytes), Read(client, queue)])
    assert [answer.ids for answer in taken] == [[ids[i] for i in positions] for positions in expected]


def test_a_first_message_that_is_too_large_stays_and_is_told(
    calls: Calls, client: Client, queue: int
) -> None:
    (large,) = calls.put_bodies(client, queue, b"x" * 5000)
    calls.put_bodies(client, queue, b"small")
    refused, taken = calls.take([Read(client, queue, 2, 4999), Read(client, queue, 1, 5000)])
    assert (refused.error, refused.related_id, refused.ids) == (MESSAGE_TOO_LARGE, large, [])
    assert taken.ids == [large]
    assert len(calls.deliveries(client)) == 1


def test_an_own_message_can_be_too_large_as_well(calls: Calls, client: Client, queue: int) -> None:
    (large,) = calls.put_bodies(client, queue, b"12345", receiver=client.client_id)
    (refused,) = calls.take([Read(client, queue, 1, 4)])
    assert (refused.error, refused.related_id) == (MESSAGE_TOO_LARGE, large)


def test_an_unknown_queue_and_a_fenced_session_are_told_and_the_others_read(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    ids = calls.put_bodies(client, queue, b"1", b"2")
    taken = calls.take(
        [Read(client, 1 << 40), Read(reader, queue), Read(client, queue, session=7), Read(client, queue)]
    )
    assert [answer.error for answer in taken] == [QUEUE_NOT_EXISTING, None, SESSION_FENCED, None]
    assert [answer.ids for answer in taken] == [[], ids[:1], [], ids[1:]]


def test_a_batch_without_a_known_queue_is_answered(calls: Calls, client: Client) -> None:
    taken = calls.take([Read(client, 1 << 40), Read(client, 1 << 41)])
    assert [answer.error for answer in taken] == [QUEUE_NOT_EXISTING] * 2


def test_a_busy_queue_puts_off_its_reads_and_what_their_clients_send_after_them(
    calls: Calls, other: psycopg.Connection
) -> None:
    client, neighbour = calls.register(), calls.register()
    busy, free = calls.create_queue(client), calls.create_queue(client)
    for queue in (busy, free):
        calls.put_bodies(client, queue, *[b"x"] * 4)
    other.execute(TAKE_LOCK, (busy,))
    reads = [Read(client, free), Read(client, busy), Read(client, free), Read(neighbour, free)]
    for call in (calls.take, calls.select):
        assert [answer.error for answer in call(reads)] == [None, BUSY, BUSY, None]
    assert (calls.statistics(busy)["depth"], calls.statistics(free)["depth"]) == (4, 0)


def test_what_is_taken_is_recorded_with_its_request(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, *[b"x"] * 4)
    first, _, third = calls.take([Read(client, queue, 2), Read(client, queue, number=0), Read(client, queue)])
    assert calls.deliveries(client) == [
        (1, first.number, ids[0]),
        (1, first.number, ids[1]),
        (1, third.number, ids[3]),
    ]
    assert calls.statistics(queue)["taken_total"] == 4


def test_bounds_rise_behind_what_was_taken_and_over_what_is_empty(
    calls: Calls, client: Client, queue: int
) -> None:
    high = calls.put_bodies(client, queue, b"1", b"2", priority=7)
    low = calls.put_bodies(client, queue, b"3", b"4", priority=3)
    calls.take_one(client, queue)
    last = low[-1] + 1
    assert calls.scalar(BOUNDS, queue) == [1] * 6 + [high[0] + 1, last, last, last]
    calls.take_one(client, queue, max_messages=2)
    assert calls.scalar(BOUNDS, queue) == [1, 1, low[0] + 1] + [last] * 7


def test_bounds_fall_to_what_comes_back_and_rise_again(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, *[b"x"] * 5)
    read = calls.take_one(client, queue, max_messages=4)
    calls.release(client, (1, read.number, ids[1]), (1, read.number, ids[2]))
    assert calls.scalar(BOUNDS, queue)[4] == ids[1]
    assert calls.take_one(client, queue, max_messages=9).ids == [ids[1], ids[2], ids[4]]
    assert calls.scalar(BOUNDS, queue)[4] == ids[4] + 1


def test_own_bounds_are_written_when_many_were_taken_and_fall_to_what_comes_back(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    ids = calls.put_bodies(client, queue, *[b"x"] * 40, receiver=reader.client_id)
    read = calls.take_one(reader, queue, max_messages=32)
    assert calls.scalar(OWN_BOUNDS, queue, reader.client_id)[4] == ids[31] + 1
    calls.release(reader, (1, read.number, ids[3]))
    assert calls.scalar(OWN_BOUNDS, queue, reader.client_id)[4] == ids[3]
    assert calls.take_one(reader, queue, max_messages=40).ids == [ids[3], *ids[32:]]
    assert calls.scalar("SELECT count(*) FROM telesto.receiver_states") == 1


def test_own_bounds_are_written_now_and_then_when_few_are_taken(
    calls: Calls, client: Client, queue: int
) -> None:
    ids = calls.put_bodies(client, queue, *[b"x"] * 200, receiver=client.client_id)
    for message_id in ids:
        assert calls.take_one(client, queue).ids == [message_id]
    versions = calls.scalar("SELECT max(version) FROM telesto.receiver_states")
    assert 0 < versions < 100


def test_taking_nothing_writes_no_state(calls: Calls, client: Client, queue: int) -> None:
    calls.take_one(client, queue)
    assert calls.query("SELECT version FROM telesto.take_states") == [{"version": 1}]


def test_windows_and_the_slow_path_agree(calls: Calls) -> None:
    """The same reads, once on the fast path and once made slow by one message for somebody."""
    client, readers = calls.register(), [calls.register() for _ in range(3)]
    rng = random.Random(5)
    layout = [[rng.choice([2, 5, 5, 9]) for _ in range(30)] for _ in range(3)]
    wants = [(rng.randrange(3), rng.randrange(3), rng.randrange(1, 6)) for _ in range(20)]
    outcomes = []
    for disturbed in (False, True):
        queues = [calls.create_queue(client) for _ in layout]
        names = {}
        for queue, priorities in zip(queues, layout, strict=True):
            for i, priority in enumerate(priorities):
                (message_id,) = calls.put_bodies(client, queue, b"x", priority=priority)
                names[message_id] = i
            if disturbed:
                calls.put_bodies(client, queue, b"x", receiver=client.client_id)
        taken = calls.take([Read(readers[r], queues[q], n) for r, q, n in wants])
        outcomes.append([[names[message_id] for message_id in answer.ids] for answer in taken])
    assert outcomes[0] == outcomes[1]


def test_large_bodies_move_whole(calls: Calls, client: Client, queue: int) -> None:
    bodies = [random.Random(i).randbytes(300_000) for i in range(3)]
    calls.put_bodies(client, queue, *bodies)
    read = calls.take_one(client, queue, max_messages=2)
    assert read.bodies == bodies[:2]
    calls.release(client, (1, read.number, read.ids[1]))
    assert calls.take_one(client, queue, max_messages=2).bodies == bodies[1:]
    page = calls.rows("list_unconfirmed_hand_overs", client.client_id, 1, 0, 0, 0, 10, 1 << 30)
    assert [row["body"] for row in page] == bodies


def test_taking_needs_no_put_lock(
    calls: Calls, client: Client, queue: int, other: psycopg.Connection
) -> None:
    other.execute("SELECT pg_advisory_xact_lock(telesto.put_lock_key(%s))", (queue,))
    assert calls.take_one(client, queue).error is None
