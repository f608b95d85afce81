"""The core of the client, without I/O and without threads: calls and bytes in, bytes and answered calls out.

A client (telesto.client.aio, telesto.client.blocking) opens connections where ``next_attempt`` says, passes
what it receives to ``feed``, writes ``take_output``, wakes the callers of ``take_completed`` and calls
``tick`` when ``timer`` is due. Everything happens in the order of these calls; nothing here blocks.

The way of a call:

- ``submit`` puts it in line; ``pump`` sends what is in line, as far as the limits allow;
- ``feed`` takes an answer. It ends the call (``finish``); an error may also have it sent again, or cost the
  connection;
- ``take`` gives its caller the result, ``abandon`` ends it early;
- calls under way on a lost connection are in doubt until the next takeover (``_joined``), which answers those
  that were done; the others are sent again.

What the client has received and has to confirm is in the ledger.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar, Literal, TypeVar

from telesto.client.bookkeeping.confirmations import ConfirmContents
from telesto.client.bookkeeping.consumer_calls import (
    LEASES_MAX,
    AckCall,
    CheckCall,
    FindToJoinCall,
    JoinCall,
    LeaveCall,
    NackCall,
    NextCall,
    SettleCall,
    TouchCall,
    log_unacknowledged,
    log_unanswered,
)
from telesto.client.bookkeeping.consumer_state import ConsumerState
from telesto.client.bookkeeping.consumers import Consumers
from telesto.client.bookkeeping.identity import HandshakeResult
from telesto.client.bookkeeping.ledger import Ledger
from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.bookkeeping.write_ahead_log import WriteAheadLog
from telesto.client.calls import failures, tracing
from telesto.client.calls.queue_calls import (
    DONE,
    EARLY_MAX,
    SENT,
    WAITING,
    Call,
    ConfirmCall,
    DeleteClientCall,
    PingCall,
    PutCall,
    ReleaseCall,
    TakingCall,
    queue_was_full,
)
from telesto.client.calls.state import OperationId
from telesto.client.calls.topic_calls import GetCall, TopicCall
from telesto.client.connection.greeting import LOOKED_AT
from telesto.client.connection.link import InternalRequest, Link
from telesto.client.connection.liveness import READING_S
from telesto.client.connection.name_lock import NameLock
from telesto.client.errors import NotConnectedError, ProtocolViolationError
from telesto.client.models import HandOverId, LeaseId, Message, TopicMessage
from telesto.client.options import ClientOptions
from telesto.client.session.base import BaseSession, ConnectCall, Phase, ignore
from telesto.client.session.put_coalescing import ALONE, JointLimits, JointPut, join
from telesto.client.session.waiting_calls import WaitingCalls
from telesto.client.url import Address, Credentials
from telesto.protocol import packets
from telesto.protocol.errors import (
    ClientNotExistingError,
    ConnectionLostError,
    ConnectionsExhaustedError,
    DatabaseUnavailableError,
    DiskFullError,
    ErrorClass,
    InternalError,
    NotSubscribedError,
    OverloadedError,
    PositionUnknownError,
    SessionFencedError,
    ShuttingDownError,
    StandbyUnavailableError,
    TelestoError,
)

ResultT = TypeVar("ResultT")

Delivery = Literal["once", "fast"]

#: How many bytes are encoded before they are written.
_OUTPUT_MAX = 256 * 1024
#: The middleware has no connection to the database, or none left for this request.
_WITHOUT_DATABASE = (DatabaseUnavailableError, ConnectionsExhaustedError)


class Session(BaseSession):
    """A client's side of the conversation.

    Attributes:
        consumers: the client's consumers, and what was pushed to them.
    """

    #: Puts that wait next to each other may be sent as one request.
    joins_puts: ClassVar[bool] = True
    #: Where a client with a state notes what it must not forget.
    _wal: WriteAheadLog | None = None

    def __init__(
        self,
        addresses: Iterable[Address],
        options: ClientOptions,
        delivery: Delivery = "once",
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
        *,
        name_lock: NameLock | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        super().__init__(
            addresses, options, clock, chance or random.Random(), name_lock, credentials or Credentials()
        )
        self._fast = delivery == "fast"
        self._waiting_calls = WaitingCalls(options.max_waiting_calls)
        self._ledger = Ledger(
            options,
            self._clock,
            self._reconnect.retry_time,
            self.send_when_ready,
            self._offer,
            self._given_back,
            self._wal,
        )
        self.consumers = Consumers(options, self._clock, self.send_when_ready, self.finish, self.settle_soon)
        #: Requests that were under way when their connection was lost, in the order of sending.
        self._in_doubt: list[Call[Any]] = []
        self._releases: list[ReleaseCall] = []

        #: Calls that are over and whose callers are not woken yet, and how many have not taken their answers.
        self._completed: list[Call[Any]] = []
        self._untaken = 0
        self._next_number = 1
        #: The middleware refuses everything behind a refusal for now, so that nothing overtakes it, until a
        #: number is left out. To regroup is to wait for what is under way, leave out a number and go on from
        #: there with the line in order.
        self._regrouping = False
        self._resumed_at = 1
        self._joint_limits: JointLimits = ALONE
        #: A deletion of the client is under way, and nothing may follow it.
        self._deleting = False
        #: The client is closed and temporary: its deletion follows once everything else is settled.
        self._to_be_deleted = False
        #: Until then nothing of the line is sent, by the session's clock; 0 for no such time.
        self._hold_until = 0.0
        #: Reads whose callers have given up may be under way.
        self._orphaned_reads = False

        self._drain_until = math.inf
        self._close_until = math.inf
        self._overdue = False

    @property
    def unconfirmed(self) -> int:
        """Numbers of the session that were sent and whose confirmation was not: what the service limits."""
        return self._ledger.confirmations.open

    # ------------------------------------------------------------------ calls

    def submit(self, call: Call[Any]) -> None:
        """Puts a call in line. Raises NotConnectedError and TooManyCallsError."""
        if self._closed is not None:
            raise failures.again(self._closed)
        if self._identity is None:
            raise failures.not_connected(self._ended)
        line = self._waiting_calls
        if len(line.calls) >= self._options.max_waiting_calls:
            line.check_space(call)
        if call.taking:
            call.wait_until = self._clock() + call.wait
            call.on_answer = self._read_answered
        if call.noted and tracing.API in sys.modules:
            tracing.sending(call)
        line.last_order += 1
        call.order = line.last_order
        self._start_clock(call)
        if isinstance(call, GetCall):
            call.wait_until = self._clock() + call.wait
            call.on_answer = self._get_answered
            if self._ledger.subscriptions.enter(call):
                self._begin_get(call)
            else:
                self.check_at = min(self.check_at, self._ledger.subscriptions.next_expiry)
            return
        if isinstance(call, TopicCall):
            self._ledger.subscriptions.positions.forget_topic(call.topic)
        line.calls.append(call)

    def _start_clock(self, call: Call[Any]) -> None:
        deadline = self._clock() + self._options.call_timeout + call.wait
        call.deadline = deadline
        if deadline < self.check_at:
            self.check_at = deadline

    def fail(self, call: Call[Any], error: TelestoError) -> None:
        """The call is over, with an error that is not an answer."""
        call.error = error
        if not call.orphaned:
            call.number = 0
        self.finish(call)

    def finish(self, call: Call[Any]) -> None:
        """The call is over: its caller is to be woken, or its ``on_done`` called."""
        call.phase = DONE
        if call.on_done is not None:
            call.on_done(call)
            return
        self._completed.append(call)
        self._untaken += 1

    def take_completed(self) -> list[Call[Any]]:
        """Returns the calls that are over since the last time; their callers have to be woken."""
        completed = self._completed
        if completed:
            self._completed = []
        return completed

    def take(self, call: Call[ResultT]) -> ResultT:
        """Returns what an answered call returns, or raises its error; now the answer counts as taken."""
        self._untaken -= 1
        error = call.error
        if isinstance(call, GetCall):
            self._ledger.subscriptions.taken(call)
            self._end_get(call)
        if error is not None:
            self.confirm_answer(call)
            if call.span is not None:
                tracing.sent(call, error)
            raise error
        if isinstance(call, TakingCall):
            self._ledger.received.taken(call, self._clock())
        elif call.number:
            self.confirm_answer(call)
        return call.result() if call.span is None else tracing.result_of(call)

    def abandon(self, call: Call[Any]) -> None:
        """The caller no longer waits; what the call took is kept for the next matching read."""
        if call.span is not None:
            tracing.sent(call, None)
        if call.phase == DONE:
            self._untaken -= 1
        if isinstance(call, NextCall):
            self.consumers.forget(call)
        elif isinstance(call, ConnectCall):
            self._cancel_connecting(call, needed=bool(self._waiting_calls.calls))
        elif isinstance(call, ReleaseCall):
            self._releases = [release for release in self._releases if release is not call]
        elif isinstance(call, GetCall):
            # What it got, or may get, comes again to the next one.
            if call.phase == SENT:
                self.orphan(call)
            elif call.phase == DONE:
                self._ledger.subscriptions.positions.put_back(call.messages)
            self._end_get(call)
        elif call.phase == SENT:
            self.orphan(call)
        elif call.phase == DONE and call.error is None and isinstance(call, TakingCall):
            self._ledger.received.keep(call.messages, self._clock())
            call.messages = []
        elif call.phase == DONE and isinstance(call, JoinCall) and call.error is None:
            self.leave_consumer(call.state)
        elif call.phase == DONE:
            self.confirm_answer(call)
        call.phase = DONE

    def confirm_topics(self, messages: list[TopicMessage]) -> None:
        """The application has these messages of topics, and all before them. Raises ClientClosedError."""
        self._check_open()
        self._ledger.subscriptions.confirm(messages)

    def give_back_topics(self, messages: Iterable[TopicMessage]) -> int:
        """Those of these messages that are not confirmed come again; returns how many.

        Raises ClientClosedError.
        """
        self._check_open()
        return self._ledger.subscriptions.give_back(messages)

    def confirm(self, hand_overs: Iterable[HandOverId]) -> ConfirmCall | None:
        """The application has processed these messages, which it confirms itself.

        Returns a call to be waited for, if that is necessary. Raises ClientClosedError.
        """
        self._check_open()
        self._ledger.received.confirm(hand_overs, self._clock())
        return None

    def give_back(self, hand_overs: Iterable[HandOverId]) -> ReleaseCall:
        """Gives back those of these messages of which this is still possible. Raises ClientClosedError."""
        self._check_open()
        names = self._ledger.received.take_back(hand_overs, self._clock())
        call = ReleaseCall(names)
        if names:
            self._start_clock(call)
            self._releases.append(call)
            self._ledger.received.release(names)
        else:
            self.finish(call)
        return call

    def _check_open(self) -> None:
        """Raises what a closed client raises."""
        if self._closed is not None:
            raise failures.again(self._closed)

    def confirm_answer(self, call: Call[Any]) -> None:
        """The caller has the answer, or no longer wants it."""
        if call.number and not call.orphaned and not self._others_wait(call):
            confirmations = self._ledger.confirmations
            if self._waiting_calls.calls and queue_was_full(call):
                # What waits in line was called before that was known, and is to be refused too.
                confirmations.take_refused(
                    call.session, call.number, self._waiting_calls.last_order, self._clock()
                )
            else:
                confirmations.take(call.session, call.number, self._clock())

    def _others_wait(self, call: Call[Any]) -> bool:
        """Tells whether the request has answered others too, who have not taken their results yet."""
        if type(call) is not PutCall or call.joint is None:
            return False
        joint = call.joint
        joint.untaken -= 1
        if joint.untaken > 0 and call.error is None and call.refused:
            # One caller knows that the queue was full; the queue decides anew about later puts.
            joint.untaken = 0
        return bool(joint.untaken)

    def orphan(self, call: Call[Any]) -> None:
        """The call ends before its request, which is under way; its answer is dealt with when it comes."""
        call.orphaned = True
        call.on_answer = self._orphan_answered
        if call.taking:
            self._orphaned_reads = True
        if call.wait > 0 and self.link is not None and self.link.pending.get(call.packet_id) is call:
            self.send_internal(InternalRequest(packets.CancelRequest(call.packet_id)))

    # ------------------------------------------------------------------ consumers

    def find_to_join(self, state: ConsumerState, name: str) -> FindToJoinCall:
        """Finds the queue of a consumer. Raises NotConnectedError and TooManyCallsError."""
        call = FindToJoinCall(name)
        if state.stopped:
            self.finish(call)
            return call
        self.submit(call)
        state.joining = call
        return call

    def join_consumer(self, state: ConsumerState) -> JoinCall:
        """Makes a consumer. Raises NotConnectedError and TooManyCallsError."""
        call = JoinCall(state)
        call.on_answer = self._consumer_joined
        self.submit(call)
        state.joining = call
        return call

    def _consumer_joined(self, call: JoinCall) -> None:
        call.state.joining = None
        self.consumers.joined(call)
        self.finish(call)

    def stop_consumer(self, state: ConsumerState) -> None:
        """Gives the application nothing more; what it has may still be answered."""
        if state.stopped or self.closed:
            return
        self.consumers.stop(state)
        call, state.joining = state.joining, None
        if call is not None and call.phase < DONE:  # its caller need not wait for the service
            if call.phase == SENT:
                self.orphan(call)
            self.finish(call)

    def leave_consumer(self, state: ConsumerState) -> LeaveCall | None:
        """Ends a consumer, after all that it has answered; None when the service knows nothing of it."""
        if state.closed:
            return None
        self.consumers.leave(state)
        if not state.consumer_id or self.closed:
            self.consumers.left(state)
            return None
        call = LeaveCall(state)
        call.on_answer = self._consumer_left
        self.submit(call)
        return call

    def _consumer_left(self, call: LeaveCall) -> None:
        self.consumers.left(call.state)
        self.finish(call)

    def next_message(self, state: ConsumerState, timeout: float) -> NextCall:
        """Waits for a consumer's next message, for ``timeout`` seconds at most; infinity without limit."""
        call = NextCall(state)
        if self.consumers.next(call):
            self.finish(call)
        elif timeout < math.inf:
            call.deadline = self._clock() + timeout
            self.check_at = min(self.check_at, call.deadline)
        return call

    def settle(self, state: ConsumerState, call: SettleCall) -> SettleCall:
        """Answers messages, for a caller that waits. Raises NotConnectedError and TooManyCallsError."""
        self.submit(call)
        if isinstance(call, CheckCall) or not isinstance(call, TouchCall):
            self.consumers.answering(state, call.leases, done=not isinstance(call, NackCall))
        if isinstance(call, NackCall):
            self.consumers.given_back(state, call.leases)
        return call

    def settle_soon(self, state: ConsumerState, call: SettleCall) -> None:
        """Answers messages, for a caller that does not wait."""

        def done(call: SettleCall) -> None:
            self.consumers.settled(state, call)
            self.confirm_answer(call)
            if isinstance(call, CheckCall) and call.kept:
                # No transaction has acknowledged these messages: they go back.
                log_unacknowledged(state.queue_id, call.kept)
                if not self.closed and not state.closed:
                    self.settle_soon(
                        state,
                        NackCall(state.queue_id, call.kept, True, None, "no transaction has acknowledged it"),
                    )

        call.on_done = done
        self.settle(state, call)

    def ack_soon(self, state: ConsumerState, lease: LeaseId) -> None:
        """Acknowledges a message, for a caller that does not wait; those of one turn go together."""
        if not self._joins_last(AckCall, state, lease):
            self.settle_soon(state, AckCall(state.queue_id, [lease]))

    def acked_in_database(self, state: ConsumerState, lease: LeaseId) -> None:
        """The application says that its own transaction has acknowledged a message; if not, it goes back."""
        if not self._joins_last(CheckCall, state, lease):
            self.settle_soon(state, CheckCall(state.queue_id, [lease]))

    def _joins_last(self, kind: type[SettleCall], state: ConsumerState, lease: LeaseId) -> bool:
        """Adds a message to the last call in line, if that is of this kind and has no caller that waits."""
        calls = self._waiting_calls.calls
        last = calls[-1] if calls else None
        if (
            type(last) is not kind
            or last.on_done is None
            or last.phase != WAITING
            or last.tries
            or last.queue_id != state.queue_id
            or len(last.leases) >= LEASES_MAX
        ):
            return False
        last.leases.append(lease)
        self.consumers.answering(state, [lease], done=True)
        return True

    # ------------------------------------------------------------------ sending

    def greeted(self, response: packets.HelloResponse) -> None:
        """Version and limits are agreed on."""
        if self.joins_puts and response.max_body is not None and response.max_put_elements is not None:
            self._joint_limits = JointLimits.of(self._options, response)
        else:
            self._joint_limits = ALONE
        super().greeted(response)

    def has_space(self) -> bool:
        """Tells whether the client itself allows one more request under way."""
        return True

    def pump(self) -> None:
        """Sends what is in line, as far as the limits allow."""
        link = self.link
        if self._to_be_deleted and self._settled:
            self._delete_temporary()
        calls = self._waiting_calls.calls
        if link is None or not calls or not self.writable:
            return
        if self.phase is not Phase.READY and not (self.phase is Phase.DRAINING and calls[0].settling):
            return
        now = self._clock()
        if self._deleting or now < self._hold_until or (self._regrouping and not self._regroup(link)):
            return
        if self._waiting_calls.unsorted:
            self._waiting_calls.sort()
            calls = self._waiting_calls.calls
        pending = link.pending
        confirmations = self._ledger.confirmations
        unclaimed = bool(self._ledger.received.unclaimed.messages)
        limit = self.limit
        if confirmations.overdue:
            self._ledger.received.send_ahead()
        while calls and link.output_size < _OUTPUT_MAX and len(pending) < limit and not self._deleting:
            call = calls[0]
            if self.phase is Phase.DRAINING and not call.settling:
                return
            if call.phase != WAITING or (unclaimed and self._answer_unclaimed(call)):
                calls.popleft()
            elif self._orphaned_reads and self._awaits_orphan(link, call):
                return
            elif not call.numbered or (self._fast and call.may_be_fast):
                calls.popleft()
                if calls and self._joint_limits is not ALONE:
                    call = join(call, calls, self._joint_limits, self._joint_done)
                if self.send(link, call, 0, [], now) and isinstance(call, GetCall):
                    self._ledger.subscriptions.sent(call)
            elif confirmations.has_space(limit) and self.has_space():
                calls.popleft()
                if calls and self._joint_limits is not ALONE and not confirmations.refused:
                    # After a refusal it matters which of the puts were called before it.
                    call = join(call, calls, self._joint_limits, self._joint_done)
                if isinstance(call, DeleteClientCall):
                    # Nothing may follow the deletion, and what it cannot carry itself goes before it.
                    call.on_answer = self.deleted
                    self._deleting = True
                    self._ledger.received.send_ahead()
                number = self._next_number
                confirmed = confirmations.carry(call.order)
                if self.send(link, call, number, confirmed, now):
                    self._next_number = number + 1
                    confirmations.open += 1
                elif confirmed:
                    confirmations.bring_back(ConfirmContents(confirmed, [], []), now)
            else:
                return
        if confirmations.refused and not calls:
            confirmations.line_is_empty(now)

    def send(self, link: Link, call: Call[Any], number: int, confirmed: list[int], now: float) -> bool:
        """Sends a request; False when it cannot be sent at all, then the call is over."""
        try:
            link.send(call, number, confirmed, now)
        except TelestoError as error:
            self.fail(call, error)
            return False
        call.number = number
        call.carried = confirmed
        call.session = self.session or 0
        call.tries += 1
        try_until = now + self._options.try_timeout + max(0.0, call.wait_until - now)
        call.try_until = try_until
        if try_until < self.check_at:
            self.check_at = try_until
        return True

    def _regroup(self, link: Link) -> bool:
        """Begins again once nothing sent before a refusal is open; tells whether that is so."""
        if any(call.number and not (call.taking and call.wait > 0) for call in link.pending.values()):
            return False
        self._regrouping = False
        self._next_number += 1
        self._resumed_at = self._next_number
        return True

    def _answer_unclaimed(self, call: Call[Any]) -> bool:
        """Ends a read with messages that the client has already, if some match."""
        messages = self._ledger.received.unclaimed.take(call) if isinstance(call, TakingCall) else []
        if messages:
            assert isinstance(call, TakingCall)
            self._answer_from_unclaimed(call, messages)
        return bool(messages)

    def _awaits_orphan(self, link: Link, call: Call[Any]) -> bool:
        """Tells whether a read has to wait for the answer to one whose caller has given up.

        What that one took comes before anything that this one might take.
        """
        orphans = [other for other in link.pending.values() if other.orphaned and other.taking]
        self._orphaned_reads = bool(orphans)
        return call.taking and any(orphan.queue_id == call.queue_id for orphan in orphans)

    def _hold(self, until: float, retry_after: float | None = None) -> None:
        """Sends nothing of the line until then, or for ``retry_after`` seconds, if a call takes as long."""
        if retry_after is not None:
            until = self._clock() + min(retry_after, self._options.call_timeout)
        self._hold_until = max(self._hold_until, until)

    def send_when_ready(self, request: InternalRequest) -> None:
        """Sends a request of the library; when that is impossible at present it counts as lost at once."""
        if self.phase in (Phase.READY, Phase.DRAINING):
            self.send_internal(request)
        elif request.on_lost is not None:
            request.on_lost()

    def take_output(self) -> bytes:
        """Returns what is to be written to the connection."""
        if self.link is None:
            return b""
        output = self.link.take_output()
        return self.consumers.take_begins() + output if self.consumers.begun else output

    # ------------------------------------------------------------------ receiving

    def feed(self, data: bytes) -> None:
        """Takes bytes that came over the connection."""
        link = self.link
        if link is None:
            return
        link.heard_at = self._clock()
        link.unheard = 0
        if link.first_bytes is not None:
            link.first_bytes = (link.first_bytes + data[:LOOKED_AT])[:LOOKED_AT]
        try:
            frames = link.decoder.feed(data)
        except TelestoError as error:
            self.link_violated(error)
            return
        pending = link.pending
        for method_id, packet_id, payload in frames:
            call = pending.pop(packet_id, None)
            if call is None or method_id != call.response_id:
                self._unusual(link, call, method_id, packet_id, payload)
            else:
                try:
                    call.response = call.response_type.decode(payload)
                except TelestoError as error:
                    pending[packet_id] = call
                    self.link_violated(error)
                    return
                if call.carried:
                    self._ledger.confirmations.proven_numbers(call.carried)
                if call.on_answer is None:
                    self.finish(call)
                else:
                    call.on_answer(call)
            if self.link is not link:
                return
        if link.decoder.error is not None:
            self.link_violated(link.decoder.error)
        elif self.phase is Phase.DRAINING:
            self._leave_when_drained(link)

    def _unusual(
        self, link: Link, call: Call[Any] | None, method_id: int, packet_id: int, payload: bytes
    ) -> None:
        """Handles a frame that is not the response to a pending call."""
        try:
            if method_id == packets.Error.METHOD_ID:
                error = failures.answered_error(packets.Error.decode(payload), call, str(link.address))
                link.first_bytes = None
                if call is not None:
                    self._refused(link, call, error)
                elif isinstance(error, SessionFencedError):
                    self.fenced(error)
                else:
                    self.drop_link(error)
                return
            if method_id == packets.GoAway.METHOD_ID and call is None:
                addresses = packets.GoAway.decode(payload).addresses
                link.first_bytes = None
                self._go_away(addresses)
                return
            if method_id == packets.Deliver.METHOD_ID and call is None:
                self.consumers.delivered(packets.Deliver.decode(payload))
                return
            if method_id == packets.LeaseLost.METHOD_ID and call is None:
                self.consumers.lost(packets.LeaseLost.decode(payload))
                return
            if method_id == packets.Alive.METHOD_ID and call is None:
                packets.Alive.decode(payload)
                link.first_bytes = None
                return
        except TelestoError as error:
            violation = error
        else:
            violation = ProtocolViolationError(
                f"packet {method_id:#x} with packet id {packet_id} answers nothing"
            )
        if call is not None:
            link.pending[packet_id] = call
        self.link_violated(violation)

    def _read_answered(self, call: TakingCall[Any]) -> None:
        messages = call.response.messages
        if messages:
            call.messages = call.answered(messages)
            self._ledger.received.arrived(call.messages)
            self.finish(call)
            return
        if call.number:
            self._ledger.confirmations.open -= 1
            call.number = 0
        if self._clock() < call.wait_until - EARLY_MAX:
            self._wait_again(call)
        else:
            call.messages = []
            self.finish(call)

    def _get_answered(self, call: GetCall) -> None:
        self._ledger.subscriptions.positions.prove(call.told)
        messages = call.got()
        if not messages and self._clock() < call.wait_until - EARLY_MAX:
            self._wait_again(call)
            return
        call.messages = messages[: call.max_messages]
        self._ledger.subscriptions.positions.keep(messages[call.max_messages :])
        self.finish(call)

    def end_get(self, call: GetCall) -> None:
        """Ends a get as if its time were up; a message that still comes for it goes to the next get."""
        if not call.order:  # it is about to be made
            call.wait = 0.0
        elif call.phase < DONE:
            if call.phase == SENT:
                self.orphan(call)
            self.finish(call)

    def _begin_get(self, call: GetCall) -> None:
        """Ends a get with what was fetched before, or puts it in line."""
        call.messages = self._ledger.subscriptions.positions.take_fetched(call.topic, call.max_messages)
        if call.messages:
            self.finish(call)
        else:
            self._waiting_calls.add_late(call)

    def _end_get(self, call: GetCall) -> None:
        """A get is over; those that waited for it begin."""
        for entered in self._ledger.subscriptions.leave(call):
            self._begin_get(entered)
        self.check_at = min(self.check_at, self._ledger.subscriptions.next_expiry)

    def _joint_done(self, joint: JointPut) -> None:
        """Puts that were sent together are done: each of their calls is."""
        if joint.error is not None and not joint.packet_id:
            self._put_separately(joint)  # one of them cannot be sent at all
            return
        parts = joint.share()
        if not parts:
            self.confirm_answer(joint)
        for put in parts:
            self.finish(put)

    def _wait_again(self, call: Call[Any]) -> None:
        """The service ended the wait before its time; it is asked again."""
        call.tries = 0
        self.again(call)
        if self.phase is Phase.READY:
            self._hold(self._reconnect.retry_time(1))

    def _offer(self, message: Message) -> bool:
        """Gives a message without a caller to a read that waits at the service, if one matches."""
        under_way = [] if self.link is None else list(self.link.pending.values())
        for call in under_way:
            if isinstance(call, TakingCall) and _waits(call) and call.matches(message):
                self._answer_from_unclaimed(call, [message])
                return True
        return False

    def _answer_from_unclaimed(self, call: TakingCall[Any], messages: list[Message]) -> None:
        """Ends the read with these messages instead of the service's."""
        self._ledger.received.arrived(messages)
        call.messages = messages
        call.from_recovered = True
        if call.phase == SENT:
            self.orphan(call)
        self.finish(call)

    def _orphan_answered(self, call: Call[Any]) -> None:
        """The call was over before this answer to its request."""
        if isinstance(call, GetCall):
            self._ledger.subscriptions.positions.prove(call.told)
        elif isinstance(call, JoinCall):
            self.consumers.leave_unwanted(call.response)
        elif not isinstance(call, TakingCall):
            self.orphan_ended(call)
        elif call.response.messages:
            self._ledger.received.keep(call.answered(call.response.messages), self._clock())
        elif call.number:
            self._ledger.confirmations.open -= 1

    def orphan_ended(self, call: Call[Any]) -> None:
        """The call was over before this answer, which is none of messages."""
        call.orphaned = False
        self.confirm_answer(call)

    def deleted(self, call: DeleteClientCall) -> None:
        """The client is no more; the middleware closes the connection."""
        call.number = 0
        self.finish(call)
        reason = NotConnectedError("the client was deleted")
        self._end(reason, lambda _: failures.not_connected(reason))

    def _given_back(self, names: Collection[HandOverId]) -> None:
        """These messages are back in their queues, or at least no longer this client's."""
        for call in self._releases:
            call.remaining.difference_update(names)
            if not call.remaining:
                self.finish(call)
        self._releases = [call for call in self._releases if call.remaining]

    # ------------------------------------------------------------------ errors as answers

    def _refused(self, link: Link, call: Call[Any], error: TelestoError) -> None:
        """An error answers a request; its class says what becomes of both.

        REJECTED ends the call. RETRYABLE sends it again, and everything in line waits for it, to keep the
        order. IN_DOUBT and FATAL cost the connection, and the next takeover tells what was done.
        """
        error_class = error.error_class
        if isinstance(error, SessionFencedError):
            link.pending[call.packet_id] = call
            self.fenced(error)
            return
        if isinstance(call, InternalRequest) and (
            error_class is not ErrorClass.FATAL or self.phase in (Phase.GREETING, Phase.LOGGING_IN)
        ):
            call.on_refused(error)
            return
        if error_class is ErrorClass.FATAL or (error_class is ErrorClass.IN_DOUBT and call.numbered):
            link.pending[call.packet_id] = call
            self.drop_link(error)
            return
        self._ledger.bring_back_carried(call)
        if isinstance(call, DeleteClientCall):
            self._deleting = False
        if isinstance(error, InternalError) or error_class is ErrorClass.REJECTED:
            self._rejected(call, error)
        else:
            self._refused_for_now(call, error)
        if self.temporary and isinstance(error, ClientNotExistingError) and self.link is link:
            # The service took it for gone: the next connection hears of that, and the next call begins anew.
            self.drop_link(failures.again(error))

    def _rejected(self, call: Call[Any], error: TelestoError) -> None:
        """Nothing was done, and the call ends; but some calls are worth another try of another kind."""
        self.rejecting(call)
        if isinstance(call, JointPut) and error.error_class is ErrorClass.REJECTED:
            self.confirm_answer(call)
            self._put_separately(call)
            return
        if isinstance(call, GetCall) and not call.orphaned:
            positions = self._ledger.subscriptions.positions
            self._ledger.subscriptions.failed()
            if isinstance(error, PositionUnknownError):
                positions.forget([position.subscription_id for position in call.told])
            elif isinstance(error, NotSubscribedError) and call.by_id and call.topic is not None:
                # The subscription that this client knew has ended, perhaps for another one of the same topic.
                positions.forget_topic(call.topic)
                self.again(call)
                return
        call.error = error
        if call.orphaned:
            self.orphan_ended(call)
        else:
            self.finish(call)

    def _refused_for_now(self, call: Call[Any], error: TelestoError) -> None:
        """Nothing was done, and a later try may succeed; to keep the order, all in line waits for it."""
        if call.number:
            self._ledger.confirmations.open -= 1
            self._regrouping = self._regrouping or call.number >= self._resumed_at
        if call.orphaned:
            self.orphan_not_done(call)
            return
        call.failure = error
        elsewhere = isinstance(error, (ShuttingDownError, *_WITHOUT_DATABASE))
        told_when = isinstance(error, OverloadedError) and error.retry_after is not None
        if elsewhere or told_when or isinstance(error, (StandbyUnavailableError, DiskFullError)):
            call.tries -= 1  # it is no failure of this request, so that only the call's time limits the tries
        self.again(call)
        if isinstance(error, _WITHOUT_DATABASE):
            self.drop_link(error)
        elif elsewhere:
            self._go_away([])
        elif call.phase == WAITING:
            self._hold(self._reconnect.retry_time(call.tries), error.retry_after)

    def rejecting(self, call: Call[Any]) -> None:
        """A request is about to be rejected. A durable session has to forget it."""

    def orphan_not_done(self, call: Call[Any]) -> None:
        """The call was over before this answer: nothing was done. A durable session has to note that."""

    def again(self, call: Call[Any]) -> None:
        """Tries once more a request that was not done, in its old place."""
        if isinstance(call, JointPut):
            self._dissolve(call)
            return
        call.number = 0
        call.carried = None
        if call.tries >= self._options.max_tries and not call.unattended:
            self.fail(call, failures.tries_exhausted(call))
            return
        call.phase = WAITING
        self._waiting_calls.put_back(call)

    def _put_separately(self, joint: JointPut) -> None:
        """Nothing was done, perhaps for a reason that concerns one of them: each goes alone."""
        for put in joint.open_parts:
            put.alone = True
        self._dissolve(joint)

    def _dissolve(self, joint: JointPut) -> None:
        """The puts whose callers still wait are put back in line, in their old places."""
        parts = joint.dissolve()
        for put in reversed(parts):
            self.again(put)
        joint.phase = WAITING if any(put.phase == WAITING for put in parts) else DONE

    # ------------------------------------------------------------------ lost connections and takeovers

    def _link_lost(self, calls: Iterable[Call[Any]], error: TelestoError) -> None:
        """The connection is lost; what was under way is in doubt until the next takeover."""
        self._deleting = False
        self._drain_until = math.inf
        leaving = [call for call in (*calls, *self._waiting_calls.calls) if isinstance(call, LeaveCall)]
        for call in calls:
            if not isinstance(call, LeaveCall):
                self._keep_in_doubt(call, error)
        self._ledger.confirmations.session_ended()
        self.consumers.link_lost()
        for leave in leaving:  # a consumer ends with its connection, so the service need not be told
            if leave.phase < DONE:
                self._consumer_left(leave)

    def _keep_in_doubt(self, call: Call[Any], error: TelestoError) -> None:
        """Keeps a call whose connection is lost."""
        call.failure = error
        call.try_until = math.inf
        if self._clock() - call.sent_at > self._options.try_timeout:
            call.tries = 0  # it waited; that was no failure of this request
        if isinstance(call, InternalRequest):
            if call.on_lost is not None:
                call.on_lost()
            return
        self._ledger.bring_back_lost(call)
        if isinstance(call, PingCall):
            if not call.orphaned:
                self._pings.append(call)
        elif call.number or not call.orphaned:
            self._in_doubt.append(call)

    def new_takeover(self) -> Takeover:
        """Makes the place for what a takeover lists."""
        wanted = {OperationId(call.session, call.number) for call in self._in_doubt}
        return Takeover(wanted, self._ledger.received.unclaimed.free)

    def _joined(self, result: HandshakeResult, before: str | None) -> None:
        """Settles what was in doubt; then requests can be sent."""
        self._next_number = self._resumed_at = result.next_number
        self._regrouping = False
        self._hold_until = 0.0
        if before is not None and before != result.incarnation:
            # Sessions and numbers of another database mean nothing in this one: no takeover will ever tell.
            for call in self._take_in_doubt():
                if not call.numbered:
                    self._in_doubt.append(call)
                elif not call.orphaned:
                    self.fail(call, failures.incarnation_changed(call, before, result.incarnation))
            self._ledger.begin_anew()
        self._ledger.confirmations.session_began(result.session)
        self._ledger.bring_back_owed(result)
        self._ledger.subscriptions.positions.forget_names()
        self._ledger.subscriptions.hurry()
        self._settle(result)
        self.consumers.rejoin()

    def _settle(self, result: HandshakeResult) -> None:
        """Settles what was in doubt, and what the takeover lists that no call waits for."""
        calls = self._take_in_doubt()
        unseen = {OperationId(call.session, call.number) for call in calls if call.orphaned}
        for call in calls:
            self.resolve(call, result)
        self._ledger.received.settle(result.takeover, unseen, self._clock())

    def _take_in_doubt(self) -> list[Call[Any]]:
        """Returns the requests in doubt and forgets them."""
        calls, self._in_doubt = self._in_doubt, []
        return calls

    def resolve(self, call: Call[Any], result: HandshakeResult) -> None:
        """A takeover tells whether a request in doubt was done: if it was it is answered, else sent again."""
        if call.orphaned:
            return
        if call.number and result.takeover.answer(call):
            if isinstance(call, TakingCall) and call.error is None:
                self._ledger.received.arrived(call.messages)
            self.finish(call)
        else:
            self.again(call)

    def _forget_client(self) -> list[Call[Any]]:
        """Forgets everything that belongs to the client; returns the calls that are not over."""
        if self._incarnation is not None:
            self._ledger.remember_owed(self.client_id, self._incarnation)
        self.consumers.end_all(failures.not_connected(self._ended))
        calls = [
            *self._take_in_doubt(),
            *self._waiting_calls.take_all(),
            *self._releases,
            *self._ledger.subscriptions.waiting,
        ]
        self._releases.clear()
        self._deleting = False
        self._drain_until = math.inf
        self._ledger.begin_anew()
        return calls

    def _client_gone(self) -> None:
        """The client does not exist: a deletion in doubt was done."""
        for call in [call for call in self._in_doubt if isinstance(call, DeleteClientCall)]:
            self._in_doubt.remove(call)
            if not call.orphaned:
                call.number = 0
                self.finish(call)

    # ------------------------------------------------------------------ going elsewhere

    def _go_away(self, addresses: list[str]) -> None:
        """The middleware is about to stop: what is under way is finished, the rest goes elsewhere."""
        self._reconnect.learn(addresses)
        if self.link is None or self.phase is Phase.DRAINING:
            return
        if self.phase is not Phase.READY:
            self.drop_link(ShuttingDownError("the middleware is about to stop"))
            return
        self.phase = Phase.DRAINING
        self._drain_until = self._clock() + self._options.try_timeout
        for call in [call for call in self.link.pending.values() if _waits(call)]:
            self.send_internal(InternalRequest(packets.CancelRequest(call.packet_id)))
        self._leave_when_drained(self.link)

    def _leave_when_drained(self, link: Link) -> None:
        """Gives up the connection to a middleware that is about to stop, once nothing is under way."""
        if (
            any(not isinstance(call, InternalRequest) for call in link.pending.values())
            or self.consumers.unsettled
        ):
            return
        if self._ledger.confirmations.owed:
            self._ledger.received.send_confirm()
        if not link.pending or self._ledger.received.settled:
            self.drop_link(ShuttingDownError("the middleware is about to stop"))

    def fenced(self, error: TelestoError) -> None:
        """Another process has become this client; it was told what became of the calls in doubt."""
        reason = failures.fenced_error(None, error)
        self._end(reason, lambda call: failures.fenced_error(call, error))
        if self._options.temporary_when_fenced:
            self.go_on_as_temporary()

    # ------------------------------------------------------------------ closing

    @property
    def finished(self) -> bool:
        """Tells, while the client closes, whether the connection may be closed now."""
        if self.link is None or self.phase not in (Phase.READY, Phase.DRAINING):
            return True
        return self._settled and not self._to_be_deleted

    @property
    def _settled(self) -> bool:
        """Tells whether nothing is under way that the application or the service has to be told of."""
        if self.link is None or self._waiting_calls.calls or self.link.pending or self._untaken:
            return False
        return self._ledger.received.settled and self._ledger.subscriptions.settled

    def begin_close(self, *, failed: bool = False) -> None:
        """Refuses further calls, ends what waits, and sends what the service has to know.

        ``failed`` tells that the application closes because it failed; only a durable session asks.
        """
        if self._closed is not None:
            return
        self._closed = failures.closed_error()
        self._close_until = self._clock() + self._options.close_timeout
        self._ledger.received.closing = True
        under_way = [] if self.link is None else list(self.link.pending.values())
        waiting = [call for call in under_way if call.taking or isinstance(call, GetCall)]
        # What was acknowledged by leaving its block is told all the same.
        line = list(self._waiting_calls.calls)
        told = [
            call
            for call in (*line, *self._in_doubt)
            if isinstance(call, SettleCall) and call.on_done is not None
        ]
        for call in [*line, *self._in_doubt, *self._pings, *self._ledger.subscriptions.waiting, *waiting]:
            if call.phase < DONE and not call.unattended and call not in told:
                self._fail_open(call, failures.closed_error(call))
        self._waiting_calls.keep(told)
        if not told:
            self._ledger.confirmations.line_is_empty(self._clock())
        self.pump()
        self._pings.clear()
        if self._connecting:
            self._stop_connecting(failures.closed_error())
        reconnecting, self._reconnecting = self._reconnecting, []
        for connect in reconnecting:
            self.fail(connect, failures.closed_error())
        if self.phase in (Phase.READY, Phase.DRAINING):
            self.consumers.leave_all()
            self._ledger.received.release_all(self._clock())
            self._ledger.confirmations.hurry(self._clock())
            self._ledger.subscriptions.hurry()
            self._to_be_deleted = self.temporary and self.phase is Phase.READY
            self.tick()
            self.pump()

    def _delete_temporary(self) -> None:
        """A temporary client ends with its session; if that cannot be told now, the service finds out later.

        It is the last to be told: what the client has and did not confirm goes back by it.
        """
        self._to_be_deleted = False
        call = DeleteClientCall()
        call.on_done = ignore
        self._start_clock(call)
        self._waiting_calls.last_order += 1
        call.order = self._waiting_calls.last_order
        self._waiting_calls.calls.append(call)

    def end_close(self) -> None:
        """Leaves the connection; what still waits for an answer fails."""
        under_way = () if self.link is None else self.link.pending.values()
        log_unanswered([*self._waiting_calls.calls, *self._in_doubt, *under_way])
        self.consumers.leave_all()
        self._end(failures.closed_error(), failures.closed_error)

    def fail_all(self, error: TelestoError) -> None:
        """Makes every call fail from now on, without telling the service."""
        self._closed = error
        self._end(error, lambda _: failures.again(error))

    def _fail_open(self, call: Call[Any], error: TelestoError) -> None:
        """Fails a call wherever it is."""
        if call.phase == SENT:
            self.orphan(call)
        self.fail(call, error)

    # ------------------------------------------------------------------ time

    @property
    def timer(self) -> float:
        """When ``tick`` has to be called, by the session's clock."""
        due = min(self.check_at, self._drain_until, self._close_until)
        if self.link is None:
            return due
        due = min(due, self.link.look_at)
        if self.phase is Phase.READY or self.phase is Phase.DRAINING:
            received = self._ledger.received
            due = min(due, received.confirmations.due, received.release_due, self._ledger.subscriptions.due)
            if received.unclaimed.messages:
                due = min(due, received.unclaimed.due)
            if self.consumers.states:
                due = min(due, self.consumers.due)
            if self._hold_until:
                due = min(due, self._hold_until)
        else:
            due = min(due, self._identify_at)
        return due

    def tick(self) -> None:
        """Does what is due."""
        now = self._clock()
        if now >= self.check_at:
            self._check_deadlines(now)
        if now >= self._hold_until:
            self._hold_until = 0.0
        if now >= self._drain_until:
            self.drop_link(ShuttingDownError("the middleware is about to stop and did not finish in time"))
        if now >= self._close_until:
            self._close_until = math.inf
            self.drop_link(
                ConnectionLostError("the client is closed and the middleware did not answer in time")
            )
        self._retry_identify(now)
        if self.phase is Phase.READY or self.phase is Phase.DRAINING:
            self._ledger.received.tick(now)
            self._ledger.subscriptions.tick(now)
            self.consumers.tick(now)
        if self.link is not None and now >= self.link.look_at:
            self.look(now, awaits_pushes=self.consumers.joined_any)

    def _check_deadlines(self, now: float) -> None:
        """Fails what is overdue and finds out when the next call is."""
        self.check_at = math.inf
        under_way = [] if self.link is None else list(self.link.pending.values())
        overdue = any(call.try_until <= now for call in under_way)
        if overdue and self._overdue:
            self.link_silent(f"no answer within {self._options.try_timeout:g} s from {self.address}")
        elif overdue:
            # This process may have stood still, and the answer may be there: it is read first.
            self.check_at = now + READING_S
        elif under_way:
            self.check_at = min(call.try_until for call in under_way)
        self._overdue = overdue and not self._overdue
        for get in self._ledger.subscriptions.take_expired(now):
            self.finish(get)
        self.check_at = min(self.check_at, self._ledger.subscriptions.next_expiry)
        waiting = self._ledger.subscriptions.waiting
        calls = [
            *under_way,
            *self._in_doubt,
            *self._waiting_calls.calls,
            *self._pings,
            *self._releases,
            *waiting,
        ]
        calls += [part for joint in calls if isinstance(joint, JointPut) for part in joint.open_parts]
        calls += self.consumers.waits()
        for call in dict.fromkeys(calls):
            if call.phase >= DONE:
                continue
            if call.deadline <= now:
                self._time_out(call)
            elif call.deadline < self.check_at:
                self.check_at = call.deadline
        self._check_connecting(now)
        self._waiting_calls.drop_over()
        self._pings = [call for call in self._pings if call.phase != DONE]
        self._releases = [call for call in self._releases if call.phase != DONE]

    def _time_out(self, call: Call[Any]) -> None:
        if isinstance(call, NextCall):
            self.consumers.forget(call)
            self.finish(call)
            return
        if isinstance(call, PingCall) and call.phase != SENT:
            self.fail(
                call,
                failures.not_connected_in_time(self._options, self._reconnect.failure, self.address),
            )
            return
        hindrance = self._too_much_open() or self._reconnect.failure
        self._fail_open(call, failures.deadline_error(call, self._options, hindrance, self.address))

    def _too_much_open(self) -> TelestoError | None:
        """What keeps calls in line although there is a connection, if the client has too much open."""
        link, limit = self.link, self.limit
        if link is None or self.phase is not Phase.READY:
            return None
        if len(link.pending) < limit and self._ledger.confirmations.has_space(limit):
            return None
        return failures.too_much_open(
            limit, sum(call.taking and _waits(call) for call in link.pending.values())
        )


def _waits(call: Call[Any]) -> bool:
    """Tells whether a call waits at the service."""
    return call.phase == SENT and call.wait > 0
