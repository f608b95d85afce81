"""Quotas of what a user has stored, and of topics: measured by one middleware, and held by all."""

import random

import psycopg
import pytest

from conftest import Connect
from logged_in import add_user, logged_in
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packet import Packet
from wire import Wire, until

ALL = {"configure": ["*"], "put": ["*"], "get": ["*"], "clients": ["*"]}


def refusal(answer: Packet) -> str:
    assert isinstance(answer, packets.Error), answer
    assert (answer.code, answer.error_class) == (ErrorCode.QUOTA_EXCEEDED, ErrorClass.REJECTED)
    return answer.details


def near(server: MiddlewareServer) -> float:
    return server.counters.gauges["user_quotas_nearly_used_up"][1]()


@pytest.mark.settings(sweep_interval_s=0.05)
@pytest.mark.parametrize(
    ("quota", "most", "said"),
    [
        (
            "max_stored_messages",
            4,
            "has 5 stored messages and may have no more than 4 (quota stored-messages)",
        ),
        ("max_stored_bytes", 40, "has 50 stored bytes and may have no more than 40 (quota stored-bytes)"),
    ],
)
async def test_who_has_stored_as_much_as_it_may_puts_no_more_until_there_is_space(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection, quota: str, most: int, said: str
) -> None:
    add_user(database, "limited", **ALL)
    add_user(database, "other", **ALL)
    wire = await (await logged_in(server, connect, "limited")).register()
    other = await (await logged_in(server, connect, "other")).register()
    queue_id = await wire.create_queue("orders")
    for _ in range(5):
        await wire.put_one(queue_id, body=bytes(10))
    # Only now, for it is measured at any time.
    database.execute(f"UPDATE telesto.users SET {quota} = {most} WHERE name = 'limited'".encode())
    user = await server.users.find("limited")
    assert user is not None
    await until(lambda: user.without_space is not None)
    assert said in refusal(await wire.put(queue_id))
    publish = packets.PutToTopic(wire.number(), [], "prices", [packets.NewTopicMessage(b"")])
    assert said in refusal(await wire.ask(publish))
    await until(lambda: near(server) == 1)
    await other.put_one(queue_id, body=bytes(10))
    # Also what is read and not confirmed is stored.
    for _ in range(3):
        await wire.read_now(queue_id)
    assert said in refusal(await wire.put(queue_id))
    database.execute("DELETE FROM telesto.deliveries")
    await until(lambda: user.without_space is None)
    await wire.put_one(queue_id)
    await until(lambda: near(server) == 0)


@pytest.mark.settings(sweep_interval_s=0.05)
async def test_headers_count_as_bytes(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_stored_bytes=20_000, **ALL)
    wire = await (await logged_in(server, connect, "limited")).register()
    queue_id = await wire.create_queue("orders")
    for _ in range(5):
        await wire.put_one(
            queue_id, headers=[packets.Header(f"key-{i}", random.randbytes(500).hex()) for i in range(5)]
        )
    user = await server.users.find("limited")
    assert user is not None
    await until(lambda: user.without_space is not None)
    assert "stored bytes" in refusal(await wire.put(queue_id))


@pytest.mark.settings(sweep_interval_s=0.05)
async def test_what_a_deleted_client_has_put_counts_until_it_is_gone(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_stored_messages=4, **ALL)
    wire = await (await logged_in(server, connect, "limited")).register()
    queue_id = await wire.create_queue("orders")
    gone = await (await logged_in(server, connect, "limited")).register()
    for _ in range(5):
        await gone.put_one(queue_id)
    await gone.ask(packets.DeleteClient(gone.number(), []))
    user = await server.users.find("limited")
    assert user is not None
    await until(lambda: user.without_space is not None)
    # Long ago, but its messages are there.
    database.execute("UPDATE telesto.former_clients SET seen_at = now() - interval '2 hours'")
    seen = "SELECT count(*) FROM telesto.former_clients WHERE seen_at > now() - interval '1 hour'"
    await until(lambda: database.execute(seen).fetchone() == (1,))
    assert "has 5 stored messages" in refusal(await wire.put(queue_id))
    database.execute("DELETE FROM telesto.messages")
    await until(lambda: user.without_space is None)
    database.execute("UPDATE telesto.former_clients SET seen_at = now() - interval '2 minutes'")
    left = "SELECT count(*) FROM telesto.former_clients"
    await until(lambda: database.execute(left).fetchone() == (0,))


async def test_a_user_makes_no_more_topics_than_it_may(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_topics=2, **ALL)
    wire: Wire = await (await logged_in(server, connect, "limited")).register()

    def publish(topic: str) -> packets.PutToTopic:
        return packets.PutToTopic(wire.number(), [], topic, [packets.NewTopicMessage(b"")])

    assert isinstance(await wire.ask(publish("one")), packets.PutToTopicResponse)
    subscribe = packets.Subscribe(wire.number(), [], "two")
    assert isinstance(await wire.ask(subscribe), packets.SubscribeResponse)
    assert "has 2 topics and may have no more than 2" in refusal(await wire.ask(publish("three")))
    assert "2 topics" in refusal(await wire.ask(packets.Subscribe(wire.number(), [], "three")))
    assert isinstance(await wire.ask(publish("two")), packets.PutToTopicResponse)
    topics = {name for (name,) in database.execute("SELECT name FROM telesto.topics").fetchall()}
    assert topics == {"one", "two"}


@pytest.mark.settings(sweep_interval_s=0.05)
async def test_nearly_used_up_quotas_that_hold_for_all_are_told_and_cleared(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection
) -> None:
    add_user(database, "limited", max_queues=5, max_clients=5, max_topics=5, **ALL)
    wire = await (await logged_in(server, connect, "limited")).register()
    queues = [await wire.create_queue(f"queue-{i}") for i in range(4)]
    await until(lambda: near(server) == 1)
    await wire.ask(packets.DeleteQueue(wire.number(), [], queues[0]))
    await until(lambda: near(server) == 0)
