"""Numbered requests: numbers rise, few are unconfirmed, sessions end."""

import pytest

from conftest import Connect
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import MAX_FRAME_LEAST
from wire import Wire, put, read


async def test_numbers_must_rise(wire: Wire, queue_id: int) -> None:
    assert (await wire.ask(put(10, queue_id))).results[0].error is None
    for number in (10, 9, 1):
        answer = await wire.ask(put(number, queue_id))
        assert (answer.code, answer.error_class) == (ErrorCode.NUMBER_REPEATED, ErrorClass.REJECTED)
    assert (await wire.ask(put(11, queue_id))).results[0].error is None
    messages = await wire.ask(read(12, queue_id, max_messages=10))
    assert len(messages.messages) == 2


@pytest.mark.settings(max_unconfirmed=2)
async def test_number_0_is_not_counted(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    for _ in range(5):
        assert (await wire.ask(put(0, queue_id))).results[0].error is None
    assert len((await wire.ask(read(0, queue_id, max_messages=10))).messages) == 5
    await wire.close()
    heir = await connect(server)
    takeover = await heir.identify(wire.client_id)
    assert takeover.hand_overs == []
    assert [operation.method_id for operation in takeover.operations] == [packets.CreateQueue.METHOD_ID]


async def test_the_1025th_unconfirmed_request_is_refused(wire: Wire, queue_id: int) -> None:
    answers = [wire.put(queue_id) for _ in range(1_023)]
    for answer in answers:
        assert (await answer).results[0].error is None
    refused = await wire.put(queue_id)
    assert (refused.code, refused.error_class) == (ErrorCode.TOO_MANY_UNCONFIRMED, ErrorClass.RETRYABLE)
    # Nothing overtakes it, also not what confirms some and would find space.
    behind = await wire.ask(put(wire.number(), queue_id, confirmed=[1, 2]))
    assert behind.code == ErrorCode.TOO_MANY_UNCONFIRMED
    wire.resume()
    assert (await wire.ask(put(wire.number(), queue_id, confirmed=[1, 2]))).results[0].error is None
    # Its own number counts from then on.
    assert (await wire.put(queue_id)).results[0].error is None
    assert (await wire.put(queue_id)).code == ErrorCode.TOO_MANY_UNCONFIRMED
    assert isinstance(await wire.ask(packets.Confirm([3, 4], [], [])), packets.Success)
    wire.resume()
    assert (await wire.put(queue_id)).results[0].error is None


async def test_only_what_was_sent_before_can_be_confirmed(connect: Connect) -> None:
    wire = await (await connect()).register()
    queue_id = await wire.create_queue()
    for beyond in (0, 1, 1_000):
        number = wire.number()
        refused = await wire.ask(put(number, queue_id, confirmed=[1, number + beyond]))
        assert (refused.code, refused.error_class) == (ErrorCode.INVALID_PARAMETER, ErrorClass.REJECTED)
        assert "confirmed" in refused.details
    await wire.close()
    heir = await (await connect()).identify(wire.client_id)
    assert [operation.number for operation in heir.operations] == [1]


@pytest.mark.settings(max_unconfirmed=2)
async def test_what_leaves_no_record_is_not_counted(wire: Wire, queue_id: int) -> None:
    for _ in range(5):
        assert await wire.read_now(queue_id) == []
    assert await wire.put_one(queue_id)
    assert (await wire.put(queue_id)).code == ErrorCode.TOO_MANY_UNCONFIRMED


@pytest.mark.settings(max_unconfirmed=2)
async def test_a_recorded_refusal_is_counted(connect: Connect, server: MiddlewareServer, wire: Wire) -> None:
    queue_id = await wire.create_queue("name")
    taken = await wire.ask(packets.CreateQueue(wire.number(), [], "name", packets.QueueSettings()))
    assert taken.code == ErrorCode.QUEUE_NAME_NOT_UNIQUE
    assert (await wire.put(queue_id)).code == ErrorCode.TOO_MANY_UNCONFIRMED
    await wire.close()
    takeover = await (await connect(server)).identify(wire.client_id)
    assert [operation.results[0].error for operation in takeover.operations] == [
        None,
        ErrorCode.QUEUE_NAME_NOT_UNIQUE,
    ]


@pytest.mark.settings(max_unconfirmed=3)
async def test_a_read_is_unconfirmed_until_its_last_message_is_confirmed(wire: Wire, queue_id: int) -> None:
    for _ in range(2):
        await wire.ask(put(0, queue_id))
    number = wire.number()
    messages = (await wire.ask(read(number, queue_id, max_messages=5))).messages
    assert len(messages) == 2
    references = [packets.HandOverRef(wire.session, number, message.message_id) for message in messages]
    await wire.put_one(queue_id)
    assert (await wire.put(queue_id)).code == ErrorCode.TOO_MANY_UNCONFIRMED
    await wire.ask(packets.Confirm([], [], references[:1]))
    wire.resume()
    assert (await wire.put(queue_id)).code == ErrorCode.TOO_MANY_UNCONFIRMED
    await wire.ask(packets.Confirm([], [], references[1:]))
    wire.resume()
    assert (await wire.put(queue_id)).results[0].error is None


async def test_confirming_what_is_unknown_is_harmless(wire: Wire, queue_id: int) -> None:
    confirm = packets.Confirm(
        [5, 6, 7], [packets.OperationRef(99, 1)], [packets.HandOverRef(wire.session, 1, 4_711)]
    )
    for _ in range(2):
        assert isinstance(await wire.ask(confirm), packets.Success)
    answer = await wire.ask(put(wire.number(), queue_id, confirmed=[1, 1]))
    assert answer.results[0].error is None
    assert (await wire.ask(put(0, queue_id, confirmed=[1, 2, 1_000]))).results[0].error is None


async def test_a_fenced_session_is_told_and_closed(connect: Connect) -> None:
    old = await (await connect()).register()
    queue_id = await old.create_queue()
    new = await connect()
    takeover = await new.identify(old.client_id)
    assert takeover.session == old.session + 1
    requests = [old.put(queue_id), old.put(queue_id), old.read(queue_id)]
    first = await requests[0]
    assert (first.code, first.error_class) == (ErrorCode.SESSION_FENCED, ErrorClass.FATAL)
    await old.closed()
    assert await new.read_now(queue_id) == []


async def test_a_fenced_session_cannot_confirm_or_create(connect: Connect) -> None:
    wire = await (await connect()).register()
    for packet in (packets.Confirm([1], [], []), packets.CreateQueue(1, [], "name", packets.QueueSettings())):
        old = await connect()
        await old.identify(wire.client_id)
        await (await connect()).identify(wire.client_id)
        answer = await old.ask(packet)
        assert answer.code == ErrorCode.SESSION_FENCED
        await old.closed()


async def test_a_takeover_lists_what_was_done(connect: Connect) -> None:
    old = await (await connect()).register()
    queue_id = await old.create_queue()
    message_id = await old.put_one(queue_id, body=b"first")
    confirmed_id = await old.put_one(queue_id, body=b"second")
    answer = await old.put(queue_id, (1 << 62))
    assert answer.results[1].error == ErrorCode.QUEUE_NOT_EXISTING
    assert isinstance(await old.ask(packets.Confirm([3], [], [])), packets.Success)
    (message,) = await old.read_now(queue_id)
    await old.close()

    heir = await connect()
    takeover = await heir.identify(old.client_id)
    assert (takeover.session, takeover.next_number) == (2, 1)
    listed = [(operation.number, operation.method_id) for operation in takeover.operations]
    assert listed == [
        (1, packets.CreateQueue.METHOD_ID),
        (2, packets.PutMessage.METHOD_ID),
        (4, packets.PutMessage.METHOD_ID),
    ]
    assert takeover.operations[0].results[0].related_id == queue_id
    assert takeover.operations[1].results[0].related_id == message_id
    assert [result.error for result in takeover.operations[2].results] == [None, ErrorCode.QUEUE_NOT_EXISTING]
    (hand_over,) = takeover.hand_overs
    assert (hand_over.session, hand_over.number, hand_over.message.message_id) == (1, 5, message.message_id)
    assert hand_over.message.body == b"first"
    assert confirmed_id not in [
        result.related_id for operation in takeover.operations for result in operation.results
    ]


@pytest.mark.settings(max_page_rows=7)
async def test_a_takeover_comes_in_pages(connect: Connect, server: MiddlewareServer) -> None:
    old = await (await connect(server)).register()
    queue_id = await old.create_queue()
    for answer in [old.put(queue_id, body=bytes(300)) for _ in range(20)]:
        assert (await answer).results[0].error is None
    for answer in [old.read(queue_id) for _ in range(20)]:
        assert len((await answer).messages) == 1
    await old.close()

    heir = await connect(server)
    await heir.hello(max_frame=MAX_FRAME_LEAST)
    page = await heir.ask(packets.IdentifyClient(old.client_id, ""))
    operations, hand_overs = list(page.operations), list(page.hand_overs)
    assert page.more
    while page.more:
        after_operation, after_hand_over = packets.OperationRef(0, 0), packets.HandOverRef(0, 0, 0)
        if operations:
            after_operation = packets.OperationRef(operations[-1].session, operations[-1].number)
        if hand_overs:
            last = hand_overs[-1]
            after_hand_over = packets.HandOverRef(last.session, last.number, last.message.message_id)
        page = await heir.ask(packets.ListUnconfirmed(after_operation, after_hand_over))
        assert len(page.encode(1)) <= MAX_FRAME_LEAST + 4
        operations += page.operations
        hand_overs += page.hand_overs
    assert [operation.number for operation in operations] == list(range(1, 22))
    assert [hand_over.number for hand_over in hand_overs] == list(range(22, 42))


async def test_a_registration_is_repeated_with_its_token(connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    packet = packets.RegisterClient("name", packets.ClientMode.FULL, b"0123456789abcdef")
    first = await wire.ask(packet)
    again = await connect()
    await again.hello()
    second = await again.ask(packet)
    assert (second.client_id, second.session) == (first.client_id, first.session + 1)
    other = await connect()
    await other.hello()
    answer = await other.ask(packets.RegisterClient("name", packets.ClientMode.FULL, bytes(16)))
    assert answer.code == ErrorCode.CLIENT_NAME_NOT_UNIQUE
    assert "'name' exists already" in answer.details
    assert "existing=" not in answer.details
    # The connection is still nobody's: it may identify.
    found = await other.ask(packets.IdentifyClient(0, "name"))
    assert found.client_id == first.client_id


def _error_of(answer: packets.PutMessageResponse | packets.Error) -> int | None:
    """Why a put into one queue was refused, whichever way it was said."""
    return answer.code if isinstance(answer, packets.Error) else answer.results[0].error


async def test_a_full_queue_keeps_order(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_messages=2)
    first = wire.number()
    answers = [wire.send(put(first, queue_id))] + [wire.put(queue_id) for _ in range(4)]
    full = ErrorCode.QUEUE_FULL
    assert [_error_of(await answer) for answer in answers] == [None, None, full, full, full]
    assert len(await wire.read_now(queue_id, max_messages=10)) == 2
    assert _error_of(await wire.put(queue_id)) == full
    # The first that the queue refused; the others were under way behind it.
    answer = await wire.ask(put(wire.number(), queue_id, confirmed=[first + 2]))
    assert answer.results[0].error is None


async def test_a_takeover_lists_what_fills_a_frame(connect: Connect) -> None:
    old = await connect()
    await old.hello(max_frame=MAX_FRAME_LEAST)
    answer = await old.ask(packets.RegisterClient("n" * 255, packets.ClientMode.FULL, bytes(16)))
    queue_ids = [
        (await old.ask(packets.CreateQueue(number, [], f"q{number}", packets.QueueSettings()))).queue.queue_id
        for number in (1, 2)
    ]
    elements = [packets.QueuedMessage(queue_ids[0], packets.NewMessage(5, 0, b"", None))] * 600
    assert len((await old.ask(packets.PutMessages(3, [], elements))).results) == 600
    large = bytes(16_180)
    assert (await old.ask(put(4, queue_ids[1], body=large))).results[0].error is None
    assert (await old.ask(read(5, queue_ids[1]))).messages[0].body == large
    await old.close()

    heir = await connect()
    await heir.hello(max_frame=MAX_FRAME_LEAST)
    page = await heir.ask(packets.IdentifyClient(answer.client_id, ""))
    operations, hand_overs = list(page.operations), list(page.hand_overs)
    while page.more:
        last = operations[-1] if operations else packets.OperationResult(0, 0, 0, [])
        after = packets.HandOverRef(0, 0, 0)
        if hand_overs:
            after = packets.HandOverRef(
                hand_overs[-1].session, hand_overs[-1].number, hand_overs[-1].message.message_id
            )
        page = await heir.ask(packets.ListUnconfirmed(packets.OperationRef(last.session, last.number), after))
        assert isinstance(page, packets.ListUnconfirmedResponse), page
        operations += page.operations
        hand_overs += page.hand_overs
    assert [operation.number for operation in operations] == [1, 2, 3, 4]
    assert len(operations[2].results) == 600
    assert [hand_over.message.body for hand_over in hand_overs] == [large]


async def test_what_is_too_large_for_a_takeover_is_named_and_stays(connect: Connect) -> None:
    """A client that comes back with smaller frames is told of all that there is, and of the rest in full."""
    old = await (await connect()).register()
    queue_id = await old.create_queue()
    bodies = [bytes(size) for size in (10, 20_000, 20, 30_000, 40_000, 16_000)]
    for body in bodies:
        await old.put_one(queue_id, body=body)
    messages: list[packets.Message] = []
    while len(messages) < len(bodies):
        messages += (await old.ask(read(old.number(), queue_id, max_messages=10))).messages
    assert [message.body for message in messages] == bodies
    await old.close()

    for frame_bytes, large in ((MAX_FRAME_LEAST, [1, 3, 4]), (1 << 20, [])):
        heir = await connect()
        await heir.hello(max_frame=frame_bytes)
        hand_overs, too_large = await list_all(heir, old.client_id)
        assert [ref.message_id for ref in too_large] == [messages[index].message_id for index in large]
        listed_bodies = [hand_over.message.body for hand_over in hand_overs]
        assert listed_bodies == [body for index, body in enumerate(bodies) if index not in large]
        await heir.close()


async def test_what_is_too_large_for_a_takeover_can_be_given_back(connect: Connect) -> None:
    old = await (await connect()).register()
    queue_id = await old.create_queue()
    await old.put_one(queue_id, body=bytes(20_000))
    (message,) = await old.read_now(queue_id)
    await old.close()
    heir = await connect()
    await heir.hello(max_frame=MAX_FRAME_LEAST)
    _, too_large = await list_all(heir, old.client_id)
    assert isinstance(await heir.ask(packets.Release(too_large)), packets.Success)
    other = await (await connect()).register()
    assert [again.message_id for again in await other.read_now(queue_id)] == [message.message_id]


async def list_all(wire: Wire, client_id: int) -> tuple[list[packets.HandOver], list[packets.HandOverRef]]:
    """All hand-overs of a takeover, and what is only named for its size."""
    page = await wire.ask(packets.IdentifyClient(client_id, ""))
    after_operation = packets.OperationRef(0, 0)
    hand_overs: list[packets.HandOver] = []
    too_large: list[packets.HandOverRef] = []
    while True:
        for operation in page.operations:
            after_operation = packets.OperationRef(operation.session, operation.number)
        hand_overs += page.hand_overs
        too_large += page.too_large or ()
        if not page.more:
            return hand_overs, too_large
        listed = [(each.session, each.number, each.message.message_id) for each in hand_overs]
        listed += [(each.session, each.number, each.message_id) for each in too_large]
        after = packets.HandOverRef(*max(listed, default=(0, 0, 0)))
        page = await wire.ask(packets.ListUnconfirmed(after_operation, after))
        assert isinstance(page, packets.ListUnconfirmedResponse), page
