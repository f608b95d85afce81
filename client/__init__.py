"""The client library of Telesto: a blocking client, an asyncio client, and the errors of both."""

from typing import TYPE_CHECKING, Any

from telesto.client.blocking import TelestoClient
from telesto.client.blocking_consumer import Consumer, LeasedMessage
from telesto.client.errors import (
    AddressError,
    CallInterruptedBySignalError,
    ClientClosedError,
    ClientInterruptedError,
    DeadlineExceededError,
    ForkedError,
    IncarnationChangedError,
    NotConnectedError,
    NotDoneError,
    OutcomeUnknownError,
    ProtocolViolationError,
    StateDamagedError,
    StateError,
    StateInUseError,
    StateMismatchError,
    StateWriteError,
    TooManyCallsError,
    TriesExhaustedError,
)
from telesto.client.models import (
    UNCHANGED,
    DeadLetter,
    Message,
    MessageHistory,
    MessageRecord,
    NewMessage,
    NewTopicMessage,
    Origin,
    PutResult,
    Queue,
    QueueStatistics,
    RecoveredPut,
    Subscription,
    Topic,
    TopicMessage,
    TopicPutResult,
)
from telesto.client.options import ClientOptions
from telesto.client.queue_settings import QueueSettings
from telesto.client.session.session import Delivery
from telesto.protocol import errors as _service_errors
from telesto.protocol.errors import *  # noqa: F403 - the exceptions, listed in __all__ there
from telesto.protocol.packets import (
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    ClientMode,
    HistoryMode,
    MessageState,
    ReadMode,
    SubscriptionState,
)

if TYPE_CHECKING:
    from telesto.client.aio import AsyncTelestoClient
    from telesto.client.aio_consumer import AsyncConsumer, AsyncLeasedMessage

__all__ = [
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "UNCHANGED",
    "AddressError",
    "AsyncConsumer",
    "AsyncLeasedMessage",
    "AsyncTelestoClient",
    "CallInterruptedBySignalError",
    "ClientClosedError",
    "ClientInterruptedError",
    "ClientMode",
    "ClientOptions",
    "Consumer",
    "DeadLetter",
    "DeadlineExceededError",
    "Delivery",
    "ForkedError",
    "HistoryMode",
    "IncarnationChangedError",
    "LeasedMessage",
    "Message",
    "MessageHistory",
    "MessageRecord",
    "MessageState",
    "NewMessage",
    "NewTopicMessage",
    "NotConnectedError",
    "NotDoneError",
    "Origin",
    "OutcomeUnknownError",
    "ProtocolViolationError",
    "PutResult",
    "Queue",
    "QueueSettings",
    "QueueStatistics",
    "ReadMode",
    "RecoveredPut",
    "StateDamagedError",
    "StateError",
    "StateInUseError",
    "StateMismatchError",
    "StateWriteError",
    "Subscription",
    "SubscriptionState",
    "TelestoClient",
    "TooManyCallsError",
    "Topic",
    "TopicMessage",
    "TopicPutResult",
    "TriesExhaustedError",
]
__all__ += _service_errors.__all__


def __getattr__(name: str) -> Any:
    """Imports the asyncio client when it is asked for; asyncio takes as long to import as all the rest."""
    if name == "AsyncTelestoClient":
        from telesto.client.aio import AsyncTelestoClient

        return AsyncTelestoClient
    if name in ("AsyncConsumer", "AsyncLeasedMessage"):
        from telesto.client import aio_consumer

        return getattr(aio_consumer, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
