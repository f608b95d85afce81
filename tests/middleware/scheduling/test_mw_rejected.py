"""What is REJECTED has done nothing: neither in the database nor to a live session, whatever the packet.

The rejected request's own record, and what it confirms, are the exceptions.
"""

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from conftest import Connect, StartMiddleware
from members import Member, join, put_all
from requests_of_all import NO_QUEUE, numbered_requests
from telesto.middleware.common.failures import BUSY, RefusedError, UnavailableError
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import REQUESTS, ClientMode
from wire import FULL, PATIENCE_S, READ_ONLY, Wire, frame, hello, put, read

#: Changed by the service itself, some time after what clients did.
_OF_SERVICE = ("middlewares", "jobs", "interests")
TOKEN = bytes(range(16))
RESERVED_TAG = b"\x01\x80\x00\x00\x00\x00\x00"


@dataclass
class World:
    """A service with something in everything, and a client that is about to be rejected."""

    server: MiddlewareServer
    database_url: str
    asker: Wire
    queue_id: int
    full_id: int
    ring_id: int
    subscription_id: int
    held: Member
    reader: Wire

    def state(self) -> dict[str, Any]:
        """All rows, but the records of the client that asks, and what consumers have."""
        rows: dict[str, Any] = {}
        with psycopg.connect(self.database_url) as connection:
            names = connection.execute(
                "SELECT relname FROM pg_class WHERE relnamespace = 'telesto'::regnamespace AND relkind = 'r'"
            ).fetchall()
            for (name,) in names:
                if name in _OF_SERVICE:
                    continue
                query = sql.SQL("SELECT to_jsonb(t)::text FROM telesto.{} AS t ORDER BY 1")
                found = [row for (row,) in connection.execute(query.format(sql.Identifier(name)))]
                mine = f'"client_id": {self.asker.client_id},'
                rows[name] = [row for row in found if name != "operations" or mine not in row]
        consumers = self.server.consumers.by_id.values()
        rows["held"] = {
            consumer.consumer_id: (
                consumer.held_ids,
                consumer.begun_ids,
                consumer.free,
                consumer.touched_at,
                consumer.ended,
            )
            for consumer in consumers
        }
        return rows

    async def alive(self) -> None:
        """The other clients have the sessions that they had."""
        assert len((await self.reader.ask(read(self.reader.number(), self.queue_id))).messages) == 1
        assert await self.held.ack(b"held") == [None]


Ask = Callable[[World], Any]


@pytest.fixture
async def world(connect: Connect, start_middleware: StartMiddleware, database_url: str) -> World:
    server = await start_middleware()
    owner, asker, holder, reader = [await connect(server) for _ in range(4)]
    await owner.register("owner")
    await asker.register("asker")
    await holder.register()
    await reader.hello()
    await reader.ask(packets.RegisterClient("reader", READ_ONLY, TOKEN, attempt=1))
    queue_id = await owner.create_queue("queue")
    full_id = await owner.create_queue("full", max_messages=1)
    ring_id = await owner.create_queue("ring", dead_letter_queue=queue_id)
    held_id = await owner.create_queue()
    for target in (queue_id, queue_id, full_id):
        await owner.put_one(target, body=bytes(1_000))
    held = await join(holder, held_id)
    await put_all(owner, held_id, b"held")
    assert await held.bodies(1) == [b"held"]
    subscribed = await asker.ask(packets.Subscribe(asker.number(), [], "topic"))
    for size in (10, 1_000):
        await owner.ask(
            packets.PutToTopic(owner.number(), [], "topic", [packets.NewTopicMessage(bytes(size))])
        )
    return World(
        server, database_url, asker, queue_id, full_id, ring_id, subscribed.subscription_id, held, reader
    )


def _lease(world: World) -> list[packets.LeaseRef]:
    return [world.held.refs[b"held"]]


def _positions(world: World, confirmed: int) -> list[packets.TopicPosition]:
    return [packets.TopicPosition(world.subscription_id, confirmed, 0)]


def _get(
    world: World, *, subscription_id: int = 0, topic: str = "", size: int = 0, confirmed: int = 0
) -> Any:
    positions = _positions(world, confirmed) if confirmed else []
    return packets.GetFromTopics(subscription_id, topic, positions, 0, 10, size)


def _topic_put(world: World, topic: str) -> Any:
    message = packets.NewTopicMessage(b"late", sequence=5)
    return packets.PutToTopic(world.asker.number(), [], topic, [message])


def _dedup(world: World) -> packets.NewMessage:
    return packets.NewMessage(5, 0, b"", None, dedup_key="key")


#: Requests of an identified client, and what they are rejected with.
CASES: list[tuple[str, ErrorCode, Ask]] = [
    ("Confirm", ErrorCode.INVALID_PARAMETER, lambda w: packets.Confirm([1 << 63], [], [])),
    ("Release", ErrorCode.INVALID_PARAMETER, lambda w: packets.Release([packets.HandOverRef(1, 1, -1)])),
    (
        "ListUnconfirmed",
        ErrorCode.INVALID_PARAMETER,
        lambda w: packets.ListUnconfirmed(packets.OperationRef(0, 0), packets.HandOverRef(0, 0, -1)),
    ),
    (
        "CreateQueue",
        ErrorCode.QUEUE_NAME_NOT_UNIQUE,
        lambda w: packets.CreateQueue(w.asker.number(), [], "full", packets.QueueSettings(max_messages=77)),
    ),
    (
        "CreateQueue",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.CreateQueue(
            w.asker.number(), [], "new", packets.QueueSettings(dead_letter_queue=NO_QUEUE)
        ),
    ),
    (
        "UpdateQueue",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.UpdateQueue(w.asker.number(), [], NO_QUEUE, packets.QueueSettings(max_messages=7)),
    ),
    (
        "UpdateQueue",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.UpdateQueue(
            w.asker.number(),
            [],
            w.queue_id,
            packets.QueueSettings(max_messages=7, dead_letter_queue=NO_QUEUE),
        ),
    ),
    (
        "UpdateQueue",
        ErrorCode.INVALID_PARAMETER,
        lambda w: packets.UpdateQueue(
            w.asker.number(),
            [],
            w.queue_id,
            packets.QueueSettings(max_messages=7, dead_letter_queue=w.ring_id),
        ),
    ),
    (
        "DeleteQueue",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.DeleteQueue(w.asker.number(), [], NO_QUEUE),
    ),
    ("GetQueueId", ErrorCode.QUEUE_NOT_EXISTING, lambda w: packets.GetQueueId("none")),
    ("GetQueueName", ErrorCode.QUEUE_NOT_EXISTING, lambda w: packets.GetQueueName(NO_QUEUE)),
    ("GetQueues", ErrorCode.INVALID_PARAMETER, lambda w: packets.GetQueues(-1, 1)),
    ("GetActiveQueues", ErrorCode.INVALID_PARAMETER, lambda w: packets.GetActiveQueues(-1, 1)),
    ("GetMessages", ErrorCode.QUEUE_NOT_EXISTING, lambda w: packets.GetMessages(NO_QUEUE, 0, 1)),
    ("PutMessage", ErrorCode.QUEUE_FULL, lambda w: put(w.asker.number(), w.full_id, dedup_key="key")),
    ("PutMessage", ErrorCode.QUEUE_NOT_EXISTING, lambda w: put(w.asker.number(), NO_QUEUE, dedup_key="key")),
    (
        "PutMessage",
        ErrorCode.MESSAGE_TOO_LARGE,
        lambda w: put(w.asker.number(), w.queue_id, body=bytes((1 << 20) + 1)),
    ),
    (
        "PutMessages",
        ErrorCode.QUEUE_FULL,
        lambda w: packets.PutMessages(w.asker.number(), [], [packets.QueuedMessage(w.full_id, _dedup(w))]),
    ),
    (
        "PutMessages",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.PutMessages(w.asker.number(), [], [packets.QueuedMessage(NO_QUEUE, _dedup(w))]),
    ),
    ("ReadMessage", ErrorCode.QUEUE_NOT_EXISTING, lambda w: read(w.asker.number(), NO_QUEUE)),
    ("ReadMessage", ErrorCode.MESSAGE_TOO_LARGE, lambda w: read(w.asker.number(), w.queue_id, max_bytes=9)),
    (
        "ReadMessage",
        ErrorCode.MESSAGE_TOO_LARGE,
        lambda w: read(w.asker.number(), w.queue_id, max_bytes=9, mode=packets.ReadMode.TIME),
    ),
    (
        "ReadResponse",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.ReadResponse(w.asker.number(), [], NO_QUEUE, 1, 0),
    ),
    (
        "Subscribe",
        ErrorCode.ALREADY_SUBSCRIBED,
        lambda w: packets.Subscribe(w.asker.number(), [], "topic", max_behind=1),
    ),
    (
        "DeleteTopic",
        ErrorCode.TOPIC_NOT_EXISTING,
        lambda w: packets.DeleteTopic(w.asker.number(), [], "none"),
    ),
    ("DeleteTopic", ErrorCode.TOPIC_IN_USE, lambda w: packets.DeleteTopic(w.asker.number(), [], "topic")),
    ("Unsubscribe", ErrorCode.NOT_SUBSCRIBED, lambda w: packets.Unsubscribe(w.asker.number(), [], "none")),
    ("GetFromTopics", ErrorCode.NOT_SUBSCRIBED, lambda w: _get(w, topic="none", confirmed=1)),
    (
        "GetFromTopics",
        ErrorCode.POSITION_UNKNOWN,
        lambda w: _get(w, subscription_id=w.subscription_id, confirmed=99),
    ),
    (
        "GetFromTopics",
        ErrorCode.MESSAGE_TOO_LARGE,
        lambda w: _get(w, subscription_id=w.subscription_id, size=9),
    ),
    ("ConfirmPositions", ErrorCode.POSITION_UNKNOWN, lambda w: packets.ConfirmPositions(_positions(w, 99))),
    ("PutToTopic", ErrorCode.SEQUENCE_GAP, lambda w: _topic_put(w, "topic")),
    ("PutToTopic", ErrorCode.SEQUENCE_GAP, lambda w: _topic_put(w, "a new one")),
    ("ListTopics", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListTopics(-1, 1)),
    ("ListQueues", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListQueues(0, 1, like="x" * 1_025)),
    ("ListClients", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListClients(0, 1, like="\0")),
    ("ListConsumers", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListConsumers(0, 1, queue_id=0)),
    ("ListMiddlewares", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListMiddlewares(0, 0)),
    ("ListSubscriptions", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListSubscriptions(-1, 1)),
    ("JoinQueue", ErrorCode.QUEUE_NOT_EXISTING, lambda w: packets.JoinQueue(NO_QUEUE, 10, 0)),
    ("Credit", ErrorCode.CONSUMER_NOT_EXISTING, lambda w: packets.Credit(w.held.consumer_id, 0, 0)),
    ("Ack", ErrorCode.LEASE_LOST, lambda w: packets.Ack(w.asker.number(), [], _lease(w))),
    ("Nack", ErrorCode.LEASE_LOST, lambda w: packets.Nack(w.asker.number(), [], _lease(w), True)),
    ("Nack", ErrorCode.LEASE_LOST, lambda w: packets.Nack(w.asker.number(), [], _lease(w), False)),
    ("Touch", ErrorCode.LEASE_LOST, lambda w: packets.Touch(_lease(w))),
    ("Begin", ErrorCode.INVALID_PARAMETER, lambda w: packets.Begin([], True)),
    (
        "PurgeQueue",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.PurgeQueue(w.asker.number(), [], NO_QUEUE),
    ),
    (
        "CancelMessage",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.CancelMessage(w.asker.number(), [], NO_QUEUE, 1),
    ),
    ("GetQueueStatistics", ErrorCode.QUEUE_NOT_EXISTING, lambda w: packets.GetQueueStatistics(NO_QUEUE)),
    ("GetQueueSettings", ErrorCode.QUEUE_NOT_EXISTING, lambda w: packets.GetQueueSettings(NO_QUEUE)),
    ("ListDeadLetters", ErrorCode.INVALID_PARAMETER, lambda w: packets.ListDeadLetters(-1, 0, 1)),
    (
        "RedriveDeadLetters",
        ErrorCode.QUEUE_NOT_EXISTING,
        lambda w: packets.RedriveDeadLetters(w.asker.number(), [], NO_QUEUE, []),
    ),
    (
        "DeleteDeadLetters",
        ErrorCode.INVALID_PARAMETER,
        lambda w: packets.DeleteDeadLetters(w.asker.number(), [], -1, []),
    ),
    ("GetMessageHistory", ErrorCode.MESSAGE_NOT_EXISTING, lambda w: packets.GetMessageHistory(1 << 40)),
]
#: Answered in another state, or never rejected but for the reasons that all packets share.
_ELSEWHERE = {
    "Hello",
    "Authenticate",
    "Ping",
    "CancelRequest",
    "RegisterClient",
    "IdentifyClient",
    "DeleteClient",
    "LeaveQueue",
}


def _codes(answer: Any) -> set[int]:
    """What an answer rejects with, as a whole or each of its parts."""
    if isinstance(answer, packets.Error):
        assert answer.error_class is ErrorClass.REJECTED, answer
        return {answer.code}
    return {result.error for result in answer.results}


def test_there_is_a_case_for_every_request() -> None:
    names = {info.packet.__name__ for info in REQUESTS.values()}
    assert {name for name, _, _ in CASES} | _ELSEWHERE == names


@pytest.mark.parametrize(
    ("name", "code", "make"), CASES, ids=[f"{name}-{code.name}" for name, code, _ in CASES]
)
async def test_a_rejected_request_has_done_nothing(
    world: World, name: str, code: ErrorCode, make: Ask
) -> None:
    before = world.state()
    packet = make(world)
    assert type(packet).__name__ == name
    assert _codes(await world.asker.ask(packet)) == {code}
    assert world.state() == before
    await world.alive()


@pytest.mark.parametrize(
    ("code", "packet"),
    [
        (ErrorCode.CLIENT_NAME_NOT_UNIQUE, packets.RegisterClient("reader", READ_ONLY, os.urandom(16))),
        (ErrorCode.CLIENT_NAME_NOT_UNIQUE, packets.RegisterClient("reader", FULL, os.urandom(16))),
        (
            ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION,
            packets.RegisterClient("reader", FULL, TOKEN, attempt=2),
        ),
        (ErrorCode.INVALID_PARAMETER, packets.RegisterClient("reader", READ_ONLY, b"short")),
        (ErrorCode.CLIENT_NOT_EXISTING, packets.IdentifyClient(0, "nobody")),
        (ErrorCode.CLIENT_NOT_EXISTING, packets.IdentifyClient(1 << 40, "")),
        (ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION, packets.IdentifyClient(0, "reader", mode=FULL)),
        (
            ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION,
            packets.IdentifyClient(0, "reader", token=TOKEN, resume=True, attempt=2, mode=FULL),
        ),
        (ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION, packets.IdentifyClient(0, "owner", mode=READ_ONLY)),
        (ErrorCode.INVALID_PARAMETER, packets.IdentifyClient(0, "reader", token=b"short")),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else type(value).__name__,
)
async def test_a_rejected_connect_has_done_nothing(
    world: World, connect: Connect, code: ErrorCode, packet: Any
) -> None:
    stranger = await connect(world.server)
    await stranger.hello()
    before = world.state()
    assert _codes(await stranger.ask(packet)) == {code}
    assert world.state() == before
    await world.alive()
    # The connection is still nobody's.
    refused = await stranger.ask(put(1, world.queue_id))
    assert refused.code == ErrorCode.NOT_IDENTIFIED


async def _write(wire: Wire, method_id: int, payload: bytes) -> Any:
    packet_id, answer = wire.expect()
    wire.write(frame(method_id, packet_id, payload))
    return await asyncio.wait_for(answer, PATIENCE_S)


def _payloads(world: World) -> dict[int, bytes]:
    """A payload that can be read, by method id, of every numbered packet."""
    return {
        (packet := make(world.asker.number())).METHOD_ID: packet.encode(1)[10:]
        for make in numbered_requests(world.queue_id).values()
    }


async def test_what_cannot_be_read_has_done_nothing(world: World) -> None:
    before = world.state()
    for method_id in REQUESTS:
        if method_id not in (packets.Hello.METHOD_ID, packets.RegisterClient.METHOD_ID):
            assert _codes(await _write(world.asker, method_id, b"\xff" * 7))
    for method_id, payload in _payloads(world).items():
        if payload[-1:] != b"\x00":
            continue  # it has tagged fields already
        answer = await _write(world.asker, method_id, payload[:-1] + RESERVED_TAG)
        assert _codes(answer) == {ErrorCode.UNSUPPORTED_FIELD}
        assert _codes(await _write(world.asker, method_id, payload + b"\x00")) == {ErrorCode.MALFORMED_PACKET}
    assert world.state() == before
    await world.alive()


async def test_what_may_not_be_sent_has_done_nothing(world: World, connect: Connect) -> None:
    reader = await (await connect(world.server)).register(mode=READ_ONLY)
    stranger = await connect(world.server)
    await stranger.hello()
    repeating, greedy = await connect(world.server), await connect(world.server)
    await repeating.register()
    await greedy.register()
    number = 1 << 40
    assert isinstance(await repeating.ask(packets.Unsubscribe(number, [], "none")), packets.Error)
    before = world.state()
    for info in REQUESTS.values():
        if not info.numbered:
            continue
        packet = numbered_requests(world.queue_id)[info.packet.__name__]
        assert _codes(await repeating.ask(packet(number))) == {ErrorCode.NUMBER_REPEATED}
        assert _codes(await stranger.ask(packet(1))) == {ErrorCode.NOT_IDENTIFIED}
        if info.mode is ClientMode.FULL:
            refused = await reader.ask(packet(reader.number()))
            assert _codes(refused) == {ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION}
    for packet in (hello(), packets.RegisterClient("x", FULL, TOKEN), packets.IdentifyClient(0, "reader")):
        assert _codes(await world.asker.ask(packet)) == {ErrorCode.UNEXPECTED_PACKET}
    assert world.state() == before
    await world.alive()


# --- requests of several calls ---------------------------------------------------------------

FAILURES = [RefusedError("XX000", "test"), RefusedError("53200", "test"), UnavailableError("test")]


def _watch_single(patch: pytest.MonkeyPatch, watch: Callable[..., Awaitable[Any]]) -> None:
    """Has single requests' calls answered by a function, or made where it returns None."""
    call = DatabaseConnection.call

    async def watched(link: DatabaseConnection, statement: str, *arguments: Any) -> Any:
        if link.name.startswith(("single", "login")):
            rows = await watch(statement, *arguments)
            if rows is not None:
                return rows
        return await call(link, statement, *arguments)

    patch.setattr(DatabaseConnection, "call", watched)


def _fail_after(patch: pytest.MonkeyPatch, calls: int, then: Callable[[], Awaitable[None]]) -> None:
    """Has single requests' calls fail after some, or something else happen then."""
    made = itertools.count()

    async def failing(*_arguments: Any) -> None:
        if next(made) == calls:
            await then()

    _watch_single(patch, failing)


def _raiser(failure: Exception) -> Callable[[], Awaitable[None]]:
    async def fail() -> None:
        raise failure

    return fail


@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.parametrize("name", ["PurgeQueue", "IdentifyClient"])
@pytest.mark.settings(purge_rows=2, single_workers=1)
async def test_what_was_done_in_part_is_in_doubt(
    server: MiddlewareServer, connect: Connect, monkeypatch: pytest.MonkeyPatch, name: str, failure: Exception
) -> None:
    owner, asker = await connect(server), await connect(server)
    await owner.register()
    queue_id = await owner.create_queue()
    for _ in range(5):
        await owner.put_one(queue_id)
    if name == "PurgeQueue":
        await asker.register()
        packet: Any = packets.PurgeQueue(asker.number(), [], queue_id)
    else:
        await asker.hello()
        packet = packets.IdentifyClient(owner.client_id, "")
    _fail_after(monkeypatch, 1, _raiser(failure))
    answer = await asker.ask(packet)
    assert (answer.code, answer.error_class) == (ErrorCode.IO_ERROR, ErrorClass.IN_DOUBT)


@pytest.mark.parametrize("failure", FAILURES, ids=str)
@pytest.mark.settings(purge_rows=2, single_workers=1)
async def test_what_failed_in_its_first_call_is_not(
    wire: Wire, queue_id: int, monkeypatch: pytest.MonkeyPatch, failure: Exception
) -> None:
    await wire.put_one(queue_id)
    _fail_after(monkeypatch, 0, _raiser(failure))
    answer = await wire.ask(packets.PurgeQueue(wire.number(), [], queue_id))
    assert answer.error_class in (ErrorClass.REJECTED, ErrorClass.RETRYABLE)
    wire.resume()
    assert len(await wire.read_now(queue_id)) == 1


@pytest.mark.settings(purge_rows=2, busy_limit_s=0.5)
async def test_what_stays_busy_after_a_part_is_in_doubt(
    wire: Wire, queue_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(5):
        await wire.put_one(queue_id)
    busy = 0

    async def stay_busy(statement: str, *arguments: Any) -> Any:
        nonlocal busy
        if "telesto.purge_queue_numbered(" in statement and arguments[-1]:
            busy += 1
            return [{"error": BUSY}]
        return None

    _watch_single(monkeypatch, stay_busy)
    answer = await wire.ask(packets.PurgeQueue(wire.number(), [], queue_id))
    assert (answer.code, answer.error_class) == (ErrorCode.IO_ERROR, ErrorClass.IN_DOUBT)
    assert busy > 2


@pytest.mark.settings(purge_rows=2, single_workers=1)
async def test_a_queue_deleted_while_it_is_purged_was_purged(
    server: MiddlewareServer,
    wire: Wire,
    queue_id: int,
    connect: Connect,
    monkeypatch: pytest.MonkeyPatch,
    database_url: str,
) -> None:
    for _ in range(5):
        await wire.put_one(queue_id)

    async def delete() -> None:
        with psycopg.connect(database_url) as connection:
            connection.execute("SELECT telesto.remove_queue(%s)", (queue_id,))

    _fail_after(monkeypatch, 1, delete)
    number = wire.number()
    answer = await wire.ask(packets.PurgeQueue(number, [], queue_id))
    assert isinstance(answer, packets.PurgeQueueResponse)
    assert answer.removed == 2
    takeover = await (await connect(server)).identify(wire.client_id)
    (purge,) = [operation for operation in takeover.operations if operation.number == number]
    assert [(result.related_id, result.error) for result in purge.results] == [(2, None)]
