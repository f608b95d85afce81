"""One valid request of every kind, for tests that go through all of them."""

import os
from collections.abc import Callable
from typing import Any

from telesto.protocol import packets
from telesto.protocol.packets import REQUESTS
from wire import put, read

#: A queue that there is in no test.
NO_QUEUE = 1 << 40
_LEASES = [packets.LeaseRef(1 << 40, 1, 1)]

#: The names of all numbered packets.
NUMBERED = sorted(info.packet.__name__ for info in REQUESTS.values() if info.numbered)

Numbered = Callable[[int], Any]


def numbered_requests(queue_id: int) -> dict[str, Numbered]:
    """Makes every numbered request, by the packet's name, from its number."""
    requests: dict[str, Numbered] = {
        "DeleteClient": lambda number: packets.DeleteClient(number, []),
        "CreateQueue": lambda number: packets.CreateQueue(
            number, [], os.urandom(8).hex(), packets.QueueSettings()
        ),
        "DeleteQueue": lambda number: packets.DeleteQueue(number, [], queue_id),
        "PutMessage": lambda number: put(number, queue_id),
        "PutMessages": lambda number: packets.PutMessages(
            number, [], [packets.QueuedMessage(queue_id, packets.NewMessage(5, 0, b"", None))]
        ),
        "ReadMessage": lambda number: read(number, queue_id),
        "ReadResponse": lambda number: packets.ReadResponse(number, [], queue_id, 1, 0),
        "Subscribe": lambda number: packets.Subscribe(number, [], os.urandom(8).hex()),
        "DeleteTopic": lambda number: packets.DeleteTopic(number, [], "none"),
        "Unsubscribe": lambda number: packets.Unsubscribe(number, [], "topic"),
        "PutToTopic": lambda number: packets.PutToTopic(number, [], "topic", [packets.NewTopicMessage(b"")]),
        "Ack": lambda number: packets.Ack(number, [], _LEASES),
        "Nack": lambda number: packets.Nack(number, [], _LEASES, False),
        "PurgeQueue": lambda number: packets.PurgeQueue(number, [], queue_id),
        "CancelMessage": lambda number: packets.CancelMessage(number, [], queue_id, 1 << 40),
        "UpdateQueue": lambda number: packets.UpdateQueue(
            number, [], queue_id, packets.QueueSettings(max_messages=7)
        ),
        "RedriveDeadLetters": lambda number: packets.RedriveDeadLetters(number, [], queue_id, []),
        "DeleteDeadLetters": lambda number: packets.DeleteDeadLetters(number, [], queue_id, []),
    }
    assert set(requests) == set(NUMBERED)
    return requests
