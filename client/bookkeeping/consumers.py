"""The consumers of a client: membership, messages that are pushed and given to the application, leases."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable

from telesto.client.bookkeeping.consumer_calls import (
    LEASES_MAX,
    CheckCall,
    JoinCall,
    NackCall,
    NextCall,
    SettleCall,
)
from telesto.client.bookkeeping.consumer_credit import PACE_S, CreditControl
from telesto.client.bookkeeping.consumer_state import CREDIT_LEAST, SURE, ConsumerState, elapsed
from telesto.client.calls.queue_calls import DONE, message_of
from telesto.client.connection.link import InternalRequest
from telesto.client.models import LeaseId, Message
from telesto.client.options import ClientOptions
from telesto.protocol import packets
from telesto.protocol.errors import (
    ConsumerInactiveError,
    ErrorClass,
    ErrorCode,
    PermissionDeniedError,
    QueueNotExistingError,
    TelestoError,
)
from telesto.protocol.packets import ElementResult, LeaseRef

#: In seconds. If an asyncio application asks for the next message sooner than this, it gets it at once, and
#: the service is told at the end of the loop's turn.
BRISK = 0.001
#: How often, at least, a client that has messages sends something within the time of a lease.
HEARD = 4


class Consumers:
    """Keeps the consumers of a client over several connections.

    Messages that were pushed over a connection are lost with it; they are pushed again, here or elsewhere.

    Attributes:
        states: the consumers that live.
        begun: what the service is to be told: by message, whether the application was given it.
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
        self._credit = CreditControl(clock, send, self._give_back)
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
            message_of(
                delivery.message,
                lease=LeaseId(packet.consumer_id, delivery.lease_id, delivery.message.message_id),
            )
            for delivery in packet.deliveries
        ]
        if state.stopped:  # it was on its way
            self._give_back(state, messages)
            return
        for message in messages:
            if not (state.over and state.is_over(message.lease, message.partition_key)):
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
        state.lose([LeaseId(*_parts(ref)) for ref in packet.leases])

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
        if packet.code == ErrorCode.PERMISSION_DENIED:
            self._end(state, PermissionDeniedError(packet.details, queue_id=state.queue_id))
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
        self._credit.application_waits(state, now)
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

    def touch_failed(self, state: ConsumerState, lease: LeaseId) -> None:
        """The application was told that it has lost a message."""
        if lease in state.open:
            state.lose([lease])

    def _serve(self, state: ConsumerState) -> None:
        """Gives what there is to the calls that wait."""
        now = elapsed()
        while state.waiting and (message := self._take(state, now)) is not None:
            call = state.waiting.popleft()
            self._give(state, call, message, now)
            self._finish(call)
        if state.waiting:
            self._credit.application_waits(state, now)

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
        if state.is_sure(state.sure_since):
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
        state.lose(leases)

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
                self._credit.check_pace(state, now)

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
            state.lose(gone)


def _parts(ref: LeaseRef) -> tuple[int, int, int]:
    return ref.consumer_id, ref.lease_id, ref.message_id
