"""The client library of Telesto: a blocking client, an asyncio client, and the errors of both."""

from typing import TYPE_CHECKING, Any

from telesto.client.blocking.client import TelestoClient
from telesto.client.blocking.consumer import Consumer, LeasedMessage
from telesto.client.blocking.queue import Queue
from telesto.client.blocking.topic import SubscribedTopics, Topic
from telesto.client.errors import (
    AddressError,
    CallInterruptedBySignalError,
    ClientClosedError,
    ClientInterruptedError,
    CredentialsError,
    DeadlineExceededError,
    ForkedError,
    IncarnationChangedError,
    LoginsPausedError,
    MessageRejectedError,
    NameInUseError,
    NoAnswerError,
    NotConnectedError,
    NotDoneError,
    NotTelestoError,
    OutcomeUnknownError,
    ProtocolViolationError,
    QueueSettingsDifferError,
    RemoteError,
    RemoteRefusalError,
    RequestRefusedError,
    RequestTimeoutError,
    StateDamagedError,
    StateError,
    StateInUseError,
    StateMismatchError,
    StateWriteError,
    TlsError,
    TlsFileError,
    TooManyCallsError,
    TriesExhaustedError,
)
from telesto.client.models import (
    Body,
    ClientFigures,
    ClientRecord,
    ConsumerFigures,
    DeadLetter,
    Duration,
    Message,
    MessageHistory,
    MessageRecord,
    MiddlewareFigures,
    NewMessage,
    NewTopicMessage,
    Origin,
    PutResult,
    QueueFigures,
    QueueStatistics,
    RecoveredPut,
    Subscription,
    TopicMessage,
    TopicPutResult,
    TopicStatistics,
)
from telesto.client.options import ClientOptions
from telesto.client.queue_settings import QueueSettingChanges, QueueSettings
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
    from telesto.client.aio.client import AsyncTelestoClient
    from telesto.client.aio.consumer import AsyncConsumer, AsyncLeasedMessage
    from telesto.client.aio.queue import AsyncQueue
    from telesto.client.aio.topic import AsyncSubscribedTopics, AsyncTopic

__all__ = [
    "PROTOCOL_MAJOR",
    "PROTOCOL_MINOR",
    "AddressError",
    "AsyncConsumer",
    "AsyncLeasedMessage",
    "AsyncQueue",
    "AsyncSubscribedTopics",
    "AsyncTelestoClient",
    "AsyncTopic",
    "Body",
    "CallInterruptedBySignalError",
    "ClientClosedError",
    "ClientFigures",
    "ClientInterruptedError",
    "ClientMode",
    "ClientOptions",
    "ClientRecord",
    "Consumer",
    "ConsumerFigures",
    "CredentialsError",
    "DeadLetter",
    "DeadlineExceededError",
    "Delivery",
    "Duration",
    "ForkedError",
    "HistoryMode",
    "IncarnationChangedError",
    "LeasedMessage",
    "LoginsPausedError",
    "Message",
    "MessageHistory",
    "MessageRecord",
    "MessageRejectedError",
    "MessageState",
    "MiddlewareFigures",
    "NameInUseError",
    "NewMessage",
    "NewTopicMessage",
    "NoAnswerError",
    "NotConnectedError",
    "NotDoneError",
    "NotTelestoError",
    "Origin",
    "OutcomeUnknownError",
    "ProtocolViolationError",
    "PutResult",
    "Queue",
    "QueueFigures",
    "QueueSettingChanges",
    "QueueSettings",
    "QueueSettingsDifferError",
    "QueueStatistics",
    "ReadMode",
    "RecoveredPut",
    "RemoteError",
    "RemoteRefusalError",
    "RequestRefusedError",
    "RequestTimeoutError",
    "StateDamagedError",
    "StateError",
    "StateInUseError",
    "StateMismatchError",
    "StateWriteError",
    "SubscribedTopics",
    "Subscription",
    "SubscriptionState",
    "TelestoClient",
    "TlsError",
    "TlsFileError",
    "TooManyCallsError",
    "Topic",
    "TopicMessage",
    "TopicPutResult",
    "TopicStatistics",
    "TriesExhaustedError",
]
__all__ += _service_errors.__all__


#: The module of each name of the asyncio client.
_ASYNC = {
    "AsyncConsumer": "consumer",
    "AsyncLeasedMessage": "consumer",
    "AsyncQueue": "queue",
    "AsyncSubscribedTopics": "topic",
    "AsyncTelestoClient": "client",
    "AsyncTopic": "topic",
}


def __getattr__(name: str) -> Any:
    """Imports the asyncio client when it is asked for; asyncio takes as long to import as all the rest."""
    if name in _ASYNC:
        from importlib import import_module

        return getattr(import_module(f"telesto.client.aio.{_ASYNC[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
