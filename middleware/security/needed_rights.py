# Generated from protocol/spec/telesto.toml by "python -m tools.codegen"; do not edit.
"""Which right of a user each request needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from telesto.middleware.security.users import Right
from telesto.protocol import packets


class What(Enum):
    """What a field names."""

    #: A queue, by its id.
    QUEUE = 1
    #: A queue, by its name.
    NAME = 2
    #: A topic, by its name; none by an empty one.
    TOPIC = 3
    #: A topic, by a subscription of the client; all that it subscribes to by 0.
    SUBSCRIPTION = 4
    #: The client's own name to be.
    CLIENT = 5


@dataclass(frozen=True, slots=True)
class Need:
    """A right that a request needs.

    Attributes:
        rights: one of these is enough.
        what: what the field names.
        named: all that the field has in a packet.
    """

    rights: int
    what: What
    named: Callable[[Any], Iterable[Any]]


class Scope(Enum):
    """Of a request that is about no name."""

    #: It needs no right.
    NONE = 1
    #: It is about what is the client's own.
    OWN = 2
    #: The answer has what the user may see.
    VISIBLE = 3
    #: It needs the tag of a monitor.
    MONITOR = 4


def _given(value: Any) -> tuple[Any, ...]:
    return (value,) if value else ()


#: By the method id.
NEEDED: dict[int, tuple[Need, ...] | Scope] = {
    packets.Ping.METHOD_ID: Scope.NONE,
    packets.Hello.METHOD_ID: Scope.NONE,
    packets.Authenticate.METHOD_ID: Scope.NONE,
    packets.Confirm.METHOD_ID: Scope.OWN,
    packets.CancelRequest.METHOD_ID: Scope.OWN,
    packets.RegisterClient.METHOD_ID: (
        Need(Right.CLIENTS.value, What.CLIENT, lambda packet: (packet.client_name,)),
    ),
    packets.IdentifyClient.METHOD_ID: Scope.OWN,
    packets.DeleteClient.METHOD_ID: Scope.OWN,
    packets.Release.METHOD_ID: Scope.OWN,
    packets.ListUnconfirmed.METHOD_ID: Scope.OWN,
    packets.CreateQueue.METHOD_ID: (
        Need(Right.CONFIGURE.value, What.NAME, lambda packet: (packet.queue_name,)),
        Need(Right.PUT.value, What.QUEUE, lambda packet: _given(packet.settings.dead_letter_queue)),
        Need(
            Right.GET.value | Right.ADMIN.value,
            What.NAME,
            lambda packet: (packet.queue_name,) if packet.settings.dead_letter_queue else (),
        ),
    ),
    packets.DeleteQueue.METHOD_ID: (
        Need(Right.CONFIGURE.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.GetQueueId.METHOD_ID: (Need(Right.SEE.value, What.NAME, lambda packet: (packet.queue_name,)),),
    packets.GetQueueName.METHOD_ID: (Need(Right.SEE.value, What.QUEUE, lambda packet: (packet.queue_id,)),),
    packets.GetQueues.METHOD_ID: Scope.VISIBLE,
    packets.GetActiveQueues.METHOD_ID: Scope.VISIBLE,
    packets.GetMessages.METHOD_ID: (Need(Right.GET.value, What.QUEUE, lambda packet: (packet.queue_id,)),),
    packets.PutMessage.METHOD_ID: (Need(Right.PUT.value, What.QUEUE, lambda packet: packet.queue_ids),),
    packets.ReadMessage.METHOD_ID: (Need(Right.GET.value, What.QUEUE, lambda packet: (packet.queue_id,)),),
    packets.ReadResponse.METHOD_ID: (Need(Right.GET.value, What.QUEUE, lambda packet: (packet.queue_id,)),),
    packets.PutMessages.METHOD_ID: (
        Need(Right.PUT.value, What.QUEUE, lambda packet: {element.queue_id for element in packet.messages}),
    ),
    packets.Subscribe.METHOD_ID: (Need(Right.GET.value, What.TOPIC, lambda packet: (packet.topic,)),),
    packets.Unsubscribe.METHOD_ID: Scope.OWN,
    packets.GetFromTopics.METHOD_ID: (
        Need(Right.GET.value, What.TOPIC, lambda packet: (packet.topic,)),
        Need(Right.GET.value, What.SUBSCRIPTION, lambda packet: (packet.subscription_id,)),
    ),
    packets.PutToTopic.METHOD_ID: (Need(Right.PUT.value, What.TOPIC, lambda packet: (packet.topic,)),),
    packets.ListTopics.METHOD_ID: Scope.VISIBLE,
    packets.ListSubscriptions.METHOD_ID: Scope.OWN,
    packets.ConfirmPositions.METHOD_ID: Scope.OWN,
    packets.DeleteTopic.METHOD_ID: (Need(Right.CONFIGURE.value, What.TOPIC, lambda packet: (packet.topic,)),),
    packets.JoinQueue.METHOD_ID: (Need(Right.GET.value, What.QUEUE, lambda packet: (packet.queue_id,)),),
    packets.Credit.METHOD_ID: Scope.OWN,
    packets.LeaveQueue.METHOD_ID: Scope.OWN,
    packets.Ack.METHOD_ID: Scope.OWN,
    packets.Nack.METHOD_ID: Scope.OWN,
    packets.Touch.METHOD_ID: Scope.OWN,
    packets.Begin.METHOD_ID: Scope.OWN,
    packets.PurgeQueue.METHOD_ID: (Need(Right.ADMIN.value, What.QUEUE, lambda packet: (packet.queue_id,)),),
    packets.CancelMessage.METHOD_ID: (
        Need(Right.ADMIN.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.GetQueueStatistics.METHOD_ID: (
        Need(Right.SEE.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.UpdateQueue.METHOD_ID: (
        Need(Right.CONFIGURE.value, What.QUEUE, lambda packet: (packet.queue_id,)),
        Need(Right.PUT.value, What.QUEUE, lambda packet: _given(packet.settings.dead_letter_queue)),
        Need(
            Right.GET.value | Right.ADMIN.value,
            What.QUEUE,
            lambda packet: (packet.queue_id,) if packet.settings.dead_letter_queue else (),
        ),
    ),
    packets.GetQueueSettings.METHOD_ID: (
        Need(Right.SEE.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.ListDeadLetters.METHOD_ID: (
        Need(Right.GET.value | Right.ADMIN.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.RedriveDeadLetters.METHOD_ID: (
        Need(Right.ADMIN.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.DeleteDeadLetters.METHOD_ID: (
        Need(Right.ADMIN.value, What.QUEUE, lambda packet: (packet.queue_id,)),
    ),
    packets.GetMessageHistory.METHOD_ID: Scope.VISIBLE,
    packets.ListQueues.METHOD_ID: Scope.VISIBLE,
    packets.ListClients.METHOD_ID: Scope.VISIBLE,
    packets.ListConsumers.METHOD_ID: Scope.VISIBLE,
    packets.ListMiddlewares.METHOD_ID: Scope.MONITOR,
}
