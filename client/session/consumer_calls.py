"""What the application does with its consumers: joins, waits for messages, answers them, leaves."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

from telesto.client.bookkeeping.consumers import (
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
from telesto.client.calls.queue_calls import DONE, SENT, WAITING, Call
from telesto.client.connection.link import Errand
from telesto.client.models import LeaseId
from telesto.client.options import ClientOptions
from telesto.client.session.line import Line
from telesto.protocol.errors import TelestoError


class ConsumersHost(Protocol):
    """What the consumers need of the session that they belong to.

    Attributes:
        check_at: when deadlines have to be looked at next, by the session's clock.
    """

    check_at: float

    @property
    def closed(self) -> bool:
        """Tells whether the client refuses every call."""

    def submit(self, call: Call[Any]) -> None:
        """Puts a call in line. Raises NotConnectedError and TooManyCallsError."""

    def orphan(self, call: Call[Any]) -> None:
        """The call ends before its request, which is under way; what comes of it is looked after."""

    def finish(self, call: Call[Any]) -> None:
        """The call is over."""

    def confirm_answer(self, call: Call[Any]) -> None:
        """The answer has been taken, or nobody wants it."""

    def send_when_ready(self, errand: Errand) -> None:
        """Sends a request of the library; when that is impossible at present it counts as lost at once."""


class Consumers:
    """Makes the calls of the consumers of one client.

    Attributes:
        consuming: the consumers as the service knows them, and what was pushed to them.
    """

    def __init__(
        self, host: ConsumersHost, line: Line, options: ClientOptions, clock: Callable[[], float]
    ) -> None:
        self._host = host
        self._line = line
        self._clock = clock
        self.consuming = Consuming(self, options, clock)

    # ------------------------------------------------------------------ membership

    def join(self, state: ConsumerState) -> JoinCall:
        """Makes a consumer. Raises NotConnectedError and TooManyCallsError."""
        call = JoinCall(state)
        call.on_answer = self._joined
        self._host.submit(call)
        state.joining = call
        return call

    def stop(self, state: ConsumerState) -> None:
        """Gives the application nothing more; what it has may still be answered."""
        if state.stopped or self._host.closed:
            return
        self.consuming.stop(state)
        call, state.joining = state.joining, None
        if call is not None and call.phase < DONE:  # whoever waits for it need not wait for the service
            if call.phase == SENT:
                self._host.orphan(call)
            self._host.finish(call)

    def leave(self, state: ConsumerState) -> LeaveCall | None:
        """Ends a consumer, after all that it has answered; None when the service knows nothing of it."""
        self.consuming.leave(state)
        if not state.consumer_id or self._host.closed:
            self.consuming.left(state)
            return None
        call = LeaveCall(state)
        call.on_answer = self._left
        self._host.submit(call)
        return call

    def _joined(self, call: JoinCall) -> None:
        call.state.joining = None
        self.consuming.joined(call)
        self._host.finish(call)

    def _left(self, call: LeaveCall) -> None:
        self.consuming.left(call.state)
        self._host.finish(call)

    # ------------------------------------------------------------------ messages

    def next_message(self, state: ConsumerState, timeout: float) -> NextCall:
        """Waits for the next message of a consumer, so many seconds at most; infinity without limit."""
        call = NextCall(state)
        if self.consuming.next(call):
            self._host.finish(call)
        elif timeout < math.inf:
            call.deadline = self._clock() + timeout
            self._host.check_at = min(self._host.check_at, call.deadline)
        return call

    def not_taken(self, call: NextCall) -> None:
        """The application was not given what this call brought."""
        self.consuming.forget(call)

    def send_when_ready(self, errand: Errand) -> None:
        """Sends a request of the library; when that is impossible at present it counts as lost at once."""
        self._host.send_when_ready(errand)

    def finish_next(self, call: NextCall, error: TelestoError | None = None) -> None:
        """Ends a wait for the next message."""
        call.error = error
        self._host.finish(call)

    # ------------------------------------------------------------------ answers

    def settle(self, state: ConsumerState, call: SettleCall) -> SettleCall:
        """Answers messages, for a caller that waits. Raises NotConnectedError and TooManyCallsError."""
        self._host.submit(call)
        if isinstance(call, CheckCall) or not isinstance(call, TouchCall):
            self.consuming.answering(state, call.leases, done=not isinstance(call, NackCall))
        if isinstance(call, NackCall):
            self.consuming.given_back(state, call.leases)
        return call

    def settle_soon(self, state: ConsumerState, call: SettleCall) -> None:
        """Answers messages, for a caller that does not wait."""

        def done(call: SettleCall) -> None:
            self.consuming.settled(state, call)
            self._host.confirm_answer(call)
            if isinstance(call, CheckCall) and call.kept:
                self._not_acknowledged(state, call.kept)

        call.on_done = done
        self.settle(state, call)

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
        calls = self._line.calls
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
        self.consuming.answering(state, [lease], done=True)
        return True

    def _not_acknowledged(self, state: ConsumerState, leases: list[LeaseId]) -> None:
        """No transaction has acknowledged these messages: they go back."""
        log_unacknowledged(state.queue_id, leases)
        if not self._host.closed and not state.closed:
            self.settle_soon(state, NackCall(state.queue_id, leases, failed=True))
