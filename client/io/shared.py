"""What the asyncio and the blocking client have in common besides the session: arguments in, results out."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet

from telesto.client import arguments
from telesto.client.bookkeeping.identity import (
    Identity,
    WantedClient,
    check_client_name,
    choose_identity,
)
from telesto.client.calls.queue_calls import Call, PutCall, PutManyCall, ReadResponseCall
from telesto.client.calls.readers import Reader
from telesto.client.calls.topic_calls import GetCall, PutToTopicCall
from telesto.client.connection.name_lock import NameLock
from telesto.client.durable.durable_session import DurableSession
from telesto.client.errors import (
    RemoteError,
    RemoteRefusalError,
    RequestRefusedError,
    RequestTimeoutError,
)
from telesto.client.models import (
    Body,
    ClientRecord,
    Duration,
    HandOverId,
    Message,
    NewMessage,
    NewTopicMessage,
    PutResult,
    RecoveredPut,
    TopicMessage,
    TopicPutResult,
)
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery, Session
from telesto.client.url import ExistingClient, ServiceUrl, TlsParameters, check_existing
from telesto.protocol import packets
from telesto.protocol.errors import InvalidParameterError, TelestoError
from telesto.protocol.headers import content_bytes
from telesto.protocol.packets import ClientMode

if TYPE_CHECKING:
    from telesto.client.connection.tls import ClientTls

ElementT = TypeVar("ElementT")
GivenT = TypeVar("GivenT")
OutcomeT = TypeVar("OutcomeT", PutResult, TopicPutResult)

#: Where a client keeps what it must not forget.
StateDir = str | os.PathLike[str]

#: The header of a response that says which exception the handler of the request has raised.
HANDLER_ERROR = "telesto-error"
#: The header of a response that says that the handler meant it, and has not failed.
HANDLER_REFUSED = "telesto-refused"
_ERROR_TYPE_MAX = 255
_ERROR_TEXT_MAX = 4_000

#: The clients that were told that their subscriptions are short-lived, or stay behind.
_warned: WeakSet[Session] = WeakSet()

#: How long an asker waits for a response, in seconds.
RESPONSE_TIMEOUT = 30.0

#: How long a response to a request that never expires may wait, in seconds.
RESPONSE_LIFE = 7 * 24 * 3600.0


def check_delivery(delivery: Delivery) -> Delivery:
    """Returns how puts and reads are delivered. Raises InvalidParameterError."""
    if delivery not in ("once", "fast"):
        raise InvalidParameterError(f'delivery must be "once" or "fast", not {delivery!r}')
    return delivery


def make_session(
    url: ServiceUrl, options: ClientOptions, delivery: Delivery, state_dir: StateDir | None
) -> Session:
    """Makes the session of a client, a durable one if it has a state. Raises InvalidParameterError."""
    check_delivery(delivery)
    if not isinstance(options, ClientOptions):
        raise TypeError(f"options must be ClientOptions, not {type(options).__name__}")
    if state_dir is None:
        return Session(url.addresses, options, delivery, name_lock=NameLock(), credentials=url.credentials)
    if not isinstance(state_dir, (str, os.PathLike)):
        raise TypeError(f"state_dir must be a path, not {type(state_dir).__name__}")
    if "\0" in str(state_dir) or not str(state_dir):
        raise InvalidParameterError(f"state_dir must name a directory, not {str(state_dir)!a}")
    if delivery == "fast":
        raise InvalidParameterError('a client with a state_dir needs delivery="once"')
    if options.temporary_when_fenced:
        raise InvalidParameterError(
            "a client with a state_dir cannot go on as a temporary one: its state has its name"
        )
    return DurableSession(url.addresses, options, name_lock=NameLock(), credentials=url.credentials)


def client_tls(parameters: TlsParameters | None) -> ClientTls | None:
    """Returns what makes connections by TLS; None for those without."""
    if parameters is None:
        return None
    from telesto.client.connection.tls import ClientTls  # ssl takes its time to import

    return ClientTls(parameters)


def durable(session: Session) -> DurableSession:
    """Returns the session of a client with a state. Raises InvalidParameterError for one without."""
    if not isinstance(session, DurableSession):
        raise InvalidParameterError("this needs a state_dir: without one, nothing is known of earlier puts")
    return session


def wanted_client(
    url: ServiceUrl,
    name: str | None,
    client_id: int | None,
    mode: ClientMode | None,
    existing: ExistingClient | None,
) -> WantedClient:
    """Returns the client to be: from the arguments, what they leave out from the URL.

    Raises InvalidParameterError, TypeError.
    """
    if name is not None and client_id is not None:
        raise InvalidParameterError("a client has a name or a client_id, not both")
    if name is not None:
        check_client_name(name)
    if client_id is not None:
        arguments.check_id("client_id", client_id)
    if mode is not None and not isinstance(mode, ClientMode):
        raise TypeError(f"mode must be a ClientMode, not {type(mode).__name__}")
    if existing is not None:
        check_existing(existing, ExistingClient)
    if name is None and client_id is None:
        name, client_id = url.name, url.client_id
    return WantedClient(name, client_id, mode or url.mode, existing or url.existing or "use")


def identity(session: Session, wanted: WantedClient) -> Identity:
    """Returns the identity under which to connect; that of the session if it has one.

    Raises InvalidParameterError, and StateMismatchError when the state is that of another client.
    """
    if session.identity is not None:
        return session.identity
    durable = isinstance(session, DurableSession)
    stored = session.stored_client if isinstance(session, DurableSession) else None
    if durable and (not wanted.shared or (wanted.temporary and stored is None)):
        raise InvalidParameterError(
            "a client with a state_dir needs a name, without {pid} and {random}, for the next process"
        )
    return choose_identity(wanted, session.tried, stored)


def record_of(session: Session) -> ClientRecord:
    """Returns what the service knows of the client that the session is."""
    assert session.client_id is not None
    assert session.name is not None
    assert session.mode is not None
    return ClientRecord(session.client_id, session.name, session.mode, session.temporary)


def told_one_by_one(session: DurableSession) -> Iterator[RecoveredPut]:
    """Yields what became of puts; a request counts as told when the application asks for more."""
    for name, puts in session.recovered_puts():
        yield from puts
        session.told(name)


def with_reader(call: Call[Any], identity: Any, gone: Callable[[], bool]) -> None:
    """Notes who reads."""
    if call.taking or isinstance(call, GetCall):
        call.reader = Reader(identity, gone)


def request_calls(
    queue_id: int,
    body: Body,
    priority: int,
    receiver_id: int | None,
    headers: Mapping[str, str] | None,
    timeout: Duration | None,
) -> tuple[PutCall, ReadResponseCall]:
    """Makes the put of a request and the read of its response; the request expires when the read ends."""
    correlation_id = secrets.randbits(63)
    response = ReadResponseCall(queue_id, correlation_id, timeout)
    life = None if response.wait > arguments.LIFE_MAX else max(response.wait, 0.001)
    put = PutCall(queue_id, body, priority, receiver_id, correlation_id, expires=life, headers=headers)
    return put, response


def warn_of_short_life(session: Session) -> None:
    """Says, once for each client, that its subscriptions do not do what subscribers mostly want."""
    identity = session.identity
    if identity is None or identity.locked or session in _warned:
        return
    import logging

    _warned.add(session)
    logging.getLogger("telesto.client").warning(
        "client %s has a subscription, which %s; a subscriber needs a name that is the same in each run",
        session.name,
        "goes when the client is closed" if identity.temporary else "stays behind when its process ends",
    )


def reply_call(
    request: Message,
    body: Body,
    priority: int | None = None,
    headers: Mapping[str, str] | None = None,
    *,
    once: bool = False,
) -> PutCall:
    """Makes the put of a response to a request. Raises InvalidParameterError for a message that is none.

    ``once``: only the first response of this kind is stored, within the queue's window for keys.
    """
    if not isinstance(request, Message):
        raise TypeError(f"request must be a Message, not {type(request).__name__}")
    if request.correlation_id is None:
        raise InvalidParameterError(f"message {request.message_id} has no correlation id to reply to")
    priority = request.priority if priority is None else priority
    key = f"response to {request.message_id}" if once else None
    left = request.expires_in  # 0 when the asker waits no longer: then nothing is stored
    return PutCall(
        request.queue_id,
        body,
        priority,
        request.sender_id,
        request.correlation_id,
        key,
        expires=RESPONSE_LIFE if left is None else min(left, arguments.LIFE_MAX),
        headers=headers,
    )


def failure_reply(request: Message, error: Exception) -> PutCall:
    """Makes the put of the response that says that the handler of a request failed."""
    headers = {HANDLER_ERROR: type(error).__name__[:_ERROR_TYPE_MAX]}
    if isinstance(error, RequestRefusedError):
        headers[HANDLER_REFUSED] = "yes"
    # A text may have halves of characters, from the names of files for example, which are no UTF-8.
    text = str(error)[:_ERROR_TEXT_MAX].encode(errors="replace").decode()
    return reply_call(request, text, headers=headers, once=True)


def response_of(messages: list[Message], request: PutCall) -> Message:
    """Returns the response to a request. Raises RequestTimeoutError, RemoteError and RemoteRefusalError."""
    if not messages:
        raise RequestTimeoutError(
            "no response came in time; the request is not handed over any more, but may have been handled",
            method=request.method,
            queue_id=request.queue_id,
        )
    response = messages[0]
    kind = response.headers.get(HANDLER_ERROR)
    if kind is None:
        return response
    text = response.body.decode(errors="replace")
    refused = HANDLER_REFUSED in response.headers
    raise (RemoteRefusalError if refused else RemoteError)(
        f"the handler of the request {'refused it by' if refused else 'raised'} {kind}: {text}",
        type=kind,
        text=text,
        method=request.method,
        queue_id=request.queue_id,
    )


def put_batches(
    queue_id: int, messages: Iterable[NewMessage | Body], options: ClientOptions, name: str
) -> Iterator[PutManyCall]:
    """Makes the requests of ``put_many`` to a queue of this name, as few as the limits allow."""
    queue_id = arguments.check_id("queue_id", queue_id)
    queued = _checked(messages, lambda message: arguments.queued_message(queue_id, message))
    batches = _batches(queued, lambda element: content_bytes(element.message), options)

    def put(batch: list[packets.QueuedMessage]) -> PutManyCall:
        call = PutManyCall(queue_id, batch)
        call.destination = name
        return call

    return (put(batch) for batch in batches)


def topic_batches(
    topic: str, messages: Iterable[NewTopicMessage | Body], options: ClientOptions
) -> Iterator[PutToTopicCall]:
    """Makes the requests of ``put_to_topic``, as few as the limits allow."""
    topic = arguments.check_topic(topic)

    def new(message: NewTopicMessage | Body) -> packets.NewTopicMessage:
        if isinstance(message, NewTopicMessage):
            return arguments.new_topic_message(message.body, message.sequence, message.headers)
        return arguments.new_topic_message(message, None, None)

    batches = _batches(_checked(messages, new), content_bytes, options)
    return (PutToTopicCall(topic, batch) for batch in batches)


def _checked(messages: Iterable[GivenT], check: Callable[[GivenT], ElementT]) -> Iterable[ElementT]:
    """Makes messages of the wire: of a list all before any is sent, of what may have no end one by one."""
    arguments.check_several("messages", messages)
    if isinstance(messages, (list, tuple)):
        return [check(message) for message in messages]
    return map(check, messages)


def _batches(
    elements: Iterable[ElementT], size_of: Callable[[ElementT], int], options: ClientOptions
) -> Iterator[list[ElementT]]:
    batch: list[ElementT] = []
    size = 0
    for element in elements:
        length = size_of(element)
        if batch and (len(batch) >= options.put_batch_messages or size + length > options.put_batch_bytes):
            yield batch
            batch, size = [], 0
        batch.append(element)
        size += length
    if batch:
        yield batch


def failed_batch(call: PutManyCall, error: TelestoError) -> list[PutResult]:
    """Returns the results of a batch that failed as a whole."""
    return [PutResult(message.queue_id, None, error) for message in call.messages]


def raise_if_all_failed(results: list[OutcomeT]) -> list[OutcomeT]:
    """Returns the results; raises the first error when there is no success among them."""
    if results and all(result.error is not None for result in results) and results[0].error is not None:
        raise results[0].error
    return results


def by_source(messages: Iterable[Message | TopicMessage]) -> tuple[list[HandOverId], list[TopicMessage]]:
    """Tells messages of queues, by the names of their hand-overs, from those of topics.

    Raises TypeError, and InvalidParameterError for a message that was not taken.
    """
    of_queues: list[HandOverId] = []
    of_topics: list[TopicMessage] = []
    if isinstance(messages, (Message, TopicMessage)):
        raise TypeError(f"messages must be a list of messages, not one {type(messages).__name__}")
    for message in messages:
        if isinstance(message, TopicMessage):
            of_topics.append(message)
        elif not isinstance(message, Message):
            raise TypeError(f"messages must be Messages or TopicMessages, not {type(message).__name__}")
        elif message.hand_over is None:
            raise InvalidParameterError(f"message {message.message_id} was browsed, not taken")
        else:
            of_queues.append(message.hand_over)
    return of_queues, of_topics


def refused_batch(call: PutToTopicCall, error: TelestoError) -> list[TopicPutResult]:
    """Returns the results of a batch that failed as a whole."""
    return [TopicPutResult(None, False, error) for _ in call.messages]
