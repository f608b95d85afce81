"""Messages that failed with one consumer: another one gets them, through any middleware."""

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from members import Member, join, put_all, put_keyed
from telesto.protocol import packets
from wire import Wire

#: What a middleware finds by looking, since nothing wakes it, it finds soon.
QUICK_LOOK = {"wake_sweep_s": 0.02}


#: So long may the other consumer take on a busy machine.
KEEP_LONG = """
CREATE FUNCTION public.keep_long() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.kept_until := NEW.kept_until + interval '27 seconds';
    RETURN NEW;
END
$$;
CREATE TRIGGER keep_long BEFORE INSERT ON telesto.messages FOR EACH ROW
WHEN (NEW.kept_until < clock_timestamp() + interval '3 seconds') EXECUTE FUNCTION public.keep_long();
"""


async def wires(start_middleware: StartMiddleware, connect: Connect, apart: bool) -> tuple[Wire, Wire]:
    """Two clients, of two middlewares or of one."""
    server = await start_middleware(**QUICK_LOOK)
    other = await start_middleware(**QUICK_LOOK) if apart else server
    return await (await connect(server)).register(), await (await connect(other)).register()


async def fail(member: Member, body: bytes, attempt: int) -> None:
    (message,) = await member.next(1)
    assert (message.body, message.attempt) == (body, attempt)
    assert await member.nack(body, failed=True) == [None]


async def make_busy(member: Member, queue_id: int) -> None:
    """Has a consumer with credit for one message work on one."""
    await put_all(member.wire, queue_id, b"long")
    assert await member.bodies(1) == [b"long"]


@pytest.mark.parametrize("apart", [False, True], ids=["one middleware", "two middlewares"])
async def test_consumers_take_turns_with_a_message_that_fails(
    start_middleware: StartMiddleware, connect: Connect, database_url: str, apart: bool
) -> None:
    await _execute(database_url, KEEP_LONG)
    wire, other = await wires(start_middleware, connect, apart)
    queue_id = await wire.create_queue(backoff_ms=0, max_attempts=6)
    member = await join(wire, queue_id)
    await put_all(wire, queue_id, b"bad")
    await member.next(1)
    second = await join(other, queue_id)
    await member.nack(b"bad", failed=True)
    for attempt in range(2, 6, 2):
        await fail(second, b"bad", attempt)
        await fail(member, b"bad", attempt + 1)
    (message,) = await second.next(1)
    assert message.attempt == 6
    assert await second.ack(b"bad") == [None]


@pytest.mark.parametrize("apart", [False, True], ids=["one middleware", "two middlewares"])
async def test_a_message_that_failed_holds_nothing_up_and_goes_to_the_other_as_soon_as_it_has_credit(
    start_middleware: StartMiddleware, connect: Connect, apart: bool
) -> None:
    wire, other = await wires(start_middleware, connect, apart)
    queue_id = await wire.create_queue(backoff_ms=0, max_attempts=2)
    busy = await join(other, queue_id, messages=1)
    await make_busy(busy, queue_id)
    member = await join(wire, queue_id, messages=1)
    await put_all(wire, queue_id, b"bad")
    await fail(member, b"bad", 1)
    for body in (b"1", b"2", b"3"):
        await put_all(wire, queue_id, body)
        assert await member.bodies(1) == [body]
        await member.ack(body)
    await busy.ack(b"long")
    (message,) = await busy.next(1)
    assert (message.body, message.attempt) == (b"bad", 2)


@pytest.mark.parametrize("way", ["leaves", "stays busy", "has no credit"])
@pytest.mark.parametrize("apart", [False, True], ids=["one middleware", "two middlewares"])
async def test_it_comes_again_when_the_other_does_not_take_it(
    start_middleware: StartMiddleware, connect: Connect, database_url: str, apart: bool, way: str
) -> None:
    wire, other = await wires(start_middleware, connect, apart)
    queue_id = await wire.create_queue(backoff_ms=0, max_attempts=2)
    busy = await join(other, queue_id, messages=1)
    await make_busy(busy, queue_id)
    member = await join(wire, queue_id)
    await put_all(wire, queue_id, b"bad")
    await fail(member, b"bad", 1)
    await put_all(wire, queue_id, b"good")
    assert await member.bodies(1) == [b"good"]
    if way == "leaves":
        await other.ask(packets.LeaveQueue(busy.consumer_id))
        assert {message.attempt for message in await member.next(2)} == {1, 2}
        return
    if way == "has no credit":
        await other.ask(packets.Credit(busy.consumer_id, 0, 0))
    else:
        await _execute(database_url, "UPDATE telesto.messages SET kept_until = clock_timestamp()")
    (message,) = await member.next(1)
    assert (message.body, message.attempt) == (b"bad", 2)


async def _execute(database_url: str, sql: str) -> None:
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute(sql)
    finally:
        await connection.close()


@pytest.mark.parametrize("apart", [False, True], ids=["one middleware", "two middlewares"])
async def test_a_partition_goes_to_another_consumer_after_three_failures(
    start_middleware: StartMiddleware, connect: Connect, apart: bool
) -> None:
    wire, other = await wires(start_middleware, connect, apart)
    queue_id = await wire.create_queue(backoff_ms=0)
    member = await join(wire, queue_id, messages=1)
    await put_keyed(wire, queue_id, "a1", "a2")
    await member.next(1)
    second = await join(other, queue_id, messages=1)
    await member.nack(b"a1", failed=True)
    for attempt in (2, 3):
        await fail(member, b"a1", attempt)
    (message,) = await second.next(1)
    assert (message.body, message.attempt) == (b"a1", 4)
    await second.ack(b"a1")
    assert await second.bodies(1) == [b"a2"]


async def test_the_only_consumer_gets_everything_again(wire: Wire) -> None:
    queue_id = await wire.create_queue(backoff_ms=0)
    member = await join(wire, queue_id, messages=1)
    await put_all(wire, queue_id, b"bad")
    for attempt in range(1, 6):
        await fail(member, b"bad", attempt)
    await put_keyed(wire, queue_id, "a1", "a2")
    for attempt in range(1, 6):
        await fail(member, b"a1", attempt)
    assert await member.bodies(1) == [b"a2"]
