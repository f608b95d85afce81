"""What is known of a message, on the wire; the job of the history among several middlewares."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from members import join
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import HistoryMode, MessageState
from wire import READ_ONLY, Wire, until

FULL_HISTORY = {"history": HistoryMode.FULL}


async def history(wire: Wire, message_id: int, queue_id: int | None = None) -> list[packets.MessageRecord]:
    answer = await wire.ask(packets.GetMessageHistory(message_id, queue_id=queue_id))
    assert isinstance(answer, packets.GetMessageHistoryResponse), answer
    return answer.records


async def confirm(wire: Wire) -> None:
    """Confirms all that the wire has asked for."""
    numbers = list(range(1, wire.number()))
    assert await wire.ask(packets.Confirm(numbers, [], [])) == packets.Success()


async def test_settings_of_the_history_are_told_and_changed(wire: Wire) -> None:
    queue_id = await wire.create_queue(history=HistoryMode.FULL, history_days=31)
    settings = (await wire.ask(packets.GetQueueSettings(queue_id))).settings
    assert (settings.history, settings.history_days) == (HistoryMode.FULL, 31)
    changed = packets.UpdateQueue(
        wire.number(), [], queue_id, packets.QueueSettings(history=HistoryMode.NONE, history_days=1)
    )
    assert await wire.ask(changed) == packets.Success()
    settings = (await wire.ask(packets.GetQueueSettings(queue_id))).settings
    assert (settings.history, settings.history_days) == (HistoryMode.NONE, 1)
    for days in (0, 367):
        answer = await wire.ask(
            packets.UpdateQueue(wire.number(), [], queue_id, packets.QueueSettings(history_days=days))
        )
        assert answer.code == ErrorCode.INVALID_PARAMETER
        assert "history_days" in answer.details


async def test_a_message_is_known_from_its_put_to_its_end(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    first, second = await start_middleware(), await start_middleware()
    sender, reader = await connect(first), await connect(second)
    await sender.register()
    await reader.register()
    queue_id = await sender.create_queue(**FULL_HISTORY)
    message_id = await sender.put_one(queue_id, body=b"hello", context=-1)
    (ready,) = await history(reader, message_id)
    assert (ready.state, ready.sender_id, ready.attempt) == (MessageState.READY, sender.client_id, 0)
    assert (ready.put_through, ready.client_id) == (first.peers.middleware_id, None)
    await reader.read_now(queue_id)
    (handed,) = await history(sender, message_id, queue_id)
    assert (handed.state, handed.client_id) == (MessageState.HANDED_OVER, reader.client_id)
    assert (handed.session, handed.ended_at, handed.body) == (reader.session, None, None)
    await confirm(reader)
    (over,) = await history(sender, message_id)
    assert (over.state, over.body, over.context) == (MessageState.CONFIRMED, b"hello", -1)
    assert over.put_address == "{}:{}".format(*first.address)
    assert over.handed_over_address == "{}:{}".format(*second.address)
    assert over.handed_over_through == second.peers.middleware_id
    assert over.handed_over_at == handed.handed_over_at
    assert ready.time_of_arrival <= over.handed_over_at <= over.ended_at  # type: ignore[operator]


async def test_an_end_for_which_there_is_no_partition_yet_may_be_told_again(
    wire: Wire, queue_id: int, database_url: str
) -> None:
    """The database sees to it that there is one; nobody should lose a message by it when it does not."""
    await wire.put_one(queue_id, body=b"x")
    member = await join(wire, queue_id)
    await member.next(1)
    admin = await asyncpg.connect(database_url)
    days = await admin.fetchval("SELECT days FROM telesto.history_calendar")
    await admin.execute("UPDATE telesto.history_calendar SET days = ARRAY['2200-01-01'::date]")
    refused = await wire.ask(packets.Ack(wire.number(), [], [member.refs[b"x"]]))
    assert (refused.code, refused.error_class) == (ErrorCode.OVERLOADED, ErrorClass.RETRYABLE)
    await admin.execute("UPDATE telesto.history_calendar SET days = $1", days)
    await admin.close()
    wire.number()  # to leave one out says that the refusal is known
    assert await member.ack(b"x") == [None]


async def test_what_a_consumer_had_is_known(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_attempts=2, backoff_ms=0)
    message_id = await wire.put_one(queue_id, body=b"x")
    member = await join(wire, queue_id)
    await member.next(1)
    (leased,) = await history(wire, message_id)
    assert (leased.state, leased.consumer_id) == (MessageState.LEASED, member.consumer_id)
    assert leased.deadline == leased.handed_over_at + 30_000_000  # type: ignore[operator]
    assert leased.handed_over_through == leased.put_through is not None
    await member.nack(b"x", failed=True)
    await member.next(1)
    await member.ack(b"x")
    records = await history(wire, message_id)
    assert [(record.state, record.reason, record.attempt) for record in records] == [
        (MessageState.RETURNED, "failed", 1),
        (MessageState.ACKNOWLEDGED, None, 2),
    ]
    assert {record.consumer_id for record in records} == {member.consumer_id}


async def test_selective_reads_and_reads_of_responses_say_through_which_middleware(
    wire: Wire, queue_id: int
) -> None:
    chosen = await wire.put_one(queue_id)
    response = await wire.put_one(queue_id, receiver_id=wire.client_id, context=7)
    assert await wire.read_now(queue_id, sender_id=wire.client_id, mode=packets.ReadMode.TIME)
    answer = await wire.ask(packets.ReadResponse(wire.number(), [], queue_id, 7, 0))
    assert len(answer.messages) == 1
    for message_id in (chosen, response):
        (record,) = await history(wire, message_id)
        assert record.handed_over_through == record.put_through is not None


async def test_a_delayed_message_is_known(wire: Wire, queue_id: int) -> None:
    message_id = await wire.put_one(queue_id, delay_ms=3_600_000)
    (record,) = await history(wire, message_id)
    assert (record.state, record.due_at) == (MessageState.DELAYED, record.time_of_arrival + 3_600_000_000)


async def test_of_an_unknown_message_nothing_is_known(connect: Connect) -> None:
    wire = await (await connect()).register(mode=READ_ONLY)
    answer = await wire.ask(packets.GetMessageHistory(1 << 40))
    assert (answer.code, answer.related_id) == (ErrorCode.MESSAGE_NOT_EXISTING, 1 << 40)
    assert str(1 << 40) in answer.details


@pytest.mark.parametrize(
    "packet",
    [packets.GetMessageHistory(0), packets.GetMessageHistory(-1), packets.GetMessageHistory(1, queue_id=0)],
)
async def test_what_cannot_be_an_id_is_refused(wire: Wire, packet: packets.GetMessageHistory) -> None:
    assert (await wire.ask(packet)).code == ErrorCode.INVALID_PARAMETER


async def test_a_search_that_was_cut_short_asks_for_the_queue(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    wire = await connect(await start_middleware(max_history_probes=1))
    await wire.register()
    queue_ids = [await wire.create_queue() for _ in range(3)]
    ids = [
        await wire.put_one(queue_id, receiver_id=7, priority=2) for queue_id in queue_ids for _ in range(2)
    ]
    answer = await wire.ask(packets.GetMessageHistory(max(ids) + 1000))
    assert "name its queue" not in answer.details, "no queue can hold it"
    await wire.put_one(queue_ids[0])
    answers = [await wire.ask(packets.GetMessageHistory(ids[-1]))]
    assert "name its queue" in answers[0].details


async def test_a_body_that_no_frame_holds_is_left_out(connect: Connect) -> None:
    wire, small = await connect(), await connect()
    await wire.register()
    queue_id = await wire.create_queue(**FULL_HISTORY)
    message_id = await wire.put_one(queue_id, body=b"x" * 100_000)
    await wire.read_now(queue_id)
    await confirm(wire)
    await small.hello(max_frame=65_536)
    await small.ask(packets.RegisterClient("small", READ_ONLY, bytes(16)))
    (record,) = await history(small, message_id)
    assert (record.state, record.body) == (MessageState.CONFIRMED, None)
    (record,) = await history(wire, message_id)
    assert record.body == b"x" * 100_000


async def test_one_of_the_middlewares_makes_the_partitions_and_another_one_goes_on(
    start_middleware: StartMiddleware, database_url: str
) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        servers = [await start_middleware(sweep_interval_s=0.02) for _ in range(2)]
        needed = datetime.now(UTC).date() + timedelta(days=9)

        async def made() -> bool:
            days: list[Any] = await connection.fetchval("SELECT days FROM telesto.history_calendar")
            return needed in days

        await until(made)
        # As if midnight had passed while nobody made partitions: all but the first are gone.
        async with connection.transaction():
            for name in await _names(connection):
                await connection.execute(f"DROP TABLE telesto.{name}")
            await connection.execute("DELETE FROM telesto.history_partitions WHERE name <> 'history_floor'")
            await connection.execute("UPDATE telesto.history_calendar SET days = '{2000-01-01}'")
        holder = await connection.fetchval("SELECT holder FROM telesto.jobs WHERE job = 'history'")
        gone = next(server for server in servers if server.peers.middleware_id == holder)
        gone.request_stop()
        await gone.wait_closed()
        await until(made)
    finally:
        await connection.close()


async def _names(connection: Any) -> list[str]:
    rows = await connection.fetch("SELECT name FROM telesto.history_partitions WHERE name <> 'history_floor'")
    return [row[0] for row in rows]


async def test_messages_go_on_while_partitions_are_made_and_dropped(
    connect: Connect, start_middleware: StartMiddleware, database_url: str
) -> None:
    wire = await connect(await start_middleware(sweep_interval_s=0.01))
    await wire.register()
    queue_id = await wire.create_queue()
    # Whose partitions go within the week that the turns below run ahead; those of the other queue's stay.
    await wire.create_queue(history_days=1)
    connection = await asyncpg.connect(database_url)
    moment = datetime.now(UTC)
    turn = "SELECT done FROM telesto.sweep_history($1, 1000)"
    ids = []
    try:
        for hours in range(0, 24 * 7, 2):
            sweeping = asyncio.create_task(connection.fetchval(turn, moment + timedelta(hours=hours)))
            ids.append(await wire.put_one(queue_id))
            (message,) = await wire.read_now(queue_id)
            assert message.message_id == ids[-1]
            await confirm(wire)
            await sweeping
    finally:
        await connection.close()
    assert {record.state for each in ids for record in await history(wire, each)} == {MessageState.CONFIRMED}
