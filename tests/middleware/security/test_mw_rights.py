"""What a user may do: every packet without its right and with it, what it sees, and changes of its rights."""

from __future__ import annotations

import asyncio
import os
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg import sql

from conftest import Connect
from logged_in import add_user, change_user, logged_in
from members import join
from telesto.middleware.common.failures import UnavailableError
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.database.connection import DatabaseConnection
from telesto.middleware.security.needed_rights import NEEDED, Scope, What
from telesto.middleware.security.users import Right
from telesto.middleware.server import MiddlewareServer
from telesto.middleware.waiting.room import WaitingRoom
from telesto.protocol import packets
from telesto.protocol.errors import ErrorClass, ErrorCode
from telesto.protocol.packets import REQUESTS
from wire import FOREVER_MS, FULL, PATIENCE_S, READ_ONLY, Wire, put, read, until

RIGHTS = ("configure", "put", "get", "admin")
#: Changed by the service itself, some time after what clients did.
_OF_SERVICE = ("middlewares", "jobs", "interests", "users")
TOKEN = bytes(range(16))
#: A queue that there is in no test.
NO_QUEUE = 1 << 40


@dataclass
class World:
    """A service whose users are alice, who may do nothing yet, and root, the administrator."""

    server: MiddlewareServer
    database: psycopg.Connection
    connect: Connect
    root: Wire
    alice: Wire
    target_id: int
    morgue_id: int
    subscription_id: int

    async def grant(self, *rights: str, pattern: str = "target*", **more: Any) -> None:
        """Alice gets these rights, and no others, on what a pattern matches."""
        columns = {right: [pattern] if right in rights else [] for right in RIGHTS}
        await change_user(self.server, self.database, "alice", **(columns | more))

    def state(self) -> dict[str, list[str]]:
        names = self.database.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'telesto'::regnamespace AND relkind = 'r'"
        ).fetchall()
        query = "SELECT to_jsonb(t)::text FROM telesto.{} AS t ORDER BY 1"
        return {
            name: [row for (row,) in self.database.execute(sql.SQL(query).format(sql.Identifier(name)))]
            for (name,) in names
            if name not in _OF_SERVICE
        }


@pytest.fixture
async def world(server: MiddlewareServer, connect: Connect, database: psycopg.Connection) -> World:
    add_user(database, "root", administrator=True)
    add_user(database, "alice", get=["target"], clients=["*"])
    root = await (await logged_in(server, connect, "root")).register("root")
    alice = await (await logged_in(server, connect, "alice")).register("alice")
    target_id = await root.create_queue("target")
    morgue_id = await root.create_queue("morgue")
    subscribed = await alice.ask(packets.Subscribe(alice.number(), [], "target"))
    world = World(server, database, connect, root, alice, target_id, morgue_id, subscribed.subscription_id)
    await world.grant()
    return world


Make = Callable[[World, int, int], Any]

#: For each need of each packet: how the packet is made from its number and a queue.
CASES: dict[tuple[str, int], Make] = {
    ("CreateQueue", 0): lambda w, n, q: packets.CreateQueue(n, [], "target-new", packets.QueueSettings()),
    ("CreateQueue", 1): lambda w, n, q: packets.CreateQueue(
        n, [], f"new-{os.urandom(4).hex()}", packets.QueueSettings(dead_letter_queue=q)
    ),
    ("CreateQueue", 2): lambda w, n, q: packets.CreateQueue(
        n, [], f"target-{os.urandom(4).hex()}", packets.QueueSettings(dead_letter_queue=w.morgue_id)
    ),
    ("DeleteQueue", 0): lambda w, n, q: packets.DeleteQueue(n, [], q),
    ("GetQueueId", 0): lambda w, n, q: packets.GetQueueId("target"),
    ("GetQueueName", 0): lambda w, n, q: packets.GetQueueName(q),
    ("GetMessages", 0): lambda w, n, q: packets.GetMessages(q, 0, 10),
    ("PutMessage", 0): lambda w, n, q: put(n, q),
    ("ReadMessage", 0): lambda w, n, q: read(n, q),
    ("ReadResponse", 0): lambda w, n, q: packets.ReadResponse(n, [], q, 1, 0),
    ("PutMessages", 0): lambda w, n, q: packets.PutMessages(
        n, [], [packets.QueuedMessage(q, packets.NewMessage(5, 0, b"", None))]
    ),
    ("Subscribe", 0): lambda w, n, q: packets.Subscribe(n, [], "target-2"),
    ("GetFromTopics", 0): lambda w, n, q: packets.GetFromTopics(0, "target", [], 0, 10, 0),
    ("GetFromTopics", 1): lambda w, n, q: packets.GetFromTopics(w.subscription_id, "", [], 0, 10, 0),
    ("PutToTopic", 0): lambda w, n, q: packets.PutToTopic(n, [], "target", [packets.NewTopicMessage(b"")]),
    ("DeleteTopic", 0): lambda w, n, q: packets.DeleteTopic(n, [], "target-gone"),
    ("JoinQueue", 0): lambda w, n, q: packets.JoinQueue(q, 1, 0),
    ("PurgeQueue", 0): lambda w, n, q: packets.PurgeQueue(n, [], q),
    ("CancelMessage", 0): lambda w, n, q: packets.CancelMessage(n, [], q, 1 << 40),
    ("GetQueueStatistics", 0): lambda w, n, q: packets.GetQueueStatistics(q),
    ("UpdateQueue", 0): lambda w, n, q: packets.UpdateQueue(n, [], q, packets.QueueSettings(max_messages=7)),
    ("UpdateQueue", 1): lambda w, n, q: packets.UpdateQueue(
        n, [], w.target_id, packets.QueueSettings(dead_letter_queue=q)
    ),
    ("UpdateQueue", 2): lambda w, n, q: packets.UpdateQueue(
        n, [], q, packets.QueueSettings(dead_letter_queue=w.morgue_id)
    ),
    ("GetQueueSettings", 0): lambda w, n, q: packets.GetQueueSettings(q),
    ("ListDeadLetters", 0): lambda w, n, q: packets.ListDeadLetters(q, 0, 10),
    ("RedriveDeadLetters", 0): lambda w, n, q: packets.RedriveDeadLetters(n, [], q, []),
    ("DeleteDeadLetters", 0): lambda w, n, q: packets.DeleteDeadLetters(n, [], q, []),
}
#: What alice needs besides the right of the case: on other names, or for another need of the packet.
BESIDES = {
    ("CreateQueue", 1): {"configure": ["new-*"], "get": ["new-*"]},
    ("CreateQueue", 2): {"configure": ["target*"], "put": ["morgue"]},
    ("UpdateQueue", 1): {"configure": ["target"], "get": ["target"]},
    ("UpdateQueue", 2): {"configure": ["target"], "put": ["morgue"]},
}
#: Of packets that several needs concern, one of which is about nothing in this case.
_ELSEWHERE = {("RegisterClient", 0)}

IDS = {info.packet.__name__: method_id for method_id, info in REQUESTS.items()}


def need_of(name: str, index: int) -> Any:
    needs = NEEDED[IDS[name]]
    assert not isinstance(needs, Scope)
    return needs[index]


def enough(name: str, index: int) -> list[str]:
    """The rights of which one is enough."""
    rights = Right(need_of(name, index).rights)
    return list(RIGHTS) if rights & Right.SEE else [r for r in RIGHTS if rights & Right[r.upper()]]


PUTS = (packets.PutMessageResponse, packets.PutMessagesResponse)


def code_of(answer: Any) -> ErrorCode | None:
    """The error of an answer, or of the last queue of a put."""
    if isinstance(answer, packets.Error):
        return ErrorCode(answer.code)
    error = answer.results[-1].error if isinstance(answer, PUTS) else None
    return None if error is None else ErrorCode(error)


def test_every_request_says_its_right_and_is_tried_here() -> None:
    assert set(NEEDED) == set(REQUESTS)
    needs = {
        (info.packet.__name__, index)
        for method_id, info in REQUESTS.items()
        if not isinstance(of := NEEDED[method_id], Scope)
        for index in range(len(of))
    }
    assert needs == set(CASES) | _ELSEWHERE
    monitors = [REQUESTS[i].packet.__name__ for i, of in NEEDED.items() if of is Scope.MONITOR]
    assert monitors == ["ListMiddlewares"]


@pytest.mark.parametrize(("name", "index"), CASES, ids=lambda value: str(value))
async def test_a_packet_without_its_right_does_nothing(world: World, name: str, index: int) -> None:
    if name == "UpdateQueue" and index == 1:
        other_id = await world.root.create_queue("target-dead")
    else:
        other_id = world.target_id
    make, besides = CASES[name, index], BESIDES.get((name, index), {})
    rights = enough(name, index)
    everything_else = {right: ["target*"] for right in RIGHTS if right not in rights}
    for granted in (everything_else, {}):
        await world.grant(**{right: [] for right in RIGHTS} | granted | besides)
        before = world.state()
        answer = await world.alice.ask(make(world, world.alice.number(), other_id))
        if granted:
            assert code_of(answer) is ErrorCode.PERMISSION_DENIED
        else:
            assert code_of(answer) in (ErrorCode.PERMISSION_DENIED, ErrorCode.QUEUE_NOT_EXISTING)
        if code_of(answer) is ErrorCode.PERMISSION_DENIED:
            # It names all rights of which one is enough, in a command that gives it.
            assert {option[2:] for option in re.findall(r"--[a-z]+", answer.details)} == set(rights)
            assert re.search(r"to allow it: telesto user allow alice --[a-z]+ target", answer.details)
        else:
            assert "telesto user" not in getattr(answer, "details", "")
        if not isinstance(
            answer, PUTS
        ):  # the refusal of a queue is recorded, as that of one that is not there
            assert answer.error_class is ErrorClass.REJECTED
            assert world.state() == before
    for right in rights:
        await world.grant(**{right: ["target*"]} | besides_with(besides, right))
        answer = await world.alice.ask(make(world, world.alice.number(), other_id))
        assert code_of(answer) not in (ErrorCode.PERMISSION_DENIED, ErrorCode.QUEUE_NOT_EXISTING), answer
        if name == "DeleteQueue":
            return


def besides_with(besides: dict[str, list[str]], right: str) -> dict[str, list[str]]:
    return {name: patterns for name, patterns in besides.items() if name != right}


@pytest.mark.parametrize(
    ("name", "index"),
    # With what the last one needs besides, the queue can be seen.
    [key for key in CASES if need_of(*key).what is What.QUEUE and key != ("UpdateQueue", 2)],
    ids=lambda value: str(value),
)
async def test_an_id_tells_nothing(world: World, name: str, index: int) -> None:
    """Who may not see a queue gets the answer of one that does not exist."""
    make, besides = CASES[name, index], BESIDES.get((name, index), {})
    if name == "UpdateQueue" and index == 1:
        hidden_id = await world.root.create_queue("hidden")
    else:
        hidden_id = world.target_id
    await world.grant(**{right: [] for right in RIGHTS} | besides)
    hidden = await world.alice.ask(make(world, world.alice.number(), hidden_id))
    missing = await world.alice.ask(make(world, world.alice.number(), NO_QUEUE))
    assert code_of(hidden) == code_of(missing) == ErrorCode.QUEUE_NOT_EXISTING
    if isinstance(hidden, PUTS):
        of_hidden, of_missing = hidden.results, missing.results
        assert [result.queue_id for result in (*of_hidden, *of_missing)] == [hidden_id, NO_QUEUE]
        assert [result.message_id for result in (*of_hidden, *of_missing)] == [0, 0]
    else:
        assert hidden.details.replace(str(hidden_id), "") == missing.details.replace(str(NO_QUEUE), "")
        assert (hidden.related_id, missing.related_id) == (hidden_id, NO_QUEUE)


@pytest.mark.parametrize(("name", "index"), CASES, ids=lambda value: str(value))
async def test_an_administrator_may_do_everything(world: World, name: str, index: int) -> None:
    if name == "UpdateQueue":
        other_id = await world.root.create_queue("dead")
    else:
        other_id = world.target_id
    answer = await world.root.ask(CASES[name, index](world, world.root.number(), other_id))
    assert code_of(answer) is not ErrorCode.PERMISSION_DENIED
    assert code_of(answer) is not ErrorCode.QUEUE_NOT_EXISTING


async def test_a_right_that_is_taken_away_is_gone_at_the_next_call(world: World) -> None:
    await world.grant("put")
    await world.alice.put_one(world.target_id)
    await world.grant()
    answer = await world.alice.put(world.target_id)
    assert code_of(answer) is ErrorCode.QUEUE_NOT_EXISTING
    await world.grant("get")
    answer = await world.alice.put(world.target_id)
    assert code_of(answer) is ErrorCode.PERMISSION_DENIED
    assert answer.details == (
        "user 'alice' has no right to put into queue 'target'; "
        "to allow it: telesto user allow alice --put target"
    )


async def test_ids_are_not_taken_for_what_they_were_before_the_connection_was_lost(world: World) -> None:
    """A database that was restored under a running middleware may give an id to another name."""
    await world.grant("put")
    await world.alice.put_one(world.target_id)
    world.database.execute("UPDATE telesto.queues SET name = 'restored' WHERE name = 'target'")
    listens = (
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%telesto%'"
    )
    before = world.database.execute(listens).fetchall()
    assert before
    world.database.execute("SELECT pg_terminate_backend(%s)", before[0])

    await until(lambda: not world.server.users.queue_names)
    assert code_of(await world.alice.put(world.target_id)) is ErrorCode.QUEUE_NOT_EXISTING


async def test_the_command_that_gives_a_right_gives_it_on_that_name_only(world: World) -> None:
    for name in ("target*?", "target \\ '$(x)"):
        queue_id = await world.root.create_queue(name)
        await world.grant("get")
        answer = await world.alice.put(queue_id)
        words = shlex.split(answer.details.partition("to allow it: ")[2])
        assert words[:5] == ["telesto", "user", "allow", "alice", "--put"]
        await world.grant(put=[words[5]])
        assert code_of(await world.alice.put(queue_id)) is None
        assert code_of(await world.alice.put(world.target_id)) is ErrorCode.QUEUE_NOT_EXISTING


async def test_who_may_have_no_such_client_and_who_is_no_monitor_is_told_the_command(
    world: World, connect: Connect
) -> None:
    await world.grant("get", clients=["shop"])
    answer = await world.alice.ask(packets.ListMiddlewares(0, 10))
    assert answer.details.endswith("to allow it: telesto user allow alice --monitor")
    another = await logged_in(world.server, connect, "alice")
    answer = await another.ask(packets.RegisterClient("boss", FULL, TOKEN))
    assert answer.details.endswith("to allow it: telesto user allow alice --clients boss")


async def test_a_queue_that_is_seen_without_the_right_refuses_the_whole_put(world: World) -> None:
    await world.grant(put=["target"], get=["other"])
    other_id = await world.root.create_queue("other")
    answer = await world.alice.put(world.target_id, other_id)
    assert (code_of(answer), answer.related_id) == (ErrorCode.PERMISSION_DENIED, other_id)
    assert await world.root.read_now(world.target_id) == []


async def test_a_hidden_queue_among_others_is_as_one_that_is_not_there(world: World) -> None:
    await world.grant("put")
    hidden_id = await world.root.create_queue("hidden")
    queue_ids = [hidden_id, world.target_id, NO_QUEUE]
    messages = [
        packets.QueuedMessage(queue_id, packets.NewMessage(5, 0, b"x", None))
        for queue_id in (*queue_ids, hidden_id)
    ]
    one = await world.alice.put(*queue_ids)
    many = await world.alice.ask(packets.PutMessages(world.alice.number(), [], messages))
    none = ErrorCode.QUEUE_NOT_EXISTING
    assert [(result.queue_id, result.error) for result in one.results] == [
        (hidden_id, none), (world.target_id, None), (NO_QUEUE, none),
    ]  # fmt: skip
    assert [result.error for result in many.results] == [none, None, none, none]
    assert await world.root.read_now(hidden_id) == []


async def test_characters_of_patterns_stand_for_themselves_behind_a_backslash(world: World) -> None:
    star_id, other_id = await world.root.create_queue("a*b"), await world.root.create_queue("axb")
    await world.grant("put", pattern=r"a\*b")
    await world.alice.put_one(star_id)
    assert code_of(await world.alice.put(other_id)) is ErrorCode.QUEUE_NOT_EXISTING


async def test_a_refused_request_leaves_its_number_and_order(world: World) -> None:
    await world.grant("put")
    hidden_id = await world.root.create_queue("hidden")
    answers = [world.alice.put(queue_id) for queue_id in (world.target_id, hidden_id, world.target_id)]
    first, refused, last = [await answer for answer in answers]
    assert first.results[0].error is None
    assert code_of(refused) is ErrorCode.QUEUE_NOT_EXISTING
    assert last.results[0].error is None


async def test_without_the_database_names_cannot_be_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.grant("put")

    async def away(*_arguments: Any) -> Any:
        raise UnavailableError("away")

    with monkeypatch.context() as patch:
        patch.setattr(DatabaseConnection, "read", away)
        answer = await world.alice.put(world.target_id)
    assert (code_of(answer), answer.error_class) == (ErrorCode.DATABASE_UNAVAILABLE, ErrorClass.RETRYABLE)
    world.alice.resume()
    await world.alice.put_one(world.target_id)


async def test_decisions_and_names_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("telesto.middleware.security.users._DECISIONS_MAX", 3)
    monkeypatch.setattr("telesto.middleware.security.rights._NAMES_MAX", 5)
    queue_ids = [await world.root.create_queue(f"target-{number}") for number in range(12)]
    await world.grant("put")
    for queue_id in queue_ids + queue_ids[::-1]:
        await world.alice.put_one(queue_id)
    alice = await world.server.users.find("alice")
    assert alice is not None
    assert 0 < len(alice.decisions) <= 3
    results = (await world.alice.put(*queue_ids)).results
    assert {result.error for result in results} == {None}


class TestWaiting:
    async def test_a_read_that_waits_ends_with_the_right(self, world: World) -> None:
        await world.grant("get")
        waiting = world.alice.read(world.target_id, wait_ms=FOREVER_MS)
        response = world.alice.send(
            packets.ReadResponse(world.alice.number(), [], world.target_id, 1, FOREVER_MS)
        )
        await until(lambda: world.server.room.parked == 2)
        await world.grant("put")
        for answer in (await waiting, await response):
            assert code_of(answer) is ErrorCode.PERMISSION_DENIED
        assert world.server.room.parked == 0

    @pytest.mark.parametrize("by", ["id", "name", "all"])
    async def test_a_get_of_topics_ends_with_the_right(self, world: World, by: str) -> None:
        await world.grant("get")
        subscription_id = world.subscription_id if by == "id" else 0
        topic = "target" if by == "name" else ""
        get = packets.GetFromTopics(subscription_id, topic, [], FOREVER_MS, 10, 0)
        waiting = world.alice.send(get)
        await until(lambda: world.server.room.parked == 1)
        await world.grant("put")
        answer = await waiting
        assert code_of(answer) is ErrorCode.PERMISSION_DENIED
        assert "'target'" in answer.details

    async def test_what_may_still_wait_does(self, world: World) -> None:
        await world.grant("get")
        waiting = world.alice.read(world.target_id, wait_ms=FOREVER_MS)
        await until(lambda: world.server.room.parked == 1)
        await world.grant("get", "put")
        await until(lambda: world.server.room.parked == 1)
        await world.root.put_one(world.target_id, body=b"for alice")
        assert [message.body for message in (await waiting).messages] == [b"for alice"]

    async def test_a_read_does_not_begin_to_wait_without_the_right(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The right is taken away while the read scans."""
        await world.grant("get")
        alice = await world.server.users.find("alice")
        assert alice is not None
        scanned = WaitingRoom.scanned

        def lose(*arguments: Any) -> None:
            alice.delete()
            scanned(*arguments)

        monkeypatch.setattr(WaitingRoom, "scanned", lose)
        answer = await asyncio.wait_for(world.alice.read(world.target_id, wait_ms=FOREVER_MS), PATIENCE_S)
        assert code_of(answer) in (ErrorCode.PERMISSION_DENIED, ErrorCode.QUEUE_NOT_EXISTING)

    async def test_a_consumer_ends_with_the_right(self, world: World) -> None:
        await world.grant("get")
        other_id = await world.root.create_queue("target-2")
        member = await join(world.alice, world.target_id)
        staying = await join(world.alice, other_id)
        await world.root.put_one(world.target_id, body=b"given")
        assert await member.bodies(1) == [b"given"]
        await world.grant("get", pattern="target-2")
        lost = await member.lost()
        assert (lost.ended, lost.code) == (True, ErrorCode.PERMISSION_DENIED)
        assert "'target'" in lost.details
        # What it had goes to others, and it gets nothing more.
        assert [m.body for m in (await world.root.read(world.target_id, wait_ms=30_000)).messages] == [
            b"given"
        ]
        await world.root.put_one(other_id, body=b"more")
        assert await staying.bodies(1) == [b"more"]

    async def test_a_consumer_that_joins_meanwhile_ends(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The right is taken away while the database is asked."""
        await world.grant("get")
        alice = await world.server.users.find("alice")
        assert alice is not None
        joined = ConsumerRegistry.join

        def lose(*arguments: Any) -> None:
            alice.delete()
            joined(*arguments)

        monkeypatch.setattr(ConsumerRegistry, "join", lose)
        member = await join(world.alice, world.target_id)
        lost = await member.lost()
        assert (lost.consumer_id, lost.ended) == (member.consumer_id, True)
        assert lost.code == ErrorCode.PERMISSION_DENIED


class TestLists:
    @pytest.fixture
    async def rich(self, world: World) -> World:
        for count in range(6):
            name = f"target-{count}" if count % 2 else f"hidden-{count}"
            queue_id = await world.root.create_queue(name)
            await world.root.put_one(queue_id)
            await join(world.root, queue_id, 0)
            topic = packets.PutToTopic(world.root.number(), [], name, [packets.NewTopicMessage(b"")])
            await world.root.ask(topic)
            await (await logged_in(world.server, world.connect, "root")).register(f"client-{name}")
        return world

    async def pages(self, wire: Wire, make: Callable[[int], Any], id_of: str) -> tuple[list[Any], list[int]]:
        """All elements, asked for two at a time, and how many each page had."""
        found: list[Any] = []
        sizes: list[int] = []
        more, after = True, 0
        while more:
            answer = await wire.ask(make(after))
            rows, more = (getattr(answer, name) for name in answer.__slots__)
            found += rows
            sizes.append(len(rows))
            after = getattr(rows[-1], id_of) if rows else after
        return found, sizes

    @pytest.mark.parametrize("right", RIGHTS)
    async def test_lists_have_what_a_user_sees_and_full_pages(self, rich: World, right: str) -> None:
        await rich.grant(right, pattern="target-*")
        wanted = {f"target-{count}" for count in (1, 3, 5)}
        lists: list[tuple[Callable[[int], Any], str, str]] = [
            (lambda after: packets.GetQueues(after, 2), "queue_id", "name"),
            (lambda after: packets.GetActiveQueues(after, 2), "queue_id", "name"),
            (lambda after: packets.ListQueues(after, 2), "queue_id", "name"),
            (lambda after: packets.ListTopics(after, 2), "topic_id", "topic"),
            (lambda after: packets.ListConsumers(after, 2), "consumer_id", "queue"),
        ]
        for make, id_of, name_of in lists:
            found, sizes = await self.pages(rich.alice, make, id_of)
            assert {getattr(row, name_of) for row in found} == wanted, make(0)
            assert sizes[0] == 2, make(0)

    async def test_a_user_sees_its_clients_and_those_it_may_have(self, rich: World) -> None:
        await rich.grant(clients=["client-target-*"])
        found, sizes = await self.pages(rich.alice, lambda after: packets.ListClients(after, 2), "client_id")
        assert {row.name for row in found} == {"alice"} | {f"client-target-{count}" for count in (1, 3, 5)}
        assert sizes[0] == 2

    async def test_a_monitor_sees_everything_and_changes_nothing(self, rich: World) -> None:
        assert code_of(await rich.alice.ask(packets.ListMiddlewares(0, 10))) is ErrorCode.PERMISSION_DENIED
        await rich.grant(monitor=True)
        queues = (await rich.alice.ask(packets.ListQueues(0, 100))).queues
        assert len(queues) == 8
        assert len((await rich.alice.ask(packets.ListClients(0, 100))).clients) == 8
        assert len((await rich.alice.ask(packets.ListTopics(0, 100))).topics) == 7
        assert len((await rich.alice.ask(packets.ListConsumers(0, 100))).consumers) == 6
        assert len((await rich.alice.ask(packets.ListMiddlewares(0, 10))).middlewares) == 1
        await rich.alice.ask(packets.GetQueueStatistics(rich.target_id))
        assert (await rich.alice.ask(packets.GetQueueName(rich.target_id))).queue_name == "target"
        for name in ("PutMessage", "DeleteQueue", "PurgeQueue", "GetMessages", "ReadMessage", "UpdateQueue"):
            answer = await rich.alice.ask(CASES[name, 0](rich, rich.alice.number(), rich.target_id))
            assert code_of(answer) is ErrorCode.PERMISSION_DENIED, name

    async def test_history_is_for_those_who_may_read(self, world: World) -> None:
        queue_id = await world.root.create_queue("target-2", history=packets.HistoryMode.FULL)
        message_id = await world.root.put_one(queue_id, body=b"secret")
        await world.root.ask(read(0, queue_id))
        ask = packets.GetMessageHistory(message_id)
        unknown = await world.alice.ask(packets.GetMessageHistory(1 << 40))
        await world.grant("put", "configure", "admin")
        hidden = await world.alice.ask(ask)
        assert code_of(hidden) == code_of(unknown) == ErrorCode.MESSAGE_NOT_EXISTING
        assert hidden.details.replace(str(message_id), "") == unknown.details.replace(str(1 << 40), "")
        await world.grant("get")
        assert (await world.alice.ask(ask)).records[-1].body == b"secret"
        await world.grant(monitor=True)
        (record,) = (await world.alice.ask(ask)).records
        assert (record.queue_name, record.body, record.headers) == ("target-2", None, None)


class TestClients:
    async def test_a_client_is_its_users(self, world: World) -> None:
        add_user(world.database, "bob", clients=["*"])
        bob = await logged_in(world.server, world.connect, "bob")
        await bob.hello()
        before = world.state()
        answers = {
            which: await bob.ask(packets.IdentifyClient(client_id, name))
            for which, client_id, name in (
                ("id", world.alice.client_id, ""),
                ("no id", 1 << 40, ""),
                ("name", 0, "alice"),
                ("no name", 0, "nobody"),
            )
        }
        assert {code_of(answer) for answer in answers.values()} == {ErrorCode.CLIENT_NOT_EXISTING}
        alices = str(world.alice.client_id)
        assert answers["id"].details.replace(alices, "") == answers["no id"].details.replace(str(1 << 40), "")
        assert answers["name"].details.replace("alice", "") == answers["no name"].details.replace(
            "nobody", ""
        )
        resume = packets.IdentifyClient(world.alice.client_id, "", mode=READ_ONLY)
        assert code_of(await bob.ask(resume)) is ErrorCode.CLIENT_NOT_EXISTING
        assert world.state() == before
        assert isinstance(await world.alice.ask(packets.Ping()), packets.Pong)
        again = await logged_in(world.server, world.connect, "alice")
        assert (await again.identify(world.alice.client_id)).client_name == "alice"

    async def test_an_administrator_takes_any_client_and_it_stays_its_users(self, world: World) -> None:
        root = await logged_in(world.server, world.connect, "root")
        await root.identify(world.alice.client_id)
        again = await logged_in(world.server, world.connect, "alice")
        await again.identify(world.alice.client_id)

    @pytest.mark.parametrize("gone", [False, True])
    async def test_a_client_of_nobody_is_the_first_users_whose_patterns_match(
        self, world: World, gone: bool
    ) -> None:
        add_user(world.database, "bob", clients=["orders-*"])
        add_user(world.database, "carol", clients=["orders-?", "x"])
        add_user(world.database, "dave", clients=["other"])
        owner = "999999" if gone else "NULL"
        world.database.execute(
            "INSERT INTO telesto.clients (client_id, session, mode, name, user_id)"
            f" VALUES (nextval('telesto.client_ids'), 1, 1, 'orders-1', {owner})".encode()
        )
        dave, bob, carol = [
            await logged_in(world.server, world.connect, name) for name in ("dave", "bob", "carol")
        ]
        identify = packets.IdentifyClient(0, "orders-1")
        await dave.hello()
        assert code_of(await dave.ask(identify)) is ErrorCode.CLIENT_NOT_EXISTING
        await bob.hello()
        assert isinstance(await bob.ask(identify), packets.IdentifyClientResponse)
        await carol.hello()
        assert code_of(await carol.ask(identify)) is ErrorCode.CLIENT_NOT_EXISTING

    async def test_a_name_needs_a_pattern(self, world: World) -> None:
        await world.grant(clients=["alice-*"])
        wire = await logged_in(world.server, world.connect, "alice")
        await wire.hello()
        before = world.state()
        for name, temporary in (("bob", None), ("bob", True), ("temporary-host-1", True)):
            register = packets.RegisterClient(name, FULL, os.urandom(16), temporary=temporary)
            answer = await wire.ask(register)
            assert code_of(answer) is ErrorCode.PERMISSION_DENIED
            assert repr(name) in answer.details
        assert world.state() == before
        answer = await wire.ask(packets.RegisterClient("alice-2", FULL, os.urandom(16)))
        assert isinstance(answer, packets.RegisterClientResponse)

    async def test_a_temporary_client_needs_none_for_a_random_name(self, world: World) -> None:
        await world.grant(clients=[])
        wire = await logged_in(world.server, world.connect, "alice")
        await wire.hello()
        name = "temporary-host.example-17-0123456789abcdef"
        refused = await wire.ask(packets.RegisterClient(name, FULL, os.urandom(16)))
        assert code_of(refused) is ErrorCode.PERMISSION_DENIED
        answer = await wire.ask(packets.RegisterClient(name, FULL, os.urandom(16), temporary=True))
        assert isinstance(answer, packets.RegisterClientResponse)

    async def test_a_token_does_not_open_another_users_client(self, world: World) -> None:
        add_user(world.database, "bob", clients=["*"])
        first = await logged_in(world.server, world.connect, "alice")
        await first.hello()
        await first.ask(packets.RegisterClient("shared", FULL, TOKEN, attempt=1))
        bob = await logged_in(world.server, world.connect, "bob")
        await bob.hello()
        answer = await bob.ask(packets.RegisterClient("shared", FULL, TOKEN, attempt=2))
        assert code_of(answer) is ErrorCode.CLIENT_NAME_NOT_UNIQUE
