"""The kinds of operations that are recorded, and what each means for the balance of messages."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Operation(IntEnum):
    """An operation of a client.

    Attributes:
        PUT: a message was put into a queue.
        TAKE: a message was read from a queue.
        REQUEST: a request was put and its response came; the record's identity is the request's.
        RESPONSE: the response of a request; the identity is the response's.
        REPLY: a response was put.
        PUBLISH: a message was put to a topic.
        GET: a subscriber got a message of a topic.
        DELIVERY: a message was pushed to a consumer.
        ACK: a consumer acknowledged a message.
    """

    PUT = 0
    TAKE = 1
    REQUEST = 2
    RESPONSE = 3
    REPLY = 4
    PUBLISH = 5
    GET = 6
    DELIVERY = 7
    ACK = 8


PUTS: Final = (Operation.PUT, Operation.REQUEST, Operation.REPLY)
"""Each put one message into a queue that has to be found again."""
TAKES: Final = (Operation.TAKE, Operation.RESPONSE, Operation.ACK)
"""Each is the end of one message of a queue."""
IN_ORDER: Final = (Operation.TAKE, Operation.RESPONSE, Operation.DELIVERY, Operation.GET)
"""What comes to one slot by these comes in the order in which each stream put it, of one priority."""
