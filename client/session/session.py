"""The core of the client, without I/O and without threads: calls and bytes in, bytes and answered calls out.

A shell (telesto.client.aio, telesto.client.blocking) opens connections where ``next_attempt`` says, feeds
what it receives, writes ``take_output``, wakes the callers of ``take_completed`` and calls ``tick`` when
``timer`` is due. Everything happens in the order of these calls; nothing here blocks.

Here calls begin and end, connections are lost and found again, and time passes. The parts of a session:

- what stands in line (telesto.client.session.line) is sent (sending), puts together (joint_puts);
- a connection on which nothing comes is asked whether the other end lives (silence);
- what comes is handed to whom it concerns (receiving), and errors have their consequences (refusals);
- what was under way when a connection was lost is in doubt until a takeover tells (doubt);
- the books say what the client has and owes (books: custody, confirmations, topics);
- gets and consumers have rules of their own (gets, consumers).
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, ClassVar, Literal, TypeVar

from telesto.client.bookkeeping.consumers import JoinCall, NextCall, SettleCall
from telesto.client.bookkeeping.handshake import Established
from telesto.client.bookkeeping.ledger import Books
from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.bookkeeping.write_ahead_log import Journal
from telesto.client.calls import failures
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
from telesto.client.calls.topic_calls import GetCall, TopicCall
from telesto.client.connection.link import Errand, Link
from telesto.client.connection.silence import READING_S
from telesto.client.errors import NotConnectedError
from telesto.client.models import HandOverId, Message, TopicMessage
from telesto.client.options import ClientOptions
from telesto.client.session.consumer_calls import Consumers
from telesto.client.session.gets import Gets
from telesto.client.session.identity import ConnectCall, Membership, Phase
from telesto.client.session.in_doubt import Doubt
from telesto.client.session.line import Line
from telesto.client.session.put_coalescing import JointPut, JointPuts
from telesto.client.session.receiving import Receiver
from telesto.client.session.refusals import Refusals
from telesto.client.session.sending import Sender
from telesto.client.url import Address
from telesto.protocol import packets
from telesto.protocol.errors import ConnectionLostError, ShuttingDownError, TelestoError

ResultT = TypeVar("ResultT")

Delivery = Literal["once", "fast"]


class Session(Membership):
    """A client's side of the conversation.

    Attributes:
        consumers: the client's consumers.
        pump: sends what is in line, as far as the limits allow.
        feed: takes bytes that came over the connection.
    """

    #: Puts that stand in line next to each other may travel as one request.
    joins_puts: ClassVar[bool] = True
    #: Where a client with a state notes what it must not forget.
    _journal: Journal | None = None

    def __init__(
        self,
        addresses: Iterable[Address],
        options: ClientOptions,
        delivery: Delivery = "once",
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(addresses, options, clock, chance or random.Random())
        self._line = Line(options.max_waiting_calls)
        self._joint_puts = JointPuts(self, options)
        self._books = self._new_books()
        self._sender = Sender(
            self, self._line, self._books, self._joint_puts, self._clock, fast=delivery == "fast"
        )
        self._gets = Gets(self, self._line, self._books, self._clock)
        self.consumers = Consumers(self, self._line, options, self._clock)
        self._consuming = self.consumers.consuming
        refusals = Refusals(
            self, self._books, self._sender, self._joint_puts, self._gets, self._connector.retry_time
        )
        self._receiver = Receiver(self, self._books, self._consuming, refusals, self._clock)
        # Not methods of the session itself, for one call more would be one for every message.
        self.pump: Callable[[], None] = self._sender.pump
        self.feed: Callable[[bytes], None] = self._receiver.feed

        self._doubt = Doubt(self, self._books)
        self._releases: list[ReleaseCall] = []

        self._drain_until = math.inf
        self._close_until = math.inf
        self._overdue = False

    def _new_books(self) -> Books:
        return Books(
            self._options,
            self._clock,
            self._connector.retry_time,
            self.send_when_ready,
            self._offer,
            self._given_back,
            self._journal,
        )

    # ------------------------------------------------------------------ calls

    def submit(self, call: Call[Any]) -> None:
        """Puts a call in line. Raises NotConnectedError and TooManyCallsError."""
        if self._closed is not None:
            raise failures.again(self._closed)
        if self._identity is None:
            raise failures.not_connected(self._ended)
        line = self._line
        if len(line.calls) >= self._options.max_waiting_calls:
            line.make_room(call)
        if call.taking:
            call.wait_until = self._clock() + call.wait
            call.on_answer = self._read_answered
        line.last_order += 1
        call.order = line.last_order
        self._start_clock(call)
        if isinstance(call, GetCall):
            self._gets.submit(call)
            return
        if isinstance(call, TopicCall):
            self._books.topics.positions.forget_topic(call.topic)
        line.calls.append(call)

    def take(self, call: Call[ResultT]) -> ResultT:
        """Returns what an answered call returns, or raises its error; now the answer counts as taken."""
        self._untaken -= 1
        error = call.error
        if isinstance(call, GetCall):
            self._books.topics.taken(call)
            self._gets.end(call)
        if error is not None:
            self.confirm_answer(call)
            raise error
        if isinstance(call, TakingCall):
            self._books.custody.taken(call, self._clock())
        elif call.number:
            self.confirm_answer(call)
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
            self._gets.abandon(call)
        elif call.phase == SENT:
            self.orphan(call)
        elif call.phase == DONE and call.error is None and isinstance(call, TakingCall):
            self._books.custody.keep(call.messages, self._clock())
            call.messages = []
        elif call.phase == DONE and isinstance(call, JoinCall) and call.error is None:
            self.consumers.leave(call.state)
        elif call.phase == DONE:
            self.confirm_answer(call)
        call.phase = DONE

    def confirm_topics(self, messages: list[TopicMessage]) -> None:
        """The application has these messages of topics, and all before them."""
        self._books.topics.confirm(messages)

    def give_back_topics(self, messages: Iterable[TopicMessage]) -> int:
        """Those of these messages that are not confirmed come again; returns how many."""
        return self._books.topics.give_back(messages)

    def confirm(self, hand_overs: Iterable[HandOverId]) -> ConfirmCall | None:
        """The application has processed these messages, which it confirms itself.

        Returns a call to be waited for, if that is necessary.
        """
        self._books.custody.confirm(hand_overs, self._clock())
        return None

    def give_back(self, hand_overs: Iterable[HandOverId]) -> ReleaseCall:
        """Gives back those of these messages of which this is still possible."""
        names = self._books.custody.take_back(hand_overs, self._clock())
        call = ReleaseCall(names)
        if names:
            self._start_clock(call)
            self._releases.append(call)
            self._books.custody.release(names)
        else:
            self.finish(call)
        return call

    def confirm_answer(self, call: Call[Any]) -> None:
        """The caller has the answer, or nobody wants it."""
        if call.number and not call.orphaned and not self._others_wait(call):
            confirmations = self._books.confirmations
            if self._line.calls and queue_was_full(call):
                # What waits in line was called before that was known, and is to be refused too.
                confirmations.take_refused(call.session, call.number, self._line.last_order, self._clock())
            else:
                confirmations.take(call.session, call.number, self._clock())

    def _others_wait(self, call: Call[Any]) -> bool:
        """Tells whether the request has answered others too, who have not taken their results yet."""
        if type(call) is not PutCall or call.joint is None:
            return False
        joint = call.joint
        joint.untaken -= 1
        if joint.untaken > 0 and call.error is None and call.refused:
            # One caller knows of a full queue, which is to decide anew about what comes from now on.
            joint.untaken = 0
        return bool(joint.untaken)

    def orphan(self, call: Call[Any]) -> None:
        """The call ends before its request, which is under way; what comes of it is looked after."""
        call.orphaned = True
        call.on_answer = self._orphan_answered
        if call.taking:
            self._sender.orphaned_reads = True
        if call.wait > 0 and self.link is not None and self.link.pending.get(call.packet_id) is call:
            self.send_errand(Errand(packets.CancelRequest(call.packet_id)))

    # ------------------------------------------------------------------ closing

    @property
    def finished(self) -> bool:
        """Tells, while the client closes, whether the connection may be closed now."""
        if self.link is None or self.phase not in (Phase.READY, Phase.DRAINING):
            return True
        if self._line.calls or self.link.pending or self._untaken:
            return False
        return self._books.custody.settled and self._books.topics.settled

    def begin_close(self, *, failed: bool = False) -> None:
        """Refuses further calls, ends what waits, and sends what the service has to know.

        ``failed`` tells that the application closes because it failed; only a durable session asks.
        """
        if self._closed is not None:
            return
        self._closed = failures.closed_error()
        self._close_until = self._clock() + self._options.close_timeout
        self._books.custody.closing = True
        under_way = [] if self.link is None else list(self.link.pending.values())
        waiting = [call for call in under_way if call.taking or isinstance(call, GetCall)]
        # What was acknowledged by leaving its block is told all the same.
        line = list(self._line.calls)
        told = [call for call in line if isinstance(call, SettleCall) and call.on_done is not None]
        for call in [*line, *self._doubt.calls, *self._pings, *self._books.topics.waiting, *waiting]:
            if call.phase < DONE and not call.unattended and call not in told:
                self._fail_open(call, failures.closed_error(call))
        self._line.keep(told)
        if not told:
            self._books.confirmations.line_is_empty(self._clock())
        self.pump()
        self._pings.clear()
        if self._connecting is not None:
            self._stop_connecting(failures.closed_error())
        if self.phase in (Phase.READY, Phase.DRAINING):
            self._consuming.leave_all()
            self._books.custody.release_all(self._clock())
            self._books.confirmations.hurry(self._clock())
            self._books.topics.hurry()
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
            self.orphan(call)
        self.fail(call, error)

    # ------------------------------------------------------------------ connections

    def _parted(self, calls: Iterable[Call[Any]], error: TelestoError) -> None:
        """The connection is lost; what was under way is in doubt until the next takeover."""
        self._sender.deleting = False
        self._drain_until = math.inf
        for call in calls:
            self._put_aside(call, error)
        self._books.confirmations.session_ended()
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
        self._books.bring_back_lost(call)
        if isinstance(call, PingCall):
            if not call.orphaned:
                self._pings.append(call)
        elif call.number or not call.orphaned:
            self._doubt.calls.append(call)

    def new_takeover(self) -> Takeover:
        """Makes the place for what a takeover lists."""
        return self._doubt.new_takeover()

    def _joined(self, result: Established, before: str | None) -> None:
        """Settles what was in doubt; then requests can be sent."""
        self._sender.begin(result.next_number)
        if before is not None and before != result.incarnation:
            self._doubt.forget_incarnation(before, result.incarnation)
            self._books.begin_anew()
        self._books.confirmations.session_began(result.session)
        self._books.bring_back_owed(result)
        self._books.topics.positions.forget_names()
        self._books.topics.hurry()
        self._settle(result)
        self._consuming.rejoin()

    def _settle(self, result: Established) -> None:
        """Settles what was in doubt."""
        self._doubt.settle(result, self._clock())

    def resolve(self, call: Call[Any], result: Established) -> None:
        """A takeover tells whether a request in doubt was done: if it was it is answered, else sent again."""
        if call.orphaned:
            return
        if call.number and result.takeover.answer(call):
            if isinstance(call, TakingCall) and call.error is None:
                self._books.custody.arrived(call.messages)
            self.finish(call)
        else:
            self.again(call)

    def _forsake(self) -> list[Call[Any]]:
        """Forgets everything that belongs to the client; returns the calls that are not over."""
        if self._incarnation is not None:
            self._books.remember_owed(self.client_id, self._incarnation)
        self._consuming.end_all(failures.not_connected(self._ended))
        calls = [
            *self._doubt.take_all(),
            *self._line.take_all(),
            *self._releases,
            *self._books.topics.waiting,
        ]
        self._releases.clear()
        self._sender.deleting = False
        self._drain_until = math.inf
        self._books.begin_anew()
        return calls

    def _gone(self) -> None:
        """The client does not exist: a deletion in doubt was done."""
        self._doubt.end_deletions()

    def again(self, call: Call[Any]) -> None:
        """Tries once more a request that was not done, in its old place."""
        if isinstance(call, JointPut):
            self._joint_puts.dissolve(call)
            return
        call.number = 0
        call.carried = None
        if call.tries >= self._options.max_tries and not call.unattended:
            self.fail(call, failures.tries_exhausted(call))
            return
        call.phase = WAITING
        self._line.put_back(call)

    def take_output(self) -> bytes:
        """Returns what is to be written to the connection."""
        return self._consuming.take_begins() + super().take_output()

    # ------------------------------------------------------------------ sending

    def greeted(self, response: packets.HelloResponse) -> None:
        """Version and limits are agreed on."""
        if self.joins_puts:
            self._joint_puts.greeted(response)
        super().greeted(response)

    def has_room(self) -> bool:
        """Tells whether the client itself allows one more request under way."""
        return True

    def send_when_ready(self, errand: Errand) -> None:
        """Sends a request of the library; when that is impossible at present it counts as lost at once."""
        if self.phase in (Phase.READY, Phase.DRAINING):
            self.send_errand(errand)
        elif errand.on_lost is not None:
            errand.on_lost()

    # ------------------------------------------------------------------ going elsewhere

    def go_away(self, addresses: list[str]) -> None:
        """The middleware is about to stop: what is under way is finished, the rest goes elsewhere."""
        self._connector.learn(addresses)
        if self.link is None or self.phase is Phase.DRAINING:
            return
        if self.phase is not Phase.READY:
            self.drop_link(ShuttingDownError("the middleware is about to stop"))
            return
        self.phase = Phase.DRAINING
        self._drain_until = self._clock() + self._options.try_timeout
        for call in [call for call in self.link.pending.values() if call.phase == SENT and call.wait > 0]:
            self.send_errand(Errand(packets.CancelRequest(call.packet_id)))
        self.leave_when_drained(self.link)

    def leave_when_drained(self, link: Link) -> None:
        """Gives up the connection to a middleware that is about to stop, once nothing is under way."""
        if any(not isinstance(call, Errand) for call in link.pending.values()) or self._consuming.unsettled:
            return
        if self._books.confirmations.owed:
            self._books.custody.send_confirm()
        if not link.pending or self._books.custody.settled:
            self.drop_link(ShuttingDownError("the middleware is about to stop"))

    def fenced(self, error: TelestoError) -> None:
        """Another process has become this client; it was told what became of the calls in doubt."""
        reason = failures.fenced_error(None, error)
        self._end(reason, lambda call: failures.fenced_error(call, error))

    # ------------------------------------------------------------------ answers

    def waiting_reads(self) -> Iterator[TakingCall[Any]]:
        """The reads that wait at the service, the longest-waiting first."""
        if self.link is not None:
            for call in list(self.link.pending.values()):
                if isinstance(call, TakingCall) and call.phase == SENT and call.wait > 0:
                    yield call

    def _offer(self, message: Message) -> bool:
        """Gives a message that nobody waits for to a read that waits at the service, if one matches."""
        for call in self.waiting_reads():
            if call.matches(message):
                self.answer_from_recovered(call, [message])
                return True
        return False

    def answer_from_recovered(self, call: TakingCall[Any], messages: list[Message]) -> None:
        """Ends the read with these messages instead of the service's."""
        self._books.custody.arrived(messages)
        call.messages = messages
        call.from_recovered = True
        if call.phase == SENT:
            self.orphan(call)
        self.finish(call)

    def _read_answered(self, call: TakingCall[Any]) -> None:
        messages = call.response.messages
        if messages:
            call.messages = call.answered(messages)
            self._books.custody.arrived(call.messages)
            self.finish(call)
            return
        if call.number:
            self._books.confirmations.open -= 1
            call.number = 0
        if self._clock() < call.wait_until - EARLY_MAX:
            self.wait_again(call)
        else:
            call.messages = []
            self.finish(call)

    def wait_again(self, call: Call[Any]) -> None:
        """The waiting was ended before its time; it goes on."""
        call.tries = 0
        self.again(call)
        if self.phase is Phase.READY:
            self._sender.hold(self._connector.retry_time(1))

    def _orphan_answered(self, call: Call[Any]) -> None:
        """The call was over before this answer to its request."""
        if isinstance(call, GetCall):
            self._books.topics.positions.prove(call.told)
        elif isinstance(call, JoinCall):
            self._consuming.stray(call.response)
        elif not isinstance(call, TakingCall):
            self.orphan_ended(call)
        elif call.response.messages:
            self._books.custody.keep(call.answered(call.response.messages), self._clock())
        elif call.number:
            self._books.confirmations.open -= 1

    def rejecting(self, call: Call[Any]) -> None:
        """A request is about to be rejected. A durable session has to forget it."""

    def orphan_not_done(self, call: Call[Any]) -> None:
        """The call was over before this answer: nothing was done. A durable session has to note that."""

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
        """These messages are back in their queues, or at least not this client's any more."""
        for call in self._releases:
            call.remaining.difference_update(names)
            if not call.remaining:
                self.finish(call)
        self._releases = [call for call in self._releases if call.remaining]

    # ------------------------------------------------------------------ time

    @property
    def timer(self) -> float:
        """When ``tick`` has to be called, by the session's clock."""
        due = min(self.check_at, self._drain_until, self._close_until)
        if self.link is None:
            return due
        due = min(due, self.link.look_at)
        if self.phase is Phase.READY or self.phase is Phase.DRAINING:
            due = min(due, self._books.custody.due, self._books.topics.due, self._consuming.due)
            if self._sender.hold_until:
                due = min(due, self._sender.hold_until)
        elif self._handshake is not None:
            due = min(due, self._handshake.retry_at)
        return due

    def tick(self) -> None:
        """Does what is due."""
        now = self._clock()
        if now >= self.check_at:
            self._check_deadlines(now)
        if now >= self._sender.hold_until:
            self._sender.hold_until = 0.0
        if now >= self._drain_until:
            self.drop_link(ShuttingDownError("the middleware is about to stop and did not finish in time"))
        if now >= self._close_until:
            self._close_until = math.inf
            self.drop_link(
                ConnectionLostError("the client is closed and the middleware did not answer in time")
            )
        if self._handshake is not None:
            self._handshake.tick(now)
        if self.phase is Phase.READY or self.phase is Phase.DRAINING:
            self._books.custody.tick(now)
            self._books.topics.tick(now)
            self._consuming.tick(now)
        if self.link is not None and now >= self.link.look_at:
            self.look(now, awaits_pushes=self._consuming.joined_any)

    def _check_deadlines(self, now: float) -> None:
        """Fails what is overdue and finds out when the next call is."""
        self.check_at = math.inf
        under_way = [] if self.link is None else list(self.link.pending.values())
        overdue = any(call.try_until <= now for call in under_way)
        if overdue and self._overdue:
            self.drop_link(
                ConnectionLostError(f"no answer within {self._options.try_timeout:g} s from {self.address}")
            )
        elif overdue:
            # This process may have stood still, and the answer may be there: it is read first.
            self.check_at = now + READING_S
        elif under_way:
            self.check_at = min(call.try_until for call in under_way)
        self._overdue = overdue and not self._overdue
        for get in self._books.topics.take_expired(now):
            self.finish(get)
        self.check_at = min(self.check_at, self._books.topics.next_expiry)
        waiting = self._books.topics.waiting
        calls = [*under_way, *self._doubt.calls, *self._line.calls, *self._pings, *self._releases, *waiting]
        calls += [part for joint in calls if isinstance(joint, JointPut) for part in joint.open_parts]
        calls += self._consuming.waits()
        for call in dict.fromkeys(calls):
            if call.phase >= DONE:
                continue
            if call.deadline <= now:
                self._time_out(call)
            elif call.deadline < self.check_at:
                self.check_at = call.deadline
        self._check_connecting(now)
        self._line.drop_over()
        self._pings = [call for call in self._pings if call.phase != DONE]
        self._releases = [call for call in self._releases if call.phase != DONE]

    def _time_out(self, call: Call[Any]) -> None:
        if isinstance(call, NextCall):
            self._consuming.forget(call)
            self.finish(call)
            return
        if isinstance(call, PingCall) and call.phase != SENT:
            self.fail(
                call,
                failures.not_connected_in_time(self._options, self._connector.failure, self.address),
            )
            return
        hindrance = self._no_room() or self._connector.failure
        self._fail_open(call, failures.deadline_error(call, self._options, hindrance, self.address))

    def _no_room(self) -> TelestoError | None:
        """What keeps calls in line although there is a connection, if the client has too much open."""
        link, limit = self.link, self.limit
        if link is None or self.phase is not Phase.READY:
            return None
        if len(link.pending) < limit and self._books.confirmations.room(limit):
            return None
        return failures.no_room(limit, sum(1 for _ in self.waiting_reads()))
