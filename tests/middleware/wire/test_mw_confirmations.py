"""A success proves that what its request confirms was applied, also when it came to nothing itself."""

import asyncio

from conftest import Connect
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from wire import PATIENCE_S, Wire, put, read


async def _unconfirmed(wire: Wire, connect: Connect) -> set[int]:
    """Numbers that a takeover lists."""
    other = await connect()
    answer = await other.identify(wire.client_id)
    return {listed.number for listed in [*answer.operations, *answer.hand_overs]}


async def test_a_read_cancelled_before_its_turn_confirms(connect: Connect, wire: Wire) -> None:
    queue_id = await wire.create_queue()  # number 1
    await wire.put_one(queue_id)  # number 2
    assert len(await wire.read_now(queue_id)) == 1  # number 3
    before = wire.put(queue_id)  # number 4; keeps the pipeline busy
    cancelled = wire.send(read(wire.number(), queue_id, wait_ms=5000, confirmed=[1, 2, 3]))
    answer = wire.send(packets.CancelRequest(cancelled.packet_id))  # type: ignore[attr-defined]
    await asyncio.wait_for(asyncio.gather(before, cancelled, answer), PATIENCE_S)
    listed = await _unconfirmed(wire, connect)
    assert listed.isdisjoint({1, 2, 3})
    # What it took after all is not lost.
    assert listed == {4} | ({5} if (await cancelled).messages else set())


async def test_a_cancelled_read_that_confirms_does_not_wait(wire: Wire, queue_id: int) -> None:
    full = await wire.create_queue()
    before = wire.put(full)
    cancelled = wire.send(read(wire.number(), queue_id, wait_ms=0xFFFF_FFFF, confirmed=[1]))
    wire.send(packets.CancelRequest(cancelled.packet_id))  # type: ignore[attr-defined]
    await before
    assert (await asyncio.wait_for(cancelled, PATIENCE_S)).messages == []


async def test_what_a_put_confirms_that_is_refused_by_the_rule_is_applied(
    connect: Connect, wire: Wire
) -> None:
    queue_id = await wire.create_queue(max_messages=1)  # number 1
    await wire.put_one(queue_id)  # number 2
    refused = await asyncio.wait_for(wire.put(queue_id), PATIENCE_S)  # number 3
    assert refused.results[0].error == ErrorCode.QUEUE_FULL
    unseen = await wire.ask(put(wire.number(), queue_id, confirmed=[1, 2]))  # number 4
    assert unseen.results[0].error == ErrorCode.QUEUE_FULL
    assert await _unconfirmed(wire, connect) == {3, 4}


async def test_a_refusal_by_the_rule_is_recorded_and_the_other_queues_take_the_message(
    connect: Connect, wire: Wire
) -> None:
    """Were it not on the list of a takeover, it would be sent again, after later puts to the other queues."""
    full, free = await wire.create_queue(max_messages=1), await wire.create_queue()  # numbers 1 and 2
    await wire.put_one(full)  # number 3
    assert (await wire.put(full)).results[0].error == ErrorCode.QUEUE_FULL  # number 4
    assert len(await wire.read_now(full)) == 1  # number 5; there is space now
    both = await wire.ask(put(wire.number(), free, full))  # number 6
    assert [result.error for result in both.results] == [None, ErrorCode.QUEUE_FULL]
    many = [packets.QueuedMessage(queue, packets.NewMessage(5, 0, b"", None)) for queue in (full, free)]
    answer = await wire.ask(packets.PutMessages(wire.number(), [], many))  # number 7
    assert [result.error for result in answer.results] == [ErrorCode.QUEUE_FULL, None]
    assert {6, 7} <= await _unconfirmed(wire, connect)


async def test_the_rule_of_a_full_queue_ends_when_the_client_knows_the_first(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_messages=1)  # number 1
    await wire.put_one(queue_id)  # number 2
    first = await asyncio.wait_for(wire.put(queue_id), PATIENCE_S)  # number 3
    assert first.results[0].error == ErrorCode.QUEUE_FULL
    assert (await wire.put(queue_id)).results[0].error == ErrorCode.QUEUE_FULL  # number 4, by the rule
    assert len(await wire.read_now(queue_id)) == 1  # number 5; there is space now
    # The second tells nothing of the first.
    answer = await wire.ask(put(wire.number(), queue_id, confirmed=[4]))  # number 6
    assert answer.results[0].error == ErrorCode.QUEUE_FULL
    answer = await wire.ask(put(wire.number(), queue_id, confirmed=[3]))
    assert answer.results[0].error is None
