"""Messages are cancelled while they wait: each is either handed over or cancelled."""

import asyncio
import random

import pytest

from conftest import Connect
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import Wire


@pytest.mark.parametrize("message", [{}, {"delay_ms": 1}, {"receiver": True}])
async def test_readers_and_cancellations_share_what_waits(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int, message: dict[str, int]
) -> None:
    fields = {"receiver_id": wire.client_id} if "receiver" in message else message
    message_ids = [await wire.put_one(queue_id, **fields) for _ in range(100)]
    canceller = await (await connect(server)).register()
    cancelled: set[int] = set()
    handed_over: list[int] = []

    async def cancel() -> None:
        for message_id in random.sample(message_ids, len(message_ids)):
            packet = packets.CancelMessage(canceller.number(), [], queue_id, message_id)
            answer = await canceller.ask(packet)
            assert isinstance(answer, packets.CancelMessageResponse), answer
            if answer.cancelled:
                cancelled.add(message_id)

    async def read() -> None:
        while messages := await wire.read_now(queue_id, max_messages=2):
            handed_over.extend(found.message_id for found in messages)

    await asyncio.gather(cancel(), read())
    await read()
    assert sorted([*handed_over, *cancelled]) == message_ids
    figures = await wire.ask(packets.GetQueueStatistics(queue_id))
    assert (figures.depth, figures.directed_depth, figures.delayed) == (0, 0, 0)


async def test_what_became_of_a_cancellation_is_recorded(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    message_id = await wire.put_one(queue_id)
    number = wire.number()
    assert (await wire.ask(packets.CancelMessage(number, [], queue_id, message_id))).cancelled
    await wire.close()
    takeover = await (await connect(server)).identify(wire.client_id)
    [cancelled] = [operation for operation in takeover.operations if operation.number == number]
    assert [result.related_id for result in cancelled.results] == [1]


@pytest.mark.settings(max_history_probes=8)
async def test_a_queue_of_too_many_partitions_to_look_into_says_so(wire: Wire, queue_id: int) -> None:
    found = [await wire.put_one(queue_id, partition_key=str(key)) for key in range(20)]
    answers = [
        await wire.ask(packets.CancelMessage(wire.number(), [], queue_id, message_id)) for message_id in found
    ]
    refused = [answer for answer in answers if isinstance(answer, packets.Error)]
    assert refused
    assert len(refused) < len(found)
    assert {answer.code for answer in refused} == {ErrorCode.MESSAGE_NOT_EXISTING}
    figures = await wire.ask(packets.GetQueueStatistics(queue_id))
    assert figures.depth == len(refused)
