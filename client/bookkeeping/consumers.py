"""The consumers of a client, without I/O: what was pushed to them, who waits for it, and what they answer."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Iterable

from telesto.client import arguments
from telesto.client.bookkeeping.prefetch_buffer import PrefetchBuffer
from telesto.client.calls.queue_calls import DONE, Call, delivered
from telesto.client.connection.link import InternalRequest
from telesto.client.models import LeaseId, Message
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import (
    ConsumerInactiveError,
    ErrorClass,
    ErrorCode,
    LeaseLostError,
    QueueNotExistingError,
    TelestoError,
)
from telesto.protocol.packets import ElementResult, LeaseRef, Packet

#: How many leases one request names at most, so that it fits into any frame.
LEASES_MAX = 512
#: How many leases that are over a consumer remembers, for messages that are still on their way.
LEASES_OVER_MAX = 1024


#: In seconds. If an asyncio application asks for the next message sooner than this, it gets it at once, and
#: the service is told at the end of the loop's turn.
BRISK = 0.001
#: The part of a lease's time, after the last question that the service answered, in which no lease can end.
SURE = 1 / 2
#: How often, at least, a client that has messages sends something within the time of a lease.
HEARD = 4


#: Unless the application sets the credit, it begins with this many messages,
CREDIT_LEAST = 2
#: and is at most this,
CREDIT_MOST = 256
#: and not much more than what the application begins in this time, in seconds.
CREDIT_S = 0.5
#: How often it is checked whether the application has become slower, in seconds.
PACE_S = 1.0


#: On Linux the monotonic clock stands still while the machine sleeps; elsewhere there is no other.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def elapsed() -> float:
    """Seconds that have passed, those included in which the process was stopped or the machine slept."""
    return time.clock_gettime(_CLOCK) if _CLOCK is not None else time.monotonic()


class ConsumerState:
    """A consumer.

    Attributes:
        queue_id: the queue.
        credit_messages, credit_bytes: what it may have at a time.
        paced: its credit follows the pace of the application.
        given: how many messages the application was given.
        given_before, counted_since: how many at the moment from which its pace is measured.
        given_at_look: how many at the last check whether it has become slower.
        look_at: when the next such check is due, by the session's clock.
        keep_alive: its leases are touched in time as long as the application has them.
        ack_in_database: its messages are acknowledged by the application's own transactions.
        consumer_id: its id on the service; 0 while it is not a member.
        lease: how long it may take for a message, in seconds.
        joins: how often it has joined; more than once after lost connections.
        buffer: what was pushed and the application was not given.
        sure_since: when the service was asked for what it has answered last, as ``elapsed`` tells.
        asking: how many answers are awaited before the application is given more.
        open: what the application has taken and not answered, with the keys of their partitions.
        over: leases of partitions that are over, and from which message on; nothing of them is to be begun.
        lost: how many messages it lost before it answered.
        ended: why it gets no more messages; None while it lives.
        closed: the application has closed it.
        forgotten: the application dropped it without closing it, or stopped waiting for the close.
        stopped: nothing more is given to the application; what it has may still be answered.
        begun_at: when the application began a message last, as ``elapsed`` tells.
        slowed: how often the service found it slow.
        joining: the call that makes it a member, until it is over.
    """

    def __init__(
        self,
        queue_id: int,
        credit_messages: int | None,
        credit_bytes: int,
        keep_alive: bool,
        ack_in_database: bool = False,
    ) -> None:
        self.queue_id = arguments.check_id("queue_id", queue_id)
        self.paced = credit_messages is None
        self.credit_messages = (
            CREDIT_LEAST if credit_messages is None else arguments.check_count("credit", credit_messages)
        )
        self.given = self.given_before = self.given_at_look = 0
        self.counted_since = -math.inf
        self.look_at = math.inf
        self.credit_bytes = arguments.check_count("credit_bytes", credit_bytes, least=0)
        self.keep_alive = arguments.check_flag("keep_alive", keep_alive)
        self.ack_in_database = arguments.check_flag("ack_in_database", ack_in_database)
        self.consumer_id = 0
        self.lease = 0.0
        self.joins = 0
        self.buffer = PrefetchBuffer()
        self.sure_since = -math.inf
        self.asking = 0
        self.open: dict[LeaseId, str | None] = {}
        self.over: dict[int, int] = {}
        self.waiting: deque[NextCall] = deque()
        self.lost = 0
        self.ended: TelestoError | None = None
        self.closed = False
        self.stopped = False
        self.forgotten = False
        self.slowed = 0
        self.begun_at = -math.inf
        self.touch_at = math.inf
        self.joining: JoinCall | None = None

    def join_packet(self) -> packets.JoinQueue:
        """The request that makes it a member, to be sent now."""
        self.sure_since = elapsed()
        return packets.JoinQueue(self.queue_id, self.credit_messages, self.credit_bytes)


class JoinCall(Call[ConsumerState], request=packets.JoinQueue):
    """Makes a consumer."""

    def __init__(self, state: ConsumerState) -> None:
        self.state = state
        self.queue_id = state.queue_id

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return self.state.join_packet().encode(packet_id)

    def result(self) -> ConsumerState:
        """Returns the consumer."""
        return self.state


class LeaveCall(Call[None], request=packets.LeaveQueue):
    """Ends a consumer."""

    settling = True

    def __init__(self, state: ConsumerState) -> None:
        self.state = state
        self.queue_id = state.queue_id

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request; the service ignores it for a consumer that has ended."""
        return packets.LeaveQueue(self.state.consumer_id).encode(packet_id)

    def result(self) -> None:
        """Returns nothing."""


class NextCall(Call["Message | None"]):
    """Waits for the next message that is pushed to a consumer; it is never sent.

    Attributes:
        message: what it brought.
        given_at: when, as ``elapsed`` tells.
        tell_first: even if the message kills the process, it has to count that it was begun.
    """

    method = "Deliver"
    message: Message | None = None
    tell_first = False
    given_at = 0.0

    def __init__(self, state: ConsumerState) -> None:
        self.state = state
        self.queue_id = state.queue_id

    def result(self) -> Message | None:
        """Returns the message; None when the time is up or the consumer was closed."""
        return self.message


class SettleCall(Call[None]):
    """Answers messages; raises LeaseLostError for the first one that is no longer this consumer's.

    Attributes:
        leases: the messages.
        lost: those that were lost, once it is answered.
    """

    settling = True
    leases: list[LeaseId]

    def refs(self) -> list[LeaseRef]:
        """The messages as the wire names them."""
        return [LeaseRef(*lease) for lease in self.leases]

    @property
    def lost(self) -> list[LeaseId]:
        """The messages that were lost."""
        if self.response is None:
            return []
        pairs = zip(self.leases, self.response.results, strict=True)
        return [lease for lease, result in pairs if result.error is not None]

    def result(self) -> None:
        """Returns nothing. Raises LeaseLostError."""
        lost = self.lost
        if lost:
            message_id = lost[0].message_id
            raise LeaseLostError(
                f"message {message_id} is not this consumer's any more: it was answered already, "
                "or its lease or its connection was lost",
                related_id=message_id,
                method=self.method,
                queue_id=self.queue_id,
            )

    def recorded(self, results: list[ElementResult]) -> Packet:
        """Makes the response."""
        return self.response_type(results)  # type: ignore[call-arg]


class AckCall(SettleCall, request=packets.Ack):
    """Acknowledges messages."""

    def __init__(self, queue_id: int, leases: Iterable[LeaseId]) -> None:
        self.queue_id = queue_id
        self.leases = list(leases)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.Ack(number, confirmed, self.refs()).encode(packet_id)


class NackCall(SettleCall, request=packets.Nack):
    """Gives messages back."""

    def __init__(
        self, queue_id: int, leases: Iterable[LeaseId], failed: bool, delay: float | None = None
    ) -> None:
        self.queue_id = queue_id
        self.leases = list(leases)
        self.failed = failed
        arguments.check_flag("failed", failed)
        self.delay_ms = None if delay is None else arguments.check_delay_ms("delay", delay)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        packet = packets.Nack(number, confirmed, self.refs(), self.failed, delay_ms=self.delay_ms)
        return packet.encode(packet_id)


class TouchCall(SettleCall, request=packets.Touch):
    """Begins the time of leases anew."""

    def __init__(self, queue_id: int, leases: Iterable[LeaseId]) -> None:
        self.queue_id = queue_id
        self.leases = list(leases)

    def frame(self, number: int, confirmed: list[int], packet_id: int, now: float) -> bytes:
        """Encodes the request."""
        return packets.Touch(self.refs()).encode(packet_id)


class CheckCall(TouchCall, request=packets.Touch):
    """Says that the application's own transactions have acknowledged messages; finds out whether that is so.

    The service gives the consumer room for others instead of those that it has no more.
    """

    @property
    def kept(self) -> list[LeaseId]:
        """The messages that are not acknowledged, once it is answered."""
        lost = set(self.lost)
        return [] if self.response is None else [lease for lease in self.leases if lease not in lost]


class Consumers:
    """Keeps the consumers of a client, over as many connections as it takes.

    What was pushed over a connection is gone with it: it comes again, here or elsewhere.
    """

    def __init__(
        self,
        options: ClientOptions,
        clock: Callable[[], float],
        send: Callable[[InternalRequest], None],
        finish: Callable[[NextCall], None],
        settle_soon: Callable[[ConsumerState, SettleCall], None],
    ) -> None:
        self._send = send
        self._finish = finish
        self._settle_soon = settle_soon
        self._retry_after = options.backoff_max
        self._clock = clock
        self.states: dict[ConsumerState, None] = {}
        self._members: dict[int, ConsumerState] = {}
        self._rejoin_at = math.inf
        self.begun: dict[LeaseId, bool] = {}

    def take_begins(self) -> bytes:
        """Returns what tells the service what the application is given, or was not given after all.

        It has to be written before the application is given it, or else its death would not count, and before
        anything that ends the lease.
        """
        if not self.begun:
            return b""
        frames = []
        for begun in (True, False):
            refs = [LeaseRef(*lease) for lease, told in self.begun.items() if told is begun]
            for start in range(0, len(refs), LEASES_MAX):
                frames.append(packets.Begin(refs[start : start + LEASES_MAX], begun).encode(0))
        self.begun = {}
        return b"".join(frames)

    @property
    def unsettled(self) -> bool:
        """Tells whether the application has messages that it has not answered."""
        return any(state.open and state.consumer_id for state in self.states)

    @property
    def joined_any(self) -> bool:
        """Tells whether messages may be pushed."""
        return bool(self._members)

    @property
    def due(self) -> float:
        """When something has to be sent, by the session's clock."""
        return min([self._rejoin_at, *(min(state.touch_at, state.look_at) for state in self.states)])

    def waits(self) -> list[NextCall]:
        """The waits that have a deadline."""
        return [call for state in self.states for call in state.waiting if call.deadline < math.inf]

    # ------------------------------------------------------------------ membership

    def joined(self, call: JoinCall) -> None:
        """A consumer was made."""
        self.states[call.state] = None
        self._admit(call.state, call.response)
        if call.state.stopped:
            self.stop(call.state)

    def leave_unwanted(self, response: packets.JoinQueueResponse) -> None:
        """A consumer was made whose caller has given up."""
        self._send(InternalRequest(packets.LeaveQueue(response.consumer_id)))

    def link_lost(self) -> None:
        """The connection is lost, and with it what was pushed over it."""
        self._rejoin_at = math.inf
        self.begun = {}
        for state in self.states:
            self._part(state)

    def rejoin(self) -> None:
        """There is a connection: consumers that live on join again."""
        self._rejoin_at = math.inf
        for state in self.states:
            if not state.consumer_id and not state.stopped and state.ended is None:
                self._send(self._join_request(state))

    def leave(self, state: ConsumerState) -> None:
        """The application has closed a consumer: what it has not taken is dropped."""
        state.closed = state.stopped = True
        state.look_at = math.inf
        state.buffer.clear()
        self._end_waits(state, None)

    def stop(self, state: ConsumerState) -> None:
        """Nothing more is given to the application: what it has not begun goes back, in order."""
        state.stopped, state.look_at = True, math.inf
        if state.consumer_id:
            self._send(InternalRequest(packets.Credit(state.consumer_id, 0, 0)))
        self._give_back(state, state.buffer.clear())
        self._end_waits(state, None)

    def left(self, state: ConsumerState) -> None:
        """The service knows that a consumer has left."""
        self._members.pop(state.consumer_id, None)
        self.states.pop(state, None)
        state.consumer_id = 0
        state.open.clear()

    def leave_all(self) -> None:
        """The client is about to be closed."""
        for state in list(self.states):
            if state.consumer_id:
                self._send(InternalRequest(packets.LeaveQueue(state.consumer_id)))
            self.leave(state)
            self.left(state)

    def end_all(self, error: TelestoError) -> None:
        """The session is no longer the client: its consumers end."""
        for state in list(self.states):
            self._end(state, error)

    def _admit(self, state: ConsumerState, response: packets.JoinQueueResponse) -> None:
        state.consumer_id = response.consumer_id
        state.lease = response.lease_ms / 1000
        state.joins += 1
        state.touch_at = self._clock() + state.lease / HEARD
        if state.paced and state.credit_messages > CREDIT_LEAST:
            state.look_at = self._clock() + PACE_S
        self._members[response.consumer_id] = state

    def _join_request(self, state: ConsumerState) -> InternalRequest:
        def answered(request: InternalRequest) -> None:
            if state.stopped:
                self.leave_unwanted(request.response)
            else:
                self._admit(state, request.response)

        def refused(error: TelestoError) -> None:
            if error.error_class is ErrorClass.RETRYABLE:
                self._rejoin_at = self._clock() + self._retry_after
            else:
                self._end(state, error)

        return InternalRequest(state.join_packet(), answered, refused)

    def _part(self, state: ConsumerState) -> None:
        self._members.pop(state.consumer_id, None)
        state.consumer_id = 0
        state.buffer.clear()
        state.lost += len(state.open)
        state.open.clear()
        state.over.clear()
        state.asking = 0
        state.touch_at = state.look_at = math.inf

    def _end(self, state: ConsumerState, error: TelestoError) -> None:
        self._part(state)
        self.states.pop(state, None)
        state.ended = error
        self._end_waits(state, error)

    def _end_waits(self, state: ConsumerState, error: TelestoError | None) -> None:
        while state.waiting:
            call = state.waiting.popleft()
            call.error = error
            self._finish(call)

    # ------------------------------------------------------------------ messages

    def delivered(self, packet: packets.Deliver) -> None:
        """Messages were pushed."""
        state = self._members.get(packet.consumer_id)
        if state is None or state.closed:
            return
        messages = [
            delivered(
                delivery.message,
                LeaseId(packet.consumer_id, delivery.lease_id, delivery.message.message_id),
            )
            for delivery in packet.deliveries
        ]
        if state.stopped:  # it was on its way
            self._give_back(state, messages)
            return
        for message in messages:
            if not (state.over and _is_over(state, message.lease, message.partition_key)):
                state.buffer.add(message)
        self._serve(state)

    def lost(self, packet: packets.LeaseLost) -> None:
        """Leases were lost, or the consumer was ended or slowed."""
        state = self._members.get(packet.consumer_id)
        if state is None:
            return
        if packet.ended:
            self._ended(state, packet)
            return
        if packet.code == ErrorCode.CONSUMER_SLOW:
            self._slowed(state)
            return
        self._lose(state, [LeaseId(*_parts(ref)) for ref in packet.leases])

    def _slowed(self, state: ConsumerState) -> None:
        """Others get its partitions: what it has of them and has not begun need not wait here."""
        state.slowed += 1
        if state.closed:
            return
        self._give_back(state, state.buffer.remove(lambda message: message.partition_key is not None))

    def _give_back(self, state: ConsumerState, messages: list[Message]) -> None:
        """Gives back what the application was not given."""
        leases = [message.lease for message in messages if message.lease is not None]
        for start in range(0, len(leases), LEASES_MAX):
            some = leases[start : start + LEASES_MAX]
            self._settle_soon(state, NackCall(state.queue_id, some, failed=False))

    def _ended(self, state: ConsumerState, packet: packets.LeaseLost) -> None:
        if packet.code == ErrorCode.QUEUE_NOT_EXISTING:
            self._end(state, QueueNotExistingError(packet.details, queue_id=state.queue_id))
            return
        if packet.code == ErrorCode.CONSUMER_INACTIVE:
            self._end(state, ConsumerInactiveError(packet.details, queue_id=state.queue_id))
            return
        self._part(state)
        if not state.stopped:
            self._send(self._join_request(state))

    def next(self, call: NextCall) -> bool:
        """Gives the next message to a call; False when it has to wait for one."""
        state = call.state
        now = elapsed()
        message = None if state.waiting else self._take(state, now)
        if message is not None:
            self._give(state, call, message, now)
            return True
        if state.stopped:
            return True
        if state.ended is not None:
            call.error = state.ended
            return True
        state.waiting.append(call)
        self._want(state, now)
        return False

    def forget(self, call: NextCall) -> None:
        """The caller has given up; what the call was given goes to the next one."""
        state = call.state
        if call.phase != DONE:
            state.waiting = deque(other for other in state.waiting if other is not call)
        elif call.message is not None and call.message.lease not in state.open:
            self.ended(state, call.message)
        elif call.message is not None and call.message.lease is not None:
            del state.open[call.message.lease]
            self.begun[call.message.lease] = False
            if state.stopped:
                self._give_back(state, [call.message])
                return
            state.buffer.put_back(call.message)
            self._serve(state)

    def ended(self, state: ConsumerState, message: Message) -> None:
        """The application works on a message no more: the next one of its partition may be given."""
        state.buffer.ended(message)
        self._serve(state)

    def is_sure(self, state: ConsumerState, since: float) -> bool:
        """Tells whether no lease can be over that was begun, or confirmed, then."""
        return elapsed() - since <= state.lease * SURE

    def can_be_begun(self, state: ConsumerState, lease: LeaseId, given_at: float) -> bool | None:
        """Tells whether a message that was given is the consumer's still; None if the service has to tell."""
        if lease not in state.open:
            return False
        since = max(given_at, state.sure_since) if state.keep_alive else given_at
        return True if self.is_sure(state, since) else None

    def touch_failed(self, state: ConsumerState, lease: LeaseId) -> None:
        """The application was told that it has lost a message."""
        if lease in state.open:
            self._lose(state, [lease])

    def _serve(self, state: ConsumerState) -> None:
        """Gives what there is to the calls that wait."""
        now = elapsed()
        while state.waiting and (message := self._take(state, now)) is not None:
            call = state.waiting.popleft()
            self._give(state, call, message, now)
            self._finish(call)
        if state.waiting:
            self._want(state, now)

    def _want(self, state: ConsumerState, now: float) -> None:
        """The application waits. When it has all that it may have, or has been quick, it may have more."""
        if not state.paced or not state.consumer_id or state.credit_messages >= CREDIT_MOST:
            return
        given = state.given - state.given_before
        stuck = len(state.open) + len(state.buffer) >= state.credit_messages
        if not stuck and given < state.credit_messages:
            return
        quick = given * CREDIT_S >= state.credit_messages * (now - state.counted_since)
        state.given_before, state.counted_since = state.given, now
        if stuck or quick:
            self._set_credit(state, min(CREDIT_MOST, 2 * state.credit_messages))

    def _look(self, state: ConsumerState, now: float) -> None:
        """Once a second lowers the credit to twice what was begun since, or is open; the rest goes back."""
        state.look_at = now + PACE_S
        pace, state.given_at_look = state.given - state.given_at_look, state.given
        most = max(CREDIT_LEAST, 2 * pace, 2 * len(state.open))
        if state.waiting or state.credit_messages <= most:
            return
        self._set_credit(state, most)
        self._give_back(state, state.buffer.shorten(most, {lease.lease_id for lease in state.open}))

    def _set_credit(self, state: ConsumerState, messages: int) -> None:
        state.credit_messages = messages
        state.look_at = math.inf if messages <= CREDIT_LEAST else min(state.look_at, self._clock() + PACE_S)
        self._send(InternalRequest(packets.Credit(state.consumer_id, messages, state.credit_bytes)))

    def _take(self, state: ConsumerState, now: float) -> Message | None:
        """The next message that may be given; when others may have it by now, the service is asked first."""
        if state.asking:
            return None
        if now - state.sure_since > state.lease * SURE:
            if state.buffer:
                self._ask(state, set())
            return None
        return state.buffer.take()

    def _ask(self, state: ConsumerState, told: set[LeaseId]) -> None:
        """Asks what the consumer still has of what waits, beside what it was told; begins the leases anew."""
        waiting = [message.lease for message in state.buffer.messages() if message.lease is not None]
        leases = [lease for lease in waiting if lease not in told]
        asked_at, consumer_id = elapsed(), state.consumer_id
        chunks = [leases[start : start + LEASES_MAX] for start in range(0, len(leases), LEASES_MAX)]
        state.asking = len(chunks)

        def over() -> None:
            if state.consumer_id != consumer_id:
                return
            state.asking -= 1
            if state.asking or not told.issuperset(leases):
                return  # what was refused is asked again when it is time for the next sign of life
            if all(message.lease in told for message in state.buffer.messages()):
                state.sure_since = asked_at
                self._serve(state)
            else:
                self._ask(state, told)  # others came meanwhile, perhaps from long ago

        for some in chunks:

            def answered(request: InternalRequest, some: list[LeaseId] = some) -> None:
                told.update(some)
                if state.consumer_id == consumer_id:
                    self._touched(state, some, request.response.results)
                over()

            touch = packets.Touch([LeaseRef(*lease) for lease in some])
            self._send(InternalRequest(touch, answered, lambda error: over(), over))

    def _heard(self, state: ConsumerState, asked_at: float) -> None:
        """The service gave a sign of life. After a gap it may not know yet what was lost in it."""
        if self.is_sure(state, state.sure_since):
            state.sure_since = asked_at

    def _give(self, state: ConsumerState, call: NextCall, message: Message, now: float) -> None:
        assert message.lease is not None
        call.message, call.given_at = message, now
        state.given += 1
        state.open[message.lease] = message.partition_key
        if not state.buffer.by_partition:
            call.tell_first = self.begin(state, message, now)

    def begin(self, state: ConsumerState, message: Message, now: float) -> bool:
        """The application begins a message; tells whether the service has to be told before it does."""
        assert message.lease is not None
        brisk = now - state.begun_at < BRISK
        state.begun_at = now
        self.begun[message.lease] = True
        return message.redelivered or not brisk

    # ------------------------------------------------------------------ answers

    def answering(self, state: ConsumerState, leases: Iterable[LeaseId], *, done: bool) -> None:
        """The application has answered these messages; the begin of what is ``done`` need not be told."""
        for lease in leases:
            state.open.pop(lease, None)
            if done:
                self.begun.pop(lease, None)

    def given_back(self, state: ConsumerState, leases: Iterable[LeaseId]) -> None:
        """The application gives these back, and with them what comes after them in their partitions."""
        self._lose(state, leases)

    def settled(self, state: ConsumerState, call: SettleCall) -> None:
        """The service has answered an acknowledgement or the like that has no caller."""
        if not isinstance(call, CheckCall):
            state.lost += len(call.lost)

    # ------------------------------------------------------------------ time

    def tick(self, now: float) -> None:
        """Sends what is due."""
        if now >= self._rejoin_at:
            self.rejoin()
        for state in self.states:
            if now >= state.touch_at:
                self._touch(state, now)
            if now >= state.look_at:
                self._look(state, now)

    def _touch(self, state: ConsumerState, now: float) -> None:
        """Touches what the application has; the leases of what waits hold on while the client is heard."""
        state.touch_at = now + state.lease / HEARD
        if not state.consumer_id:
            return
        if state.closed:
            if state.forgotten:  # the request that should end it may have been given up

                def left(request: InternalRequest) -> None:
                    self.left(state)

                self._send(InternalRequest(packets.LeaveQueue(state.consumer_id), left))
            return
        if state.forgotten and not state.stopped:
            self.stop(state)
        if state.waiting and state.buffer and not state.asking:
            self._serve(state)
        leases = [*state.open] if state.keep_alive else []
        asked_at = elapsed()
        if not leases:

            def heard(request: InternalRequest) -> None:
                self._heard(state, asked_at)

            self._send(InternalRequest(packets.Ping(), heard))
        for start in range(0, len(leases), LEASES_MAX):
            some = leases[start : start + LEASES_MAX]

            def answered(request: InternalRequest, some: list[LeaseId] = some) -> None:
                self._touched(state, some, request.response.results)
                self._heard(state, asked_at)

            self._send(InternalRequest(packets.Touch([LeaseRef(*lease) for lease in some]), answered))

    def _touched(self, state: ConsumerState, leases: list[LeaseId], results: list[ElementResult]) -> None:
        gone = [lease for lease, result in zip(leases, results, strict=True) if result.error is not None]
        if gone:
            self._lose(state, gone)

    # ------------------------------------------------------------------ losses

    def _lose(self, state: ConsumerState, leases: Iterable[LeaseId]) -> None:
        """The consumer has lost these, and what comes after them in their partitions."""
        gone = set(leases)
        for lease in gone:
            first = state.over.pop(lease.lease_id, lease.message_id)
            state.over[lease.lease_id] = min(first, lease.message_id)
        while len(state.over) > LEASES_OVER_MAX:
            del state.over[next(iter(state.over))]
        state.buffer.remove(
            lambda message: message.lease in gone or _is_over(state, message.lease, message.partition_key)
        )
        for lease in [
            lease for lease, key in state.open.items() if lease in gone or _is_over(state, lease, key)
        ]:
            del state.open[lease]
            state.lost += 1


def log_unacknowledged(queue_id: int, leases: list[LeaseId]) -> None:
    """Says that messages were not acknowledged in the database although the application said so."""
    import logging

    logging.getLogger("telesto.client").error(
        "messages %s of queue %s go back: no transaction that called telesto.ack for them is committed",
        ", ".join(str(lease.message_id) for lease in leases),
        queue_id,
    )


def _is_over(state: ConsumerState, lease: LeaseId | None, partition_key: str | None) -> bool:
    """Tells whether a message of a partition comes, under its lease, after one that the consumer has lost."""
    if lease is None or partition_key is None:
        return False
    return lease.message_id >= state.over.get(lease.lease_id, lease.message_id + 1)


def _parts(ref: LeaseRef) -> tuple[int, int, int]:
    return ref.consumer_id, ref.lease_id, ref.message_id
