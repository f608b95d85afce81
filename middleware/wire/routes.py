"""How each packet is handled: how it is checked, with which others it is gathered, and when it is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from telesto.middleware.scheduling.requests import Kind
from telesto.middleware.wire import validation
from telesto.middleware.wire.validation import Check
from telesto.protocol import packets
from telesto.protocol.errors import (
    ClientModePermissionError,
    ErrorClass,
    MalformedPacketError,
    NotAuthenticatedError,
    NotIdentifiedError,
    ShuttingDownError,
    TelestoError,
    UnexpectedPacketError,
    UnknownMethodError,
    UnsupportedVersionError,
)
from telesto.protocol.packets import MAGIC, PACKETS, PROTOCOL_MAJOR, REQUESTS, ClientMode, ConnectionState


@dataclass(frozen=True, slots=True)
class Route:
    """How a packet is handled.

    Attributes:
        decode: decodes its payload.
        check: checks its parameters.
        numbered: it begins with the fields number and confirmed.
        answered: it has an answer, which repeats its packet id.
        kind: requests of the same kind are gathered; None if it is answered at once.
    """

    decode: Callable[[bytes], Any]
    check: Check
    numbered: bool
    answered: bool
    kind: Kind | None


#: The routes of the packets that a connection may send now, by method id.
Routes = Mapping[int, Route]

_HELLO = struct.Struct(">IH")


def _decode_hello(payload: bytes) -> packets.Hello:
    """Decodes a Hello. Magic and major version come first, because the version decides what follows.

    Raises MalformedPacketError and UnsupportedVersionError of the class FATAL, and what decode raises.
    """
    if len(payload) >= _HELLO.size:
        magic, major = _HELLO.unpack_from(payload)
        if magic != MAGIC:
            details = f"Hello.magic: {magic:#010x} is not {MAGIC:#010x}"
            raise MalformedPacketError(details, error_class=ErrorClass.FATAL)
        if major != PROTOCOL_MAJOR:
            raise UnsupportedVersionError(f"Hello.major: {major} is not spoken here, only {PROTOCOL_MAJOR}")
    return packets.Hello.decode(payload)


_AT_ONCE = (packets.Hello, packets.Ping, packets.CancelRequest, packets.Credit, packets.Begin)
_KINDS = {
    packets.Authenticate: Kind.LOGIN,
    packets.RegisterClient: Kind.LOGIN,
    packets.IdentifyClient: Kind.LOGIN,
    packets.PutMessage: Kind.PUT,
    packets.PutMessages: Kind.PUT,
    packets.ReadMessage: Kind.TAKE,
    packets.ReadResponse: Kind.TAKE_SELECTED,
    packets.Confirm: Kind.CONFIRM,
    packets.PutToTopic: Kind.PUBLISH,
    packets.GetFromTopics: Kind.FETCH,
    packets.ConfirmPositions: Kind.FETCH,
    packets.Ack: Kind.ACK,
    packets.GetMessages: Kind.BROWSE,
    packets.ListDeadLetters: Kind.BROWSE,
}
_CHECKS: dict[type[Any], Check] = {
    packets.RegisterClient: validation.check_register,
    packets.IdentifyClient: validation.check_identify,
    packets.Confirm: validation.check_confirm,
    packets.Release: validation.check_release,
    packets.ListUnconfirmed: validation.check_list_unconfirmed,
    packets.CreateQueue: validation.check_create_queue,
    packets.DeleteQueue: validation.check_queue_id,
    packets.GetQueueId: validation.check_queue_name,
    packets.GetQueueName: validation.check_queue_id,
    packets.GetQueues: validation.check_queue_page,
    packets.GetActiveQueues: validation.check_queue_page,
    packets.GetMessages: validation.check_browse,
    packets.ListDeadLetters: validation.check_browse,
    packets.RedriveDeadLetters: validation.check_dead_letters,
    packets.DeleteDeadLetters: validation.check_dead_letters,
    packets.PutMessage: validation.check_put,
    packets.PutMessages: validation.check_put_many,
    packets.ReadMessage: validation.check_read,
    packets.ReadResponse: validation.check_queue_id,
    packets.PurgeQueue: validation.check_queue_id,
    packets.CancelMessage: validation.check_cancel,
    packets.GetQueueStatistics: validation.check_queue_id,
    packets.JoinQueue: validation.check_queue_id,
    packets.Ack: validation.check_leases,
    packets.Nack: validation.check_nack,
    packets.Touch: validation.check_leases,
    packets.Begin: validation.check_leases,
    packets.UpdateQueue: validation.check_update_queue,
    packets.GetQueueSettings: validation.check_queue_id,
    packets.Subscribe: validation.check_subscribe,
    packets.Unsubscribe: validation.check_topic,
    packets.DeleteTopic: validation.check_topic,
    packets.GetFromTopics: validation.check_get_from_topics,
    packets.PutToTopic: validation.check_put_to_topic,
    packets.ListTopics: validation.check_topic_page,
    packets.ListSubscriptions: validation.check_subscription_page,
    packets.ConfirmPositions: validation.check_confirm_positions,
    packets.GetMessageHistory: validation.check_message_history,
    packets.ListQueues: validation.check_queue_list,
    packets.ListClients: validation.check_client_list,
    packets.ListConsumers: validation.check_consumer_list,
    packets.ListMiddlewares: validation.check_middleware_list,
}


def _route(method_id: int) -> Route:
    info = REQUESTS[method_id]
    packet: type[Any] = info.packet
    kind = None if packet in _AT_ONCE else _KINDS.get(packet, Kind.SINGLE)
    decode = _decode_hello if packet is packets.Hello else packet.decode
    check = _CHECKS.get(packet, validation.check_nothing)
    return Route(decode, check, info.numbered, info.response is not None, kind)


_ROUTES = {method_id: _route(method_id) for method_id in REQUESTS}


def _routes_of(state: ConnectionState, mode: ClientMode) -> Routes:
    return {
        method_id: _ROUTES[method_id]
        for method_id, info in REQUESTS.items()
        if state in info.allowed and (info.mode is not ClientMode.FULL or mode is ClientMode.FULL)
    }


_OPEN = {(state, mode): _routes_of(state, mode) for state in ConnectionState for mode in ClientMode}


def open_routes(state: ConnectionState, mode: ClientMode) -> Routes:
    """Returns the routes of the packets that a client of this mode may send in this state."""
    return _OPEN[state, mode]


_BEFORE_LOGIN = (ConnectionState.AWAITING_HELLO, ConnectionState.AWAITING_LOGIN)
_BEFORE_IDENTITY = (*_BEFORE_LOGIN, ConnectionState.AWAITING_IDENTITY)


def why_refused(method_id: int, state: ConnectionState) -> TelestoError:
    """Returns why a method without an open route is refused in a state."""
    packet = PACKETS.get(method_id)
    if packet is None:
        return UnknownMethodError(f"there is no packet with method id {method_id:#04x}")
    info = REQUESTS.get(method_id)
    name = packet.__name__
    if info is None:
        return UnexpectedPacketError(f"{name} is sent by the server only")
    if state is ConnectionState.DRAINING:
        return ShuttingDownError(f"the middleware is about to stop and takes no {name}")
    if state is ConnectionState.AWAITING_LOGIN and not info.allowed.intersection(_BEFORE_LOGIN):
        return NotAuthenticatedError(f"{name} needs a login: the service has users")
    if state in info.allowed:
        return ClientModePermissionError(f"a READ_ONLY client may not send {name}")
    if state in _BEFORE_IDENTITY and not info.allowed.intersection(_BEFORE_IDENTITY):
        return NotIdentifiedError(f"{name} needs a client: register or identify first")
    return UnexpectedPacketError(f"{name} is not allowed in the state {state.name}")
