"""What is for one receiver, as dead letters and the history show it to the users of a queue."""

from __future__ import annotations

import psycopg
import pytest

from conftest import Connect
from logged_in import add_user, logged_in
from telesto.middleware.server import MiddlewareServer
from telesto.protocol import packets
from wire import Wire

#: Users, what they have on the queue, and whether they see what is for the receiver only.
USERS = {
    "sender": ({"put": ["orders"], "get": ["orders"]}, True),
    "receiver": ({"get": ["orders"]}, True),
    "reader": ({"get": ["orders"]}, False),
    "admin": ({"get": ["orders"], "admin": ["orders"]}, True),
    "root": ({"administrator": True}, True),
    "watcher": ({"get": ["orders"], "monitor": True}, False),
}


async def another_client(server: MiddlewareServer, connect: Connect, user: str) -> Wire:
    """A second client of the user: what one of its clients may see, all of them may."""
    return await (await logged_in(server, connect, user)).register(f"{user}-2")


@pytest.mark.parametrize("user", USERS)
async def test_what_is_for_one_receiver_is_shown_to_whom_it_concerns(
    server: MiddlewareServer, connect: Connect, database: psycopg.Connection, user: str
) -> None:
    for name, (columns, _) in USERS.items():
        add_user(database, name, clients=["*"], **columns)
    root = await (await logged_in(server, connect, "root")).register("root-1")
    queue_id = await root.create_queue("orders", history=packets.HistoryMode.FULL)
    sender = await (await logged_in(server, connect, "sender")).register("sender-1")
    receiver = await (await logged_in(server, connect, "receiver")).register("receiver-1")
    open_id = await sender.put_one(queue_id, body=b"for anyone")
    directed_id = await sender.put_one(queue_id, body=b"secret", receiver_id=receiver.client_id)
    database.execute(
        """WITH died AS (DELETE FROM telesto.messages RETURNING *)
        INSERT INTO telesto.dead_letters (message_id, queue_id, sender_id, receiver_id, priority,
            time_of_arrival, attempt, redelivered, body, reason, died_at, client_id, session, number,
            handed_over_at, history)
        SELECT message_id, queue_id, sender_id, receiver_id, priority, time_of_arrival, 1, false, body,
            'failed', now(), 0, 0, 0, now(), history FROM died"""
    )
    asking = await another_client(server, connect, user)
    letters = (await asking.ask(packets.ListDeadLetters(queue_id, 0, 10))).letters
    seen = {letter.message.message_id: letter.message.body for letter in letters}
    expected = {open_id: b"for anyone"} | ({directed_id: b"secret"} if USERS[user][1] else {})
    assert seen == expected

    purged_id = await sender.put_one(queue_id, body=b"secret", receiver_id=receiver.client_id)
    await root.ask(packets.PurgeQueue(root.number(), [], queue_id))
    told = await asking.ask(packets.GetMessageHistory(purged_id))
    assert [record.body for record in told.records] == [b"secret" if USERS[user][1] else None]
