"""The core of the client, without I/O and without threads: calls and bytes in, bytes and answered calls out.

A shell (telesto.client.aio, telesto.client.blocking) opens connections where ``next_attempt`` says, feeds
what it receives, writes ``take_output``, wakes the callers of ``take_completed`` and calls ``tick`` when
``timer`` is due. Everything happens in the order of these calls; nothing here blocks.
"""

from __future__ import annotations

import math
import random
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from telesto.client import failures
from telesto.client.calls import (
    DONE,
    SENT,
    WAITING,
    Call,
    ConfirmCall,
    DeleteClientCall,
    PingCall,
    PutCall,
    ReleaseCall,
    TakingCall,
)
from telesto.client.confirmations import ConfirmContents, OperationId
from telesto.client.consuming import (
    LEASES_MAX,
    AckCall,
    CheckCall,
    ConsumerState,
    Consuming,
    JoinCall,
    LeaveCall,
    NackCall,
    NextCall,
    SettleCall,
    TouchCall,
    log_unacknowledged,
)
from telesto.client.custody import Custody
from telesto.client.errors import NotConnectedError, ProtocolViolationError, TooManyCallsError
from telesto.client.handshake import Established
from telesto.client.joint_puts import ALONE, JointLimits, JointPut, join
from telesto.client.link import Errand, Link
from telesto.client.membership import ConnectCall, Membership, Phase
from telesto.client.models import HandOverId, LeaseId, Message, TopicMessage
from telesto.client.options import ClientOptions
from telesto.client.takeover import Takeover
from telesto.client.topic_calls import GetCall, TopicCall
from telesto.client.topics import Topics
from telesto.client.url import Address
from telesto.protocol import packets
from telesto.protocol.errors import (
    ConnectionLostError,
    DatabaseUnavailableError,
    ErrorClass,
    InternalError,
    NotSubscribedError,
    PositionUnknownError,
    SessionFencedError,
    ShuttingDownError,
    StandbyUnavailableError,
    TelestoError,
)

ResultT = TypeVar("ResultT")

Delivery = Literal["once", "fast"]

#: So many bytes are encoded before the shell gets to write them.
_OUTPUT_MAX = 256 * 1024
#: Puts together are no longer than this, for large messages gain nothing by it.
_JOINT_BYTES = 128 * 1024
#: An empty answer to a read that comes no earlier than this before its time is in time, in seconds.
_EARLY_MAX = 0.002


@dataclass(frozen=True, slots=True)
class _Owed:
    """What one client of a service has not been able to confirm."""

    client_id: int | None
    incarnation: str
    contents: ConfirmContents
    positions: dict[int, int]

    def to(self, result: Established) -> bool:
        """Tells whether this is owed by the client that a connection was established for."""
        return (self.client_id, self.incarnation) == (result.client_id, result.incarnation)


class Session(Membership):
    """A client's side of the conversation."""

    def __init__(
        self,
        addresses: Iterable[Address],
        options: ClientOptions,
        delivery: Delivery = "once",
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(addresses, options, clock, chance or random.Random())
        self._fast = delivery == "fast"
        self._new_custody()
        self._consuming = Consuming(self, options, self._clock)

        self._line: deque[Call[Any]] = deque()
        self._joint_limits = ALONE
        self._doubtful: list[Call[Any]] = []
        self._releases: list[ReleaseCall] = []
        self._owed: _Owed | None = None
        self._orphaned_reads = False
        self._order = 0
        self._unsorted = False
        self._deleting = False
        self._next_number = 1
        self._regrouping = False
        self._resumed_at = 1

        self._hold_until = 0.0
        self._drain_until = math.inf
        self._close_until = math.inf

    # ------------------------------------------------------------------ calls

    def submit(self, call: Call[Any]) -> None:
        """Puts a call in line. Raises NotConnectedError and TooManyCallsError."""
        if self._closed is not None:
            raise failures.again(self._closed)
        if self._identity is None:
            raise failures.not_connected(self._ended)
        if len(self._line) >= self._options.max_waiting_calls:
            self._make_room(call)
        if call.taking:
            call.wait_until = self._clock() + call.wait
            call.on_answer = self._read_answered
        self._order += 1
        call.order = self._order
        self._start_clock(call)
        if isinstance(call, GetCall):
            self._submit_get(call)
            return
        if isinstance(call, TopicCall):
            self._topics.positions.forget_topic(call.topic)
        self._line.append(call)

    def _submit_get(self, call: GetCall) -> None:
        call.wait_until = self._clock() + call.wait
        call.on_answer = self._get_answered
        if self._topics.enter(call):
            self._begin_get(call)
        else:
            self._check_at = min(self._check_at, self._topics.next_expiry)

    def _begin_get(self, call: GetCall) -> None:
        """It is a get's turn: what was fetched before comes first."""
        call.messages = self._topics.positions.take_fetched(call.topic, call.max_messages)
        if call.messages:
            self._finish(call)
        else:
            self._line.append(call)
            self._unsorted = True

    def _end_get(self, call: GetCall) -> None:
        for entered in self._topics.leave(call):
            self._begin_get(entered)
        self._check_at = min(self._check_at, self._topics.next_expiry)

    def take(self, call: Call[ResultT]) -> ResultT:
        """Returns what an answered call returns, or raises its error; now the answer counts as taken."""
        self._untaken -= 1
        error = call.error
        if isinstance(call, GetCall):
            self._topics.taken(call)
            self._end_get(call)
        if error is not None:
            self._confirm_answer(call)
            raise error
        if isinstance(call, TakingCall):
            self._custody.taken(call, self._clock())
        elif call.number:
            self._confirm_answer(call)
        return call.result()

    def abandon(self, call: Call[Any]) -> None:
        """The caller no longer waits; what the call took is kept for the next matching read."""
        if call.phase == DONE:
            self._untaken -= 1
        if isinstance(call, NextCall):
            self._consuming.forget(call)
        elif isinstance(call, ConnectCall):
            self._cancel_connecting(call)
        elif isinstance(call, ReleaseCall):
            self._releases = [release for release in self._releases if release is not call]
        elif isinstance(call, GetCall):
            self._abandon_get(call)
        elif call.phase == SENT:
            self._orphan(call)
        elif call.phase == DONE and call.error is None and isinstance(call, TakingCall):
            self._custody.keep(call.messages, self._clock())
            call.messages = []
        elif call.phase == DONE and isinstance(call, JoinCall) and call.error is None:
            self.leave(call.state)
        elif call.phase == DONE:
            self._confirm_answer(call)
        call.phase = DONE

    def _abandon_get(self, call: GetCall) -> None:
        """Nobody waits for a get any more; what it got, or may get, comes again to the next one."""
        if call.phase == SENT:
            self._orphan(call)
        elif call.phase == DONE:
            self._topics.positions.put_back(call.messages)
        self._end_get(call)

    def confirm_topics(self, messages: list[TopicMessage]) -> None:
        """The application has these messages of topics, and all before them."""
        self._topics.confirm(messages)

    def give_back_topics(self, messages: Iterable[TopicMessage]) -> int:
        """Those of these messages that are not confirmed come again; returns how many."""
        return self._topics.give_back(messages)

    # ------------------------------------------------------------------ consumers

    def join(self, state: ConsumerState) -> JoinCall:
        """Makes a consumer."""
        call = JoinCall(state)
        call.on_answer = self._consumer_joined
        self.submit(call)
        return call

    def next_message(self, state: ConsumerState, timeout: float) -> NextCall:
        """Waits for the next message of a consumer; infinity without limit."""
        call = NextCall(state)
        if self._consuming.next(call):
            self._finish(call)
        elif timeout < math.inf:
            call.deadline = self._clock() + timeout
            self._check_at = min(self._check_at, call.deadline)
        return call

    def settle(self, state: ConsumerState, call: SettleCall) -> SettleCall:
        """Answers messages, for a caller that waits."""
        self.submit(call)
        if isinstance(call, CheckCall) or not isinstance(call, TouchCall):
            self._consuming.answering(state, call.leases)
        if isinstance(call, NackCall):
            self._consuming.given_back(state, call.leases)
        return call

    def ack_soon(self, state: ConsumerState, lease: LeaseId) -> None:
        """Acknowledges a message, for a caller that does not wait; those of one turn go together."""
        if not self._joins_last(AckCall, state, lease):
            self.settle_soon(state, AckCall(state.queue_id, [lease]))

    def acked_in_database(self, state: ConsumerState, lease: LeaseId) -> None:
        """The application's own transaction has acknowledged a message, it says; if not, it goes back."""
        if not self._joins_last(CheckCall, state, lease):
            self.settle_soon(state, CheckCall(state.queue_id, [lease]))

    def _joins_last(self, kind: type[SettleCall], state: ConsumerState, lease: LeaseId) -> bool:
        """Adds a message to the last call in line, if that is of this kind and nobody waits for it."""
        last = self._line[-1] if self._line else None
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
        self._consuming.answering(state, [lease])
        return True

    def settle_soon(self, state: ConsumerState, call: SettleCall) -> None:
        """Answers messages, for a caller that does not wait."""

        def done(call: SettleCall) -> None:
            self._consuming.settled(state, call)
            self._confirm_answer(call)
            if isinstance(call, CheckCall) and call.kept:
                self._not_acknowledged(state, call.kept)

        call.on_done = done
        self.settle(state, call)

    def _not_acknowledged(self, state: ConsumerState, leases: list[LeaseId]) -> None:
        """No transaction has acknowledged these messages: they go back."""
        log_unacknowledged(state.queue_id, leases)
        if self._closed is None and not state.closed:
            self.settle_soon(state, NackCall(state.queue_id, leases, failed=True))

    def leave(self, state: ConsumerState) -> LeaveCall | None:
        """Ends a consumer, after all that it has answered; None when the service knows nothing of it."""
        self._consuming.leave(state)
        if not state.consumer_id or self._closed is not None:
            self._consuming.left(state)
            return None
        call = LeaveCall(state)
        call.on_answer = self._consumer_left
        self.submit(call)
        return call

    def finish_next(self, call: NextCall, error: TelestoError | None = None) -> None:
        """Ends a wait for the next message."""
        call.error = error
        self._finish(call)

    def _consumer_joined(self, call: JoinCall) -> None:
        self._consuming.joined(call)
        self._finish(call)

    def _consumer_left(self, call: LeaveCall) -> None:
        self._consuming.left(call.state)
        self._finish(call)

    # ------------------------------------------------------------------ more of calls

    def confirm(self, hand_overs: Iterable[HandOverId]) -> ConfirmCall | None:
        """The application has processed these messages, which it confirms itself.

        Returns a call to be waited for, if that is necessary.
        """
        self._custody.confirm(hand_overs, self._clock())
        return None

    def give_back(self, hand_overs: Iterable[HandOverId]) -> ReleaseCall:
        """Gives back those of these messages of which this is still possible."""
        names = self._custody.take_back(hand_overs, self._clock())
        call = ReleaseCall(names)
        if names:
            self._start_clock(call)
            self._releases.append(call)
            self._custody.release(names)
        else:
            self._finish(call)
        return call

    def _make_room(self, call: Call[Any]) -> None:
        self._line = deque(waiting for waiting in self._line if waiting.phase == WAITING)
        if len(self._line) >= self._options.max_waiting_calls:
            raise TooManyCallsError(
                f"{len(self._line)} calls wait to be sent already; await some of them first",
                method=call.method,
            )

    def _confirm_answer(self, call: Call[Any]) -> None:
        if call.number and not call.orphaned and not self._others_wait(call):
            self._confirmations.take(call.session, call.number, self._clock())

    def _others_wait(self, call: Call[Any]) -> bool:
        """Tells whether the request has answered others too, who have not taken their results yet."""
        if type(call) is not PutCall or call.joint is None:
            return False
        call.joint.untaken -= 1
        return bool(call.joint.untaken)

    def _orphan(self, call: Call[Any]) -> None:
        """The call ends before its request, which is under way; what comes of it is looked after."""
        call.orphaned = True
        call.on_answer = self._orphan_answered
        self._orphaned_reads = self._orphaned_reads or call.taking
        if call.wait > 0 and self.link is not None and self.link.pending.get(call.packet_id) is call:
            self.send_errand(Errand(packets.CancelRequest(call.packet_id)))

    # ------------------------------------------------------------------ closing

    @property
    def finished(self) -> bool:
        """Tells, while the client closes, whether the connection may be closed now."""
        if self.link is None or self._phase not in (Phase.READY, Phase.DRAINING):
            return True
        if self._line or self.link.pending or self._untaken:
            return False
        return self._custody.settled and self._topics.settled

    def begin_close(self, *, failed: bool = False) -> None:
        """Refuses further calls, ends what waits, and sends what the service has to know.

        ``failed`` tells that the application closes because it failed; only a durable session asks.
        """
        if self._closed is not None:
            return
        self._closed = failures.closed_error()
        self._close_until = self._clock() + self._options.close_timeout
        self._custody.closing = True
        under_way = [] if self.link is None else list(self.link.pending.values())
        waiting = [call for call in under_way if call.taking or isinstance(call, GetCall)]
        # What was acknowledged by leaving its block is told all the same.
        told = [call for call in self._line if isinstance(call, SettleCall) and call.on_done is not None]
        for call in [*self._line, *self._doubtful, *self._pings, *self._topics.waiting, *waiting]:
            if call.phase < DONE and not call.unattended and call not in told:
                self._fail_open(call, failures.closed_error(call))
        self._line = deque(call for call in told if call.phase == WAITING)
        self.pump()
        self._pings.clear()
        if self._connecting is not None:
            self._stop_connecting(failures.closed_error())
        if self._phase in (Phase.READY, Phase.DRAINING):
            self._consuming.leave_all()
            self._custody.release_all(self._clock())
            self._confirmations.hurry(self._clock())
            self._topics.hurry()
            self.tick()

    def end_close(self) -> None:
        """Lets go of the connection; whatever still waits for an answer fails."""
        self._consuming.leave_all()
        self._end(failures.closed_error(), failures.closed_error)

    def disown(self, error: TelestoError) -> None:
        """Makes every call fail from now on, without a word to the service."""
        self._closed = error
        self._end(error, lambda _: failures.again(error))

    def _fail_open(self, call: Call[Any], error: TelestoError) -> None:
        """Fails a call wherever it is."""
        if call.phase == SENT:
            self._orphan(call)
        self._fail(call, error)

    # ------------------------------------------------------------------ connections

    def _parted(self, calls: Iterable[Call[Any]], error: TelestoError) -> None:
        """The connection is lost; what was under way is in doubt until the next takeover."""
        self._deleting = False
        self._drain_until = math.inf
        for call in calls:
            self._put_aside(call, error)
        self._confirmations.session_ended()
        self._consuming.parted()

    def _put_aside(self, call: Call[Any], error: TelestoError) -> None:
        """Keeps a call whose connection is lost."""
        call.failure = error
        call.try_until = math.inf
        if self._clock() - call.sent_at > self._options.try_timeout:
            call.tries = 0  # it waited; that was no failure of this request
        if isinstance(call, Errand):
            if call.on_lost is not None:
                call.on_lost()
            return
        if call.carried:
            self._confirmations.bring_back(ConfirmContents(call.carried, [], []), math.inf)
            call.carried = None
        if isinstance(call, PingCall):
            if not call.orphaned:
                self._pings.append(call)
        elif call.number or not call.orphaned:
            self._doubtful.append(call)

    # ------------------------------------------------------------------ handshake

    def new_takeover(self) -> Takeover:
        """Makes the place for what a takeover lists."""
        wanted = {OperationId(call.session, call.number) for call in self._doubtful}
        return Takeover(wanted, self._custody.recovered.room)

    # ------------------------------------------------------------------ takeover

    def _joined(self, result: Established, before: str | None) -> None:
        """Settles what was in doubt; then requests can be sent."""
        self._next_number = self._resumed_at = result.next_number
        self._regrouping = False
        self._hold_until = 0.0
        if before is not None and before != result.incarnation:
            self._forget_incarnation(before, result.incarnation)
        self._confirmations.session_began(result.session)
        owed, self._owed = self._owed, None
        if owed is not None and owed.to(result):
            self._confirmations.bring_back(owed.contents, math.inf)
            self._topics.bring_back(owed.positions)
        self._topics.positions.forget_names()
        self._topics.hurry()
        self._settle(result)
        self._consuming.rejoin()

    def _settle(self, result: Established) -> None:
        """What a takeover lists was done and is answered; the rest was not done and is sent again."""
        doubtful, self._doubtful = self._doubtful, []
        unseen = {OperationId(call.session, call.number) for call in doubtful if call.orphaned}
        for call in doubtful:
            self._resolve(call, result)
        self._custody.settle(result.takeover, unseen, self._clock())

    def _resolve(self, call: Call[Any], result: Established) -> None:
        if call.orphaned:
            return
        if call.number and result.takeover.answer(call):
            if isinstance(call, TakingCall) and call.error is None:
                self._custody.arrived(call.messages)
            self._finish(call)
        else:
            self._again(call)

    def _forsake(self) -> list[Call[Any]]:
        """Forgets everything that belongs to the client; returns the calls that are not over.

        What is owed is kept for the case that it becomes this client again: what the application has taken
        must not come back to it.
        """
        if self._incarnation is not None:
            owed = self._confirmations.all_owed(), self._topics.positions.owed
            self._owed = _Owed(self.client_id, self._incarnation, *owed)
        self._consuming.end_all(failures.not_connected(self._ended))
        calls = [*self._doubtful, *self._line, *self._releases, *self._topics.waiting]
        self._doubtful.clear()
        self._line.clear()
        self._releases.clear()
        self._deleting = False
        self._drain_until = math.inf
        self._new_custody()
        return calls

    def _new_custody(self) -> None:
        self._custody = Custody(self, self._options, self._clock)
        self._confirmations = self._custody.confirmations
        self._topics = Topics(self, self._options, self._clock)

    def _forget_incarnation(self, before: str, now: str) -> None:
        """Sessions and numbers of another database mean nothing in this one."""
        doubtful, self._doubtful = self._doubtful, []
        for call in doubtful:
            if not call.numbered:
                self._doubtful.append(call)
            elif not call.orphaned:
                self._fail(call, failures.incarnation_changed(call, before, now))
        self._new_custody()

    def _gone(self) -> None:
        """The client does not exist: a deletion in doubt was done."""
        for call in [call for call in self._doubtful if isinstance(call, DeleteClientCall)]:
            self._doubtful.remove(call)
            if not call.orphaned:
                call.number = 0
                self._finish(call)

    def _again(self, call: Call[Any]) -> None:
        """Tries once more a request that was not done, in its old place."""
        if isinstance(call, JointPut):
            self._dissolve(call)
            return
        call.number = 0
        call.carried = None
        if call.tries >= self._options.max_tries and not call.unattended:
            self._fail(call, failures.tries_exhausted(call))
            return
        call.phase = WAITING
        self._line.appendleft(call)
        self._unsorted = True

    # ------------------------------------------------------------------ puts that go together

    def greeted(self, response: packets.HelloResponse) -> None:
        """Version and limits are agreed on."""
        self._joint_limits = self._joint_limits_at(response)
        super().greeted(response)

    def _joint_limits_at(self, service: packets.HelloResponse) -> JointLimits:
        """Returns what puts together may be, so that a middleware refuses none for what others are."""
        if service.max_body is None or service.max_put_elements is None:
            return ALONE
        messages = min(self._options.put_batch_messages, service.max_put_elements)
        size = min(self._options.put_batch_bytes, service.max_frame // 2, _JOINT_BYTES)
        return JointLimits(messages, size, service.max_body)

    def _with_neighbours(self, call: Call[Any]) -> Call[Any]:
        """Returns the request in which a call is sent: with the puts that stand in line behind it."""
        if type(call) is not PutCall or not self._line:
            return call
        joint = join(call, self._line, self._joint_limits)
        if isinstance(joint, JointPut):
            joint.on_done = self._joint_ended
        return joint

    def _joint_ended(self, joint: JointPut) -> None:
        if joint.error is not None and not joint.packet_id:
            self._separate(joint)  # one of them cannot be sent at all
            return
        parts = joint.share()
        if not parts:
            self._confirm_answer(joint)
        for part in parts:
            self._finish(part)

    def _separate(self, joint: JointPut) -> None:
        """Nothing was done, perhaps for a reason that concerns one of them: each goes alone."""
        for part in joint.open_parts:
            part.alone = True
        self._dissolve(joint)

    def _dissolve(self, joint: JointPut) -> None:
        """The puts that are still wanted stand in line again, in their old places."""
        parts = joint.dissolve()
        for part in reversed(parts):
            self._again(part)
        joint.phase = WAITING if any(part.phase == WAITING for part in parts) else DONE

    # ------------------------------------------------------------------ sending

    def pump(self) -> None:
        """Sends what is in line, as far as the limits allow."""
        link = self.link
        if link is None or not self._line or not self.writable:
            return
        if self._phase is not Phase.READY and not (self._phase is Phase.DRAINING and self._line[0].settling):
            return
        now = self._clock()
        if self._deleting or now < self._hold_until or (self._regrouping and not self._regroup(link)):
            return
        if self._unsorted:
            self._line = deque(sorted(self._line, key=_order))
            self._unsorted = False
        line = self._line
        pending = link.pending
        confirmations = self._confirmations
        recovered = len(self._custody.recovered) > 0
        limit = self._limit
        while line and link.output_size < _OUTPUT_MAX and len(pending) < limit and not self._deleting:
            call = line[0]
            if self._phase is Phase.DRAINING and not call.settling:
                return
            if call.phase != WAITING or (recovered and self._answer_recovered(call)):
                line.popleft()
            elif self._orphaned_reads and self._awaits_orphan(link, call):
                return
            elif not call.numbered or (self._fast and call.may_be_fast):
                line.popleft()
                call = self._with_neighbours(call)
                if self._send(link, call, 0, [], now) and isinstance(call, GetCall):
                    self._topics.sent(call)
            elif confirmations.room(limit) and self._has_room():
                line.popleft()
                self._send_numbered(link, self._with_neighbours(call), now)
            else:
                return

    def _has_room(self) -> bool:
        """Tells whether the client itself allows one more request under way."""
        return True

    def _regroup(self, link: Link) -> bool:
        """After a refusal for now, begins again once nothing sent before it is open.

        The middleware refuses everything behind a refusal, so that nothing overtakes it, until a number is
        left out.
        """
        if any(call.number and not (call.taking and call.wait > 0) for call in link.pending.values()):
            return False
        self._regrouping = False
        self._next_number += 1
        self._resumed_at = self._next_number
        return True

    def send_when_ready(self, errand: Errand) -> None:
        """Sends a request of the library; when that is impossible at present it counts as lost at once."""
        if self._phase in (Phase.READY, Phase.DRAINING):
            self.send_errand(errand)
        elif errand.on_lost is not None:
            errand.on_lost()

    def _awaits_orphan(self, link: Link, call: Call[Any]) -> bool:
        """Tells whether a read has to wait for the answer to one that nobody waits for any more.

        What that one took comes before anything that this one might take.
        """
        orphans = [other for other in link.pending.values() if other.orphaned and other.taking]
        self._orphaned_reads = bool(orphans)
        return call.taking and any(orphan.queue_id == call.queue_id for orphan in orphans)

    def _answer_recovered(self, call: Call[Any]) -> bool:
        return isinstance(call, TakingCall) and self._custody.answer(call)

    def _send_numbered(self, link: Link, call: Call[Any], now: float) -> None:
        confirmations = self._confirmations
        if isinstance(call, DeleteClientCall):
            self._before_deleting(call)
        number = self._next_number
        confirmed = confirmations.carry()
        if self._send(link, call, number, confirmed, now):
            self._next_number = number + 1
            confirmations.open += 1
        elif confirmed:
            confirmations.bring_back(ConfirmContents(confirmed, [], []), now)

    def _before_deleting(self, call: DeleteClientCall) -> None:
        """Nothing may follow the deletion, and what it cannot carry itself goes before it."""
        call.on_answer = self._deleted
        self._deleting = True
        self._custody.send_confirm(with_numbers=False)

    # ------------------------------------------------------------------ receiving

    def feed(self, data: bytes) -> None:
        """Takes bytes that came over the connection."""
        link = self.link
        if link is None:
            return
        try:
            frames = link.decoder.feed(data)
        except TelestoError as error:
            self._leave(error)
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
                    self._leave(error)
                    return
                if call.carried:
                    self._confirmations.proven_numbers(call.carried)
                if call.on_answer is None:
                    self._finish(call)
                else:
                    call.on_answer(call)
            if self.link is not link:
                return
        if link.decoder.error is not None:
            self._leave(link.decoder.error)
        elif self._phase is Phase.DRAINING:
            self._leave_when_drained(link)

    def _unusual(
        self, link: Link, call: Call[Any] | None, method_id: int, packet_id: int, payload: bytes
    ) -> None:
        """Handles a frame that is not the response to a pending call."""
        try:
            if method_id == packets.Error.METHOD_ID:
                error = failures.answered_error(packets.Error.decode(payload), call, str(link.address))
                if call is None:
                    self._connection_refused(error)
                else:
                    self._refused(link, call, error)
                return
            if method_id == packets.GoAway.METHOD_ID and call is None:
                self._go_away(packets.GoAway.decode(payload).addresses)
                return
            if method_id == packets.Deliver.METHOD_ID and call is None:
                self._consuming.delivered(packets.Deliver.decode(payload))
                return
            if method_id == packets.LeaseLost.METHOD_ID and call is None:
                self._consuming.lost(packets.LeaseLost.decode(payload))
                return
        except TelestoError as error:
            violation = error
        else:
            violation = ProtocolViolationError(
                f"packet {method_id:#x} with packet id {packet_id} answers nothing"
            )
        if call is not None:
            link.pending[packet_id] = call
        self._leave(violation)

    def _connection_refused(self, error: TelestoError) -> None:
        if isinstance(error, SessionFencedError):
            self._fenced(error)
        else:
            self._leave(error)

    def _refused(self, link: Link, call: Call[Any], error: TelestoError) -> None:
        """An error is the answer."""
        error_class = error.error_class
        if isinstance(error, SessionFencedError):
            link.pending[call.packet_id] = call
            self._fenced(error)
        elif isinstance(call, Errand):
            self._errand_refused(link, call, error)
        elif error_class is ErrorClass.FATAL or (error_class is ErrorClass.IN_DOUBT and call.numbered):
            link.pending[call.packet_id] = call
            self._leave(error)
        elif isinstance(error, InternalError) or error_class is ErrorClass.REJECTED:
            self._bring_back_carried(call)
            self._rejected(call, error)
        else:
            self._bring_back_carried(call)
            self._refused_for_now(call, error)

    def _errand_refused(self, link: Link, errand: Errand, error: TelestoError) -> None:
        if error.error_class is ErrorClass.FATAL and self._phase is not Phase.GREETING:
            link.pending[errand.packet_id] = errand
            self._leave(error)
        else:
            errand.on_refused(error)

    def _bring_back_carried(self, call: Call[Any]) -> None:
        if call.carried:
            due = self._clock() + self._options.confirm_after
            self._confirmations.bring_back(ConfirmContents(call.carried, [], []), due)
            call.carried = None

    def _rejected(self, call: Call[Any], error: TelestoError) -> None:
        if isinstance(call, JointPut) and error.error_class is ErrorClass.REJECTED:
            self._confirm_answer(call)
            self._separate(call)
            return
        if isinstance(call, DeleteClientCall):
            self._deleting = False
        if not call.orphaned and isinstance(call, GetCall) and self._get_rejected(call, error):
            return
        call.error = error
        if call.orphaned:
            self._orphan_ended(call)
        else:
            self._finish(call)

    def _get_rejected(self, call: GetCall, error: TelestoError) -> bool:
        """Corrects what this client thought to know; True when the get is tried again at once."""
        positions = self._topics.positions
        self._topics.failed()
        if isinstance(error, PositionUnknownError):
            positions.forget([position.subscription_id for position in call.told])
        elif isinstance(error, NotSubscribedError) and call.by_id and call.topic is not None:
            positions.forget_topic(call.topic)
            self._again(call)
            return True
        return False

    def _refused_for_now(self, call: Call[Any], error: TelestoError) -> None:
        """Nothing was done, and a later try may succeed; to keep the order, all in line waits for it."""
        if isinstance(call, DeleteClientCall):
            self._deleting = False
        if call.number:
            self._confirmations.open -= 1
            self._regrouping = self._regrouping or call.number >= self._resumed_at
        if not call.orphaned:
            call.failure = error
            self._try_later(call, error)

    def _try_later(self, call: Call[Any], error: TelestoError) -> None:
        if isinstance(error, (ShuttingDownError, DatabaseUnavailableError)):
            call.tries -= 1
            self._again(call)
            self._go_elsewhere(error)
            return
        if isinstance(error, StandbyUnavailableError):
            call.tries -= 1  # no middleware can do better, so that only the call's time limits the tries
        self._again(call)
        if call.phase == WAITING:
            self._hold(self._connector.retry_time(call.tries), error.retry_after)

    def _go_elsewhere(self, error: TelestoError) -> None:
        """The middleware cannot do anything for now; another one may, or this one later."""
        if isinstance(error, DatabaseUnavailableError):
            self._leave(error)
        else:
            self._go_away([])

    def _hold(self, until: float, retry_after: float | None = None) -> None:
        """Sends nothing of the line until then."""
        if retry_after is not None:
            until = self._clock() + retry_after
        self._hold_until = max(self._hold_until, until)

    def _go_away(self, addresses: list[str]) -> None:
        """The middleware is about to stop: what is under way is finished, the rest goes elsewhere."""
        self._connector.learn(addresses)
        if self.link is None or self._phase is Phase.DRAINING:
            return
        if self._phase is not Phase.READY:
            self._leave(ShuttingDownError("the middleware is about to stop"))
            return
        self._phase = Phase.DRAINING
        self._drain_until = self._clock() + self._options.try_timeout
        for call in [call for call in self.link.pending.values() if call.phase == SENT and call.wait > 0]:
            self.send_errand(Errand(packets.CancelRequest(call.packet_id)))
        self._leave_when_drained(self.link)

    def _leave_when_drained(self, link: Link) -> None:
        if any(not isinstance(call, Errand) for call in link.pending.values()) or self._consuming.unsettled:
            return
        if self._confirmations.owed:
            self._custody.send_confirm()
        if not link.pending or self._custody.settled:
            self._leave(ShuttingDownError("the middleware is about to stop"))

    def _fenced(self, error: TelestoError) -> None:
        """Another process has become this client; it was told what became of the calls in doubt."""
        reason = failures.fenced_error(None, error)
        doubtful = [call for call in self._doubtful if call.phase < DONE and not call.unattended]
        self._doubtful.clear()
        for call in doubtful:
            self._fail(call, failures.ended_error(call, reason))
        self._end(reason, lambda call: failures.fenced_error(call, error))

    # ------------------------------------------------------------------ answers

    def waiting_reads(self) -> Iterator[TakingCall[Any]]:
        """The reads that wait at the service, the longest-waiting first."""
        if self.link is not None:
            for call in list(self.link.pending.values()):
                if isinstance(call, TakingCall) and call.phase == SENT and call.wait > 0:
                    yield call

    def answer_from_recovered(self, call: TakingCall[Any], messages: list[Message]) -> None:
        """Ends the read with these messages instead of the service's."""
        call.messages = messages
        call.from_recovered = True
        if call.phase == SENT:
            self._orphan(call)
        self._finish(call)

    def _read_answered(self, call: TakingCall[Any]) -> None:
        messages = call.response.messages
        if messages:
            call.messages = call.answered(messages)
            self._custody.arrived(call.messages)
            self._finish(call)
            return
        if call.number:
            self._confirmations.open -= 1
            call.number = 0
        if self._clock() < call.wait_until - _EARLY_MAX:
            self._wait_again(call)
        else:
            call.messages = []
            self._finish(call)

    def _get_answered(self, call: GetCall) -> None:
        self._topics.positions.prove(call.told)
        messages = call.got()
        if not messages and self._clock() < call.wait_until - _EARLY_MAX:
            self._wait_again(call)
            return
        call.messages = messages[: call.max_messages]
        self._topics.positions.keep(messages[call.max_messages :])
        self._finish(call)

    def _wait_again(self, call: Call[Any]) -> None:
        """The waiting was ended before its time; it goes on."""
        call.tries = 0
        self._again(call)
        if self._phase is Phase.READY:
            self._hold(self._connector.retry_time(1))

    def _orphan_answered(self, call: Call[Any]) -> None:
        """The call was over before this answer to its request."""
        if isinstance(call, GetCall):
            self._topics.positions.prove(call.told)
        elif isinstance(call, JoinCall):
            self._consuming.stray(call.response)
        elif not isinstance(call, TakingCall):
            self._orphan_ended(call)
        elif call.response.messages:
            self._custody.keep(call.answered(call.response.messages), self._clock())
        elif call.number:
            self._confirmations.open -= 1

    def _orphan_ended(self, call: Call[Any]) -> None:
        """The call was over before this answer, which is none of messages."""
        call.orphaned = False
        self._confirm_answer(call)

    def _deleted(self, call: DeleteClientCall) -> None:
        """The client is no more; the middleware closes the connection."""
        call.number = 0
        self._finish(call)
        reason = NotConnectedError("the client was deleted")
        self._end(reason, lambda _: failures.not_connected(reason))

    def given_back(self, names: Collection[HandOverId]) -> None:
        """These messages are back in their queues, or at least not this client's any more."""
        for call in self._releases:
            call.remaining.difference_update(names)
            if not call.remaining:
                self._finish(call)
        self._releases = [call for call in self._releases if call.remaining]

    # ------------------------------------------------------------------ time

    @property
    def timer(self) -> float:
        """When ``tick`` has to be called, by the session's clock."""
        due = min(self._check_at, self._drain_until, self._close_until)
        if self.link is None:
            return due
        due = min(due, self.link.sent_at + self._keep_alive)
        if self._phase is Phase.READY or self._phase is Phase.DRAINING:
            due = min(due, self._custody.due, self._topics.due, self._consuming.due)
            if self._hold_until:
                due = min(due, self._hold_until)
        elif self._handshake is not None:
            due = min(due, self._handshake.retry_at)
        return due

    def tick(self) -> None:
        """Does what is due."""
        now = self._clock()
        if now >= self._check_at:
            self._check_deadlines(now)
        if now >= self._hold_until:
            self._hold_until = 0.0
        if now >= self._drain_until:
            self._leave(ShuttingDownError("the middleware is about to stop and did not finish in time"))
        if now >= self._close_until:
            self._close_until = math.inf
            self._leave(ConnectionLostError("the client is closed and the middleware did not answer in time"))
        if self._handshake is not None:
            self._handshake.tick(now)
        if self._phase is Phase.READY or self._phase is Phase.DRAINING:
            self._custody.tick(now)
            self._topics.tick(now)
            self._consuming.tick(now)
        if (
            self.link is not None
            and self._phase is not Phase.GREETING
            and now >= self.link.sent_at + self._keep_alive
        ):
            self.send_errand(Errand(packets.Ping()))

    def _check_deadlines(self, now: float) -> None:
        """Fails what is overdue and finds out when the next call is."""
        self._check_at = math.inf
        under_way = [] if self.link is None else list(self.link.pending.values())
        if any(call.try_until <= now for call in under_way):
            self._leave(
                ConnectionLostError(f"no answer within {self._options.try_timeout:g} s from {self.address}")
            )
        elif under_way:
            self._check_at = min(call.try_until for call in under_way)
        for get in self._topics.take_expired(now):
            self._finish(get)
        self._check_at = min(self._check_at, self._topics.next_expiry)
        waiting = self._topics.waiting
        calls = [*under_way, *self._doubtful, *self._line, *self._pings, *self._releases, *waiting]
        calls += [part for joint in calls if isinstance(joint, JointPut) for part in joint.open_parts]
        calls += self._consuming.waits()
        for call in dict.fromkeys(calls):
            if call.phase >= DONE:
                continue
            if call.deadline <= now:
                self._time_out(call)
            elif call.deadline < self._check_at:
                self._check_at = call.deadline
        self._check_connecting(now)
        self._line = deque(call for call in self._line if call.phase == WAITING)
        self._pings = [call for call in self._pings if call.phase != DONE]
        self._releases = [call for call in self._releases if call.phase != DONE]

    def _time_out(self, call: Call[Any]) -> None:
        if isinstance(call, NextCall):
            self._consuming.forget(call)
            self._finish(call)
            return
        hindrance = self._no_room() or self._connector.failure
        self._fail_open(call, failures.deadline_error(call, self._options, hindrance, self.address))

    def _no_room(self) -> TelestoError | None:
        """What keeps calls in line although there is a connection, if the client has too much open."""
        link, limit = self.link, self._limit
        if link is None or self._phase is not Phase.READY:
            return None
        if len(link.pending) < limit and self._confirmations.room(limit):
            return None
        return failures.no_room(limit, sum(1 for _ in self.waiting_reads()))


def _order(call: Call[Any]) -> int:
    return call.order
