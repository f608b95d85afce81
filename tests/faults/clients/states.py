"""What the state of a killed client holds."""

from typing import Any

from telesto.client.durable.state_directory import StateDirectory
from telesto.protocol import packets

from .bodies import read_body


def puts_of_state(directory: str) -> list[tuple[str, int]]:
    """Returns the messages that the client had begun to put: key and queue of each, 0 for one to a topic."""
    state = StateDirectory(directory)
    try:
        requests = list(state.stored.requests.values())
    finally:
        state.close()
    return [name for request in requests for name in _messages(request.method_id, request.payload)]


def _messages(method_id: int, payload: bytes) -> list[tuple[str, int]]:
    packet: Any = packets.PACKETS[method_id].decode(payload)
    if isinstance(packet, packets.PutMessage):
        return [(_key(packet.message.body), queue_id) for queue_id in packet.queue_ids]
    if isinstance(packet, packets.PutToTopic):
        return [(_key(message.body), 0) for message in packet.messages]
    return [(_key(message.message.body), message.queue_id) for message in packet.messages]


def _key(body: bytes) -> str:
    return read_body(body)[0]
