"""The audit log: complete for what was done, bounded for what was refused."""

import asyncio
import json
import os
import stat
from collections.abc import Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from conftest import Connect, StartMiddleware
from logged_in import add_user, logged_in
from members import join, put_all
from telesto.middleware.common.audit import AuditFileError, AuditLog
from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.procedures.audited import AUDITED
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from telesto.protocol.packets import REQUESTS
from wire import Wire, until

#: Requests that only look, that put, read and answer messages, or that open the conversation. What comes of
#: Authenticate is written by the login.
NOT_AUDITED = {
    "Ping", "Hello", "Authenticate", "Begin", "Credit", "CancelRequest",
    "PutMessage", "PutMessages", "PutToTopic", "ReadMessage", "ReadResponse", "GetFromTopics",
    "Confirm", "ConfirmPositions", "Release", "ListUnconfirmed", "Ack", "Nack", "Touch", "JoinQueue",
    "LeaveQueue", "GetQueueId", "GetQueueName", "GetQueues", "GetActiveQueues", "GetMessages",
    "GetQueueStatistics",
    "GetQueueSettings", "GetMessageHistory", "ListDeadLetters", "ListTopics", "ListSubscriptions",
    "ListQueues", "ListClients", "ListConsumers", "ListMiddlewares",
}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


@pytest.fixture
async def server(start_middleware: StartMiddleware, path: Path) -> MiddlewareServer:
    return await start_middleware(audit_log=path)


@pytest.fixture
async def audited(server: MiddlewareServer, connect: Connect) -> Wire:
    return await (await connect(server)).register("auditor")


def texts(path: Path) -> list[str]:
    return path.read_text().removesuffix("\n").split("\n")


def move_away(path: Path) -> Path:
    return path.rename(path.with_suffix(".1"))


def lines(path: Path, *events: str) -> Iterator[dict[str, Any]]:
    for text in texts(path):
        line = json.loads(text)
        if line["event"] in events or not events:
            yield line


def test_every_request_is_audited_or_known_not_to_be() -> None:
    audited = {packet.__name__ for packet in AUDITED}
    assert audited | NOT_AUDITED == {info.packet.__name__ for info in REQUESTS.values()}
    assert not audited & NOT_AUDITED


async def test_what_was_done_is_written_before_it_is_answered(audited: Wire, path: Path) -> None:
    wire = audited
    asked: list[str] = ["client_registered"]

    async def ask(event: str, packet: Any) -> dict[str, Any]:
        answer = await wire.ask(packet)
        assert not isinstance(answer, packets.Error), answer
        asked.append(event)
        line = list(lines(path))[-1]
        assert (line["event"], line["outcome"]) == (event, "done")
        assert (line["client_id"], line["pid"]) == (wire.client_id, os.getpid())
        assert line["peer"].startswith("127.0.0.1:")
        assert line["middleware"] > 0
        return line

    (registered,) = lines(path)
    assert (registered["client_name"], registered["mode"]) == ("auditor", "FULL")
    settings = packets.QueueSettings(max_attempts=1)
    created = await ask("queue_created", packets.CreateQueue(wire.number(), [], "orders", settings))
    queue_id = created["queue_id"]
    assert (created["queue_name"], created["settings"]) == ("orders", {"max_attempts": 1})
    await put_all(wire, queue_id, b"1", b"2")
    member = await join(wire, queue_id)
    await member.next(2)
    await member.nack(b"1", b"2", failed=True)
    await wire.ask(packets.LeaveQueue(member.consumer_id))
    letters = (await wire.ask(packets.ListDeadLetters(queue_id, 0, 10))).letters
    one = [letters[0].message.message_id]
    redriven = await ask(
        "dead_letters_redriven", packets.RedriveDeadLetters(wire.number(), [], queue_id, one)
    )
    assert (redriven["queue_id"], redriven["asked"], redriven["redriven"]) == (queue_id, 1, 1)
    deleted = await ask("dead_letters_deleted", packets.DeleteDeadLetters(wire.number(), [], queue_id, []))
    assert (deleted["asked"], deleted["deleted"]) == ("all", 1)
    cancelled = await ask("message_cancelled", packets.CancelMessage(wire.number(), [], queue_id, one[0]))
    assert (cancelled["message_id"], cancelled["cancelled"]) == (one[0], True)
    purged = await ask("queue_purged", packets.PurgeQueue(wire.number(), [], queue_id))
    assert purged["removed"] == 0
    changed = packets.UpdateQueue(wire.number(), [], queue_id, packets.QueueSettings(lease_ms=5_000))
    assert (await ask("queue_changed", changed))["settings"] == {"lease_ms": 5_000}
    await ask("queue_deleted", packets.DeleteQueue(wire.number(), [], queue_id))
    await ask("subscribed", packets.Subscribe(wire.number(), [], "prices"))
    await ask("unsubscribed", packets.Unsubscribe(wire.number(), [], "prices"))
    await ask("topic_deleted", packets.DeleteTopic(wire.number(), [], "prices"))
    await ask("client_deleted", packets.DeleteClient(wire.number(), []))
    assert set(asked) | {"client_taken_over"} == {event for event, *_ in AUDITED.values()}


async def test_a_takeover_tells_of_both_sides(audited: Wire, connect: Connect, path: Path) -> None:
    await (await connect()).identify(audited.client_id)
    (line,) = lines(path, "client_taken_over")
    assert (line["client_id"], line["session"]) == (audited.client_id, 2)
    assert line["taken_from"]["address"] == "127.0.0.1"
    assert "since" in line["taken_from"]


async def test_refusals_are_bounded_and_successes_are_not(audited: Wire, path: Path) -> None:
    for _ in range(50):
        answer = await audited.ask(packets.DeleteQueue(audited.number(), [], 1 << 40))
        assert isinstance(answer, packets.Error)
    (line,) = lines(path, "queue_deleted")
    assert (line["outcome"], line["code"], line["queue_id"]) == ("refused", "QUEUE_NOT_EXISTING", 1 << 40)
    await asyncio.gather(*(audited.create_queue() for _ in range(50)))
    assert len(list(lines(path, "queue_created"))) == 50


async def test_what_a_user_has_no_right_to_is_written_of_every_request(
    server: MiddlewareServer, audited: Wire, connect: Connect, path: Path, database_url: str
) -> None:
    queue_id = await audited.create_queue("orders")
    with psycopg.connect(database_url, autocommit=True) as database:
        add_user(database, "alice", get=["orders"], clients=["alice"])
    await until(lambda: server.users.required)
    alice = await logged_in(server, connect, "alice")
    await alice.ask(packets.RegisterClient("alice", packets.ClientMode.FULL, bytes(16)))
    for _ in range(3):
        await alice.put(queue_id)
    await alice.ask(packets.DeleteQueue(alice.number(), [], queue_id))
    (put,) = lines(path, "permission_denied")
    (deletion,) = lines(path, "queue_deleted")
    for line in (put, deletion):
        assert (line["user"], line["outcome"], line["code"]) == ("alice", "refused", "PERMISSION_DENIED")
    assert (put["request"], deletion["queue_id"]) == ("PutMessage", queue_id)


async def test_what_a_client_says_cannot_forge_a_line(audited: Wire, connect: Connect, path: Path) -> None:
    forged = '"}\n{"event": "queue_purged"}\r\u2028\x85\x1b[2J'
    wire = await connect()
    await wire.hello()
    await wire.ask(packets.RegisterClient("forger", packets.ClientMode.FULL, bytes(16), process=forged))
    registered = list(lines(path))
    assert [line["event"] for line in registered] == ["client_registered"] * 2
    assert registered[1]["process"] == forged
    assert all(text.isascii() and text.isprintable() for text in texts(path))


async def test_a_file_that_was_moved_away_is_made_anew(audited: Wire, path: Path) -> None:
    moved = move_away(path)
    await audited.create_queue()
    assert [line["event"] for line in lines(path)] == ["queue_created"]
    assert [line["event"] for line in lines(moved)] == ["client_registered"]
    assert {stat.S_IMODE(os.stat(file).st_mode) for file in (path, moved)} == {0o600}


async def test_the_service_goes_on_when_the_file_cannot_be_written(
    server: MiddlewareServer, audited: Wire, path: Path
) -> None:
    move_away(path)
    os.mkdir(path)
    await audited.create_queue()
    await audited.create_queue()
    assert server.audit.failures == 2
    os.rmdir(path)
    await audited.create_queue()
    assert [line["event"] for line in lines(path)] == ["queue_created"]


async def test_file_and_table_have_what_middlewares_and_what_sql_did(
    start_middleware: StartMiddleware, connect: Connect, path: Path, database_url: str
) -> None:
    server = await start_middleware(audit_log=path, audit_table=True)
    wire = await (await connect(server)).register("auditor")
    queue_id = await wire.create_queue("orders")
    connection = await asyncpg.connect(database_url)
    try:
        await connection.execute("SELECT telesto.delete_queue($1)", queue_id)
        await until(lambda: list(lines(path, "queue_deleted")))
        await until(lambda: connection.fetchval("SELECT count(*) = 3 FROM telesto.audit WHERE written"))
        kept = await connection.fetch("SELECT event, details::jsonb FROM telesto.audit ORDER BY at")
    finally:
        await connection.close()
    in_file = sorted(lines(path), key=itemgetter("time"))
    assert [line["event"] for line in in_file] == ["client_registered", "queue_created", "queue_deleted"]
    assert (in_file[2]["queue_id"], "role" in in_file[2]) == (queue_id, True)
    for (event, details), line in zip(kept[:2], in_file, strict=False):
        assert line["event"] == event
        assert line.items() >= json.loads(details).items()


async def test_what_waits_for_the_table_is_bounded_and_written_at_the_stop(
    start_middleware: StartMiddleware, connect: Connect, database_url: str
) -> None:
    server = await start_middleware(audit_table=True)
    await (await connect(server)).register("auditor")
    server.request_stop()
    await server.wait_closed()
    connection = await asyncpg.connect(database_url)
    assert await connection.fetchval("SELECT array_agg(event) FROM telesto.audit") == ["client_registered"]
    await connection.close()
    audit = AuditLog(None, lambda: 0.0, Deadlines(asyncio.get_running_loop()), in_table=True)
    for number in range(10_005):
        audit.done(str(number))
    assert (len(audit.for_table), audit.failures) == (10_000, 5)
    assert json.loads(audit.for_table[0])["event"] == "5"


async def test_a_file_that_cannot_be_opened_is_refused_at_the_start(
    start_middleware: StartMiddleware, tmp_path: Path
) -> None:
    with pytest.raises(AuditFileError, match=r"cannot write .*: Is a directory"):
        await start_middleware(audit_log=tmp_path)
