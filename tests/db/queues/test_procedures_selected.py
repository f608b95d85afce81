"""take_selected_batch: by age, of one sender, by context."""

from procedure_calls import BY_AGE, MESSAGE_TOO_LARGE, QUEUE_NOT_EXISTING, Calls, Client, Element, Put, Read

BOUNDS = "SELECT lower FROM telesto.take_states WHERE queue_id = %s"


def test_by_age_the_oldest_comes_first_whatever_its_priority(calls: Calls) -> None:
    client, reader = calls.register(), calls.register()
    queue = calls.create_queue(client)
    elements = [
        Element(queue, priority=1),
        Element(queue, priority=10),
        Element(queue, priority=5, receiver=reader.client_id),
        Element(queue, priority=7, receiver=client.client_id),
        Element(queue, priority=10),
    ]
    (put,) = calls.put([Put(client, elements)])
    first, second = calls.select([Read(reader, queue, n, mode=BY_AGE) for n in (2, 9)])
    assert first.ids + second.ids == [put.message_ids[i] for i in (0, 1, 2, 4)]
    assert calls.select_one(client, queue, mode=BY_AGE).ids == [put.message_ids[3]]


def test_of_one_sender_the_highest_priority_comes_first(calls: Calls) -> None:
    alice, bob, reader = calls.register(), calls.register(), calls.register()
    queue = calls.create_queue(alice)
    low = calls.put_bodies(alice, queue, b"1", b"2", priority=2)
    calls.put_bodies(bob, queue, b"3", priority=9)
    own = calls.put_bodies(alice, queue, b"4", priority=2, receiver=reader.client_id)
    high = calls.put_bodies(alice, queue, b"5", priority=8)
    reads = [Read(reader, queue, 2, sender=alice.client_id)] * 3
    assert [answer.ids for answer in calls.select(reads)] == [high + low[:1], low[1:] + own, []]


def test_of_one_sender_by_age(calls: Calls) -> None:
    alice, bob = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    first = calls.put_bodies(alice, queue, b"1", priority=2)
    calls.put_bodies(bob, queue, b"2", priority=1)
    second = calls.put_bodies(alice, queue, b"3", priority=9)
    taken = calls.select_one(bob, queue, max_messages=5, sender=alice.client_id, mode=BY_AGE)
    assert taken.ids == first + second


def test_a_response_is_found_by_its_context_and_only_by_its_receiver(calls: Calls) -> None:
    asker, server = calls.register(), calls.register()
    queue = calls.create_queue(asker)
    calls.put_bodies(server, queue, b"for anyone", context=1)
    calls.put_bodies(server, queue, b"other context", context=2, receiver=asker.client_id)
    (wanted,) = calls.put_bodies(server, queue, b"wanted", context=1, receiver=asker.client_id)
    assert calls.select_one(server, queue, context=1).ids == []
    assert calls.select_one(asker, queue, context=1).ids == [wanted]
    assert calls.select_one(asker, queue, context=1).ids == []
    assert calls.statistics(queue)["depth"] == 2


def test_responses_are_looked_up_together_in_the_order_of_the_batch(calls: Calls) -> None:
    asker, other_asker = calls.register(), calls.register()
    first, second = calls.create_queue(asker), calls.create_queue(asker)
    mine = {"receiver": asker.client_id, "context": 1}
    (low,) = calls.put_bodies(asker, first, b"12345", priority=2, **mine)
    high = calls.put_bodies(asker, first, b"1", b"2", priority=8, **mine)
    calls.put_bodies(asker, first, b"other", receiver=asker.client_id, context=2)
    (elsewhere,) = calls.put_bodies(asker, second, b"3", **mine)
    reads = [
        Read(asker, first, context=1),
        Read(other_asker, first, context=1),
        Read(asker, second, 5, context=1),
        Read(asker, 1 << 40, context=1),
        Read(asker, first, context=1),
        Read(asker, first, 9, 4, context=1),
        Read(asker, first, 9, context=1, number=0),
        Read(asker, first, context=1, session=9),
    ]
    taken = calls.select(reads)
    assert [answer.ids for answer in taken] == [[high[0]], [], [elsewhere], [], [high[1]], [], [low], []]
    assert [answer.error for answer in taken] == [None] * 3 + [7, None, MESSAGE_TOO_LARGE, None, 20]
    assert taken[5].related_id == low
    assert [message_id for _, _, message_id in calls.deliveries(asker)] == [high[0], elsewhere, high[1]]
    assert calls.statistics(first)["directed_depth"] == 1


def test_several_responses_come_by_priority(calls: Calls) -> None:
    asker = calls.register()
    queue = calls.create_queue(asker)
    low, high = (
        calls.put_bodies(asker, queue, b"1", b"2", priority=priority, receiver=asker.client_id, context=1)
        for priority in (3, 7)
    )
    assert calls.select_one(asker, queue, max_messages=3, context=1).ids == high + low[:1]


def test_reads_of_other_kinds_in_between_do_not_change_what_responses_get(calls: Calls) -> None:
    asker = calls.register()
    queue = calls.create_queue(asker)
    common = calls.put_bodies(asker, queue, b"1")
    own = calls.put_bodies(asker, queue, b"2", b"3", receiver=asker.client_id, context=1)
    taken = calls.select(
        [Read(asker, queue, context=1), Read(asker, queue, mode=BY_AGE), Read(asker, queue, context=1)]
    )
    assert [answer.ids for answer in taken] == [own[:1], common, own[1:]]


def test_a_later_request_does_not_get_what_an_earlier_one_took(
    calls: Calls, client: Client, queue: int
) -> None:
    ids = calls.put_bodies(client, queue, *[b"x"] * 5)
    taken = calls.select([Read(client, queue, n, mode=BY_AGE) for n in (2, 1, 9, 1)])
    assert [answer.ids for answer in taken] == [ids[:2], ids[2:3], ids[3:], []]
    assert len(calls.deliveries(client)) == 5


def test_limits_and_errors_are_those_of_plain_reads(calls: Calls, client: Client, queue: int) -> None:
    ids = calls.put_bodies(client, queue, b"12345", b"12")
    refused, unknown, taken = calls.select(
        [
            Read(client, queue, 2, 4, mode=BY_AGE),
            Read(client, 1 << 40, mode=BY_AGE),
            Read(client, queue, 2, 6, mode=BY_AGE, number=0),
        ]
    )
    assert (refused.error, refused.related_id) == (MESSAGE_TOO_LARGE, ids[0])
    assert unknown.error == QUEUE_NOT_EXISTING
    assert taken.ids == ids[:1]
    assert calls.deliveries(client) == []


def test_bounds_rise_only_over_what_is_gone(calls: Calls) -> None:
    alice, bob = calls.register(), calls.register()
    queue = calls.create_queue(alice)
    head = calls.put_bodies(bob, queue, b"1")
    middle = calls.put_bodies(alice, queue, b"2", b"3")
    calls.select_one(alice, queue, sender=alice.client_id)
    assert calls.scalar(BOUNDS, queue)[4] == head[0]
    calls.select_one(alice, queue, mode=BY_AGE)
    assert calls.scalar(BOUNDS, queue)[4] == middle[1]
    calls.select_one(alice, queue, mode=BY_AGE)
    assert calls.scalar(BOUNDS, queue)[4] == middle[1] + 1
    (last,) = calls.put_bodies(bob, queue, b"4")
    assert calls.select_one(alice, queue).ids == [last]


def test_own_messages_read_by_context_keep_their_bounds_right(calls: Calls) -> None:
    asker = calls.register()
    queue = calls.create_queue(asker)
    ids = calls.put([Put(asker, [Element(queue, receiver=asker.client_id, context=i) for i in range(60)])])
    for i in reversed(range(1, 60)):
        assert calls.select_one(asker, queue, context=i).ids == [ids[0].message_ids[i]]
    assert calls.select_one(asker, queue).ids == [ids[0].message_ids[0]]


def test_own_bounds_rise_behind_responses(calls: Calls) -> None:
    asker = calls.register()
    queue = calls.create_queue(asker)
    (put,) = calls.put(
        [Put(asker, [Element(queue, receiver=asker.client_id, context=i // 20) for i in range(60)])]
    )
    assert calls.select_one(asker, queue, max_messages=20, context=1).ids == put.message_ids[20:40]
    lower = "SELECT lower[5] FROM telesto.receiver_states WHERE queue_id = %s"
    assert calls.scalar(lower, queue) == put.message_ids[0]
    assert calls.select_one(asker, queue, max_messages=20, context=0).ids == put.message_ids[:20]
    assert calls.scalar(lower, queue) == put.message_ids[40]
