"""A session's connection and identity: it connects, becomes the client, and does so again when necessary."""

from __future__ import annotations

import math
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from telesto.client.bookkeeping.identity import (
    HandshakeResult,
    Identity,
    temporary_identity,
    this_process,
)
from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.calls import failures
from telesto.client.calls.queue_calls import DONE, Call, PingCall
from telesto.client.connection import greeting, login
from telesto.client.connection.link import InternalRequest, Link
from telesto.client.connection.liveness import LivenessCheck
from telesto.client.connection.login import Exchange
from telesto.client.connection.name_lock import NameLock
from telesto.client.connection.reconnect import ReconnectPolicy
from telesto.client.errors import ForkedError, LoginsPausedError, NameInUseError
from telesto.client.options import ClientOptions
from telesto.client.url import Address, Credentials
from telesto.protocol import packets
from telesto.protocol.errors import (
    AuthenticationFailedError,
    ClientNameNotUniqueError,
    ClientNotExistingError,
    ConnectionLostError,
    ErrorClass,
    OverloadedError,
    SessionFencedError,
    TakeoverBusyError,
    TelestoError,
    UnsupportedVersionError,
)
from telesto.protocol.packets import ClientMode, Packet
from telesto.version import VERSION

if TYPE_CHECKING:
    import ssl

_LIBRARY = "telesto-python"
#: So often in a row a name may be taken and then be nobody's until it is taken for that of another user.
_NAMES_TAKEN_MAX = 3


class Phase(Enum):
    """Where the connection is."""

    ABSENT = auto()
    GREETING = auto()
    LOGGING_IN = auto()
    GREETED = auto()
    IDENTIFYING = auto()
    READY = auto()
    DRAINING = auto()


class ConnectCall(Call[None]):
    """Waits until the client is connected, unless it was before."""

    method = "Connect"

    def result(self) -> None:
        """Returns nothing."""


class BaseSession(ABC):
    """Becomes a client of the service and stays that client, over as many connections as necessary.

    ``Session`` adds the requests: how they are sent and how they end. It is the only direct subclass; this
    class stands apart so that connecting and becoming the client can be read, and changed, without them. The
    other abstract methods tell the subclass what happens to the connection.

    Attributes:
        writable: what was written before has left; the shell sets it.
        link: the connection in use; a shell closes its own when it is another one or None.
        client_id, name, mode, session: who the client is, and its session on the service; None before.
        temporary: the client lasts as long as it is connected.
        begun: it is a client, is about to be one, or was one; a call of an application begins it otherwise.
        tried: the identity under which it has asked to be a client, in vain so far; None without one.
    """

    def __init__(
        self,
        addresses: Iterable[Address],
        options: ClientOptions,
        clock: Callable[[], float],
        chance: random.Random,
        name_lock: NameLock | None,
        credentials: Credentials,
    ) -> None:
        self._options = options
        self._clock = clock
        self._credentials = credentials
        #: The login that is under way.
        self._login: Exchange | None = None
        #: Held while there is an identity that is ``locked``; None for a session without files.
        self._name_lock = name_lock
        #: Identifies the database of the service that has been reached; empty when it does not say.
        self._database = ""
        self._reconnect = ReconnectPolicy(addresses, options, clock, chance)

        self.writable = True
        self.link: Link | None = None
        self.client_id: int | None = None
        self.name: str | None = None
        self.mode: ClientMode | None = None
        self.session: int | None = None
        self.temporary = False

        self.phase = Phase.ABSENT
        self._liveness: LivenessCheck | None = None
        self._identity: Identity | None = None
        self.begun = False
        self.tried: Identity | None = None
        #: Those who wait for the first connection; empty once there was one.
        self._connecting: list[ConnectCall] = []
        #: Calls of connect() that wait until a lost connection is replaced.
        self._reconnecting: list[ConnectCall] = []
        self._incarnation: str | None = None
        # Of the attempt to identify on the present connection.
        self._takeover: Takeover | None = None
        self._identified: packets.IdentifyClientResponse | None = None
        self._resuming = False
        self._takeovers_busy = 0
        self._names_taken = 0
        self._identify_at = math.inf
        self._ended: TelestoError | None = None
        self._closed: TelestoError | None = None

        self._pings: list[PingCall] = []
        self.limit = 1
        self._keep_alive = options.keep_alive
        self.check_at = math.inf

    # ------------------------------------------------------------------ for the subclass

    @abstractmethod
    def _start_clock(self, call: Call[Any]) -> None:
        """The time begins within which the call has to end."""

    @abstractmethod
    def send(self, link: Link, call: Call[Any], number: int, confirmed: list[int], now: float) -> bool:
        """Sends a request; False when it cannot be sent at all, then the call is over."""

    @abstractmethod
    def finish(self, call: Call[Any]) -> None:
        """The call is over."""

    @abstractmethod
    def fail(self, call: Call[Any], error: TelestoError) -> None:
        """The call is over, with an error that is not an answer."""

    @abstractmethod
    def new_takeover(self) -> Takeover:
        """Makes the place for what a takeover lists."""

    @abstractmethod
    def _joined(self, result: HandshakeResult, before: str | None) -> None:
        """The connection is that of the client; ``before`` is the incarnation of the last one."""

    @abstractmethod
    def _link_lost(self, calls: Iterable[Call[Any]], error: TelestoError) -> None:
        """The connection, on which these calls were under way, is lost."""

    @abstractmethod
    def _forget_client(self) -> list[Call[Any]]:
        """Forgets everything that belongs to the client; returns the calls that are not over."""

    @abstractmethod
    def _client_gone(self) -> None:
        """The service no longer knows the client."""

    # ------------------------------------------------------------------ calls

    @property
    def closed(self) -> bool:
        """Tells whether the client refuses every call."""
        return self._closed is not None

    @property
    def connected(self) -> bool:
        """Tells whether requests can be sent at present."""
        return self.phase is Phase.READY

    @property
    def hindrance(self) -> TelestoError | None:
        """Why there is no connection, once an attempt has failed or one was lost; None while there is one."""
        return self._reconnect.failure

    @property
    def address(self) -> str | None:
        """Where the connection in use leads."""
        return None if self.link is None else str(self.link.address)

    def describe(self, kind: str) -> str:
        """Tells who the client is and how it stands to the service, as ``repr`` shows it."""
        name = self.name or (self._identity.name if self._identity is not None else None)
        who = f"{kind} {name!r}" if name else kind
        if isinstance(self._closed, ForkedError):
            return f"<{who} of the process before the fork>"
        if self._closed is not None:
            return f"<{who} closed>"
        if isinstance(self._ended, SessionFencedError):
            return f"<{who} fenced by another process>"
        if self.phase in (Phase.READY, Phase.DRAINING):
            return f"<{who} connected to {self.address}>"
        if self._identity is not None:
            return f"<{who} connecting to {self.address or self._reconnect.address}>"
        return f"<{who} not connected>"

    @property
    def identity(self) -> Identity | None:
        """The client that the session is, or is about to be; None for none."""
        return self._identity

    def connect(self, identity: Identity) -> ConnectCall:
        """Becomes a client of the service, unless it is one already, or is about to be one.

        The call is over once requests can be sent, also when a lost connection has to be replaced first.
        Raises what a closed client raises.
        """
        if self._closed is not None:
            raise failures.again(self._closed)
        call = ConnectCall()
        self._start_clock(call)
        if self._identity is None:
            self._identity = self.tried = identity
            self.begun = True
            self._ended = None
            self._connecting.append(call)
            if self.phase is Phase.GREETED:
                self._identify(identity)
            elif self.phase is Phase.ABSENT:
                self._reconnect.start()
        elif self._connecting:
            self._connecting.append(call)
        elif self.phase is Phase.READY:
            self.finish(call)
        else:
            self._reconnecting.append(call)
        return call

    def begin(self, identity: Identity) -> None:
        """Becomes a client of the service; what is called meanwhile waits in line."""
        self.connect(identity).on_done = ignore

    def ping(self) -> PingCall:
        """Sends a Ping at once, or as soon as there is a connection, which needs no client."""
        if self._closed is not None:
            raise failures.again(self._closed)
        call = PingCall()
        self._start_clock(call)
        call.on_answer = self._ponged
        if self.link is not None and self.phase not in (Phase.GREETING, Phase.LOGGING_IN):
            self.send(self.link, call, 0, [], self._clock())
            return call
        if self.link is None and self._identity is None and not self._pings:
            self._reconnect.start()
        self._pings.append(call)
        return call

    def _ponged(self, call: PingCall) -> None:
        call.answered_at = self._clock()
        self.finish(call)

    # ------------------------------------------------------------------ connections

    @property
    def next_attempt(self) -> tuple[Address, float] | None:
        """Where and when to connect next, by the session's clock; None when no connection is wanted."""
        if self.link is not None or self._closed is not None or not (self._identity or self._pings):
            return None
        return self._reconnect.address, self._reconnect.attempt_at

    def attempt_failed(self, error: TelestoError) -> None:
        """The connection that ``next_attempt`` asked for could not be opened, or did not lead anywhere."""
        self._reconnect.failed(error)
        if not self._reconnect.is_hopeless(error):
            return
        error = failures.cannot_connect(error)
        if self._connecting:
            self._stop_connecting(error)
        if self._identity is None:
            for call in self._pings:
                self.fail(call, error)
            self._pings.clear()

    def link_up(self, address: Address, secured: ssl.SSLObject | ssl.SSLSocket | None = None) -> Link:
        """A connection is open; ``secured`` is its TLS, if any."""
        now, ping_after = self._clock(), self._options.ping_after
        self.link = Link(address, self._options.max_frame, now, ping_after, secured)
        self._liveness = LivenessCheck(self.link, ping_after, now)
        self.writable = True
        self.phase = Phase.GREETING
        self._keep_alive = self._options.keep_alive
        self._takeovers_busy = 0
        hello = packets.Hello(
            packets.MAGIC,
            packets.PROTOCOL_MAJOR,
            packets.PROTOCOL_MINOR,
            _LIBRARY,
            VERSION,
            self._options.max_frame,
            [],
            line_ends=greeting.LINE_ENDS,
        )
        self._send_handshake(hello, self._hello_answered)
        return self.link

    def link_down(self, error: TelestoError) -> None:
        """The connection is lost; what was under way is in doubt until the next takeover."""
        if self.link is None:
            return
        phase = self.phase
        self._forget_link(error)
        if phase in (Phase.READY, Phase.DRAINING):
            self._reconnect.lost(error)
        else:
            self.attempt_failed(error)

    def link_closed(self, reason: str) -> None:
        """The other end has closed the connection, or it broke."""
        link = self.link
        if link is not None and link.first_bytes is not None:
            self.link_down(greeting.closed(link.address, reason))
        else:
            self.link_down(ConnectionLostError(f"connection lost: {reason}", address=self.address))

    def link_silent(self, details: str) -> None:
        """Gives the connection up because something does not come."""
        link = self.link
        if link is not None and link.first_bytes is not None:
            self.drop_link(greeting.silent(link.address, self._clock() - link.opened_at))
        else:
            self.drop_link(ConnectionLostError(details))

    def link_violated(self, error: TelestoError) -> None:
        """Gives the connection up because something came that is not of the protocol."""
        link = self.link
        if link is not None and link.first_bytes is not None:
            error = greeting.not_telesto(link.address, link.first_bytes)
        self.drop_link(error)

    def drop_link(self, error: TelestoError) -> None:
        """Gives the connection up."""
        if error.address is None:
            error.address = self.address
        self.link_down(error)

    def _connect_again(self, error: TelestoError) -> None:
        """Leaves a connection that worked, for a new one at once."""
        self._forget_link(error)
        self._reconnect.start()

    def _forget_link(self, error: TelestoError) -> None:
        link, self.link = self.link, None
        self.phase = Phase.ABSENT
        self._identify_at = math.inf
        if link is not None:
            self._link_lost(link.pending.values(), error)

    def look(self, now: float, *, awaits_pushes: bool) -> None:
        """Leaves the connection if the middleware gives no sign of life."""
        liveness, address = self._liveness, self.address
        if liveness is None:
            return
        greeted = self.phase is not Phase.GREETING
        if liveness.look(now, self._keep_alive, awaits_pushes=awaits_pushes, greeted=greeted):
            self.link_silent(f"{address} gives no sign of life")

    def send_internal(self, request: InternalRequest) -> None:
        """Sends a request of the library itself, out of line."""
        assert self.link is not None
        self.send(self.link, request, 0, [], self._clock())

    # ------------------------------------------------------------------ becoming the client

    def _send_handshake(self, packet: Packet, on_answer: Callable[[InternalRequest], None]) -> None:
        self.send_internal(InternalRequest(packet, on_answer, self._handshake_error))

    def _hello_answered(self, request: InternalRequest) -> None:
        response: packets.HelloResponse = request.response
        assert self.link is not None
        self.link.first_bytes = None
        if response.major != packets.PROTOCOL_MAJOR:
            details = (
                f"the middleware speaks protocol {response.major}, this library {packets.PROTOCOL_MAJOR}"
            )
            self.drop_link(UnsupportedVersionError(details))
        else:
            self._log_in(response)

    def _log_in(self, hello: packets.HelloResponse) -> None:
        """Logs in if it is asked for."""
        link = self.link
        assert link is not None
        try:
            exchange = login.begin(hello.mechanisms, self._credentials, link.address, link.secured)
            if exchange is None:
                self.greeted(hello)
                return
            self.phase = Phase.LOGGING_IN
            self._login = exchange
            self._send_login(exchange.first(), hello)
        except AuthenticationFailedError as error:
            self.handshake_refused(error)

    def _send_login(self, data: bytes, hello: packets.HelloResponse) -> None:
        assert self._login is not None
        packet = packets.Authenticate(self._login.mechanism, data)
        self._send_handshake(packet, lambda request: self._login_answered(request, hello))

    def _login_answered(self, request: InternalRequest, hello: packets.HelloResponse) -> None:
        response: packets.AuthenticateResponse = request.response
        assert self._login is not None
        try:
            data = self._login.answer(response.data, done=response.done)
        except AuthenticationFailedError as error:
            self.handshake_refused(error)
            return
        if data is None:
            self._login = None
            self.greeted(hello)
        else:
            self._send_login(data, hello)

    def greeted(self, response: packets.HelloResponse) -> None:
        """Version and limits are agreed on."""
        link = self.link
        assert link is not None
        link.max_frame_identified = response.max_frame
        self.limit = max(1, response.max_unconfirmed)
        self._reconnect.learn(response.addresses)
        if response.idle_limit_ms:
            self._keep_alive = min(self._options.keep_alive, response.idle_limit_ms / 2000)
        self.phase = Phase.GREETED
        self._names_taken = 0
        pings, self._pings = self._pings, []
        for call in pings:
            self.send(link, call, 0, [], self._clock())
        self._database = response.incarnation or ""
        if self._identity is not None:
            self._identify(self._identity)

    def _identify(self, identity: Identity) -> None:
        """Asks to be the client: registers it if it is to be new, else takes its session over."""
        if not self._lock_name(identity):
            return
        self.phase = Phase.IDENTIFYING
        if identity.client_id is None and identity.existing == "error":
            self._register(identity)
            return
        self._resuming = identity.held
        client_id, name = (identity.client_id, "") if identity.client_id else (0, identity.name or "")
        request = packets.IdentifyClient(
            client_id,
            name,
            token=identity.token,
            resume=identity.held,
            attempt=identity.next_attempt(),
            mode=identity.mode,
            process=this_process(),
        )
        self._note_attempt(identity)
        self._send_handshake(request, self._identify_answered)

    def _lock_name(self, identity: Identity) -> bool:
        """Locks the client on this machine; if another process has it, ends this session, returns False."""
        if self._name_lock is None or not identity.locked or not self._database:
            return True
        client = identity.name or identity.client_id or ""
        try:
            self._name_lock.acquire(self._database, client, take_over=identity.existing == "take_over")
        except NameInUseError as error:
            if identity.existing != "error":  # then the service says that there is such a client
                self.handshake_refused(error)
                return False
        return True

    def unlock_name(self) -> None:
        """Unlocks the client for other processes of this machine."""
        if self._name_lock is not None:
            self._name_lock.release()

    def _register(self, identity: Identity) -> None:
        mode = identity.mode or ClientMode.FULL
        request = packets.RegisterClient(
            identity.name or "",
            mode,
            identity.token,
            attempt=identity.next_attempt(),
            temporary=identity.temporary or None,
            process=this_process(),
        )
        self._note_attempt(identity)
        self._send_handshake(request, self._register_answered)

    def _note_attempt(self, identity: Identity) -> None:  # noqa: B027 - not every session has a state
        """The client is about to be asked for; a session with a state notes the attempt first."""

    def _register_answered(self, request: InternalRequest) -> None:
        response: packets.RegisterClientResponse = request.response
        identity = self._identity
        assert identity is not None
        self.established(
            HandshakeResult(
                response.client_id,
                identity.name or "",
                identity.mode or ClientMode.FULL,
                response.session,
                1,
                response.incarnation,
                self.new_takeover(),
                False,
            )
        )

    def _identify_answered(self, request: InternalRequest) -> None:
        self._identified = request.response
        self._takeover = self.new_takeover()
        self._takeover_listed(request)

    def _takeover_listed(self, request: InternalRequest) -> None:
        """Adds a page of what the service lists, and asks for the next one until it is complete."""
        page: packets.IdentifyClientResponse | packets.ListUnconfirmedResponse = request.response
        takeover, identified = self._takeover, self._identified
        assert takeover is not None
        assert identified is not None
        takeover.add(page)
        if page.more:
            self._send_handshake(takeover.next_page(), self._takeover_listed)
            return
        self._takeover = self._identified = None
        self.established(
            HandshakeResult(
                identified.client_id,
                identified.client_name,
                identified.mode,
                identified.session,
                identified.next_number,
                identified.incarnation,
                takeover,
                self._resuming,
            )
        )

    def _handshake_error(self, error: TelestoError) -> None:
        """An error answers the greeting or the attempt to be the client."""
        identity = self._identity if self.phase is Phase.IDENTIFYING else None
        by_name = identity is not None and identity.client_id is None and identity.existing != "error"
        if isinstance(error, AuthenticationFailedError):
            self._login_failed(error)
        elif self.phase is Phase.LOGGING_IN and isinstance(error, OverloadedError) and error.retry_after:
            details = f"logins are paused for {math.ceil(error.retry_after)} s: {error.details}"
            self.drop_link(LoginsPausedError(details, retry_after=error.retry_after, address=error.address))
        elif isinstance(error, TakeoverBusyError):
            self._takeovers_busy += 1
            self._identify_at = self._reconnect.retry_time(self._takeovers_busy)
        elif identity is not None and by_name and isinstance(error, ClientNotExistingError):
            self._register(identity)
        elif identity is not None and by_name and isinstance(error, ClientNameNotUniqueError):
            self._names_taken += 1
            if self._names_taken > _NAMES_TAKEN_MAX:
                error.details = (
                    f"the client named {identity.name!r} belongs to another user; choose another name"
                )
                self.handshake_refused(error)
            else:
                self._identify(identity)
        elif error.error_class is ErrorClass.REJECTED:
            if isinstance(error, ClientNameNotUniqueError):
                name = identity.name if identity is not None else ""
                error.details = f'a client named {name!r} exists already, and existing="error" was asked for'
            self.handshake_refused(error)
        else:
            self.drop_link(error)

    def _login_failed(self, error: AuthenticationFailedError) -> None:
        error.details = login.refusal(self._login, self._credentials, error.details)
        self.handshake_refused(error)

    def _retry_identify(self, now: float) -> None:
        """Asks again for a client whose takeover was busy, when it is time."""
        if now >= self._identify_at and self._identity is not None:
            self._identify_at = math.inf
            self._identify(self._identity)

    def established(self, result: HandshakeResult) -> None:
        """The connection is that of the client."""
        assert self.link is not None
        assert self._identity is not None
        self.link.max_frame = self.link.max_frame_identified
        self._reconnect.succeeded()
        self.client_id = self._identity.client_id = result.client_id
        self._identity.held = True
        self._identity.from_state = False
        self.name = result.name
        self.mode = result.mode
        self.temporary = self._identity.temporary
        self.session = result.session
        self.phase = Phase.READY
        before, self._incarnation = self._incarnation, result.incarnation
        self.tried = None
        self._joined(result, before)
        connecting, self._connecting = self._connecting + self._reconnecting, []
        self._reconnecting = []
        for call in connecting:
            self.finish(call)

    # ------------------------------------------------------------------ ceasing to be the client

    def handshake_refused(self, error: TelestoError) -> None:
        """The service refuses this client, and would do so on any connection."""
        if isinstance(error, ClientNotExistingError):
            self._client_gone()
        first, temporary = bool(self._connecting) or self._identity is None, self.temporary
        self._end(error, lambda call: failures.ended_error(call, error, first=first))
        if temporary and isinstance(error, ClientNotExistingError):
            self.go_on_as_temporary()

    def go_on_as_temporary(self) -> None:
        """The client is lost, and what was under way has failed; the next call makes a new, temporary one."""
        self.begun = False
        self.tried = temporary_identity(self.mode)

    def _cancel_connecting(self, call: ConnectCall, *, needed: bool) -> None:
        """The caller no longer waits to be a client; ``needed`` tells that other calls wait for that."""
        if call in self._reconnecting:
            self._reconnecting.remove(call)
        if call not in self._connecting:
            return
        if needed:
            call.on_done = ignore
            return
        self._connecting.remove(call)
        if not self._connecting:
            self._stop_connecting()

    def _stop_connecting(self, error: TelestoError | None = None) -> None:
        """Gives up becoming a client; the connection, if any, is closed."""
        connecting, self._connecting = self._connecting, []
        self._identity = None
        self.unlock_name()
        self.begun = False
        for call in connecting:
            if error is not None:
                self.fail(call, failures.again(error))
        for waiting in self._forget_client():
            self.fail(waiting, failures.not_connected(None) if error is None else failures.again(error))
        if self.link is not None and self.phase is not Phase.GREETED:
            self.link_down(error or failures.closed_error())

    def _check_connecting(self, now: float) -> None:
        due = [call for call in self._connecting if call.deadline <= now]
        if due:
            error = failures.not_connected_in_time(self._options, self._reconnect.failure, self.address)
            if len(due) == len(self._connecting):
                self._stop_connecting(error)
                return
            for call in due:
                self._connecting.remove(call)
                self.fail(call, failures.again(error))
        for call in [call for call in self._reconnecting if call.deadline <= now]:
            self._reconnecting.remove(call)
            self.fail(
                call, failures.not_connected_in_time(self._options, self._reconnect.failure, self.address)
            )
        for call in self._connecting + self._reconnecting:
            self.check_at = min(self.check_at, call.deadline)

    def _end(self, reason: TelestoError, error_for: Callable[[Call[Any]], TelestoError]) -> None:
        """The session stops being the client; all calls fail."""
        self._ended = reason
        self._forget_link(reason)
        for call in [*self._forget_client(), *self._pings]:
            if call.phase < DONE and not isinstance(call, InternalRequest):
                self.fail(call, error_for(call))
        self._pings.clear()
        if self._identity is not None and self._identity.held:
            # To connect again is to become the same client, whatever stands for its name.
            self._identity.begin_anew()
            self.tried = self._identity
        self._identity = None
        self.unlock_name()
        self._incarnation = None
        self.session = None
        connecting, self._connecting = self._connecting + self._reconnecting, []
        self._reconnecting = []
        for call in connecting:
            self.fail(call, failures.again(reason))


def ignore(_call: object) -> None:
    """Takes the end of a call for which no caller waits."""
