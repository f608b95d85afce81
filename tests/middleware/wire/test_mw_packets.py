"""Every packet, as it should be used."""

import os

import pytest

from conftest import Connect
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from telesto.protocol.queue_settings import QUEUE_SETTINGS
from wire import FULL, Wire, put, read


@pytest.mark.settings(max_unconfirmed=77, idle_limit_s=12.5)
async def test_hello_agrees_on_limits(connect: Connect, server: MiddlewareServer) -> None:
    wire = await connect(server)
    answer = await wire.hello(max_frame=1 << 30)
    assert answer.max_frame == 1 << 22
    assert answer.max_unconfirmed == 77
    assert answer.idle_limit_ms == 12_500
    assert answer.middleware_id > 0
    assert answer.mechanisms == []
    assert answer.addresses == []


async def test_hello_names_the_database_as_registering_does(connect: Connect) -> None:
    wire = await connect()
    before = (await wire.hello()).incarnation
    assert before
    answer = await wire.ask(packets.RegisterClient("alice", FULL, os.urandom(16)))
    assert answer.incarnation == before


async def test_ping_overtakes(connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    await wire.ask(packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16)))
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


async def test_messages_carry_all_their_fields(wire: Wire, queue_id: int) -> None:
    message_id = await wire.put_one(
        queue_id, body=b"\x00\xff", priority=9, receiver_id=wire.client_id, context=-5
    )
    (message,) = await wire.read_now(queue_id)
    assert message.time_of_arrival > 1_700_000_000_000_000
    assert message == packets.Message(
        message_id=message_id,
        queue_id=queue_id,
        sender_id=wire.client_id,
        receiver_id=wire.client_id,
        priority=9,
        time_of_arrival=message.time_of_arrival,
        attempt=1,
        redelivered=False,
        body=b"\x00\xff",
        context=-5,
    )


async def test_reads_take_by_priority_or_by_time(wire: Wire, queue_id: int) -> None:
    for priority in (1, 10, 5, 10):
        await wire.put_one(queue_id, body=b"%d" % priority, priority=priority)
    (oldest,) = await wire.read_now(queue_id, mode=packets.ReadMode.TIME)
    assert oldest.body == b"1"
    rest = await wire.read_now(queue_id, max_messages=10)
    assert [message.body for message in rest] == [b"10", b"10", b"5"]


async def test_reads_may_choose_the_sender(connect: Connect) -> None:
    one, two = await connect(), await connect()
    await one.register()
    await two.register()
    queue_id = await one.create_queue()
    await one.put_one(queue_id, body=b"one")
    await two.put_one(queue_id, body=b"two")
    (message,) = await one.read_now(queue_id, sender_id=two.client_id)
    assert message.body == b"two"
    assert await one.read_now(queue_id, sender_id=two.client_id) == []


async def test_what_is_for_one_client_is_for_no_other(connect: Connect) -> None:
    one, two = await connect(), await connect()
    await one.register()
    await two.register()
    queue_id = await one.create_queue()
    await one.put_one(queue_id, receiver_id=two.client_id)
    assert await one.read_now(queue_id) == []
    assert len(await two.read_now(queue_id)) == 1


async def test_a_response_goes_to_who_asked(connect: Connect) -> None:
    asker, server = await connect(), await connect()
    await asker.register()
    await server.register()
    queue_id = await asker.create_queue()
    await asker.put_one(queue_id, context=42, body=b"question")
    (question,) = await server.read_now(queue_id)
    await server.put_one(queue_id, receiver_id=question.sender_id, context=question.context, body=b"answer")
    other = await asker.ask(packets.ReadResponse(asker.number(), [], queue_id, 41, 0))
    assert other.messages == []
    answer = await asker.ask(packets.ReadResponse(asker.number(), [], queue_id, 42, 0))
    assert [message.body for message in answer.messages] == [b"answer"]


async def test_a_response_whose_asker_waits_no_longer_is_not_stored(connect: Connect) -> None:
    asker, server = await connect(), await connect()
    await asker.register()
    await server.register()
    queue_id = await asker.create_queue()
    response = {"receiver_id": asker.client_id, "context": 42}
    assert await server.put_one(queue_id, **response, expires_ms=0) == 0
    in_time = await server.put_one(queue_id, **response, expires_ms=60_000)
    messages = await asker.read_now(queue_id, max_messages=9)
    assert [message.message_id for message in messages] == [in_time]
    assert in_time > 0


async def test_one_message_goes_into_several_queues(wire: Wire) -> None:
    queue_ids = [await wire.create_queue() for _ in range(3)]
    answer = await wire.put(*reversed(queue_ids))
    assert [result.queue_id for result in answer.results] == queue_ids[::-1]
    assert len({result.message_id for result in answer.results}) == 3
    for queue_id in queue_ids:
        assert len(await wire.read_now(queue_id)) == 1


async def test_several_messages_are_put_in_order(wire: Wire) -> None:
    queue_id, bounded = await wire.create_queue(), await wire.create_queue(max_messages=1)
    elements = [
        packets.QueuedMessage(queue, packets.NewMessage(5, 0, body, None))
        for queue, body in ((queue_id, b"a"), (bounded, b"b"), (bounded, b"c"), (queue_id, b"d"))
    ]
    answer = await wire.ask(packets.PutMessages(wire.number(), [], elements))
    assert isinstance(answer, packets.PutMessagesResponse)
    assert [result.error for result in answer.results] == [None, None, ErrorCode.QUEUE_FULL, None]
    messages = await wire.read_now(queue_id, max_messages=10)
    assert [message.body for message in messages] == [b"a", b"d"]


async def test_reads_are_bounded_in_messages_and_bytes(wire: Wire, queue_id: int) -> None:
    for _ in range(10):
        await wire.put_one(queue_id, body=bytes(100))
    assert len(await wire.read_now(queue_id, max_messages=3)) == 3
    assert len(await wire.read_now(queue_id, max_messages=10, max_bytes=250)) == 2
    refused = await wire.read(queue_id, max_bytes=99)
    assert refused.code == ErrorCode.MESSAGE_TOO_LARGE
    assert len(await wire.read_now(queue_id, max_messages=10)) == 5


async def test_a_message_that_no_frame_of_the_client_holds_stays(connect: Connect) -> None:
    wire = await (await connect()).register()
    queue_id = await wire.create_queue()
    message_id = await wire.put_one(queue_id, body=bytes(20_000))
    small = await connect()
    await small.hello(max_frame=packets.MAX_FRAME_LEAST)
    await small.ask(packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16)))
    refused = await small.read(queue_id)
    assert (refused.code, refused.related_id) == (ErrorCode.MESSAGE_TOO_LARGE, message_id)
    assert len(await wire.read_now(queue_id)) == 1


@pytest.mark.settings(max_answer_bytes=4_096)
async def test_large_messages_reach_many_readers(wire: Wire, queue_id: int) -> None:
    for number in range(6):
        await wire.put_one(queue_id, body=b"%d" % number * 3_000)
    answers = [wire.read(queue_id) for _ in range(6)]
    bodies = [(await answer).messages[0].body[:1] for answer in answers]
    assert bodies == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_queues_are_found_and_listed(wire: Wire) -> None:
    queue_ids = [await wire.create_queue(f"queue {number}") for number in range(5)]
    assert (await wire.ask(packets.GetQueueId("queue 3"))).queue_id == queue_ids[3]
    assert (await wire.ask(packets.GetQueueName(queue_ids[2]))).queue_name == "queue 2"
    assert (await wire.ask(packets.GetQueueId("other"))).code == ErrorCode.QUEUE_NOT_EXISTING
    missing = await wire.ask(packets.GetQueueName(1 << 40))
    assert (missing.code, missing.related_id) == (ErrorCode.QUEUE_NOT_EXISTING, 1 << 40)
    taken = await wire.ask(packets.CreateQueue(wire.number(), [], "queue 1", packets.QueueSettings()))
    assert (taken.code, taken.details) == (
        ErrorCode.QUEUE_NAME_NOT_UNIQUE,
        "a queue named 'queue 1' exists already",
    )
    assert await pages(wire, packets.GetQueues, 2) == queue_ids


async def test_active_queues_hold_something_for_the_client(connect: Connect) -> None:
    wire, other = await connect(), await connect()
    await wire.register()
    await other.register()
    assert await pages(wire, packets.GetActiveQueues, 2) == []
    empty, anyone, mine, theirs = [await wire.create_queue() for _ in range(4)]
    await wire.put_one(anyone)
    await wire.put_one(mine, receiver_id=wire.client_id)
    await wire.put_one(theirs, receiver_id=other.client_id)
    assert await pages(wire, packets.GetActiveQueues, 1) == [anyone, mine]
    assert await pages(other, packets.GetActiveQueues, 10) == [anyone, theirs]
    assert empty


async def pages(wire: Wire, request: type, limit: int) -> list[int]:
    found: list[int] = []
    more = True
    while more:
        page = await wire.ask(request(found[-1] if found else 0, limit))
        assert len(page.queues) <= limit
        found += [queue.queue_id for queue in page.queues]
        more = page.more
    return found


async def test_browsing_takes_nothing(connect: Connect) -> None:
    wire, other = await connect(), await connect()
    await wire.register()
    await other.register()
    queue_id = await wire.create_queue()
    put_ids = [await wire.put_one(queue_id, body=b"x" * 100, priority=number % 10 + 1) for number in range(7)]
    await wire.put_one(queue_id, receiver_id=other.client_id)
    seen: list[packets.Message] = []
    more = True
    while more:
        after = seen[-1].message_id if seen else 0
        page = await wire.ask(packets.GetMessages(queue_id, after, 3))
        seen += page.messages
        more = page.more
    assert [message.message_id for message in seen] == put_ids
    assert {message.attempt for message in seen} == {0}
    assert len(await wire.read_now(queue_id, max_messages=100)) == 7
    unknown = await wire.ask(packets.GetMessages(1 << 40, 0, 3))
    assert unknown.code == ErrorCode.QUEUE_NOT_EXISTING


async def test_a_page_of_messages_fits_the_frame(connect: Connect) -> None:
    wire = await (await connect()).register()
    queue_id = await wire.create_queue()
    for _ in range(10):
        await wire.put_one(queue_id, body=bytes(4_000))
    small = await connect()
    await small.hello(max_frame=packets.MAX_FRAME_LEAST)
    await small.ask(packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16)))
    seen, more = [], True
    while more:
        page = await small.ask(packets.GetMessages(queue_id, seen[-1] if seen else 0, 1_000))
        assert len(page.encode(1)) <= packets.MAX_FRAME_LEAST + 4
        seen += [message.message_id for message in page.messages]
        more = page.more
    assert len(seen) == 10


async def test_what_is_given_back_returns_to_its_place(wire: Wire, queue_id: int) -> None:
    for body in (b"a", b"b", b"c"):
        await wire.put_one(queue_id, body=body)
    number = wire.number()
    messages = (await wire.ask(read(number, queue_id, max_messages=2))).messages
    references = [packets.HandOverRef(wire.session, number, message.message_id) for message in messages]
    for _ in range(2):
        assert isinstance(await wire.ask(packets.Release(references)), packets.Success)
    again = await wire.read_now(queue_id, max_messages=10)
    assert [message.body for message in again] == [b"a", b"b", b"c"]
    assert [message.redelivered for message in again] == [True, True, False]
    assert [message.attempt for message in again] == [2, 2, 1]


async def test_confirmed_requests_are_forgotten(connect: Connect) -> None:
    wire = await (await connect()).register()
    queue_id = await wire.create_queue()
    await wire.put_one(queue_id)
    await wire.read_now(queue_id)
    assert isinstance(await wire.ask(packets.Confirm([1, 2, 3], [], [])), packets.Success)
    await wire.put_one(queue_id)
    number = wire.number()
    assert (await wire.ask(put(number, queue_id, confirmed=[4]))).results[0].error is None
    await wire.close()
    heir = await connect()
    takeover = await heir.identify(wire.client_id)
    assert [operation.number for operation in takeover.operations] == [number]
    assert takeover.hand_overs == []
    earlier = [packets.OperationRef(takeover.operations[0].session, number)]
    assert isinstance(await heir.ask(packets.Confirm([], earlier, [])), packets.Success)
    assert (await (await connect()).identify(wire.client_id)).operations == []


async def test_a_deleted_client_leaves_its_messages(connect: Connect) -> None:
    wire, other = await connect(), await connect()
    await wire.register()
    await other.register()
    queue_id = await wire.create_queue()
    await wire.put_one(queue_id, body=b"kept")
    assert len(await wire.read_now(queue_id)) == 1
    assert isinstance(await wire.ask(packets.DeleteClient(wire.number(), [])), packets.Success)
    await wire.closed()
    (message,) = await other.read_now(queue_id)
    assert (message.body, message.redelivered) == (b"kept", True)
    late = await connect()
    await late.hello()
    answer = await late.ask(packets.IdentifyClient(wire.client_id, ""))
    assert (answer.code, answer.details) == (
        ErrorCode.CLIENT_NOT_EXISTING,
        f"there is no client {wire.client_id}",
    )


async def test_a_deleted_queue_is_gone(wire: Wire) -> None:
    queue_id = await wire.create_queue("name")
    await wire.put_one(queue_id)
    assert isinstance(await wire.ask(packets.DeleteQueue(wire.number(), [], queue_id)), packets.Success)
    assert (await wire.ask(packets.GetQueueId("name"))).code == ErrorCode.QUEUE_NOT_EXISTING
    assert (await wire.put(queue_id)).results[0].error == ErrorCode.QUEUE_NOT_EXISTING
    again = await wire.ask(packets.DeleteQueue(wire.number(), [], queue_id))
    assert (again.code, again.related_id) == (ErrorCode.QUEUE_NOT_EXISTING, queue_id)
    assert await wire.create_queue("name") != queue_id


@pytest.mark.settings(purge_rows=4)
async def test_purging_counts_what_it_removes(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    for answer in [wire.put(queue_id) for _ in range(11)]:
        await answer
    await wire.read_now(queue_id)
    number = wire.number()
    assert (await wire.ask(packets.PurgeQueue(number, [], queue_id))).removed == 10
    assert await wire.read_now(queue_id) == []
    assert (
        await wire.ask(packets.PurgeQueue(wire.number(), [], 1 << 40))
    ).code == ErrorCode.QUEUE_NOT_EXISTING
    await wire.close()
    takeover = await (await connect(server)).identify(wire.client_id)
    purge = [operation for operation in takeover.operations if operation.number == number]
    assert [result.related_id for result in purge[0].results] == [10]


async def test_settings_change_what_the_next_put_is_told(
    connect: Connect, server: MiddlewareServer, wire: Wire
) -> None:
    queue_id = await wire.create_queue(max_messages=1)
    await wire.put_one(queue_id)
    number = wire.number()
    assert (
        await wire.ask(packets.UpdateQueue(number, [], queue_id, packets.QueueSettings(max_messages=2)))
        == packets.Success()
    )
    assert (
        await wire.ask(packets.UpdateQueue(wire.number(), [], queue_id, packets.QueueSettings()))
        == packets.Success()
    )
    usual = {name: setting.default for name, setting in QUEUE_SETTINGS.items()}
    assert await wire.ask(packets.GetQueueSettings(queue_id)) == packets.GetQueueSettingsResponse(
        packets.QueueSettings(**{**usual, "max_messages": 2})
    )
    await wire.put_one(queue_id)
    lowered = await wire.ask(
        packets.UpdateQueue(wire.number(), [], queue_id, packets.QueueSettings(max_messages=1))
    )
    assert lowered == packets.Success()
    (refused,) = (await wire.ask(put(wire.number(), queue_id))).results
    assert refused.error == ErrorCode.QUEUE_FULL
    unknown = [
        await wire.ask(
            packets.UpdateQueue(wire.number(), [], 1 << 40, packets.QueueSettings(max_messages=1))
        ),
        await wire.ask(packets.GetQueueSettings(1 << 40)),
    ]
    assert [answer.code for answer in unknown] == [ErrorCode.QUEUE_NOT_EXISTING] * 2
    await wire.close()
    takeover = await (await connect(server)).identify(wire.client_id)
    listed = {operation.number: operation.method_id for operation in takeover.operations}
    assert listed[number] == packets.UpdateQueue.METHOD_ID


async def test_statistics_count(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_messages=100)
    for receiver_id in (0, 0, 0, wire.client_id, 77):
        await wire.put_one(queue_id, receiver_id=receiver_id)
    await wire.read_now(queue_id, max_messages=2)
    answer = await wire.ask(packets.GetQueueStatistics(queue_id))
    assert (answer.depth, answer.put_total, answer.taken_total, answer.max_messages) == (3, 5, 2, 100)
    unknown = await wire.ask(packets.GetQueueStatistics(1 << 40))
    assert unknown.code == ErrorCode.QUEUE_NOT_EXISTING
