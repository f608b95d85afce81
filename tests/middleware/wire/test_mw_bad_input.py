"""Bad input of all kinds on a live port: each gets its error, and nothing else is hurt."""

import os
import random
import struct
from copy import copy
from typing import Any

import pytest

from conftest import Connect
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import FULL, READ_ONLY, Wire, frame, hello, put, read

INVALID = ErrorCode.INVALID_PARAMETER
LARGEST_ID = (1 << 63) - 1


async def refusal(wire: Any, packet: Any, code: ErrorCode = INVALID) -> packets.Error:
    """The error that a packet is answered with; the connection lives on."""
    answer = await wire.ask(packet)
    assert isinstance(answer, packets.Error), answer
    assert answer.code == code, answer
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    return answer


# --- frames ----------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [0, 5, 4097, 1 << 20, 0xFFFF_FFFF])
async def test_a_bad_length_ends_the_connection_with_an_error(connect: Connect, length: int) -> None:
    wire = await connect()
    wire.write(struct.pack(">IHI", length, 0x07, 1))
    await wire.closed()
    error = wire.unasked.get_nowait()
    assert (error.code, error.error_class) == (ErrorCode.FRAME_TOO_LARGE, ErrorClass.FATAL)


async def test_frames_before_a_bad_length_are_answered(connect: Connect) -> None:
    wire = await connect()
    packet_id, answer = wire.expect()
    wire.write(hello().encode(packet_id) + bytes(4))
    assert isinstance(await answer, packets.HelloResponse)
    await wire.closed()
    assert wire.unasked.get_nowait().code == ErrorCode.FRAME_TOO_LARGE


async def test_a_large_frame_is_taken_from_identified_clients_only(connect: Connect) -> None:
    wire = await (await connect()).register()
    queue_id = await wire.create_queue()
    assert await wire.put_one(queue_id, body=bytes(1 << 19))
    stranger = await connect()
    await stranger.hello()
    stranger.write(put(1, queue_id, body=bytes(5_000)).encode(9))
    await stranger.closed()
    assert stranger.unasked.get_nowait().code == ErrorCode.FRAME_TOO_LARGE


async def test_a_frame_that_is_cut_short_leaves_nothing_behind(
    connect: Connect, server: MiddlewareServer, wire: Wire, queue_id: int
) -> None:
    wire.write(put(wire.number(), queue_id, body=bytes(1 << 19)).encode(9)[: 1 << 18])
    await wire.drain()
    await wire.close()
    other = await (await connect(server)).register()
    assert await other.read_now(queue_id) == []
    assert server.budget.bytes == 0


@pytest.mark.parametrize("cut", [1, 4, 9, 10, 40])
async def test_frames_may_come_in_any_pieces(connect: Connect, cut: int) -> None:
    wire = await connect()
    packet_id, answer = wire.expect()
    data = hello().encode(packet_id)
    for at in range(0, len(data), cut):
        wire.write(data[at : at + cut])
        await wire.drain()
    assert isinstance(await answer, packets.HelloResponse)


async def test_another_protocol_is_told_so(connect: Connect) -> None:
    wire = await connect()
    wire.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await wire.closed()
    assert wire.unasked.get_nowait().code == ErrorCode.FRAME_TOO_LARGE


@pytest.mark.parametrize("seed", range(20))
async def test_random_bytes_hurt_nobody_else(connect: Connect, server: MiddlewareServer, seed: int) -> None:
    bystander = await (await connect(server)).register()
    queue_id = await bystander.create_queue()
    source = random.Random(seed)
    for identified in (False, True):
        wire = await connect(server)
        if identified:
            await wire.register()
        for _ in range(20):
            method_id = source.choice([*packets.REQUESTS, source.randrange(1 << 16)])
            wire.write(frame(method_id, source.randrange(1 << 32), source.randbytes(source.randrange(200))))
        wire.write(source.randbytes(source.randrange(1000)))
        await wire.drain()
    assert await bystander.put_one(queue_id)
    assert len(await bystander.read_now(queue_id)) == 1


# --- methods ---------------------------------------------------------------------------------
@pytest.mark.parametrize("method_id", [0x0000, 0x00FE, 0x4141, 0xFFFF])
async def test_an_unknown_method_is_refused(wire: Wire, method_id: int) -> None:
    packet_id, answer = wire.expect()
    wire.write(frame(method_id, packet_id, b"whatever"))
    assert (await answer).code == ErrorCode.UNKNOWN_METHOD
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


async def test_what_only_the_server_sends_is_refused(wire: Wire) -> None:
    for method_id in packets.PACKETS.keys() - packets.REQUESTS.keys():
        packet_id, answer = wire.expect()
        wire.write(frame(method_id, packet_id, b""))
        assert (await answer).code == ErrorCode.UNEXPECTED_PACKET
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


async def test_every_method_refuses_a_payload_that_is_not_its_own(wire: Wire) -> None:
    for method_id, info in packets.REQUESTS.items():
        if packets.ConnectionState.IDENTIFIED not in info.allowed:
            continue
        for payload in (b"", b"\xff" * 7, bytes(2)):
            packet_id, answer = wire.expect()
            wire.write(frame(method_id, packet_id, payload))
            assert (await answer).code == ErrorCode.MALFORMED_PACKET, (info.packet, payload)
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


async def test_invalid_utf_8_is_malformed(wire: Wire) -> None:
    good = packets.GetQueueId("queue").encode(1)
    packet_id, answer = wire.expect()
    wire.write(frame(packets.GetQueueId.METHOD_ID, packet_id, good[10:].replace(b"queue", b"qu\xff\xfee")))
    assert (await answer).code == ErrorCode.MALFORMED_PACKET


async def test_a_tag_that_must_be_understood_is_refused(wire: Wire) -> None:
    packet_id, answer = wire.expect()
    wire.write(frame(packets.Ping.METHOD_ID, packet_id, b"\x01" + struct.pack(">HI", 0x8001, 0)))
    assert (await answer).code == ErrorCode.UNSUPPORTED_FIELD
    packet_id, answer = wire.expect()
    wire.write(frame(packets.Ping.METHOD_ID, packet_id, b"\x01" + struct.pack(">HI", 0x0001, 0)))
    assert isinstance(await answer, packets.Pong)


# --- states ----------------------------------------------------------------------------------
async def test_hello_comes_first(connect: Connect) -> None:
    wire = await connect()
    for packet, code in (
        (packets.Ping(), ErrorCode.UNEXPECTED_PACKET),
        (packets.RegisterClient("name", FULL, bytes(16)), ErrorCode.UNEXPECTED_PACKET),
        (read(1, 1), ErrorCode.NOT_IDENTIFIED),
    ):
        answer = await wire.ask(packet)
        assert answer.code == code
    await wire.hello()
    assert (await wire.ask(hello())).code == ErrorCode.UNEXPECTED_PACKET
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)


async def test_all_else_needs_a_client(connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    await refusal(wire, put(1, 1), ErrorCode.NOT_IDENTIFIED)
    await refusal(wire, packets.GetQueueId("queue"), ErrorCode.NOT_IDENTIFIED)


async def test_a_connection_is_one_client(connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    first = wire.send(packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16)))
    second = wire.send(packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16)))
    assert isinstance(await first, packets.RegisterClientResponse)
    assert (await second).code == ErrorCode.UNEXPECTED_PACKET
    again = packets.RegisterClient(os.urandom(8).hex(), FULL, os.urandom(16))
    assert (await wire.ask(again)).code == ErrorCode.UNEXPECTED_PACKET


async def test_a_wrong_magic_ends_the_connection(connect: Connect) -> None:
    wire = await connect()
    answer = await wire.ask(hello(magic=0x48545450))
    assert (answer.code, answer.error_class) == (ErrorCode.MALFORMED_PACKET, ErrorClass.FATAL)
    await wire.closed()


@pytest.mark.parametrize("major", [0, 2, 0xFFFF])
async def test_another_major_version_ends_the_connection(connect: Connect, major: int) -> None:
    wire = await connect()
    answer = await wire.ask(hello(major=major))
    assert (answer.code, answer.error_class) == (ErrorCode.UNSUPPORTED_VERSION, ErrorClass.FATAL)
    assert "only 1" in answer.details
    await wire.closed()


@pytest.mark.parametrize("rest", [b"", b"\x00\x01", b"\x00\x01" + b"whatever comes there" * 50])
async def test_a_hello_of_another_major_version_need_not_have_the_fields_of_this_one(
    connect: Connect, rest: bytes
) -> None:
    wire = await connect()
    packet_id, answer = wire.expect()
    wire.write(frame(packets.Hello.METHOD_ID, packet_id, struct.pack(">IH", packets.MAGIC, 2) + rest))
    error = await answer
    assert (error.code, error.error_class) == (ErrorCode.UNSUPPORTED_VERSION, ErrorClass.FATAL)
    await wire.closed()


async def test_a_hello_that_is_malformed_otherwise_may_be_sent_again(connect: Connect) -> None:
    wire = await connect()
    for payload in (b"", b"TLST", struct.pack(">IHH", packets.MAGIC, packets.PROTOCOL_MAJOR, 0)):
        packet_id, answer = wire.expect()
        wire.write(frame(packets.Hello.METHOD_ID, packet_id, payload))
        error = await answer
        assert (error.code, error.error_class) == (ErrorCode.MALFORMED_PACKET, ErrorClass.REJECTED)
    assert isinstance(await wire.hello(), packets.HelloResponse)


async def test_nothing_is_handled_behind_what_ends_the_connection(connect: Connect) -> None:
    wire = await connect()
    first, second = wire.expect(), wire.expect()
    wire.write(hello(magic=0x48545450).encode(first[0]) + hello().encode(second[0]))
    assert (await first[1]).code == ErrorCode.MALFORMED_PACKET
    await wire.closed()
    with pytest.raises(ConnectionError):
        await second[1]


async def test_packet_id_0_is_the_servers(wire: Wire) -> None:
    wire.write(packets.Ping().encode(0) + packets.GetQueueId("q").encode(0))
    assert isinstance(await wire.ask(packets.Ping()), packets.Pong)
    assert [wire.unasked.get_nowait().code for _ in range(2)] == [ErrorCode.UNEXPECTED_PACKET] * 2


async def test_the_lower_minor_version_is_used(connect: Connect) -> None:
    wire = await connect()
    answer = await wire.ask(hello(minor=0xFFFF))
    assert (answer.major, answer.minor) == (packets.PROTOCOL_MAJOR, packets.PROTOCOL_MINOR)


async def test_a_tiny_frame_limit_is_refused(connect: Connect) -> None:
    wire = await connect()
    assert (await wire.ask(hello(max_frame=packets.MAX_FRAME_LEAST - 1))).code == INVALID
    assert (await wire.ask(hello(max_frame=packets.MAX_FRAME_LEAST))).max_frame == packets.MAX_FRAME_LEAST


# --- parameters ------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"priority": 0}, "priority: 0"),
        ({"priority": 11}, "priority: 11"),
        ({"priority": 255}, "priority: 255"),
        ({"receiver_id": -1}, "receiver_id: -1"),
    ],
)
async def test_bad_messages_are_refused(
    wire: Wire, queue_id: int, fields: dict[str, Any], named: str
) -> None:
    error = await refusal(wire, put(wire.number(), queue_id, **fields))
    assert named in error.details
    message = packets.NewMessage(fields.get("priority", 5), fields.get("receiver_id", 0), b"", None)
    many = packets.PutMessages(wire.number(), [], [packets.QueuedMessage(queue_id, message)])
    assert named in (await refusal(wire, many)).details
    assert await wire.read_now(queue_id) == []


@pytest.mark.parametrize("queue_ids", [[], [0], [-1], [1, 0], [-(1 << 63)], [1, 2, 1], list(range(1, 1002))])
async def test_bad_lists_of_queues_are_refused(wire: Wire, queue_ids: list[int]) -> None:
    assert "queue_ids" in (await refusal(wire, put(wire.number(), *queue_ids))).details


async def test_a_put_of_no_or_too_many_messages_is_refused(wire: Wire) -> None:
    await refusal(wire, packets.PutMessages(wire.number(), [], []))
    one = packets.QueuedMessage(1, packets.NewMessage(5, 0, b"", None))
    await refusal(wire, packets.PutMessages(wire.number(), [], [one] * 1_001))


async def test_bodies_up_to_the_limit_are_taken(wire: Wire, queue_id: int) -> None:
    for size in (0, 1 << 20):
        await wire.put_one(queue_id, body=bytes(size))
        (message,) = await wire.read_now(queue_id)
        assert message.body == bytes(size)
    await refusal(wire, put(wire.number(), queue_id, body=bytes((1 << 20) + 1)), ErrorCode.MESSAGE_TOO_LARGE)
    assert await wire.read_now(queue_id) == []


NAMES = ["", "x" * 256, "a\0b", "tab\there", "\x7f", "\x85"]


@pytest.mark.parametrize("name", NAMES)
async def test_bad_names_are_refused(connect: Connect, name: str) -> None:
    wire = await connect()
    await wire.hello()
    await refusal(wire, packets.RegisterClient(name, FULL, bytes(16)))
    await refusal(wire, packets.IdentifyClient(0, name))
    await wire.ask(packets.RegisterClient("good", FULL, os.urandom(16)))
    await refusal(wire, packets.CreateQueue(wire.number(), [], name, packets.QueueSettings()))
    await refusal(wire, packets.GetQueueId(name))


@pytest.mark.parametrize("name", ["x", "x" * 255, "\N{GRINNING FACE}" * 255, 'it\'s "quoted"; --', "名", " "])
async def test_good_names_are_taken(connect: Connect, name: str) -> None:
    wire = await (await connect()).register(name)
    queue_id = await wire.create_queue(name)
    assert (await wire.ask(packets.GetQueueId(name))).queue_id == queue_id
    assert (await wire.ask(packets.GetQueueName(queue_id))).queue_name == name


@pytest.mark.parametrize("size", [0, 15, 17, 64])
async def test_a_token_has_sixteen_bytes(connect: Connect, size: int) -> None:
    wire = await connect()
    await wire.hello()
    assert "token" in (await refusal(wire, packets.RegisterClient("name", FULL, bytes(size)))).details


async def test_bad_identities_are_refused(connect: Connect) -> None:
    wire = await connect()
    await wire.hello()
    await refusal(wire, packets.IdentifyClient(-1, ""))
    await refusal(wire, packets.IdentifyClient(1, "both"))
    await refusal(wire, packets.IdentifyClient(LARGEST_ID, ""), ErrorCode.CLIENT_NOT_EXISTING)
    await refusal(wire, packets.IdentifyClient(0, "nobody"), ErrorCode.CLIENT_NOT_EXISTING)


async def test_no_error_is_larger_than_a_frame(connect: Connect) -> None:
    """Names of four bytes a character, which an error writes as an escape of ten."""
    wire = await connect()
    await wire.hello(max_frame=packets.MAX_FRAME_LEAST)
    await wire.ask(packets.RegisterClient("client", FULL, os.urandom(16)))
    topic = "\U000f0000" * 1_024
    error = await refusal(wire, packets.Unsubscribe(1, [], topic), ErrorCode.NOT_SUBSCRIBED)
    assert len(error.details) == 1_000


BAD_REQUESTS = [
    read(1, 0),
    read(1, -5),
    read(1, 1, sender_id=-1),
    read(1, 1, max_messages=0),
    packets.ReadResponse(1, [], 0, 1, 0),
    packets.CreateQueue(1, [], "name", packets.QueueSettings(max_messages=0)),
    packets.CreateQueue(1, [], "name", packets.QueueSettings(max_messages=-1)),
    packets.UpdateQueue(1, [], 0, packets.QueueSettings(max_messages=1)),
    packets.UpdateQueue(1, [], 1, packets.QueueSettings(max_messages=-1)),
    packets.GetQueueSettings(0),
    packets.DeleteQueue(1, [], 0),
    packets.PurgeQueue(1, [], -1),
    packets.CancelMessage(1, [], 0, 1),
    packets.CancelMessage(1, [], 1, 0),
    packets.GetQueueName(0),
    packets.GetQueues(-1, 10),
    packets.GetQueues(0, 0),
    packets.GetActiveQueues(-1, 10),
    packets.GetActiveQueues(0, 0),
    packets.GetMessages(0, 0, 10),
    packets.GetMessages(1, -1, 10),
    packets.GetMessages(1, 0, 0),
    packets.GetQueueStatistics(0),
    put(1 << 63, 1),
    put(1, 1, confirmed=[1 << 63]),
    put(1, 1, confirmed=list(range(10_001))),
    packets.Confirm([1 << 63], [], []),
    packets.Confirm([], [packets.OperationRef(1 << 63, 1)], []),
    packets.Confirm([], [], [packets.HandOverRef(1, 1, 0)]),
    packets.Confirm(list(range(10_001)), [], []),
    packets.Release([packets.HandOverRef(1, 1 << 63, 1)]),
    packets.Release([packets.HandOverRef(1, 1, -1)]),
    packets.ListUnconfirmed(packets.OperationRef(1 << 63, 0), packets.HandOverRef(0, 0, 0)),
    packets.ListUnconfirmed(packets.OperationRef(0, 0), packets.HandOverRef(0, 0, -1)),
]


async def test_bad_parameters_are_refused_before_anything_is_done(wire: Wire) -> None:
    for packet in BAD_REQUESTS:
        if getattr(packet, "number", 0) == 1:
            packet = copy(packet)
            packet.number = wire.number()
        answer = await wire.ask(packet)
        assert isinstance(answer, packets.Error), packet
        assert answer.code == INVALID, (packet, answer)
        assert ":" in answer.details
    queue_id = await wire.create_queue()
    assert await wire.put_one(queue_id)


async def test_a_refused_duration_is_told_in_seconds_as_well(wire: Wire) -> None:
    settings = packets.QueueSettings(lease_ms=99)
    answer = await wire.ask(packets.CreateQueue(wire.number(), [], "brief", settings))
    assert answer.code == INVALID
    assert answer.details == (
        "lease_ms: 99 is not allowed; it must be 100 to 86400000 milliseconds (0.1 to 86,400 seconds)"
    )


async def test_an_unknown_queue_among_several_is_reported(wire: Wire) -> None:
    first, second = await wire.create_queue(), await wire.create_queue()
    answer = await wire.put(first, LARGEST_ID, second)
    assert [result.error for result in answer.results] == [None, ErrorCode.QUEUE_NOT_EXISTING, None]
    assert [bool(result.message_id) for result in answer.results] == [True, False, True]
    for queue_id in (first, second):
        assert len(await wire.read_now(queue_id)) == 1


async def test_an_unknown_queue_cannot_be_read(wire: Wire) -> None:
    for wait_ms in (0, 60_000):
        answer = await wire.read(LARGEST_ID, wait_ms=wait_ms)
        assert answer.code == ErrorCode.QUEUE_NOT_EXISTING
        assert answer.related_id == LARGEST_ID


async def test_a_read_only_client_changes_nothing(connect: Connect) -> None:
    owner = await (await connect()).register()
    queue_id = await owner.create_queue()
    await owner.put_one(queue_id)
    wire = await (await connect()).register(mode=READ_ONLY)
    for packet in (
        put(wire.number(), queue_id),
        packets.PutMessages(
            wire.number(), [], [packets.QueuedMessage(queue_id, packets.NewMessage(5, 0, b"", None))]
        ),
        packets.CreateQueue(wire.number(), [], "name", packets.QueueSettings()),
        packets.DeleteQueue(wire.number(), [], queue_id),
        packets.PurgeQueue(wire.number(), [], queue_id),
        packets.DeleteClient(wire.number(), []),
    ):
        await refusal(wire, packet, ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION)
    assert len(await wire.read_now(queue_id)) == 1
