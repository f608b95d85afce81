"""Topics on live middlewares: puts, gets that wait, wake-ups within one and across two."""

import asyncio
from typing import Any

import asyncpg
import pytest

from conftest import Connect, StartMiddleware
from telesto.middleware.scheduling.requests import Kind
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorCode
from telesto.protocol.packets import NewTopicMessage, TopicPosition
from test_mw_wake_ups import LONG_MS, until_know_each_other, until_waiting
from wire import PATIENCE_S, READ_ONLY, Wire, until


async def subscribe(wire: Wire, topic: str, **limits: Any) -> int:
    answer = await wire.ask(packets.Subscribe(wire.number(), [], topic, **limits))
    assert isinstance(answer, packets.SubscribeResponse), answer
    return answer.subscription_id


async def publish(wire: Wire, topic: str, *bodies: bytes) -> list[int]:
    messages = [NewTopicMessage(body) for body in bodies]
    answer = await wire.ask(packets.PutToTopic(wire.number(), [], topic, messages))
    assert isinstance(answer, packets.PutToTopicResponse), answer
    return [result.number for result in answer.results]


def get(
    subscription_id: int = 0,
    *positions: tuple[int, int, int],
    topic: str = "",
    wait_ms: int = 0,
    max_messages: int = 1,
    max_bytes: int = 0,
) -> packets.GetFromTopics:
    told = [TopicPosition(*position) for position in positions]
    return packets.GetFromTopics(subscription_id, topic, told, wait_ms, max_messages, max_bytes)


def bodies(answer: Any) -> list[bytes]:
    assert isinstance(answer, packets.GetFromTopicsResponse), answer
    return [message.body for message in answer.messages]


def code(answer: Any) -> int:
    assert isinstance(answer, packets.Error), answer
    return answer.code


async def test_messages_come_in_order_until_they_are_confirmed(wire: Wire) -> None:
    subscription = await subscribe(wire, "t")
    assert await publish(wire, "t", b"1", b"2", b"3") == [1, 2, 3]
    assert bodies(await wire.ask(get(subscription, max_messages=2))) == [b"1", b"2"]
    assert bodies(await wire.ask(get(subscription, (subscription, 0, 1)))) == [b"2"]
    assert bodies(await wire.ask(get(subscription, (subscription, 2, 0)))) == [b"3"]
    assert isinstance(
        await wire.ask(packets.ConfirmPositions([TopicPosition(subscription, 3, 0)])), packets.Success
    )
    assert bodies(await wire.ask(get(subscription))) == []


async def test_names_come_with_messages_where_they_were_not_known(wire: Wire) -> None:
    subscription = await subscribe(wire, "t")
    await publish(wire, "t", b"1")
    for request in (get(topic="t"), get()):
        answer = await wire.ask(request)
        assert answer.names == [packets.SubscriptionName(subscription, "t")]
    assert (await wire.ask(get(subscription))).names == []


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_one_put_wakes_each_waiting_subscriber_once(connect: Connect, server: MiddlewareServer) -> None:
    publisher = await (await connect(server)).register()
    wires = [await (await connect(server)).register() for _ in range(20)]
    waiting = [wire.send(get(await subscribe(wire, "t"), wait_ms=LONG_MS)) for wire in wires]
    await until_waiting(server, 20)
    before = server.counters.of_kind[Kind.FETCH].requests
    await publish(publisher, "t", b"1")
    assert [bodies(answer) for answer in await asyncio.gather(*waiting)] == [[b"1"]] * 20
    assert server.counters.of_kind[Kind.FETCH].requests - before == 20
    assert server.room.parked == 0


async def test_a_put_at_one_middleware_wakes_subscribers_at_another(
    connect: Connect, start_middleware: StartMiddleware
) -> None:
    servers = [await start_middleware(wake_sweep_s=3_600) for _ in range(2)]
    await until_know_each_other(*servers)
    publisher, subscriber = await connect(servers[0]), await connect(servers[1])
    await publisher.register()
    await subscriber.register()
    subscription = await subscribe(subscriber, "t")
    last = 0
    for n in range(1, 4):
        waiting = subscriber.send(get(subscription, (subscription, last, 0), wait_ms=LONG_MS))
        await until_waiting(servers[1], 1)
        await publish(publisher, "t", b"%d" % n)
        assert bodies(await waiting) == [b"%d" % n]
        last = n


@pytest.mark.settings(wake_sweep_s=0.05, staged_interval_s=3_600, staged_idle_s=3_600)
async def test_a_message_that_nobody_told_of_is_found(
    server: MiddlewareServer, wire: Wire, database_url: str
) -> None:
    subscription = await subscribe(wire, "t")
    waiting = wire.send(get(subscription, wait_ms=LONG_MS))
    await until_waiting(server, 1)
    connection = await asyncpg.connect(database_url)
    await connection.execute("SELECT telesto.put_to_topic('t', 'staged')")
    await connection.execute("SELECT telesto.place_staged_topics(10)")
    await connection.close()
    assert bodies(await waiting) == [b"staged"]


@pytest.mark.settings(wake_sweep_s=3_600, staged_interval_s=0.01, staged_idle_s=0.01)
async def test_what_an_application_stages_is_placed_after_its_commit_in_order(
    server: MiddlewareServer, wire: Wire, database_url: str
) -> None:
    subscription = await subscribe(wire, "t")
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        for body in (b"1", b"2"):
            await connection.execute("SELECT telesto.put_to_topic('t', $1::bytea)", body)
        # The transaction is open, and holds nobody up.
        assert await publish(wire, "t", b"meanwhile") == [1]
        assert bodies(await wire.ask(get(subscription, max_messages=9))) == [b"meanwhile"]
        waiting = wire.send(get(subscription, (subscription, 1, 0), wait_ms=LONG_MS, max_messages=9))
        await until_waiting(server, 1)
    await connection.close()
    assert bodies(await waiting) == [b"1", b"2"]


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_get_over_all_topics_waits_for_each_and_for_new_ones(
    connect: Connect, server: MiddlewareServer
) -> None:
    wire, publisher = await (await connect(server)).register(), await (await connect(server)).register()
    subscriptions = {topic: await subscribe(wire, topic) for topic in ("a", "b")}
    for topic in ("a", "b", "c"):
        waiting = wire.send(get(wait_ms=LONG_MS))
        await until_waiting(server, 1)
        if topic == "c":
            subscriptions["c"] = await subscribe(wire, "c")
            await until_waiting(server, 1)
        await publish(publisher, topic, topic.encode())
        answer = await waiting
        assert bodies(answer) == [topic.encode()]
        assert answer.messages[0].subscription_id == subscriptions[topic]
        assert (await wire.ask(packets.ConfirmPositions([TopicPosition(subscriptions[topic], 1, 0)]))) == (
            packets.Success()
        )


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_waiting_get_ends_with_its_subscription(server: MiddlewareServer, wire: Wire) -> None:
    for request in (get(topic="t", wait_ms=LONG_MS), get(wait_ms=LONG_MS)):
        await subscribe(wire, "t")
        waiting = wire.send(request)
        await until_waiting(server, 1)
        assert await wire.ask(packets.Unsubscribe(wire.number(), [], "t")) == packets.Success()
        answer = await waiting
        assert code(answer) == ErrorCode.NOT_SUBSCRIBED
        assert "subscribe first" in answer.details


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_waiting_get_is_cancelled_and_times_out(server: MiddlewareServer, wire: Wire) -> None:
    subscription = await subscribe(wire, "t")
    assert bodies(await wire.ask(get(subscription, wait_ms=1))) == []
    waiting = wire.send(get(subscription, wait_ms=LONG_MS))
    await until_waiting(server, 1)
    cancelled = await wire.ask(packets.CancelRequest(waiting.packet_id))  # type: ignore[attr-defined]
    assert cancelled.cancelled
    assert bodies(await waiting) == []
    assert server.room.parked == 0


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_what_a_waiting_get_confirms_is_kept_though_it_finds_nothing(
    server: MiddlewareServer, wire: Wire
) -> None:
    subscription = await subscribe(wire, "t")
    await publish(wire, "t", b"1", b"2")
    waiting = wire.send(get(subscription, (subscription, 1, 2), wait_ms=LONG_MS))
    await until_waiting(server, 1)
    assert bodies(await wire.ask(get(subscription))) == [b"2"]
    await publish(wire, "t", b"3")
    assert bodies(await waiting) == [b"3"]


@pytest.mark.settings(wake_sweep_s=3_600, goaway_grace_s=PATIENCE_S)
async def test_at_the_stop_positions_are_taken_and_waiting_gets_sent_away(
    connect: Connect, server: MiddlewareServer, wire: Wire, start_middleware: StartMiddleware
) -> None:
    subscription = await subscribe(wire, "t")
    await publish(wire, "t", b"1")
    waiting = wire.send(get(subscription, (subscription, 0, 1), wait_ms=LONG_MS))
    await until_waiting(server, 1)
    server.request_stop()
    assert code(await waiting) == ErrorCode.SHUTTING_DOWN
    assert code(await wire.ask(get(subscription))) == ErrorCode.SHUTTING_DOWN
    confirm = packets.ConfirmPositions([TopicPosition(subscription, 1, 0)])
    assert await wire.ask(confirm) == packets.Success()
    await wire.close()
    other = await connect(await start_middleware())
    await other.identify(wire.client_id)
    assert bodies(await other.ask(get(subscription))) == []


@pytest.mark.settings(max_answer_bytes=1 << 16, max_frame=1 << 22, max_body_bytes=1 << 20)
async def test_large_messages_are_got_beside_many_small_gets(
    connect: Connect, server: MiddlewareServer
) -> None:
    wires = [await (await connect(server)).register() for _ in range(8)]
    subscriptions = [await subscribe(wire, "t") for wire in wires]
    large = [bytes([n]) * (900 << 10) for n in range(2)]
    await publish(wires[0], "t", *large[:1])
    await publish(wires[0], "t", large[1])
    for last, body in enumerate(large):
        answers = await asyncio.gather(
            *(wire.ask(get(sub, (sub, last, 0))) for wire, sub in zip(wires, subscriptions, strict=True))
        )
        assert all(bodies(answer) == [body] for answer in answers)


async def test_a_message_beyond_the_frame_is_named_and_can_be_passed_over(connect: Connect) -> None:
    wire = await connect()
    await wire.hello(max_frame=1 << 16)
    answer = await wire.ask(packets.RegisterClient("small", packets.ClientMode.FULL, b"t" * 16))
    wire.client_id = answer.client_id
    subscription = await subscribe(wire, "t")
    publisher = await (await connect()).register()
    await publish(publisher, "t", b"x" * (1 << 16), b"small")
    refused = await wire.ask(get(subscription))
    assert (code(refused), refused.related_id) == (ErrorCode.MESSAGE_TOO_LARGE, 1)
    assert bodies(await wire.ask(get(subscription, (subscription, 1, 0)))) == [b"small"]


async def test_a_read_only_client_may_do_all_but_put(connect: Connect) -> None:
    wire = await (await connect()).register(mode=READ_ONLY)
    subscription = await subscribe(wire, "t")
    assert bodies(await wire.ask(get(subscription))) == []
    refused = await wire.ask(packets.PutToTopic(wire.number(), [], "t", [NewTopicMessage(b"")]))
    assert code(refused) == ErrorCode.CLIENT_MODE_PERMISSION_VIOLATION
    assert isinstance(await wire.ask(packets.ListTopics(0, 10)), packets.ListTopicsResponse)
    assert isinstance(await wire.ask(packets.ListSubscriptions(0, 10)), packets.ListSubscriptionsResponse)
    assert await wire.ask(packets.Unsubscribe(wire.number(), [], "t")) == packets.Success()


_PUT = NewTopicMessage(b"")
_TWICE = [TopicPosition(1, 0, 0)] * 2


@pytest.mark.parametrize(
    ("packet", "field"),
    [
        (packets.Subscribe(1, [], ""), "topic"),
        (packets.Subscribe(1, [], "x" * 1_025), "topic"),
        (packets.Subscribe(1, [], "a\0b"), "topic"),
        (packets.Subscribe(1, [], "t", max_behind=0), "max_behind"),
        (packets.Subscribe(1, [], "t", max_age_ms=-1), "max_age_ms"),
        (packets.Subscribe(1, [], "t", drop=True), "drop"),
        (packets.Unsubscribe(1, [], "x" * 10_000), "topic"),
        (packets.PutToTopic(1, [], "", [_PUT]), "topic"),
        (packets.PutToTopic(1, [], "t", []), "messages"),
        (packets.PutToTopic(1, [], "t", [_PUT] * 1_001), "messages"),
        (packets.PutToTopic(1, [], "t", [NewTopicMessage(b"", sequence=0)]), "sequence"),
        (packets.GetFromTopics(-1, "", [], 0, 1, 0), "subscription_id"),
        (packets.GetFromTopics(1, "t", [], 0, 1, 0), "topic"),
        (packets.GetFromTopics(0, "a\nb", [], 0, 1, 0), "topic"),
        (packets.GetFromTopics(0, "t", [], 0, 0, 0), "max_messages"),
        (packets.GetFromTopics(0, "t", [TopicPosition(0, 1, 1)], 0, 1, 0), "subscription_id"),
        (packets.GetFromTopics(0, "t", [TopicPosition(1, -1, 1)], 0, 1, 0), "confirmed"),
        (packets.GetFromTopics(0, "t", [TopicPosition(1, 1, -1)], 0, 1, 0), "after"),
        (packets.GetFromTopics(0, "t", _TWICE, 0, 1, 0), "positions"),
        (packets.ConfirmPositions(_TWICE), "positions"),
        (packets.ListTopics(-1, 1), "after_topic_id"),
        (packets.ListSubscriptions(0, 0), "limit"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_bad_parameters_are_named(wire: Wire, packet: Any, field: str) -> None:
    answer = await wire.ask(packet)
    assert code(answer) == ErrorCode.INVALID_PARAMETER
    assert answer.details.startswith(field + ":")


async def test_positions_that_cannot_be_are_refused(wire: Wire) -> None:
    await publish(wire, "t", b"1")
    subscription, other = await subscribe(wire, "t"), await subscribe(wire, "other")
    await publish(wire, "t", b"2")
    await publish(wire, "other", b"1")
    for position in ((subscription, 3, 0), (subscription, 0, 3), (other, 2, 0)):
        refused = await wire.ask(get(subscription, position))
        assert code(refused) == ErrorCode.POSITION_UNKNOWN
    assert bodies(await wire.ask(get(subscription, (999_999, 5, 5)))) == [b"2"]


async def test_topics_that_are_busy_elsewhere_are_put_to_all_the_same(
    connect: Connect, server: MiddlewareServer, database_url: str
) -> None:
    wires = [await (await connect(server)).register() for _ in range(4)]
    topics = ["a", "b"]
    for topic in topics:
        await publish(wires[0], topic, b"first")
    holder = await asyncpg.connect(database_url)
    transaction = holder.transaction()
    await transaction.start()
    await holder.execute(
        "SELECT pg_advisory_xact_lock(telesto.topic_lock_key(topic_id)) FROM telesto.topics WHERE name = 'a'"
    )
    puts = [
        wire.send(packets.PutToTopic(wire.number(), [], topic, [_PUT])) for wire in wires for topic in topics
    ]
    free = await (await connect(server)).register()
    await publish(free, "b", b"")
    assert not any(put.done() for put in puts[::2])
    await transaction.rollback()
    await holder.close()
    answers = await asyncio.gather(*puts)
    assert sorted(answer.results[0].number for answer in answers[::2]) == [2, 3, 4, 5]


@pytest.mark.settings(wake_sweep_s=3_600)
async def test_a_get_of_a_fenced_session_ends_its_connection(
    connect: Connect, server: MiddlewareServer, wire: Wire
) -> None:
    subscription = await subscribe(wire, "t")
    waiting = wire.send(get(subscription, wait_ms=LONG_MS))
    await until_waiting(server, 1)
    later = await connect(server)
    await later.identify(wire.client_id)
    await publish(later, "t", b"1")
    assert code(await waiting) == ErrorCode.SESSION_FENCED
    await wire.closed()
    assert bodies(await later.ask(get(subscription))) == [b"1"]


@pytest.mark.settings(interest_idle_s=0.05)
async def test_idle_interest_in_a_topic_ends(wire: Wire, database_url: str) -> None:
    subscription = await subscribe(wire, "t")
    connection = await asyncpg.connect(database_url)
    registered = "SELECT count(*) > 0 FROM telesto.interests"
    waiting = wire.send(get(subscription, wait_ms=LONG_MS))
    await until(lambda: connection.fetchval(registered))
    await wire.ask(packets.CancelRequest(waiting.packet_id))  # type: ignore[attr-defined]
    await until(lambda: connection.fetchval(f"SELECT NOT ({registered})"))
    await connection.close()


async def test_a_topic_that_is_subscribed_to_already_is_said(wire: Wire) -> None:
    subscription_id = await subscribe(wire, "news")
    answer = await wire.ask(packets.Subscribe(wire.number(), [], "news"))
    assert isinstance(answer, packets.Error)
    assert (answer.code, answer.related_id) == (ErrorCode.ALREADY_SUBSCRIBED, subscription_id)
    assert answer.details == "the client subscribes to topic 'news' already"
