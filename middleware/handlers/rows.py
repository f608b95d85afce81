"""Messages as the procedures return them."""

from __future__ import annotations

from typing import Any

from telesto.protocol.packets import Message

#: Bytes of a message on the wire beside its body, at most.
MESSAGE_OVERHEAD_BYTES = 72
#: Bytes of an answer beside its messages, at most.
ANSWER_OVERHEAD_BYTES = 64


def message_of(row: Any) -> Message:
    """Makes a message from a row that names its columns."""
    return Message(
        message_id=row["message_id"],
        queue_id=row["queue_id"],
        sender_id=row["sender_id"],
        receiver_id=row["receiver_id"],
        priority=row["priority"],
        time_of_arrival=row["time_of_arrival"],
        attempt=min(row["attempt"], 0xFFFF),
        redelivered=row["redelivered"],
        body=row["body"],
        context=row["context"],
    )
