"""The conversation with one client: most requests go to the pipeline, a few are answered at once."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from copy import copy
from time import monotonic
from typing import Any

from telesto.middleware.common.failures import Failure
from telesto.middleware.common.settings import UNIDENTIFIED_FRAME_BYTES
from telesto.middleware.procedures.reads import empty_frame
from telesto.middleware.scheduling.requests import (
    UNIDENTIFIED,
    Client,
    Get,
    Kind,
    Pipeline,
    Read,
    Request,
    Wait,
    error_frame,
    for_people,
    weight_of_put,
)
from telesto.middleware.security.login import Channel, Login
from telesto.middleware.security.users import User
from telesto.middleware.wire.routes import Route, open_routes, why_refused
from telesto.middleware.wire.services import Services
from telesto.middleware.wire.validation import check_confirmed, invalid
from telesto.protocol import packets
from telesto.protocol.errors import (
    ERRORS,
    ConsumerNotExistingError,
    ErrorClass,
    ErrorCode,
    InvalidParameterError,
    NumberRepeatedError,
    OverloadedError,
    TelestoError,
    TooManyUnconfirmedError,
    UnexpectedPacketError,
)
from telesto.protocol.framing import Frame
from telesto.protocol.packets import (
    MAX_FRAME_LEAST,
    PROTOCOL_MAJOR,
    PROTOCOL_MINOR,
    REQUESTS,
    ConnectionState,
    ReadMode,
)

#: A waiting time of this value has no limit.
_FOREVER_MS = 0xFFFF_FFFF
#: The packets by which consumers answer messages.
_ANSWERS = (packets.Ack, packets.Nack, packets.Touch)


class BrokenConversationError(Exception):
    """The conversation cannot go on.

    Attributes:
        packet_id: the packet that ended it.
        failure: the error that the client gets.
    """

    def __init__(self, packet_id: int, failure: Failure) -> None:
        super().__init__(failure.details)
        self.packet_id = packet_id
        self.failure = failure


class Conversation:
    """The state of a connection and what each packet does to it.

    Attributes:
        state: the state of the connection.
        identifying: a step of the login, or a takeover, is under way.
    """

    __slots__ = (
        "_channel",
        "_frame_bytes",
        "_numbers",
        "_open",
        "_pipeline",
        "_services",
        "identifying",
        "state",
    )

    def __init__(self, services: Services, pipeline: Pipeline, channel: Callable[[], Channel]) -> None:
        self._services = services
        self._channel = channel
        self._pipeline = pipeline
        self._numbers = Numbers(pipeline, services.settings.max_unconfirmed)
        self._frame_bytes = UNIDENTIFIED_FRAME_BYTES
        self.identifying = False
        self._enter(ConnectionState.AWAITING_HELLO)

    def receive(self, frames: Iterable[Frame]) -> None:
        """Handles frames in order. Raises BrokenConversationError."""
        pipeline = self._pipeline
        quotas = self._services.quotas
        left = quotas.requests_left(pipeline)
        admitted = size = 0
        tracer = self._services.tracer
        received_at = monotonic() if tracer.on else 0.0
        try:
            for method_id, packet_id, payload in frames:
                route = self._open.get(method_id)
                if route is None:
                    self._refuse(packet_id, self._not_open(method_id, payload))
                    continue
                try:
                    packet = route.decode(payload)
                except TelestoError as error:
                    if route.numbered:
                        self._numbers.see_in(payload)
                    self._refuse(packet_id, error)
                    continue
                if admitted >= left:
                    left = quotas.requests_left(pipeline, admitted)
                try:
                    self._check(route, packet, packet_id, admitted >= left)
                    if route.kind is None:
                        self._answer_at_once(packet_id, packet)
                        continue
                except TelestoError as error:
                    self._refuse(packet_id, error)
                    continue
                request = self._request(route.kind, packet, packet_id, len(payload))
                request.series = self._numbers.series
                pipeline.requests.append(request)
                admitted += 1
                size += len(payload)
        finally:
            if admitted:
                pipeline.size += size
                self._services.dispatcher.budget.enter(admitted, size)
                quotas.admitted(pipeline, admitted, size)
                if tracer.on:
                    tracer.admitted(pipeline, admitted, received_at)
                self._services.dispatcher.stand(pipeline)

    def identified(self, client: Client | None) -> None:
        """A takeover has ended: the connection belongs to this client, or to none if it is None."""
        self.identifying = False
        if client is None:
            return
        self._pipeline.client = client
        draining = self.state is ConnectionState.DRAINING
        self._enter(ConnectionState.DRAINING if draining else ConnectionState.IDENTIFIED)

    def logged_in(self, user: User | None) -> None:
        """A step of the login is done; with a user it is complete."""
        self.identifying = False
        if user is None:
            return
        self._pipeline.user = user
        if self.state is ConnectionState.AWAITING_LOGIN:
            self._enter(ConnectionState.AWAITING_IDENTITY)

    def detach(self) -> None:
        """Drops the reference to a lost connection."""
        self._channel = _no_channel

    def drain(self) -> None:
        """New requests are refused from now on."""
        self._enter(ConnectionState.DRAINING)

    def _enter(self, state: ConnectionState) -> None:
        self.state = state
        client = self._pipeline.client
        self._open = open_routes(state, client.mode)
        if state is ConnectionState.DRAINING and client is UNIDENTIFIED:
            # What clients may finish is not for those who are none, and have not logged in perhaps.
            self._open = {packets.Ping.METHOD_ID: self._open[packets.Ping.METHOD_ID]}

    # --- checking ----------------------------------------------------------------------------

    def _check(self, route: Route, packet: Any, packet_id: int, overloaded: bool) -> None:
        settings = self._services.settings
        numbers = self._numbers
        if route.numbered:
            numbers.see(packet.number)
            check_confirmed(packet.number, packet.confirmed, settings)
        route.check(packet, settings, self._frame_bytes)
        # A connection identifies itself once, in a small frame, so this needs no space in the budget.
        if overloaded and route.kind is not None and self._pipeline.client is not UNIDENTIFIED:
            if not (route.numbered and packet.number):
                raise self._overloaded()
            numbers.refusal = self._overloaded()
        # A copy is raised: the traceback of the kept error would keep the connection alive.
        if numbers.refusal is not None and route.numbered and packet.number:
            raise copy(numbers.refusal)
        user = self._pipeline.user
        if user is not None and user.limited and route.kind is not None:
            self._check_quotas(user, route, packet)
        if not packet_id and route.answered:
            raise UnexpectedPacketError("packet id 0 is for what the server sends on its own")
        if packet_id in self._pipeline.waiting and route.kind is not None:
            raise UnexpectedPacketError(f"packet id {packet_id} is that of a read that waits")
        if route.numbered:
            numbers.admit(packet.number, packet.confirmed)
        elif route.kind is Kind.LOGIN:
            if self.identifying:
                raise UnexpectedPacketError("the login or takeover before it is not answered yet")
            self.identifying = True

    def _check_quotas(self, user: User, route: Route, packet: Any) -> None:
        assert route.kind is not None
        refusal = self._services.quotas.of_users.refusal(self._pipeline, user, route.kind, packet)
        if refusal is None:
            return
        if route.numbered and packet.number and refusal.error_class is ErrorClass.RETRYABLE:
            self._numbers.refusal = refusal
        raise copy(refusal)

    def _overloaded(self) -> OverloadedError:
        """Makes the error, to be raised directly: a variable would make a cycle with the traceback."""
        return OverloadedError(
            "the middleware has as much under way as it may",
            retry_after=self._services.settings.overload_retry_ms / 1000,
        )

    def _not_open(self, method_id: int, payload: bytes) -> TelestoError:
        """Returns why a request is refused in this state. If it may come again, none may overtake it."""
        error = why_refused(method_id, self.state)
        info = REQUESTS.get(method_id)
        if info is not None and info.numbered and self._pipeline.client is not UNIDENTIFIED:
            number = self._numbers.see_in(payload)
            if number and error.error_class is ErrorClass.RETRYABLE:
                self._numbers.refusal = error
        return error

    def _refuse(self, packet_id: int, error: TelestoError) -> None:
        code = error.code if error.code is not None else ErrorCode.INTERNAL_ERROR
        retry_ms = None if error.retry_after is None else round(error.retry_after * 1000)
        error_class = error.error_class or ERRORS[code].error_class
        failure = Failure(code, error_class, error.details, error.related_id, retry_ms)
        if error_class is ErrorClass.FATAL:
            raise BrokenConversationError(packet_id, failure)
        self._services.counters.refused(code)
        self._pipeline.send(error_frame(packet_id, failure))

    # --- requests for the pipeline ---------------------------------------------------------------

    def _request(self, kind: Kind, packet: Any, packet_id: int, size: int) -> Request:
        if kind is Kind.PUT or kind is Kind.PUBLISH:
            request = Request(self._pipeline, packet, packet_id, kind, size)
            request.weight = weight_of_put(packet, size)
            return request
        if kind is Kind.FETCH:
            return self._get(packet, packet_id, size)
        if kind is Kind.TAKE or kind is Kind.TAKE_SELECTED:
            return self._read(packet, packet_id, size)
        note_references(self._numbers, packet)
        if isinstance(packet, _ANSWERS):
            self._services.monitor.heard(self._pipeline, packet)
        return Request(self._pipeline, packet, packet_id, kind, size)

    def _read(self, packet: Any, packet_id: int, size: int) -> Read:
        plain = isinstance(packet, packets.ReadMessage)
        by_priority = plain and packet.mode is ReadMode.PRIORITY and packet.sender_id == 0
        kind = Kind.TAKE if by_priority else Kind.TAKE_SELECTED
        read = Read(self._pipeline, packet, packet_id, kind, size, None)
        read.weight = max(size, self._services.expected_sizes.of(packet.queue_id))
        selective = not plain or packet.sender_id != 0
        self._let_wait(read, (packet.queue_id,), by_context=not plain, selective=selective)
        return read

    def _get(self, packet: Any, packet_id: int, size: int) -> Get:
        get = Get(self._pipeline, packet, packet_id, Kind.FETCH, size, None)
        if isinstance(packet, packets.GetFromTopics):
            get.weight = max(size, self._services.expected_sizes.of(-packet.subscription_id))
            self._let_wait(get, (), by_context=False, selective=False)
            if get.wait is not None:
                get.wait.everything = not packet.subscription_id and not packet.topic
        return get

    def _let_wait(self, read: Read, channels: tuple[int, ...], *, by_context: bool, selective: bool) -> None:
        wait_ms = read.packet.wait_ms
        if wait_ms == 0:
            return
        deadline = None
        if wait_ms != _FOREVER_MS:
            deadline = self._services.loop.time() + wait_ms / 1000
        read.wait = Wait(channels, deadline, by_context=by_context, selective=selective)
        self._pipeline.waiting[read.packet_id] = read

    # --- answered at once --------------------------------------------------------------------

    def _answer_at_once(self, packet_id: int, packet: Any) -> None:
        if isinstance(packet, packets.Begin):
            consumers = self._services.consumers
            consumers.begun(self._pipeline, packet.leases, monotonic(), begun=packet.begun)
        elif isinstance(packet, packets.Ping):
            self._pipeline.send(packets.Pong().encode(packet_id))
        elif isinstance(packet, packets.CancelRequest):
            cancelled = self._cancel(packet.packet_id)
            self._pipeline.send(packets.CancelRequestResponse(cancelled).encode(packet_id))
        elif isinstance(packet, packets.Credit):
            self._set_credit(packet_id, packet)
        else:
            self._hello(packet_id, packet)

    def _cancel(self, packet_id: int) -> bool:
        """Cancels a waiting read. A read that is parked, or not yet executed, takes no message after this.

        A read that carries confirmations is executed all the same: its success tells the client that they
        were applied.
        """
        read = self._pipeline.waiting.get(packet_id)
        if read is None:
            return False
        if self._services.room.cancel(read):
            return True
        if read not in self._pipeline.requests or read.confirms:
            return False
        self._pipeline.requests.remove(read)
        self._pipeline.size -= read.size
        del self._pipeline.waiting[packet_id]
        self._services.dispatcher.drop([read])
        self._pipeline.forget_number(getattr(read.packet, "number", 0))
        self._pipeline.send(empty_frame(read))
        return True

    def _set_credit(self, packet_id: int, packet: packets.Credit) -> None:
        consumers = self._services.consumers
        consumer = consumers.find(self._pipeline, packet.consumer_id)
        if consumer is None:
            details = f"there is no consumer {packet.consumer_id} of this connection"
            self._refuse(packet_id, ConsumerNotExistingError(details))
            return
        consumers.set_credit(consumer, packet.credit_messages, packet.credit_bytes)
        self._pipeline.send(packets.Success().encode(packet_id))

    def _hello(self, packet_id: int, hello: packets.Hello) -> None:
        if hello.max_frame < MAX_FRAME_LEAST:
            rule = f"it must be at least {MAX_FRAME_LEAST}"
            raise InvalidParameterError(f"max_frame: {hello.max_frame} is not allowed; {rule}")
        settings = self._services.settings
        self._frame_bytes = self._pipeline.frame_bytes = min(hello.max_frame, settings.max_frame)
        mechanisms = self._services.logins.mechanisms(channel := self._channel())
        if mechanisms:
            self._pipeline.login = Login(self._services.logins, channel, mechanisms)
        self._enter(ConnectionState.AWAITING_LOGIN if mechanisms else ConnectionState.AWAITING_IDENTITY)
        self._pipeline.library = for_people(f"{hello.library} {hello.library_version}")
        self._pipeline.send(self._hello_response(hello, mechanisms).encode(packet_id))

    def _hello_response(self, hello: packets.Hello, mechanisms: list[str]) -> packets.HelloResponse:
        settings, peers = self._services.settings, self._services.peers
        return packets.HelloResponse(
            major=PROTOCOL_MAJOR,
            minor=min(hello.minor, PROTOCOL_MINOR),
            middleware_id=peers.middleware_id,
            server_version=peers.version,
            max_frame=self._frame_bytes,
            idle_limit_ms=round(settings.idle_limit_s * 1000),
            max_unconfirmed=settings.max_unconfirmed,
            mechanisms=mechanisms,
            addresses=peers.addresses,
            capabilities=[],
            max_body=settings.max_body_bytes,
            max_put_elements=settings.max_put_elements,
            max_references=settings.max_references,
            incarnation=peers.incarnation,
        )


def _no_channel() -> Channel:
    raise AssertionError("the connection is gone")


#: The largest number that the database holds.
NUMBER_MAX = (1 << 63) - 1
#: What every numbered request begins with.
_NUMBER = struct.Struct(">Q")


class Numbers:
    """Checks that the numbers of a connection rise and that not too many are unconfirmed.

    Numbers start at 1 in each session. A request with the number 0 leaves no record. A skipped number begins
    a new series: the client has seen which requests were refused for now, and sends them again in order.
    Every number is noted, even if its request is refused; otherwise it would look like a skipped one.

    Attributes:
        series: how often a number was skipped.
        refusal: the error by which a request of this series was refused for now, before it entered the
            pipeline. All numbered requests behind it get the same error. None if none was refused.
    """

    __slots__ = ("_last", "_max_unconfirmed", "_pipeline", "_unread", "refusal", "series")

    def __init__(self, pipeline: Pipeline, max_unconfirmed: int) -> None:
        self._pipeline = pipeline
        self._max_unconfirmed = max_unconfirmed
        self._last = 0
        self._unread = 0
        self.refusal: TelestoError | None = None
        self.series = 0

    def see(self, number: int) -> None:
        """Notes a number. Raises NumberRepeatedError and InvalidParameterError."""
        if number <= self._last:
            if not number:
                return
            raise NumberRepeatedError(f"number {number} does not rise: {self._last} was the last one")
        if number > NUMBER_MAX:
            raise invalid("number", number, f"at most {NUMBER_MAX}")
        if number > self._last + 1 + self._unread:
            self.series += 1
            self.refusal = None
        self._last = number
        self._unread = 0

    def see_in(self, payload: bytes) -> int:
        """Notes the number of a request that is not decoded. Returns it, or 0 if there is none."""
        if len(payload) < _NUMBER.size:
            # Its number, if it had one, is unknown. It must not count as a skipped number.
            self._unread += 1
            return 0
        number: int = _NUMBER.unpack_from(payload)[0]
        if self._last < number <= NUMBER_MAX:
            self.see(number)
        return number

    def admit(self, number: int, confirmed: list[int]) -> None:
        """Notes a request and what it confirms. Raises TooManyUnconfirmedError."""
        unconfirmed = self._pipeline.unconfirmed
        if number:
            if len(unconfirmed) >= self._max_unconfirmed:
                self._check_bound(confirmed)
            unconfirmed[number] = 1
        for confirmed_number in confirmed:
            unconfirmed.pop(confirmed_number, None)

    def note_confirm(self, packet: packets.Confirm) -> None:
        """Notes what a Confirm confirms."""
        for number in packet.confirmed:
            self._pipeline.unconfirmed.pop(number, None)
        self.note_hand_overs(packet.hand_overs)

    def note_hand_overs(self, references: list[packets.HandOverRef]) -> None:
        """Notes single messages that are confirmed or given back."""
        unconfirmed = self._pipeline.unconfirmed
        for reference in references:
            if reference.session == self._pipeline.client.session and reference.number in unconfirmed:
                unconfirmed[reference.number] -= 1
                if unconfirmed[reference.number] <= 0:
                    del unconfirmed[reference.number]

    def _check_bound(self, confirmed: list[int]) -> None:
        unconfirmed = self._pipeline.unconfirmed
        remaining = len(unconfirmed) - sum(number in unconfirmed for number in set(confirmed))
        if remaining >= self._max_unconfirmed:
            self.refusal = TooManyUnconfirmedError(
                f"{remaining} requests are unconfirmed, at most {self._max_unconfirmed} may be"
            )
            raise copy(self.refusal)


def note_references(numbers: Numbers, packet: Any) -> None:
    """Notes what a request without a number confirms or gives back."""
    if isinstance(packet, packets.Confirm):
        numbers.note_confirm(packet)
    elif isinstance(packet, packets.Release):
        numbers.note_hand_overs(packet.hand_overs)
