"""Lists for people: queues, clients, consumers, middlewares."""

import pytest

from conftest import Connect
from telesto.protocol import packets
from wire import READ_ONLY


async def test_queues_are_found_by_their_names_page_by_page(connect: Connect) -> None:
    wire = await (await connect()).register()
    for name in ("a_1", "ab1", "a%1", "a\\1", "b1"):
        await wire.ask(packets.CreateQueue(wire.number(), [], name, packets.QueueSettings()))

    async def found(like: str | None, after: int = 0, limit: int = 100) -> list[str]:
        answer = await wire.ask(packets.ListQueues(after, limit, like=like))
        assert isinstance(answer, packets.ListQueuesResponse)
        assert answer.more == (len(answer.queues) == limit)
        return [queue.name for queue in answer.queues]

    assert await found(None) == ["a_1", "ab1", "a%1", "a\\1", "b1"]
    assert await found("a?1") == ["a_1", "ab1", "a%1", "a\\1"]
    assert await found("a_1") == ["a_1"]
    assert await found("a%1") == ["a%1"]
    assert await found("a\\1") == ["a\\1"]
    assert await found("*1", limit=2) == ["a_1", "ab1"]
    assert await found("c*") == []


async def test_topics_are_found_by_their_names_page_by_page(connect: Connect) -> None:
    wire = await (await connect()).register()
    for name in ("a_1", "ab1", "a%1", "b.1"):
        await wire.ask(packets.Subscribe(wire.number(), [], name))

    async def found(like: str | None, after: int = 0, limit: int = 100) -> list[packets.TopicFigures]:
        answer = await wire.ask(packets.ListTopics(after, limit, like=like))
        assert isinstance(answer, packets.ListTopicsResponse)
        assert answer.more == (len(answer.topics) == limit)
        return answer.topics

    for like, names in (
        (None, ["a_1", "ab1", "a%1", "b.1"]),
        ("a?1", ["a_1", "ab1", "a%1"]),
        ("a_1", ["a_1"]),
        ("a%1", ["a%1"]),
        ("B*", []),
    ):
        assert [topic.topic for topic in await found(like)] == names
    (first,) = await found("*1", limit=1)
    (second,) = await found("a*", after=first.topic_id, limit=1)
    assert (second.topic, second.subscribers) == ("ab1", 1)


async def test_what_waits_in_a_queue_is_counted(connect: Connect, queue_id: int) -> None:
    wire = await (await connect()).register()
    for _ in range(3):
        await wire.put_one(queue_id)
    answer = await wire.ask(packets.ListQueues(0, 10))
    assert isinstance(answer, packets.ListQueuesResponse)
    assert [(queue.queue_id, queue.depth) for queue in answer.queues] == [(queue_id, 3)]


async def test_clients_consumers_and_middlewares(connect: Connect, queue_id: int) -> None:
    wire = await (await connect()).register(mode=READ_ONLY)
    joined = await wire.ask(packets.JoinQueue(queue_id, 0, 0))
    assert isinstance(joined, packets.JoinQueueResponse)
    await wire.ask(packets.Subscribe(wire.number(), [], "prices"))

    answer = await wire.ask(packets.ListClients(0, 100))
    assert isinstance(answer, packets.ListClientsResponse)
    own = next(one for one in answer.clients if one.client_id == wire.client_id)
    assert (own.mode, own.temporary, own.unconfirmed, own.subscriptions) == (READ_ONLY, False, 0, 1)
    assert own.session_at > 1_700_000_000_000_000

    running = await wire.ask(packets.ListMiddlewares(0, 100))
    assert isinstance(running, packets.ListMiddlewaresResponse)
    (middleware,) = running.middlewares
    assert middleware.consumers == 1
    assert middleware.heartbeat_at >= middleware.started_at

    for only in (None, queue_id):
        listed = await wire.ask(packets.ListConsumers(0, 100, queue_id=only))
        assert isinstance(listed, packets.ListConsumersResponse)
        (consumer,) = listed.consumers
        assert (consumer.consumer_id, consumer.queue_id) == (joined.consumer_id, queue_id)
        assert (consumer.client_id, consumer.client) == (wire.client_id, own.name)
        assert (consumer.middleware_id, consumer.leases) == (middleware.middleware_id, 0)
        assert (consumer.paused, consumer.slow) == (True, False)
    other = await wire.ask(packets.ListConsumers(0, 100, queue_id=queue_id + 1))
    assert other == packets.ListConsumersResponse([], False)


@pytest.mark.parametrize(
    ("packet", "field"),
    [
        (packets.ListQueues(-1, 1), "after_queue_id"),
        (packets.ListQueues(0, 0), "limit"),
        (packets.ListQueues(0, 1, like="x" * 1_025), "like"),
        (packets.ListClients(0, 1, like="a\0b"), "like"),
        (packets.ListTopics(0, 1, like="x" * 1_025), "like"),
        (packets.ListClients(-1, 1), "after_client_id"),
        (packets.ListConsumers(-1, 1), "after_consumer_id"),
        (packets.ListConsumers(0, 1, queue_id=0), "queue_id"),
        (packets.ListMiddlewares(-1, 1), "after_middleware_id"),
        (packets.ListMiddlewares(0, 0), "limit"),
    ],
    ids=str,
)
async def test_bad_parameters_are_named(connect: Connect, packet: packets.Packet, field: str) -> None:
    wire = await (await connect()).register()
    answer = await wire.ask(packet)
    assert isinstance(answer, packets.Error)
    assert answer.details.startswith(field + ":")
