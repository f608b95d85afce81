"""Connections of clients: receiving, sending and closing, and the order in which they are handled."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from time import monotonic, time
from typing import TypeVar, cast

from telesto.middleware.common.failures import Failure
from telesto.middleware.common.settings import UNIDENTIFIED_FRAME_BYTES
from telesto.middleware.common.tls import user_of
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.scheduling.requests import UNIDENTIFIED, Client, Pipeline, error_frame
from telesto.middleware.security.login import Channel
from telesto.middleware.security.users import User
from telesto.middleware.wire.conversation import BrokenConversationError, Conversation
from telesto.middleware.wire.descriptors import REFUSED_MAX
from telesto.middleware.wire.flow_control import FlowControl
from telesto.middleware.wire.quotas import UNCOUNTED_UNSENT_BYTES, Resource, address_of, is_loopback, shown
from telesto.middleware.wire.services import Services
from telesto.protocol.errors import ErrorClass, ErrorCode, FrameTooLargeError
from telesto.protocol.framing import FRAME_COST, UNBOUNDED, FrameDecoder
from telesto.protocol.packets import GoAway

_Key = TypeVar("_Key")

#: An incomplete frame of at most this size is kept even when the budget is used up.
_SMALL_BYTES = 64 << 10
#: A frame may take a second longer for each of these many bytes.
_FRAME_RATE_BYTES = 64 << 10
#: How much is given to TLS at a time. It passes all that it is given on to its TCP transport, whose buffer
#: counts nowhere, until that one takes no more.
_TLS_PIECE_BYTES = 64 << 10
#: So long a connection keeps its place against others of its address, to say whose it is, in seconds.
_JUST_COME_S = 1.0
#: How long a client may take to leave after its token has expired.
_EXPIRED_S = 5.0
#: How much is handled at once in one turn of the event loop: of all connections, and of one connection.
TURN_BYTES = 512 * FRAME_COST
AT_ONCE_BYTES = 128 * FRAME_COST
#: The same of one connection once TURN_BYTES are used up: enough for a connection that sends little.
LITTLE_BYTES = 4 * FRAME_COST
#: How much waiting data is handled in one turn of the event loop, at most of one connection after the other.
PORTION_BYTES = 16 * FRAME_COST


class Connection(asyncio.Protocol):
    """Joins a transport with a conversation and a pipeline.

    Attributes:
        buffered: bytes of an incomplete frame and of frames that wait in the intake, as counted in the
            budget.
        waits: received frames wait in the intake.
        frame_since: when the incomplete frame began, by the loop's clock in seconds; None without one.
        unsent: bytes of answers that the peer has not read, as counted in the budget.
        unsent_since: when the peer began to leave answers unread.
        made_at: when it was made, by the loop's clock in seconds.
    """

    def __init__(
        self, services: Services, connections: Connections, intake: Intake, flusher: Flusher
    ) -> None:
        self._services = services
        self._connections = connections
        self._intake = intake
        self._flusher = flusher
        self._budget = services.dispatcher.budget
        self._pipeline = Pipeline(self.send, self.finish, self._on_identity, self._on_login)
        self._conversation = Conversation(services, self._pipeline, self._channel)
        self._decoder = FrameDecoder(UNIDENTIFIED_FRAME_BYTES)
        self.buffered = 0
        self.waits = False
        self.frame_since: float | None = None
        self.unsent = 0
        self.unsent_since = 0.0
        self._out: list[bytes] = []
        self._deaf = False
        self.made_at = self._pipeline.heard_at = services.loop.time()
        self._watch_entry = 0
        self._login_ends = 0
        self._linger: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport
        self._flow: FlowControl

    # --- asyncio.Protocol --------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Enters the connection, or refuses it if there are too many."""
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self._pipeline.peer, self._pipeline.address = shown(peer), address_of(peer)
        loop, settings = self._services.loop, self._services.settings
        self._flow = FlowControl(
            self._transport,
            self._pipeline,
            settings,
            loop.time,
            self._services.deadlines,
            self._handle_waiting,
        )
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        refusal = self._connections.enter(self)
        if refusal is None:
            self._watch()
        else:
            self._break(0, refusal)

    def data_received(self, data: bytes) -> None:
        """Passes received data to the intake."""
        if self._deaf:
            return
        self._pipeline.heard_at = self._services.loop.time()
        if self._pipeline.silent:
            self._services.consumers.heard(self._pipeline)
        self._intake.came(self, data)

    def pause_writing(self) -> None:
        """The peer does not read."""
        self._flow.peer_is_slow()
        settings = self._services.settings
        self._stalled = self._services.loop.call_later(settings.write_stalled_s, self._abort, "peer_stalled")

    def resume_writing(self) -> None:
        """The peer reads again."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._flow.peer_reads()
        self._services.dispatcher.stand(self._pipeline)
        self._services.consumers.writable(self._pipeline)

    def connection_lost(self, exc: Exception | None) -> None:
        """Drops the requests that wait. Requests under way run on, and their answers are discarded.

        Nothing refers to this connection afterwards, so its buffers are freed at once, without the garbage
        collector.
        """
        for timer in (self._linger, self._stalled):
            if timer is not None:
                timer.cancel()
        self._close_pipeline()
        self._pipeline.detach()
        self._conversation.detach()
        self._out.clear()
        self._services.deadlines.cancel(self._watch_entry)
        self._services.deadlines.cancel(self._login_ends)
        self._services.quotas.forget(self)
        self._connections.leave(self)

    # --- for the intake ----------------------------------------------------------------------

    def take(self, data: bytes, size: int) -> int:
        """Handles new and waiting data up to a size, counted as in ``Intake``. Returns the size handled.

        The rest waits if the quotas permit; it is not handled while the pipeline is full or the peer does not
        read.
        """
        self.waits = False
        if self._deaf or (not data and self._flow.full):
            return 0
        decoder = self._decoder
        there = len(data) + decoder.waiting
        count = 0
        may_keep = True
        try:
            while True:
                frames = decoder.feed(data, size)
                count += len(frames)
                if frames:
                    self.frame_since = None
                    self._conversation.receive(frames)
                may_keep = self._account_buffered()
                if may_keep or not decoder.waiting:
                    break
                # The rest may not wait. Its requests are refused, which needs no memory.
                data, size = b"", UNBOUNDED
        except BrokenConversationError as broken:
            self._break(broken.packet_id, broken.failure)
            return 0
        except FrameTooLargeError:
            pass
        # The error is not raised: its traceback would keep this connection alive.
        if decoder.error is not None:
            details = decoder.error.details
            self._break(0, Failure(ErrorCode.FRAME_TOO_LARGE, ErrorClass.FATAL, details))
            return 0
        if not may_keep:
            details = "the middleware has no memory left for this frame"
            self._break(0, Failure(ErrorCode.OVERLOADED, ErrorClass.FATAL, details))
            return 0
        if decoder.waiting:
            self._flow.wait()
        elif self._flow.waits:
            self._flow.go_on()
        pipeline, settings = self._pipeline, self._services.settings
        if (
            len(pipeline.requests) >= settings.pipeline_requests or pipeline.size >= settings.pipeline_bytes
        ) and not self._flow.pipeline_full:
            self._flow.pipeline_is_full()
        self.waits = decoder.waiting > 0 and not self._flow.full
        return count * FRAME_COST + there - decoder.waiting

    # --- for the pipeline ------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Sends a frame together with the others of this turn of the event loop."""
        if self._transport.is_closing() or self._linger is not None:
            return
        if not self._out:
            self._flusher.add(self)
        self._out.append(frame)

    def flush(self) -> None:
        """Sends the frames of this turn in one write."""
        out, self._out = self._out, []
        if not out or self._transport.is_closing():
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        unsent = self._transport.get_write_buffer_size() + len(data)
        if len(data) > _TLS_PIECE_BYTES and not self._transport.can_write_eof():
            pieces = memoryview(data)
            for start in range(0, len(data), _TLS_PIECE_BYTES):
                self._transport.write(pieces[start : start + _TLS_PIECE_BYTES])
        else:
            self._transport.write(data)
        if unsent > UNCOUNTED_UNSENT_BYTES:
            self._services.quotas.unsent(self, unsent)
        if self._services.tracer.on:
            self._pipeline.answered_at = monotonic()
        if (
            self._flow.slow
            and self._transport.get_write_buffer_size() > self._services.settings.write_hard_bytes
        ):
            self._abort("too_much_unsent")

    def finish(self) -> None:
        """Sends the remaining answers and closes.

        For a while it reads and discards data of the peer: closing a socket with unread data resets the
        connection, and the peer might not receive its last answers.
        """
        if self._linger is not None or self._transport.is_closing():
            return
        self._close_pipeline()
        self.flush()
        self._linger = self._services.loop.call_later(self._services.settings.linger_s, self._transport.abort)
        if self._flow.rests:
            self._transport.resume_reading()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        else:  # TLS, which reads on until the peer has closed too
            self._transport.close()

    # --- for the server ----------------------------------------------------------------------

    def go_away(self, packet: GoAway) -> None:
        """Tells the client to connect elsewhere, and refuses new requests."""
        self._conversation.drain()
        self.send(packet.encode(0))

    def end(self, failure: Failure) -> None:
        """Tells the client why the connection ends, and closes it."""
        self._break(0, failure)

    def abort(self) -> None:
        """Ends the connection at once."""
        self._transport.abort()

    # --- for the quotas ----------------------------------------------------------------------

    @property
    def pipeline(self) -> Pipeline:
        """Its requests, and what the other packages know about the connection."""
        return self._pipeline

    @property
    def flow(self) -> FlowControl:
        """What keeps data of the peer from being read."""
        return self._flow

    @property
    def slow_since(self) -> float | None:
        """When the peer stopped reading, by the loop's clock in seconds; None if it reads."""
        return self._flow.slow_since

    def unsent_now(self) -> int:
        """Returns how many bytes the peer has not read."""
        size: int = self._transport.get_write_buffer_size()
        return size

    def give_up(self, resource: Resource) -> None:
        """Closes the connection because others need what it uses of a budget."""
        if resource is Resource.BYTES and not self._flow.slow:
            self._break(
                0, Failure(ErrorCode.OVERLOADED, ErrorClass.FATAL, "others need the memory of this frame")
            )
        else:
            self._abort(f"keeps_{resource.name.lower()}")

    def _handle_waiting(self) -> None:
        self._intake.again(self)

    # --- inside ------------------------------------------------------------------------------

    def _on_identity(self, client: Client | None) -> None:
        self._conversation.identified(client)
        if client is not None:
            self._connections.identify(self)
            self._decoder.max_frame = self._pipeline.frame_bytes

    def _channel(self) -> Channel:
        pipeline, services = self._pipeline, self._services
        secured = self._transport.get_extra_info("ssl_object")
        if secured is None:
            return Channel(
                pipeline.peer,
                pipeline.address,
                private=is_loopback(self._transport.get_extra_info("peername")),
            )
        certificate = secured.getpeercert()
        return Channel(
            pipeline.peer,
            pipeline.address,
            private=True,
            binding=None if services.tls is None else services.tls.binding_of(secured.context),
            certificate=bool(certificate),
            certificate_user=user_of(certificate) if certificate else None,
        )

    def _on_login(self, packet_id: int, outcome: User | Failure | None) -> None:
        deadlines, login = self._services.deadlines, self._pipeline.login
        assert login is not None
        if self._pipeline.closed:
            return
        if isinstance(outcome, Failure):
            failure = outcome
            self._login_ends = deadlines.add(
                deadlines.now + login.delay_s, lambda: self._break(packet_id, failure)
            )
            return
        self._conversation.logged_in(outcome)
        if outcome is not None:
            self._connections.log_in(self, outcome)
        if outcome is not None and login.expires_at is not None:
            left_s = max(0.0, login.expires_at - time())
            self._login_ends = deadlines.add(deadlines.now + left_s, self._token_expired)

    def _token_expired(self) -> None:
        """Lets the client move, with a new token; what is under way is answered first."""
        self.go_away(GoAway("the token has expired", self._services.peers.addresses))
        deadlines = self._services.deadlines
        self._login_ends = deadlines.add(deadlines.now + _EXPIRED_S, self.finish)

    def _break(self, packet_id: int, failure: Failure) -> None:
        self._services.events.info(
            "connection_refused",
            (self._pipeline.address, failure.code),
            peer=self._pipeline.peer,
            client_id=self._pipeline.client.client_id,
            code=failure.code.name,
            details=failure.details,
        )
        self._services.counters.refused(failure.code)
        self.send(error_frame(packet_id, failure))
        self.finish()

    def _abort(self, reason: str) -> None:
        self._services.counters.aborted(reason)
        self._services.events.info(
            "connection_aborted",
            (self._pipeline.address, reason),
            peer=self._pipeline.peer,
            client_id=self._pipeline.client.client_id,
            reason=reason,
        )
        self._transport.abort()

    def _close_pipeline(self) -> None:
        self._deaf = True
        self._forget_buffered()
        if self._pipeline.closed:
            return
        self._pipeline.closed = True
        self._flow.end()
        self._services.dispatcher.drop(self._pipeline.clear())
        self._services.room.drop(self._pipeline.waiting.values())
        self._pipeline.waiting.clear()
        self._services.consumers.drop(self._pipeline)

    def _account_buffered(self) -> bool:
        """Counts the bytes of an incomplete frame and of waiting frames. Returns whether they may be kept."""
        incomplete = self._decoder.buffered
        buffered = incomplete + self._decoder.waiting
        grown = buffered - self.buffered
        if grown:
            self._budget.enter(0, grown)
            self.buffered = buffered
        if not incomplete:
            self.frame_since = None
        elif self.frame_since is None:
            self.frame_since = self._pipeline.heard_at
        if not buffered or buffered == incomplete <= _SMALL_BYTES:
            return True
        return self._services.quotas.may_buffer(self._pipeline, buffered, grown)

    def _forget_buffered(self) -> None:
        self._decoder.clear()
        self.waits = False
        self._budget.leave(0, self.buffered)
        self.buffered = 0
        self.frame_since = None

    def _watch(self) -> None:
        """Closes the connection if it is idle, unidentified or in one frame for too long; else repeats."""
        settings, now = self._services.settings, self._services.loop.time()
        limits = []
        if self._pipeline.client is UNIDENTIFIED and not self._conversation.identifying:
            limits.append((self.made_at + settings.identify_limit_s, "not_identified"))
        if settings.idle_limit_s:
            limits.append((self._pipeline.heard_at + settings.idle_limit_s, "idle"))
        if self.frame_since is not None and not self._flow.rests:
            begun = max(self.frame_since, self._flow.resumed_at)
            allowed_s = settings.frame_limit_s + self.buffered / _FRAME_RATE_BYTES
            limits.append((begun + allowed_s, "frame_incomplete"))
        for limit, reason in limits:
            if limit <= now:
                self._abort(reason)
                return
        # The next look must not be later than the limit of a frame that begins now.
        again = min([now + settings.frame_limit_s, *(limit for limit, _ in limits)])
        self._watch_entry = self._services.deadlines.add(again, self._watch)


class Connections:
    """All connections of a middleware.

    When they are too many, one more ends the oldest of which nobody knows whose it is: it has not logged in,
    or not identified itself where nobody has to log in. It is one of the address that has most of these, so
    peers that say nothing keep nobody of another address out. At the address of the new one itself those stay
    that have only just come, and the new one is refused. Where there are none of these, it ends the oldest
    that has logged in and not identified itself, of the user that has most of them.

    Attributes:
        limit: how many may be open, beside a few that were refused and have not closed yet.
    """

    def __init__(self, limit: int, counters: Counters) -> None:
        self.limit = limit
        self._counters = counters
        self._refused: dict[Connection, None] = {}
        self._all: dict[Connection, None] = {}
        self._unknown: dict[str, dict[Connection, None]] = {}
        self._without_client: dict[User, dict[Connection, None]] = {}
        self._empty: asyncio.Event | None = None

    def __len__(self) -> int:
        """How many are open, without those that were refused."""
        return len(self._all) - len(self._refused)

    @property
    def identified(self) -> int:
        """How many have identified themselves; the others give way."""
        others = (*self._unknown.values(), *self._without_client.values())
        return len(self) - sum(map(len, others))

    def enter(self, connection: Connection) -> Failure | None:
        """Adds a connection. Returns why it must be closed at once; None if it may stay."""
        full = len(self) >= self.limit
        self._all[connection] = None
        self._unknown.setdefault(connection.pipeline.address, {})[connection] = None
        self._counters.connections_total += 1
        if not full:
            return None
        unknown = max(self._unknown.values(), key=len)
        oldest = next(iter(unknown))
        if connection in unknown and connection.made_at - oldest.made_at < _JUST_COME_S:
            oldest = connection
        if oldest is connection and len(unknown) == 1 and self._without_client:
            most = max(self._without_client.values(), key=len)
            first = next(iter(most))
            if connection.made_at - first.made_at >= _JUST_COME_S:
                oldest = first
        self.identify(oldest)
        if len(self._refused) >= REFUSED_MAX:
            lingering = next(iter(self._refused))
            # It counts as refused until it is gone, and what it is told is written at the end of this turn.
            self._refused[lingering] = self._refused.pop(lingering)
            asyncio.get_running_loop().call_soon(lingering.abort)
        self._refused[oldest] = None
        failure = Failure(
            ErrorCode.TOO_MANY_CONNECTIONS, ErrorClass.FATAL, "the middleware has as many as it may"
        )
        if oldest is connection:
            return failure
        oldest.end(failure)
        return None

    def log_in(self, connection: Connection, user: User) -> None:
        """A connection has logged in: it gives way only where no other does."""
        self.identify(connection)
        self._without_client.setdefault(user, {})[connection] = None

    def identify(self, connection: Connection) -> None:
        """A connection has identified itself: others do not take its place any more."""
        pipeline = connection.pipeline
        _take_out(self._unknown, pipeline.address, connection)
        if pipeline.user is not None:
            _take_out(self._without_client, pipeline.user, connection)

    def leave(self, connection: Connection) -> None:
        """Removes a connection."""
        self.identify(connection)
        self._all.pop(connection, None)
        self._refused.pop(connection, None)
        if not self._all and self._empty is not None:
            self._empty.set()

    def snapshot(self) -> list[Connection]:
        """Returns all connections that are open now."""
        return list(self._all)

    async def wait_empty(self) -> None:
        """Returns when no connection is open."""
        if self._all:
            self._empty = asyncio.Event()
            await self._empty.wait()


def _take_out(groups: dict[_Key, dict[Connection, None]], key: _Key, connection: Connection) -> None:
    group = groups.get(key)
    if group is not None:
        group.pop(connection, None)
        if not group:
            del groups[key]


class Intake:
    """Divides each turn of the event loop among connections, by the amount of data that they send.

    Data is handled in the turn in which it comes, up to TURN_BYTES. Beyond that only LITTLE_BYTES of each
    connection are handled, and the rest waits. Each turn handles one portion of the waiting data, alternately
    from connections that have just begun to wait and from those that have waited before, first come first
    served. So a connection that sends much delays one that sends little by one portion at most.

    Data is counted in bytes; a frame counts as FRAME_COST at least.
    """

    __slots__ = ("_asked", "_fresh", "_left", "_loop", "_old")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = TURN_BYTES
        self._fresh: deque[Connection] = deque()
        self._old: deque[Connection] = deque()
        self._asked = False

    def __len__(self) -> int:
        """How many connections wait."""
        return len(self._fresh) + len(self._old)

    def came(self, connection: Connection, data: bytes) -> None:
        """Handles received data of a connection, or a part of it."""
        waited = connection.waits
        self._left -= connection.take(data, AT_ONCE_BYTES if self._left > 0 else LITTLE_BYTES)
        if connection.waits and not waited:
            self._fresh.append(connection)
            self._ask()
        elif self._left < TURN_BYTES // 2:
            # Only now, so that a turn with little data needs no callback.
            self._ask()

    def again(self, connection: Connection) -> None:
        """Adds a connection whose frames wait."""
        if not connection.waits:
            connection.waits = True
            self._old.append(connection)
            self._ask()

    def _turn(self) -> None:
        """Handles one portion of the waiting data. Runs once in a turn of the event loop."""
        self._asked = False
        left = PORTION_BYTES
        first, second = self._fresh, self._old
        while left > 0 and (first or second):
            connection = (first or second).popleft()
            left -= max(1, connection.take(b"", left))
            if connection.waits:
                self._old.append(connection)
            first, second = second, first
        if len(self):
            self._left = 0
            self._ask()
        else:
            self._left = TURN_BYTES

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._loop.call_soon(self._turn)


class Flusher:
    """Has each connection send its answers in one write at the end of a turn of the event loop."""

    __slots__ = ("_connections", "_loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._connections: list[Connection] = []

    def add(self, connection: Connection) -> None:
        """Adds a connection that had nothing to send before."""
        if not self._connections:
            self._loop.call_soon(self._flush)
        self._connections.append(connection)

    def _flush(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.flush()
