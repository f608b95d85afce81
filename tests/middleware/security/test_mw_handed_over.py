"""What was handed over to a client reaches a user only with the right of a read, also by a takeover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from conftest import Connect
from logged_in import add_user, change_user, logged_in
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from wire import Wire


@dataclass
class World:
    """A client with an unconfirmed message of each of three queues: orders, secret, and one that is gone."""

    server: MiddlewareServer
    database: psycopg.Connection
    connect: Connect
    root: Wire
    queues: dict[str, int]
    client_id: int
    messages: dict[str, packets.HandOverRef]

    async def takeover(self, user: str) -> tuple[packets.IdentifyClientResponse, Wire]:
        wire = await logged_in(self.server, self.connect, user)
        return await wire.identify(self.client_id), wire

    def refs(self, *queues: str) -> list[packets.HandOverRef]:
        return [self.messages[name] for name in queues]


@pytest.fixture
async def world(server: MiddlewareServer, connect: Connect, database: psycopg.Connection) -> World:
    add_user(database, "root", administrator=True)
    add_user(database, "alice", get=["*"], clients=["*"])
    root = await (await logged_in(server, connect, "root")).register("root")
    alice = await (await logged_in(server, connect, "alice")).register("the-client")
    queues = {name: await root.create_queue(name) for name in ("orders", "secret", "gone")}
    messages = {}
    for number, (name, queue_id) in enumerate(queues.items(), 1):
        await root.put_one(queue_id, body=name.encode())
        [message] = await alice.read_now(queue_id)
        messages[name] = packets.HandOverRef(alice.session, number, message.message_id)
    await root.ask(packets.DeleteQueue(root.number(), [], queues["gone"]))
    await alice.close()
    return World(server, database, connect, root, queues, alice.client_id, messages)


def listed(answer: Any) -> dict[int, bytes]:
    return {each.message.message_id: each.message.body for each in answer.hand_overs}


async def test_a_user_that_lost_the_right_gets_no_body_until_it_has_it_again(world: World) -> None:
    await change_user(world.server, world.database, "alice", get=["orders"])
    answer, wire = await world.takeover("alice")
    assert sorted(listed(answer).values()) == [b"gone", b"orders"]
    assert answer.denied == world.refs("secret")
    page = await wire.ask(packets.ListUnconfirmed(packets.OperationRef(0, 0), packets.HandOverRef(0, 0, 0)))
    assert sorted(listed(page).values()) == [b"gone", b"orders"]
    assert page.denied == world.refs("secret")
    behind = packets.ListUnconfirmed(packets.OperationRef(0, 0), world.messages["secret"])
    page = await wire.ask(behind)
    assert (list(listed(page).values()), page.denied) == ([b"gone"], None)

    await change_user(world.server, world.database, "alice", get=["*"])
    answer, wire = await world.takeover("alice")
    assert sorted(listed(answer).values()) == [b"gone", b"orders", b"secret"]
    assert answer.denied is None


async def test_what_may_not_be_read_any_more_can_be_given_back(world: World) -> None:
    await change_user(world.server, world.database, "alice", get=[])
    answer, wire = await world.takeover("alice")
    assert isinstance(await wire.ask(packets.Release(answer.denied)), packets.Success)
    [message] = await world.root.read_now(world.queues["secret"])
    assert (message.body, message.redelivered) == (b"secret", True)


@pytest.mark.parametrize("owner", ["nobody", "gone"])
async def test_another_user_that_takes_the_client_gets_only_what_it_may_read(
    world: World, owner: str
) -> None:
    """The rest goes back to its queue, where whoever may read it gets it, marked."""
    add_user(world.database, "bob", get=["orders"], clients=["the-*"])
    if owner == "nobody":
        world.database.execute("UPDATE telesto.clients SET user_id = NULL WHERE name = 'the-client'")
    else:
        world.database.execute("DELETE FROM telesto.users WHERE name = 'alice'")
    waiting = world.root.read(world.queues["secret"], wait_ms=60_000)
    answer, wire = await world.takeover("bob")
    assert list(listed(answer).values()) == [b"orders"]
    assert answer.denied is None
    [message] = (await waiting).messages
    assert (message.body, message.redelivered) == (b"secret", True)
    page = await wire.ask(packets.ListUnconfirmed(packets.OperationRef(0, 0), packets.HandOverRef(0, 0, 0)))
    assert (list(listed(page).values()), page.denied) == ([b"orders"], None)


async def test_a_client_that_is_taken_counts_for_the_quota(world: World) -> None:
    add_user(world.database, "bob", get=["*"], clients=["*"], max_clients=1)
    bob = await logged_in(world.server, world.connect, "bob")
    await bob.register("bobs-own")
    world.database.execute("UPDATE telesto.clients SET user_id = NULL WHERE name = 'the-client'")
    second = await logged_in(world.server, world.connect, "bob")
    await second.hello()
    refused = await second.ask(packets.IdentifyClient(world.client_id, ""))
    assert isinstance(refused, packets.Error)
    assert refused.code == ErrorCode.QUOTA_EXCEEDED, refused
    assert refused.error_class is ErrorClass.REJECTED
    row = world.database.execute("SELECT user_id FROM telesto.clients WHERE name = 'the-client'").fetchone()
    assert row == (None,)
    world.database.execute("UPDATE telesto.users SET max_clients = 2")
    answer, _ = await world.takeover("bob")
    assert len(answer.hand_overs) == 2, "that of the queue that is gone went with it"
