"""Consumers on the wire: pushed deliveries, credit, answers, and every way in which a consumer ends."""

import asyncio
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from members import join, put_all, put_keyed
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.consumers.claim_loop import ClaimLoop
from telesto.middleware.consumers.claim_tracker import ClaimTracker
from telesto.middleware.database.disk import Disk
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.requests import Pipeline
from telesto.middleware.server import MiddlewareServer
from telesto.middleware.waiting.room import Announcer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import LeaseRef
from wire import PATIENCE_S, READ_ONLY, Wire, until
from workbench import empty_room, without_database


async def set_lease(database_url: str, lease_ms: int) -> None:
    import asyncpg

    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE telesto.queues SET lease_ms = $1", lease_ms)
    await connection.close()


async def test_what_waits_is_pushed_and_what_comes(wire: Wire, queue_id: int) -> None:
    await put_all(wire, queue_id, b"1", b"2")
    member = await join(wire, queue_id)
    assert await member.bodies(2) == [b"1", b"2"]
    await put_all(wire, queue_id, b"3")
    assert await member.bodies(1) == [b"3"]
    assert await member.ack(b"1", b"2", b"3") == [None, None, None]
    assert await member.ack(b"1") == [ErrorCode.LEASE_LOST]


async def test_credit_bounds_what_a_consumer_has(wire: Wire, queue_id: int) -> None:
    await put_all(wire, queue_id, b"1", b"2", b"3", b"4")
    member = await join(wire, queue_id, messages=0)
    assert await wire.read_now(queue_id) != []
    await wire.ask(packets.Credit(member.consumer_id, 1, 0))
    assert await member.bodies(1) == [b"2"]
    assert await member.ack(b"2") == [None]
    assert await member.bodies(1) == [b"3"]
    await wire.ask(packets.Credit(member.consumer_id, 2, 0))
    assert await member.bodies(1) == [b"4"]


async def test_credit_in_bytes(wire: Wire, queue_id: int) -> None:
    await put_all(wire, queue_id, b"a" * 6, b"b" * 6, b"c" * 20, b"d")
    member = await join(wire, queue_id, size=12)
    assert await member.bodies(2) == [b"a" * 6, b"b" * 6]
    await member.ack(b"a" * 6)
    await member.ack(b"b" * 6)
    assert await member.bodies(1) == [b"c" * 20]
    await member.ack(b"c" * 20)
    assert await member.bodies(1) == [b"d"]


async def test_credit_of_an_unknown_consumer(wire: Wire) -> None:
    answer = await wire.ask(packets.Credit(77, 1, 0))
    assert answer.code == ErrorCode.CONSUMER_NOT_EXISTING


async def test_consumers_share_equally(server: MiddlewareServer, connect: Connect) -> None:
    first, second = [await (await connect(server)).register() for _ in range(2)]
    queue_id = await first.create_queue()
    members = [await join(first, queue_id), await join(second, queue_id)]
    await until(lambda: server.counters.claims_total and not server.consumers.queues[queue_id].standing)
    answer = await first.ask(
        packets.PutMessages(
            first.number(),
            [],
            [packets.QueuedMessage(queue_id, packets.NewMessage(5, 0, b"%d" % i, None)) for i in range(10)],
        )
    )
    assert isinstance(answer, packets.PutMessagesResponse)
    bodies = [await member.bodies(5) for member in members]
    assert sorted(bodies[0] + bodies[1]) == [b"%d" % i for i in range(10)]


async def test_consumers_of_several_middlewares(start_middleware: StartMiddleware, connect: Connect) -> None:
    servers = [await start_middleware(heartbeat_interval_s=0.05) for _ in range(2)]
    wires = [await (await connect(server)).register() for server in servers]
    await until(lambda: all(server.peers.others for server in servers))
    queue_id = await wires[0].create_queue()
    far = await join(wires[1], queue_id)
    await put_all(wires[0], queue_id, b"1")
    assert await far.bodies(1) == [b"1"]


async def test_a_returned_message_comes_again(wire: Wire) -> None:
    queue_id = await wire.create_queue(backoff_ms=0)
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id)
    (message,) = await member.next(1)
    assert (message.attempt, message.redelivered) == (1, False)
    assert await member.nack(b"1", failed=True) == [None]
    (message,) = await member.next(1)
    assert (message.attempt, message.redelivered) == (2, True)


@pytest.mark.settings(due_sweep_interval_s=0.02)
async def test_a_delayed_message_is_pushed_at_its_time(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id)
    await wire.put_one(queue_id, body=b"later", delay_ms=1_500)
    await wire.put_one(queue_id, body=b"now", delay_ms=0)
    assert await member.bodies(2) == [b"now", b"later"]


@pytest.mark.settings(due_sweep_interval_s=0.02)
async def test_a_message_given_back_for_a_time_comes_after_it(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id, messages=1)
    await put_all(wire, queue_id, b"1", b"2")
    await member.next(1)
    answer = await wire.ask(packets.Nack(wire.number(), [], [member.refs[b"1"]], False, delay_ms=1_500))
    assert [result.error for result in answer.results] == [None]
    assert await member.bodies(1) == [b"2"]
    await member.ack(b"2")
    (message,) = await member.next(1)
    assert (message.body, message.attempt) == (b"1", 1)


async def test_a_rejected_message_is_a_dead_letter_at_once(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id)
    await put_all(wire, queue_id, b"1")
    await member.next(1)
    refs = [member.refs[b"1"]]
    for failed, reason in ((True, ""), (True, "x" * 1_001), (True, "a\0b"), (False, "why"), (True, None)):
        nack = packets.Nack(wire.number(), [], refs, failed, reason=reason, rejected=reason is None)
        refused = await wire.ask(nack)
        assert isinstance(refused, packets.Error)
        assert refused.code == ErrorCode.INVALID_PARAMETER
        assert ("rejected" if reason is None else "reason") in refused.details
    rejected = packets.Nack(wire.number(), [], refs, True, reason="no such task", rejected=True)
    answer = await wire.ask(rejected)
    assert [result.error for result in answer.results] == [None]
    letters = (await wire.ask(packets.ListDeadLetters(queue_id, 0, 10))).letters
    assert [(letter.message.body, letter.reason) for letter in letters] == [(b"1", "rejected: no such task")]


@pytest.mark.settings(due_sweep_interval_s=0.02)
async def test_what_has_expired_is_removed_and_its_space_free(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_messages=1, bury_expired=True)
    message_id = await wire.put_one(queue_id, body=b"short", expires_ms=1)

    async def letters() -> list[packets.DeadLetter]:
        answer = await wire.ask(packets.ListDeadLetters(queue_id, 0, 10))
        assert isinstance(answer, packets.ListDeadLettersResponse)
        return answer.letters

    found = await letters()
    while not found:
        found = await letters()
    assert [(letter.message.message_id, letter.reason) for letter in found] == [(message_id, "expired")]
    await wire.put_one(queue_id, body=b"again")
    assert [message.body for message in await wire.read_now(queue_id)] == [b"again"]


async def test_redriving_pushes_to_who_waits(wire: Wire) -> None:
    queue_id = await wire.create_queue(max_attempts=1)
    member = await join(wire, queue_id)
    await put_all(wire, queue_id, b"1")
    await member.next(1)
    await member.nack(b"1", failed=True)
    page = await wire.ask(packets.ListDeadLetters(queue_id, 0, 10))
    assert [(letter.message.body, letter.reason) for letter in page.letters] == [(b"1", "failed")]
    answer = await wire.ask(packets.RedriveDeadLetters(wire.number(), [], queue_id, []))
    assert answer.redriven == 1
    assert await member.bodies(1) == [b"1"]
    answer = await wire.ask(packets.DeleteDeadLetters(wire.number(), [], queue_id, [1]))
    assert answer.deleted == 0


@pytest.mark.settings(due_sweep_interval_s=0.02)
async def test_a_dead_letter_goes_on_to_who_waits(wire: Wire) -> None:
    morgue = await wire.create_queue()
    queue_id = await wire.create_queue(max_attempts=1, dead_letter_queue=morgue)
    undertaker, member = await join(wire, morgue), await join(wire, queue_id)
    message_id = await wire.put_one(queue_id, body=b"1")
    await member.next(1)
    await member.nack(b"1", failed=True)
    (message,) = await undertaker.next(1)
    assert message.origin is not None
    assert (message.origin.queue_id, message.origin.message_id) == (queue_id, message_id)
    assert (message.origin.reason, message.origin.attempt, message.attempt) == ("failed", 1, 1)
    await undertaker.nack(b"1", failed=False)
    await undertaker.next(1)
    await wire.ask(packets.LeaveQueue(undertaker.consumer_id))
    (read,) = await wire.read_now(morgue)
    assert read.origin == message.origin


async def test_a_wrong_dead_letter_queue_is_refused(wire: Wire, queue_id: int) -> None:
    for wrong, code, related_id, details in (
        (
            queue_id,
            ErrorCode.INVALID_PARAMETER,
            queue_id,
            f"queue {queue_id} was not changed: its dead letters would come back from queue {queue_id}",
        ),
        (99, ErrorCode.QUEUE_NOT_EXISTING, 99, "there is no queue 99"),
    ):
        answer = await wire.ask(
            packets.UpdateQueue(wire.number(), [], queue_id, packets.QueueSettings(dead_letter_queue=wrong))
        )
        assert (answer.code, answer.related_id, answer.details) == (code, related_id, details)


async def test_leaving_gives_back(connect: Connect) -> None:
    wire, other = await (await connect()).register(), await (await connect()).register()
    queue_id = await wire.create_queue()
    await put_all(wire, queue_id, b"1", b"2")
    member = await join(wire, queue_id)
    await member.next(2)
    assert await member.ack(b"1") == [None]
    heir = await join(other, queue_id)
    assert isinstance(await wire.ask(packets.LeaveQueue(member.consumer_id)), packets.Success)
    assert isinstance(await wire.ask(packets.LeaveQueue(member.consumer_id)), packets.Success)
    (message,) = await heir.next(1)
    assert (message.body, message.attempt) == (b"2", 1)
    assert await member.ack(b"2") == [ErrorCode.LEASE_LOST]


async def test_a_lost_connection_gives_back_at_once(connect: Connect) -> None:
    wire, other = await (await connect()).register(), await (await connect()).register()
    queue_id = await wire.create_queue()
    await put_all(wire, queue_id, b"1", b"2")
    member = await join(wire, queue_id)
    await member.next(2)
    member.begin(b"1", b"2")
    heir = await join(other, queue_id)
    await wire.drain()
    await wire.close()
    messages = await heir.next(2)
    assert [(message.body, message.attempt) for message in messages] == [(b"1", 2), (b"2", 2)]


@pytest.mark.settings(due_sweep_interval_s=0.02, lost_leases_s=0.02)
async def test_a_lease_that_ran_out_is_told(wire: Wire, queue_id: int, database_url: str) -> None:
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id, messages=1)
    await member.next(1)
    await set_lease(database_url, 100)
    assert await member.nack(b"1") == [None]
    await member.next(1)
    await set_lease(database_url, 30_000)
    lost = await member.lost()
    assert (lost.leases, lost.ended, lost.code) == ([member.refs[b"1"]], False, ErrorCode.LEASE_LOST)
    assert await member.ack(b"1") == [ErrorCode.LEASE_LOST]
    (message,) = await member.next(1)
    assert message.attempt == 1  # it was not begun


async def test_a_touched_lease_goes_on(wire: Wire, queue_id: int) -> None:
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id)
    await member.next(1)
    ref = member.refs[b"1"]
    answer = await wire.ask(packets.Touch([ref, LeaseRef(ref.consumer_id, ref.lease_id, 10**9)]))
    assert [result.error for result in answer.results] == [None, ErrorCode.LEASE_LOST]


async def test_deleting_the_queue_ends_its_consumers(wire: Wire, queue_id: int) -> None:
    await put_all(wire, queue_id, b"1")
    member = await join(wire, queue_id)
    await member.next(1)
    await wire.ask(packets.DeleteQueue(wire.number(), [], queue_id))
    lost = await member.lost()
    assert (lost.leases, lost.ended, lost.code) == ([member.refs[b"1"]], True, ErrorCode.QUEUE_NOT_EXISTING)


async def test_joining_needs_a_queue(connect: Connect) -> None:
    wire = await (await connect()).register(mode=READ_ONLY)
    answer = await wire.ask(packets.JoinQueue(10**9, 1, 0))
    assert answer.code == ErrorCode.QUEUE_NOT_EXISTING


async def test_consumers_of_a_fenced_session_end_with_their_connection(connect: Connect) -> None:
    wire = await (await connect()).register()
    queue_id = await wire.create_queue()
    await join(wire, queue_id)
    later = await connect()
    await later.identify(wire.client_id)
    await later.put_one(queue_id, body=b"1")
    error = await asyncio.wait_for(wire.unasked.get(), PATIENCE_S)
    assert (type(error), error.code) == (packets.Error, ErrorCode.SESSION_FENCED)
    await wire.closed()
    heir = await join(later, queue_id)
    assert await heir.bodies(1) == [b"1"]


async def test_a_middleware_that_stops_gives_back_without_counting(
    start_middleware: StartMiddleware, connect: Connect
) -> None:
    first, second = [await start_middleware() for _ in range(2)]
    wire = await (await connect(first)).register()
    queue_id = await wire.create_queue()
    await put_all(wire, queue_id, b"1")
    await (await join(wire, queue_id)).next(1)
    first.request_stop()
    await first.wait_closed()
    heir = await join(await (await connect(second)).register(), queue_id)
    (message,) = await heir.next(1)
    assert message.attempt == 1


async def test_a_middleware_taken_for_dead_has_its_consumers_join_again(
    server: MiddlewareServer, wire: Wire, queue_id: int, database_url: str
) -> None:
    member = await join(wire, queue_id)
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM telesto.middlewares")
    await connection.close()
    server.registry.poke()
    lost = await member.lost()
    assert (lost.ended, lost.code) == (True, ErrorCode.CONSUMER_NOT_EXISTING)
    member = await join(wire, queue_id)
    await put_all(wire, queue_id, b"1")
    assert await member.bodies(1) == [b"1"]


async def test_large_messages_leave_in_several_frames(server: MiddlewareServer, connect: Connect) -> None:
    wire = await connect(server)
    await wire.hello(max_frame=100_000)
    answer = await wire.ask(packets.RegisterClient("small", packets.ClientMode.FULL, b"0" * 16))
    wire.client_id = answer.client_id
    queue_id = await wire.create_queue()
    bodies = [bytes([65 + i]) * 40_000 for i in range(5)]
    await put_all(wire, queue_id, *bodies)
    member = await join(wire, queue_id)
    assert await member.bodies(5) == bodies


@pytest.mark.parametrize("packet", [packets.Ack, packets.Nack, packets.Touch])
async def test_answers_without_messages_are_refused(wire: Wire, packet: Any) -> None:
    arguments: list[Any] = [[]]
    if packet is not packets.Touch:
        arguments = [wire.number(), [], []]
    if packet is packets.Nack:
        arguments.append(False)
    answer = await wire.ask(packet(*arguments))
    assert answer.code == ErrorCode.INVALID_PARAMETER


async def test_a_queue_whose_consumers_have_lost_their_credit_is_not_forgotten() -> None:
    settings = ServerSettings.load()
    room = empty_room()
    announcer = Announcer(room, lambda arrivals: None)
    consumers, _ = without_database(room, announcer, settings)
    pipeline = Pipeline(
        lambda frame: None, lambda: None, lambda client: None, lambda packet_id, outcome: None
    )
    claims: list[tuple[Any, ...]] = []

    async def claim(*arguments: Any) -> list[Any]:
        claims.append(arguments)
        claim_loop.close()
        return []

    counters = Counters()
    disk = Disk(claim, counters, settings, asyncio.get_running_loop().time)
    claim_loop = ClaimLoop(
        consumers, ClaimTracker(consumers, announcer, counters, settings), claim, disk, settings
    )
    consumers.join(1, 1, pipeline, 5, 0)
    consumer = consumers.find(pipeline, 1)
    assert consumer is not None
    consumers.set_credit(consumer, 0, 0)
    work = asyncio.create_task(claim_loop.run())
    await until(lambda: not consumers.due)
    consumers.set_credit(consumer, 5, 0)
    await asyncio.wait_for(work, PATIENCE_S)
    assert len(claims) == 1


# ---------------------------------------------------------------------------------- partitions
def names_of(messages: list[packets.Message]) -> list[str]:
    return [message.body.decode() for message in messages]


async def test_partitions_go_to_consumers_of_several_middlewares(
    start_middleware: StartMiddleware, connect: Connect
) -> None:
    servers = [await start_middleware(heartbeat_interval_s=0.05) for _ in range(2)]
    wires = [await (await connect(server)).register() for server in servers]
    await until(lambda: all(server.peers.others for server in servers))
    queue_id = await wires[0].create_queue()
    members = [await join(wire, queue_id) for wire in wires]
    await until(lambda: all(server.counters.claims_total for server in servers))
    await put_keyed(wires[0], queue_id, *[f"{key}{i}" for i in range(5) for key in "ab"])
    found = [names_of(await member.next(5)) for member in members]
    assert sorted(found) == [[f"{key}{i}" for i in range(5)] for key in "ab"]


async def test_a_message_tells_its_partition(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id)
    await put_keyed(wire, queue_id, "a")
    (message,) = await member.next(1)
    assert message.partition_key == "a"


async def test_more_of_a_partition_comes_as_there_is_credit(wire: Wire, queue_id: int) -> None:
    await put_keyed(wire, queue_id, "a1", "a2", "a3", "b1")
    member = await join(wire, queue_id, messages=1)
    seen = []
    for _ in range(4):
        (message,) = await member.next(1)
        seen.append(message.body.decode())
        assert await member.ack(message.body) == [None]
    assert [name for name in seen if name[0] == "a"] == ["a1", "a2", "a3"]
    assert sorted(seen) == ["a1", "a2", "a3", "b1"]


async def test_what_comes_back_with_another_message_is_told(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id)
    await put_keyed(wire, queue_id, "a1", "a2", "a3")
    await member.next(3)
    old = dict(member.refs)
    assert await member.nack(b"a1") == [None]
    lost = await member.lost()
    assert sorted(lost.leases, key=lambda ref: ref.message_id) == [old[b"a2"], old[b"a3"]]
    assert (lost.ended, lost.code) == (False, ErrorCode.LEASE_LOST)
    assert names_of(await member.next(3)) == ["a1", "a2", "a3"]


async def test_a_partition_goes_on_once_what_was_before_is_answered(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id)
    await put_keyed(wire, queue_id, "a1", "a2")
    await member.next(2)
    assert await member.nack(b"a2") == [None]
    assert await member.ack(b"a1") == [None]
    assert names_of(await member.next(1)) == ["a2"]


async def test_a_consumer_that_joins_gets_its_share(connect: Connect) -> None:
    first, second = await (await connect()).register(), await (await connect()).register()
    queue_id = await first.create_queue()
    member = await join(first, queue_id, messages=2)
    await put_keyed(first, queue_id, *[f"{key}{i}" for key in "abcdef" for i in range(3)])
    held = names_of(await member.next(2))
    heir = await join(second, queue_id, messages=100)
    got = names_of(await heir.next(9))
    mine = {name[0] for name in got}
    assert len(mine) == 3
    assert not mine & {name[0] for name in held}
    assert all([name for name in got if name[0] == key] == [f"{key}{i}" for i in range(3)] for key in mine)


async def test_a_lost_consumer_leaves_its_partitions_in_order(connect: Connect) -> None:
    wire, other = await (await connect()).register(), await (await connect()).register()
    queue_id = await wire.create_queue()
    member = await join(wire, queue_id)
    await put_keyed(wire, queue_id, *[f"a{i}" for i in range(5)])
    await member.next(5)
    member.begin(b"a3")
    assert await member.ack(b"a0", b"a1", b"a2") == [None] * 3
    heir = await join(other, queue_id)
    await wire.close()
    messages = await heir.next(2)
    assert [(message.body, message.attempt) for message in messages] == [(b"a3", 2), (b"a4", 1)]


@pytest.mark.settings(due_sweep_interval_s=0.02)
async def test_a_delayed_head_lets_its_partition_go_on_at_its_time(wire: Wire, queue_id: int) -> None:
    member = await join(wire, queue_id)
    await wire.put_one(queue_id, body=b"a1", partition_key="a", delay_ms=1_500)
    await put_keyed(wire, queue_id, "a2", "b1")
    assert names_of(await member.next(3)) == ["b1", "a1", "a2"]


async def test_partitions_without_messages_are_forgotten(
    start_middleware: StartMiddleware, connect: Connect, database_url: str
) -> None:
    import asyncpg

    server = await start_middleware(due_sweep_interval_s=0.02)
    wire = await (await connect(server)).register()
    queue_id = await wire.create_queue()
    member = await join(wire, queue_id)
    await put_keyed(wire, queue_id, "a1", "b1")
    await member.next(2)
    connection = await asyncpg.connect(database_url)
    count = "SELECT count(*) FROM telesto.partitions"
    assert await connection.fetchval(count) == 2
    await member.ack(b"a1", b"b1")
    while await connection.fetchval(count):
        pass
    await connection.close()
    await put_keyed(wire, queue_id, "a2")
    assert names_of(await member.next(1)) == ["a2"]


async def test_a_partition_key_and_a_receiver_exclude_each_other(wire: Wire, queue_id: int) -> None:
    for message in ({"partition_key": "a", "receiver_id": wire.client_id}, {"partition_key": ""}):
        answer = await asyncio.wait_for(wire.put(queue_id, **message), PATIENCE_S)
        assert answer.code == ErrorCode.INVALID_PARAMETER
