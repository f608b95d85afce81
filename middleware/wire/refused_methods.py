"""Why a packet may not be sent now."""

from __future__ import annotations

from telesto.protocol.errors import (
    ClientModePermissionError,
    NotIdentifiedError,
    ShuttingDownError,
    TelestoError,
    UnexpectedPacketError,
    UnknownMethodError,
)
from telesto.protocol.packets import PACKETS, REQUESTS, ConnectionState

_BEFORE_IDENTITY = (ConnectionState.AWAITING_HELLO, ConnectionState.AWAITING_IDENTITY)


def why_refused(method_id: int, state: ConnectionState) -> TelestoError:
    """Says why a method without an open route is refused in a state."""
    packet = PACKETS.get(method_id)
    if packet is None:
        return UnknownMethodError(f"there is no packet with method id {method_id:#04x}")
    info = REQUESTS.get(method_id)
    name = packet.__name__
    if info is None:
        return UnexpectedPacketError(f"{name} is sent by the server only")
    if state is ConnectionState.DRAINING:
        return ShuttingDownError(f"the middleware is about to stop and takes no {name}")
    if state in info.allowed:
        return ClientModePermissionError(f"a READ_ONLY client may not send {name}")
    if state in _BEFORE_IDENTITY and not info.allowed.intersection(_BEFORE_IDENTITY):
        return NotIdentifiedError(f"{name} needs a client: register or identify first")
    return UnexpectedPacketError(f"{name} is not allowed in the state {state.name}")
