"""What the document's table says of each refusal holds: its number, its record, and the connection after it.

Each error that can refuse a numbered request is made to happen on a real middleware.
"""

import os
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from conftest import Connect, StartMiddleware
from logged_in import add_user, logged_in
from requests_of_all import NO_QUEUE, numbered_requests
from telesto.middleware.common.failures import (
    LostError,
    RefusedError,
    UnavailableError,
    connections_exhausted,
)
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from test_mw_refusals import drain, overload, relieve, shut
from tools.codegen.loading import load
from wire import FOREVER_MS, READ_ONLY, Wire, frame, hello, put

SPEC = load(Path(__file__).parents[3] / "protocol" / "spec" / "telesto.toml")
ERRORS = {error.name: error for error in SPEC.errors}
NUMBERED = {error.name for error in SPEC.errors if error.number != "none"}
MAX_UNCONFIRMED = 12


@dataclass
class Scene:
    """An identified connection with a queue of its own."""

    wire: Wire
    queue_id: int
    server: MiddlewareServer
    connect: Connect
    patch: pytest.MonkeyPatch
    database_url: str

    async def other(self) -> Wire:
        if self.server.users.required:
            return await logged_in(self.server, self.connect, "alice")
        return await self.connect(self.server)

    async def send(self, name: str, number: int) -> Any:
        """Sends a valid request of a kind."""
        return await self.wire.ask(numbered_requests(self.queue_id)[name](number))

    async def raw(self, data: Callable[[int], bytes]) -> Any:
        """Sends a frame made from its packet id."""
        packet_id, answer = self.wire.expect()
        self.wire.write(data(packet_id))
        return await answer

    async def failing(self, error: Exception, number: int) -> Any:
        """Sends a put whose call of the database ends so."""

        async def call(*_arguments: Any) -> Any:
            raise error

        with self.patch.context() as patch:
            patch.setattr(DatabaseConnection, "call", call)
            return await self.send("PutMessage", number)


Case = Callable[[Scene, int], Awaitable[Any]]
CASES: dict[tuple[str, str], Case] = {}


def case(name: str, how: str = "") -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[name, how] = function
        return function

    return add


@case("UNEXPECTED_PACKET")
async def _(scene: Scene, number: int) -> Any:
    waiting = scene.wire.read(scene.queue_id, wait_ms=FOREVER_MS)
    await scene.wire.ask(packets.Ping())
    number = scene.wire.number()
    scene.wire.write(put(number, scene.queue_id).encode(waiting.packet_id))  # type: ignore[attr-defined]
    return number, await waiting


@case("QUEUE_NAME_NOT_UNIQUE")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(packets.CreateQueue(number, [], "taken", packets.QueueSettings()))


@case("CLIENT_NOT_EXISTING")
async def _(scene: Scene, number: int) -> Any:
    heir = await scene.other()
    await heir.identify(scene.wire.client_id)
    assert isinstance(await heir.ask(packets.DeleteClient(1, [])), packets.Success)
    return await scene.send("PutMessage", number)


@case("QUEUE_NOT_EXISTING")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(packets.DeleteQueue(number, [], NO_QUEUE))


@case("QUEUE_NOT_EXISTING", "in a result")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(put(number, NO_QUEUE))


@case("QUEUE_NOT_EXISTING", "unless")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(packets.ReadResponse(number, [], NO_QUEUE, 1, 0))


@case("INVALID_PARAMETER")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(put(number, -1))


@case("INVALID_PARAMETER", "unless")
async def _(scene: Scene, number: int) -> Any:
    second = await scene.wire.ask(
        packets.CreateQueue(number, [], "b", packets.QueueSettings(dead_letter_queue=scene.queue_id))
    )
    number = scene.wire.number()
    ring = packets.UpdateQueue(
        number, [], scene.queue_id, packets.QueueSettings(dead_letter_queue=second.queue.queue_id)
    )
    return number, await scene.wire.ask(ring)


@case("PERMISSION_DENIED")
async def _(scene: Scene, number: int) -> Any:
    await scene.wire.close()
    with psycopg.connect(scene.database_url, autocommit=True) as database:
        add_user(database, "alice", get=["taken"], clients=["*"])
    scene.wire = await (await logged_in(scene.server, scene.connect, "alice")).register()
    number = scene.wire.number()
    return number, await scene.send("PutMessage", number)


@case("QUOTA_EXCEEDED")
async def _(scene: Scene, number: int) -> Any:
    await scene.wire.close()
    with psycopg.connect(scene.database_url, autocommit=True) as database:
        add_user(database, "alice", configure=["*"], get=["*"], clients=["*"], max_queues=0)
    scene.wire = await (await logged_in(scene.server, scene.connect, "alice")).register()
    number = scene.wire.number()
    return number, await scene.wire.ask(packets.CreateQueue(number, [], "another", packets.QueueSettings()))


@case("CLIENT_MODE_PERMISSION_VIOLATION")
async def _(scene: Scene, number: int) -> Any:
    await scene.wire.close()
    scene.wire = await scene.other()
    await scene.wire.register(mode=READ_ONLY)
    number = scene.wire.number()
    return number, await scene.send("PutMessage", number)


@case("UNSUPPORTED_FIELD")
async def _(scene: Scene, number: int) -> Any:
    def data(packet_id: int) -> bytes:
        payload = packets.DeleteQueue(number, [], scene.queue_id).encode(packet_id)[10:-1]
        return frame(packets.DeleteQueue.METHOD_ID, packet_id, payload + b"\x01\x80\x01\0\0\0\0")

    return await scene.raw(data)


@case("MALFORMED_PACKET")
async def _(scene: Scene, number: int) -> Any:
    payload = struct.pack(">Q", number) + b"\xff"
    return await scene.raw(lambda packet_id: frame(packets.PutMessage.METHOD_ID, packet_id, payload))


@case("SESSION_FENCED")
async def _(scene: Scene, number: int) -> Any:
    await (await scene.other()).identify(scene.wire.client_id)
    return await scene.send("PutMessage", number)


@case("TOO_MANY_UNCONFIRMED")
async def _(scene: Scene, number: int) -> Any:
    while True:
        answer = await scene.send("PutMessage", number)
        if isinstance(answer, packets.Error):
            return number, answer
        number = scene.wire.number()


@case("SEQUENCE_GAP")
async def _(scene: Scene, number: int) -> Any:
    message = packets.NewTopicMessage(b"", sequence=5)
    return await scene.wire.ask(packets.PutToTopic(number, [], "topic", [message]))


@case("OVERLOADED")
async def _(scene: Scene, number: int) -> Any:
    overload(scene.server)
    answer = await scene.send("PutMessage", number)
    relieve(scene.server)
    return answer


@case("QUEUE_FULL")
async def _(scene: Scene, number: int) -> Any:
    made = await scene.wire.ask(
        packets.CreateQueue(number, [], "small", packets.QueueSettings(max_messages=1))
    )
    await scene.wire.put_one(made.queue.queue_id)
    number = scene.wire.number()
    return number, await scene.wire.ask(put(number, made.queue.queue_id))


@case("MESSAGE_TOO_LARGE")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(put(number, scene.queue_id, body=bytes((1 << 20) + 1)))


@case("MESSAGE_TOO_LARGE", "of a read")
async def _(scene: Scene, number: int) -> Any:
    await scene.wire.ask(put(number, scene.queue_id, body=bytes(100)))
    number = scene.wire.number()
    read = packets.ReadMessage(number, [], scene.queue_id, 0, packets.ReadMode.TIME, 0, 1, 50)
    return number, await scene.wire.ask(read)


@case("LEASE_LOST")
async def _(scene: Scene, number: int) -> Any:
    return await scene.send("Ack", number)


@case("LEASE_LOST", "of Nack")
async def _(scene: Scene, number: int) -> Any:
    return await scene.send("Nack", number)


@case("ALREADY_SUBSCRIBED")
async def _(scene: Scene, number: int) -> Any:
    await scene.wire.ask(packets.Subscribe(number, [], "topic"))
    number = scene.wire.number()
    return number, await scene.wire.ask(packets.Subscribe(number, [], "topic"))


@case("TOPIC_NOT_EXISTING")
async def _(scene: Scene, number: int) -> Any:
    return await scene.wire.ask(packets.DeleteTopic(number, [], "none"))


@case("TOPIC_IN_USE")
async def _(scene: Scene, number: int) -> Any:
    await scene.wire.ask(packets.Subscribe(number, [], "topic"))
    number = scene.wire.number()
    return number, await scene.wire.ask(packets.DeleteTopic(number, [], "topic"))


@case("NOT_SUBSCRIBED")
async def _(scene: Scene, number: int) -> Any:
    return await scene.send("Unsubscribe", number)


@case("SHUTTING_DOWN")
async def _(scene: Scene, number: int) -> Any:
    drain(scene.server)
    return await scene.send("PutMessage", number)


@case("NUMBER_REPEATED")
async def _(scene: Scene, number: int) -> Any:
    await scene.send("PutMessage", number)
    return await scene.send("PutMessage", number)


@case("STANDBY_UNAVAILABLE")
async def _(scene: Scene, number: int) -> Any:
    shut(scene.server)
    answer = await scene.send("PutMessage", number)
    del scene.server.database.gate.check
    return answer


def _database_case(name: str, error: Exception) -> None:
    async def fail(scene: Scene, number: int) -> Any:
        return await scene.failing(error, number)

    CASES[name, ""] = fail


_database_case("DATABASE_UNAVAILABLE", UnavailableError("away"))
_database_case("DISK_FULL", RefusedError("53100", "no space left on device"))
_database_case("CALL_CANCELED", RefusedError("57014", "canceling statement"))
_database_case("CONNECTIONS_EXHAUSTED", UnavailableError("none left", connections_exhausted(10)))
_database_case("IO_ERROR", LostError("lost"))
_database_case("INTERNAL_ERROR", RuntimeError("a bug"))


async def _begin(
    connect: Connect, start_middleware: StartMiddleware, patch: pytest.MonkeyPatch, database_url: str
) -> tuple[Scene, int]:
    server = await start_middleware(max_unconfirmed=MAX_UNCONFIRMED)
    wire = await (await connect(server)).register()
    return Scene(wire, await wire.create_queue("taken"), server, connect, patch, database_url), wire.number()


def _code_of(answer: Any) -> int | None:
    if isinstance(answer, packets.Error):
        return answer.code
    return next(result.error for result in answer.results if result.error is not None)


async def _recorded(scene: Scene, number: int, session: int) -> list[int | None] | None:
    """The errors that a takeover lists for a request; None when it does not list it."""
    heir = await scene.other()
    await heir.hello()
    answer = await heir.ask(packets.IdentifyClient(scene.wire.client_id, ""))
    for operation in getattr(answer, "operations", ()):
        if (operation.session, operation.number) == (session, number):
            return [result.error for result in operation.results]
    return None


def test_every_refusal_of_a_numbered_request_happens_here() -> None:
    assert {name for name, _ in CASES} == NUMBERED
    for name in NUMBERED:
        assert ((name, "unless") in CASES) == bool(ERRORS[name].unless), name


@pytest.mark.parametrize(("name", "how"), CASES)
async def test_the_table_of_refusals_holds(
    connect: Connect,
    start_middleware: StartMiddleware,
    monkeypatch: pytest.MonkeyPatch,
    database_url: str,
    name: str,
    how: str,
) -> None:
    scene, number = await _begin(connect, start_middleware, monkeypatch, database_url)
    error = ERRORS[name]
    answer = await CASES[name, how](scene, number)
    if isinstance(answer, tuple):
        number, answer = answer
    assert _code_of(answer) == error.code
    whole = isinstance(answer, packets.Error)
    assert ("Error" if whole else type(answer.results[0]).__name__) in error.seen
    if whole:
        assert answer.error_class.name == error.error_class

    # The connection, and what became of the number.
    if error.error_class == "FATAL":
        await scene.wire.closed()
    else:
        assert isinstance(await scene.wire.ask(packets.Ping()), packets.Pong)
        again = await scene.send("Ack", number)
        assert again.code == ErrorCode.NUMBER_REPEATED
        following = await scene.send("Ack", number + 1)
        keeps_order = error.error_class in ("RETRYABLE", "IN_DOUBT")
        refused = isinstance(following, packets.Error) and following.error_class is ErrorClass.RETRYABLE
        assert refused == keeps_order

    # The record.
    listed = await _recorded(scene, number, scene.wire.session)
    if error.recorded != "in doubt":
        recorded = (error.recorded == "yes") != (how == "unless")
        assert (listed is not None and error.code in listed) == recorded
    await scene.wire.close()


async def test_what_is_no_request_of_the_session_touches_no_number(
    connect: Connect, start_middleware: StartMiddleware, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    scene, number = await _begin(connect, start_middleware, monkeypatch, database_url)
    wire = scene.wire
    unknown = await scene.raw(lambda packet_id: frame(0x0FFF, packet_id, struct.pack(">Q", 1_000) + b"\0"))
    assert unknown.code == ErrorCode.UNKNOWN_METHOD
    for packet, name in (
        (packets.Credit(NO_QUEUE, 1, 0), "CONSUMER_NOT_EXISTING"),
        (packets.GetMessageHistory(NO_QUEUE), "MESSAGE_NOT_EXISTING"),
        (packets.GetFromTopics(0, "topic", [], 0, 1, 0), "NOT_SUBSCRIBED"),
    ):
        assert (await wire.ask(packet)).code == ERRORS[name].code
    assert isinstance(await scene.send("Ack", number), packets.AckResponse)
    assert isinstance(await scene.send("Ack", number + 1), packets.AckResponse)


async def test_the_first_fault_of_a_request_is_answered(
    connect: Connect, start_middleware: StartMiddleware, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    """In the order in which the document lists the checks: each request has all faults that come later."""
    scene, _ = await _begin(connect, start_middleware, monkeypatch, database_url)
    wire, queue_id, put_id = scene.wire, scene.queue_id, packets.PutMessage.METHOD_ID

    stranger = await scene.other()
    await stranger.hello()
    packet_id, answer = stranger.expect()
    stranger.write(frame(put_id, packet_id, b"\xff"))
    assert (await answer).code == ErrorCode.NOT_IDENTIFIED

    reader = await scene.other()
    await reader.register(mode=READ_ONLY)
    packet_id, answer = reader.expect()
    reader.write(frame(put_id, packet_id, b"\xff"))
    assert (await answer).code == ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION

    def old_and_bad(packet_id: int) -> bytes:
        return frame(put_id, packet_id, struct.pack(">Q", 1) + b"\xff")

    assert (await scene.raw(old_and_bad)).code == ErrorCode.MALFORMED_PACKET
    assert (await wire.ask(put(1, -1))).code == ErrorCode.NUMBER_REPEATED
    overload(scene.server)
    assert (await wire.ask(put(wire.number(), -1))).code == ErrorCode.INVALID_PARAMETER
    assert (await wire.ask(put(wire.number(), queue_id))).code == ErrorCode.OVERLOADED
    assert (await wire.ask(put(wire.number(), queue_id, body=bytes(1 << 21)))).code == (
        ErrorCode.MESSAGE_TOO_LARGE
    )
    relieve(scene.server)
    drain(scene.server)
    assert (await scene.raw(old_and_bad)).code == ErrorCode.SHUTTING_DOWN


@pytest.mark.settings(max_connections=1)
async def test_an_error_about_the_connection_has_packet_id_0_and_ends_it(
    connect: Connect, server: MiddlewareServer
) -> None:
    first = await (await connect(server)).register()
    second = await connect(server)
    await second.closed()
    error = second.unasked.get_nowait()
    assert (error.code, error.error_class) == (ErrorCode.TOO_MANY_CONNECTIONS, ErrorClass.FATAL)
    first.write(bytes(4))
    await first.closed()
    assert first.unasked.get_nowait().code == ErrorCode.FRAME_TOO_LARGE


async def test_frames_may_be_long_before_they_may_be_sent_long(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    """The limit of 4,096 bytes until a client is identified is not for the answer that identifies it."""
    await wire.put_one(queue_id, body=os.urandom(100_000))
    assert len(await wire.read_now(queue_id)) == 1
    await wire.close()
    heir = await connect(server)
    await heir.hello()
    answer = await heir.ask(packets.IdentifyClient(wire.client_id, ""))
    assert len(answer.encode(1)) > 100_000
    # Its max_frame bounds it: what is longer is named, see ListUnconfirmed.
    small = await connect(server)
    limits = await small.hello(max_frame=packets.MAX_FRAME_LEAST)
    answer = await small.ask(packets.IdentifyClient(wire.client_id, ""))
    assert len(answer.encode(1)) - 4 <= limits.max_frame == packets.MAX_FRAME_LEAST


async def test_hello_and_who_one_is_may_be_sent_in_one_go(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    wire = await connect(await start_middleware())
    greeted, named = wire.expect(), wire.expect()
    register = packets.RegisterClient("alice", packets.ClientMode.FULL, os.urandom(16))
    too_early, sign = wire.expect(), wire.expect()
    wire.write(
        hello().encode(greeted[0])
        + register.encode(named[0])
        + put(1, 1).encode(too_early[0])
        + packets.Ping().encode(sign[0])
    )
    assert isinstance(await greeted[1], packets.HelloResponse)
    assert isinstance(await named[1], packets.RegisterClientResponse)
    assert (await too_early[1]).code == ErrorCode.NOT_IDENTIFIED
    assert isinstance(await sign[1], packets.Pong)
    # It used up no number.
    assert (await wire.ask(put(1, NO_QUEUE))).results[0].error == ErrorCode.QUEUE_NOT_EXISTING
