"""Headers on the wire: hostile ones are refused, and they fit the frames of all that carries messages."""

import asyncio
import os
from typing import Any

import pytest

from conftest import Connect
from members import join
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from telesto.protocol.headers import content_bytes
from telesto.protocol.packets import MAX_FRAME_LEAST, Header
from wire import FULL, READ_ONLY, Wire, put, read

#: As long as headers may be, with characters of which JSON makes six.
LARGEST = [Header(f"{number:0128}", "\x01" * 1_024) for number in range(7)] + [Header("n", "\x01" * 127)]


@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ([Header("", "x")], "a name has 0 bytes"),
        ([Header("é" * 65, "x")], "a name has 130 bytes"),
        ([Header("a\0", "x")], "control characters"),
        ([Header("n", "x" * 1_025)], "1025 bytes"),
        ([Header("n", "\0")], "NUL"),
        ([Header("n", "1"), Header("n", "2")], "twice"),
        ([Header(str(number), "") for number in range(65)], "65 headers"),
        ([*LARGEST, Header("m", "")], "8193 bytes"),
        ([Header(str(number), "x" * 1_000) for number in range(60)], "bytes of names and values"),
    ],
)
async def test_hostile_ones_are_refused(wire: Wire, queue_id: int, headers: list[Header], words: str) -> None:
    one = put(wire.number(), queue_id, headers=headers)
    many = packets.PutMessages(wire.number(), [], [packets.QueuedMessage(queue_id, one.message)])
    for packet in (one, many):
        answer = await wire.ask(packet)
        assert answer.code == ErrorCode.INVALID_PARAMETER
        assert answer.details.startswith("headers: ")
        assert words in answer.details
    assert await wire.read_now(queue_id) == []


async def test_hostile_ones_are_refused_by_topics(wire: Wire) -> None:
    for headers, words in (
        ([Header("n", "1"), Header("n", "2")], "twice"),
        ([Header("n", "\0")], "NUL"),
        ([*LARGEST, Header("m", "")], "8193 bytes"),
    ):
        messages = [packets.NewTopicMessage(b"x"), packets.NewTopicMessage(b"x", headers=headers)]
        answer = await wire.ask(packets.PutToTopic(wire.number(), [], "t", messages))
        assert answer.code == ErrorCode.INVALID_PARAMETER
        assert words in answer.details
    headers = [Header("n", "v")]
    for size, fits in (((1 << 20) - 22, True), ((1 << 20) - 21, False)):
        messages = [packets.NewTopicMessage(bytes(size), headers=headers)]
        answer = await wire.ask(packets.PutToTopic(wire.number(), [], "t", messages))
        assert (getattr(answer, "code", None) != ErrorCode.MESSAGE_TOO_LARGE) is fits


async def test_the_least_frame_holds_the_largest_headers_of_topics(connect: Connect) -> None:
    wire = await connect()
    await wire.hello(max_frame=MAX_FRAME_LEAST)
    await wire.ask(packets.RegisterClient("client", FULL, os.urandom(16)))
    await wire.ask(packets.Subscribe(wire.number(), [], "t"))
    for _ in range(2):
        messages = [packets.NewTopicMessage(bytes(5_000), headers=LARGEST)]
        answer = await wire.ask(packets.PutToTopic(wire.number(), [], "t", messages))
        assert answer.results[0].error is None
    answer = await wire.ask(packets.GetFromTopics(0, "t", [], 0, 10, 0))
    assert [len(message.headers) for message in answer.messages] == [len(LARGEST)]
    assert answer.messages[0].body == bytes(5_000)


async def test_surrogates_are_refused(wire: Wire, queue_id: int) -> None:
    good = put(wire.number(), queue_id, headers=[Header("n", "abc")])
    packet_id, answer = wire.expect()
    wire.write(good.encode(packet_id).replace(b"abc", b"\xed\xa0\x80"))
    assert (await answer).code == ErrorCode.MALFORMED_PACKET
    assert await wire.read_now(queue_id) == []


async def test_an_empty_list_is_none(wire: Wire, queue_id: int) -> None:
    await wire.put_one(queue_id, headers=[])
    (message,) = await wire.read_now(queue_id)
    assert message.headers is None


async def test_they_count_as_bytes_of_the_body(wire: Wire, queue_id: int) -> None:
    headers = [Header("n", "v")]
    largest = (1 << 20) - 16 - 4 - 2
    answer = await wire.ask(put(wire.number(), queue_id, body=bytes(largest + 1), headers=headers))
    assert answer.code == ErrorCode.MESSAGE_TOO_LARGE
    await wire.put_one(queue_id, body=bytes(largest), headers=headers)
    (message,) = await wire.read_now(queue_id)
    assert (content_bytes(message), message.headers) == (1 << 20, headers)


async def test_the_least_frame_holds_the_largest_headers_wherever_they_go(connect: Connect) -> None:
    wire = await connect()
    await wire.hello(max_frame=MAX_FRAME_LEAST)
    answer = await wire.ask(packets.RegisterClient("client", FULL, os.urandom(16)))
    wire.client_id, wire.session = answer.client_id, answer.session
    queue_id = await wire.create_queue(max_attempts=1, backoff_ms=0, history=packets.HistoryMode.FULL)
    body = bytes(5_000)
    ids = [await wire.put_one(queue_id, body=body, headers=LARGEST) for _ in range(3)]

    def check(messages: list[Any]) -> None:
        for message in messages:
            assert {header.name: header.value for header in message.headers} == {
                h.name: h.value for h in LARGEST
            }
            assert message.body == body

    # Two of them do not fit one frame.
    page = await wire.ask(packets.GetMessages(queue_id, 0, 10))
    check(page.messages)
    assert len(page.messages) == 1
    answer = await wire.ask(read(wire.number(), queue_id, max_messages=10))
    check(answer.messages)
    assert len(answer.messages) == 1
    given = [packets.HandOverRef(wire.session, 5, answer.messages[0].message_id)]
    assert isinstance(await wire.ask(packets.Release(given)), packets.Success)
    member = await join(wire, queue_id)
    pushed: list[packets.Message] = []
    refs = []
    while len(pushed) < 3:
        async with asyncio.timeout(60):
            deliver = await wire.unasked.get()
        assert len(deliver.deliveries) == 1
        pushed.append(deliver.deliveries[0].message)
        refs.append(
            packets.LeaseRef(member.consumer_id, deliver.deliveries[0].lease_id, pushed[-1].message_id)
        )
    check(pushed)
    answer = await wire.ask(packets.Nack(wire.number(), [], refs, True))
    assert [result.error for result in answer.results] == [None] * 3
    page = await wire.ask(packets.ListDeadLetters(queue_id, 0, 2))
    check([letter.message for letter in page.letters])
    assert len(page.letters) == 1
    # The history has less space beside its records: for all of them, for one, for none.
    for frame_bytes, seen in (
        (1 << 20, (True, True)),
        (32_768, (False, True)),
        (MAX_FRAME_LEAST, (False, False)),
    ):
        watcher = await connect()
        await watcher.hello(max_frame=frame_bytes)
        await watcher.ask(packets.RegisterClient(f"watcher {frame_bytes}", READ_ONLY, os.urandom(16)))
        *_, ended, letter = (await watcher.ask(packets.GetMessageHistory(ids[0]))).records
        assert (ended.headers is not None, letter.headers is not None) == seen
    answer = await wire.ask(packets.RedriveDeadLetters(wire.number(), [], queue_id, []))
    assert answer.redriven == 3


async def test_a_takeover_lists_them_page_by_page(connect: Connect) -> None:
    old = await (await connect()).register()
    queue_id = await old.create_queue()
    for _ in range(3):
        await old.put_one(queue_id, body=bytes(5_000), headers=LARGEST)
    messages: list[packets.Message] = []
    while len(messages) < 3:
        messages += await old.read_now(queue_id, max_messages=3)
    await old.close()
    heir = await connect()
    await heir.hello(max_frame=MAX_FRAME_LEAST)
    page = await heir.ask(packets.IdentifyClient(old.client_id, ""))
    found = list(page.hand_overs)
    operations = list(page.operations)
    while page.more:
        last = operations[-1]
        after = packets.HandOverRef(0, 0, 0)
        if found:
            after = packets.HandOverRef(found[-1].session, found[-1].number, found[-1].message.message_id)
        page = await heir.ask(packets.ListUnconfirmed(packets.OperationRef(last.session, last.number), after))
        assert len(page.hand_overs) <= 1
        found += page.hand_overs
        operations += page.operations
        assert not page.too_large
    assert [hand_over.message for hand_over in found] == messages
