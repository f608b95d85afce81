"""A session that outlives its process: it writes down what it must not forget before it acts on it.

How it differs from a session without a state:

- The intent of a put is durable before the put leaves, and the name of a message before it is returned.
  Nothing leaves, to the wire or to a caller, before the flush of what it depends on (``begin_flush``,
  ``end_flush``).
- The record of a put at the service is confirmed only when it is durable that the put needs no more care. So
  what a state still holds and a takeover does not list was not done.
- A message is confirmed when the application comes back for the next one, not when it is returned.
- Puts of an earlier process are settled by the first takeover. No caller waits for them ("unattended"),
  nor for those whose call ended in doubt; the application can ask what became of its puts.
"""

from __future__ import annotations

import copy
import math
import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from telesto.client.bookkeeping.confirmations import ConfirmContents
from telesto.client.bookkeeping.identity import HandshakeResult, Identity
from telesto.client.bookkeeping.received_messages import ReceivedMessages
from telesto.client.bookkeeping.write_ahead_log import WriteAheadLog
from telesto.client.calls import failures
from telesto.client.calls.queue_calls import (
    DONE,
    HELD,
    WAITING,
    Call,
    ConfirmCall,
    DeleteClientCall,
    SettledCall,
    TakingCall,
)
from telesto.client.calls.state import Scope, StateChanges, StoredClient, StoredState
from telesto.client.calls.topic_calls import GetCall
from telesto.client.connection.link import InternalRequest, Link
from telesto.client.connection.name_lock import NameLock
from telesto.client.durable.outcomes import outcome_of, recovered_puts
from telesto.client.durable.stored_puts import call_of
from telesto.client.models import HandOverId, Message, RecoveredPut
from telesto.client.options import ClientOptions
from telesto.client.session.base import ConnectCall, Phase
from telesto.client.session.session import Session
from telesto.client.url import Address, Credentials
from telesto.protocol.errors import ClientNotExistingError, ErrorClass, TelestoError

_NOTHING_DONE = (ErrorClass.REJECTED, ErrorClass.RETRYABLE)


class DurableSession(Session):
    """A client's side of the conversation, with a state.

    Beside what every shell does, that of a durable session gives it its state by ``load`` before it connects,
    and writes what ``begin_flush`` returns whenever that is something, before it takes output and completed
    calls. Both may be taken while a write is under way: they are what does not depend on it.
    """

    #: The outcome of each put is noted separately.
    joins_puts = False

    def __init__(
        self,
        addresses: Iterable[Address],
        options: ClientOptions,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
        *,
        name_lock: NameLock | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self._wal: WriteAheadLog = WriteAheadLog(options, clock)
        self._watchers: list[SettledCall] = []
        #: Puts that are settled and whose callers are about to hear of it.
        self._with_caller: set[int] = set()
        #: The records to which what the state owes has been added.
        self._entered: ReceivedMessages | None = None
        super().__init__(
            addresses, options, "once", clock, chance, name_lock=name_lock, credentials=credentials
        )

    def load(self, stored: StoredState) -> None:
        """Goes on from a state."""
        self._wal.load(stored)

    @property
    def stored_client(self) -> StoredClient | None:
        """The client to come back as; None for a new state, and when it is connected already or closed."""
        return self._wal.client if self._identity is None and self._closed is None else None

    # ------------------------------------------------------------------ writing the state

    def begin_flush(self) -> StateChanges | None:
        """Returns what has to be written now; ``end_flush`` has to follow. None when there is nothing."""
        changes = self._wal.begin()
        if changes is not None and self.link is not None:
            self.link.seal()
        return changes

    def end_flush(self, error: TelestoError | None = None) -> None:
        """What ``begin_flush`` returned is durable, or could not be written for this reason."""
        if error is not None:
            self._fail_unwritten(self._wal.not_written(), error)
            return
        if self.link is not None:
            self.link.release()
        batch = self._wal.written()
        now = self._clock()
        for operation in batch.settled:
            self._ledger.confirmations.take(*operation, now)
        if self._closed is not None:
            self._ledger.confirmations.hurry(now)
        for call in batch.held:
            if call.phase == HELD:
                super().finish(call)

    def take_output(self) -> bytes:
        """Returns what is to be written to the connection."""
        link = self.link
        if link is None:
            return b""
        output = link.take_output() if self._wal.clean else link.take_released()
        # What the application is given of a consumer is in no state, so that it waits for no flush.
        return self.consumers.take_begins() + output if self.consumers.begun else output

    @property
    def timer(self) -> float:
        """When ``tick`` has to be called, by the session's clock."""
        return min(super().timer, self._wal.due)

    def _fail_unwritten(self, held: list[Call[Any]], error: TelestoError) -> None:
        """Ends what cannot go on: nothing of it was sent, and nothing was returned."""
        for call in held:
            if call.phase == HELD:
                self._release_unwritten(call, error)
        greeting = self.phase in (Phase.GREETING, Phase.LOGGING_IN)  # that depends on nothing
        unsent = [] if self.link is None or greeting else self.link.take_back()
        numbers = [call.number for call in unsent if call.number]
        if numbers:
            self._next_number = min(numbers)
        for call in unsent:
            self._unsend(call, error)
        if self.link is not None and self.phase is Phase.IDENTIFYING:
            self._cannot_identify(error)

    def _release_unwritten(self, call: Call[Any], error: TelestoError) -> None:
        if call.error is None and not call.position:
            call.error = failures.not_written(call, error)
            if isinstance(call, TakingCall):
                self._keep_unseen(call)
                call.number = 0  # its caller has an error, and that confirms nothing
            elif isinstance(call, GetCall):
                self._ledger.subscriptions.positions.put_back(call.messages)
                call.messages = []
        super().finish(call)

    def _unsend(self, call: Call[Any], error: TelestoError) -> None:
        """The request was about to leave and must not."""
        if isinstance(call, InternalRequest):
            if call.on_lost is not None:
                call.on_refused(failures.again(error))  # it is sent again over this connection
            return
        if call.number:
            self._ledger.confirmations.open -= 1
            self._ledger.bring_back_carried(call)
        call.phase = DONE if call.orphaned else WAITING
        if call.orphaned:
            self._settle_as(call, failures.not_done(call))
        elif call.unattended or call.on_done is not None:
            self.again(call)
            self._hold(self._clock() + self._options.backoff_max)
        else:
            self.fail(call, failures.not_written(call, error))

    def _cannot_identify(self, error: TelestoError) -> None:
        """No session may be asked for without a note of it."""
        if self._connecting:
            self._stop_connecting(failures.again(error))
            return
        self.drop_link(failures.again(error))
        for call in self._waiting_calls.take_all():
            if call.unattended:
                self._waiting_calls.calls.append(call)
            elif call.phase == WAITING:
                self.fail(call, failures.not_written(call, error))

    # ------------------------------------------------------------------ the client

    def connect(self, identity: Identity) -> ConnectCall:
        """Becomes a client of the service; requests of an earlier process are in doubt until then."""
        first = self._identity is None
        call = super().connect(identity)
        for request in self._wal.open_requests() if first else ():
            put = call_of(request)
            self._waiting_calls.last_order += 1
            put.order = self._waiting_calls.last_order
            self._in_doubt.append(put)
        return call

    def _note_attempt(self, identity: Identity) -> None:
        """The client is about to be asked for; the attempt is noted first."""
        self._wal.asked(identity.token, identity.attempts, identity.name)

    def established(self, result: HandshakeResult) -> None:
        """The connection is that of the client, if it is that of the state."""
        client = self._wal.client
        assert client is not None
        if client.scope in (None, Scope(result.incarnation, result.client_id)):
            super().established(result)
            return
        error = failures.state_misfit(client, result.incarnation, result.client_id)
        self._end(error, lambda call: failures.misfit_error(call, error))

    def handshake_refused(self, error: TelestoError) -> None:
        """As without a state; but if the state's client was deleted, another one may have its name."""
        identity = self._identity
        gone = isinstance(error, ClientNotExistingError)
        if gone and identity is not None and identity.from_state and identity.name is not None:
            self._start_over()
            identity.begin_anew()
            self._identify(identity)
        else:
            super().handshake_refused(error)

    def _start_over(self) -> None:
        """The client of the state is no more; what was in doubt stays so, and another client follows."""
        for call in self._take_in_doubt():
            self._settle_as(call, failures.outcome_unknown(call))
        self._wal.keep_listed(())
        self._wal.begin_anew()

    def fenced(self, error: TelestoError) -> None:
        """Another process has become this client, perhaps before this one began."""
        identity = self._identity
        if identity is not None and identity.from_state:
            identity.begin_anew()
            self._connect_again(error)
        else:
            super().fenced(error)

    def deleted(self, call: DeleteClientCall) -> None:
        """The client is no more, and its state is void."""
        call.position = 0
        self._wal.clear()
        super().deleted(call)

    # ------------------------------------------------------------------ takeover

    def _settle(self, result: HandshakeResult) -> None:
        self._wal.joined(Scope(result.incarnation, result.client_id), result.name, result.session)
        self._wal.keep_listed(result.takeover.listed_hand_overs())
        if self._entered is not self._ledger.received:
            self._entered = self._ledger.received
            taken = self._wal.taken_messages()
            self._ledger.confirmations.bring_back(ConfirmContents([], [], taken), math.inf)
            self._ledger.subscriptions.bring_back(self._wal.positions)
        super()._settle(result)

    def resolve(self, call: Call[Any], result: HandshakeResult) -> None:
        """A takeover tells whether a request in doubt was done; for some of them no caller waits."""
        if not (call.position and (call.orphaned or call.unattended)):
            super().resolve(call, result)
        elif call.number and result.takeover.answer(call):
            self._settle_request(call)
        elif not (result.resumed and self._wal.is_own(call.session)):
            self._settle_as(call, failures.outcome_unknown(call))
        elif call.orphaned:
            self._settle_as(call, failures.not_done(call))
        else:
            self.again(call)

    def _forget_client(self) -> list[Call[Any]]:
        watchers, self._watchers = self._watchers, []
        return [call for call in [*super()._forget_client(), *watchers] if not call.unattended]

    # ------------------------------------------------------------------ calls

    def submit(self, call: Call[Any]) -> None:
        """Puts a call in line. Raises NotConnectedError and TooManyCallsError."""
        if isinstance(call, TakingCall):
            self._ledger.received.came_back(call, self._clock())
        elif isinstance(call, GetCall):
            self._ledger.subscriptions.came_back(call)
        super().submit(call)

    def abandon(self, call: Call[Any]) -> None:
        """The caller no longer waits; what the call took is kept for the next matching read."""
        if isinstance(call, SettledCall):
            self._watchers = [watcher for watcher in self._watchers if watcher is not call]
        if call.phase == HELD:
            call.phase = DONE
            self._untaken += 1
        if call.phase == WAITING:
            self._forget(call)
        elif call.phase == DONE and call.error is None and isinstance(call, TakingCall):
            self._unreturned(call.messages)
        elif call.phase == DONE and call.error is None and call.position:
            self._with_caller.discard(call.position)
            self._settle_request(call)
            self._untaken -= 1
            return
        super().abandon(call)

    def confirm(self, hand_overs: Iterable[HandOverId]) -> ConfirmCall:
        """The application has processed these messages; the call is over when that is durable."""
        super().confirm(hand_overs)
        call = ConfirmCall()
        self._hold_back(call)
        return call

    def begin_close(self, *, failed: bool = False) -> None:
        """As without a state; unless it ``failed``, the application has processed what it got."""
        if self._closed is None:
            if not failed:
                self._ledger.received.all_came_back(self._clock())
                self._ledger.subscriptions.all_came_back()
            for call in self._watchers:
                self.fail(call, failures.closed_error(call))
            self._watchers.clear()
            self._wal.hurry()
        super().begin_close(failed=failed)

    def end_close(self) -> None:
        """Leaves the connection; what is left to write is to be written now."""
        super().end_close()
        self._wal.hurry()

    @property
    def finished(self) -> bool:
        """Tells, while the client closes, whether the connection may be closed now."""
        return super().finished and (self.link is None or self._wal.settled)

    def has_space(self) -> bool:
        """Tells whether one more request may be noted."""
        return self._wal.has_space()

    def send(self, link: Link, call: Call[Any], number: int, confirmed: list[int], now: float) -> bool:
        """Sends a request, of which the state notes under which number it went."""
        sent = super().send(link, call, number, confirmed, now)
        if sent and number and call.noted:
            self._wal.sent(call, number)
        return sent

    def finish(self, call: Call[Any]) -> None:
        """The call is over, as soon as what it depends on is durable."""
        if call.unattended:
            self._settle_request(call)
        elif call.gated or (call.error is None and self._hands_over(call)):
            self._hold_back(call)
        elif call.position and call.error is None and _refuses(call):
            self._settle_refused(call)
        else:
            super().finish(call)

    def _hands_over(self, call: Call[Any]) -> bool:
        """Tells whether the call returns messages before which something has to be durable."""
        if isinstance(call, TakingCall):
            return bool(call.messages)
        return isinstance(call, GetCall) and bool(call.messages) and self._wal.owes_positions

    def _settle_refused(self, call: Call[Any]) -> None:
        """A queue refused a message of a put: that can be confirmed by the time its caller hears of it.

        The middleware refuses what is put into that queue until then, so that nothing overtakes.
        """
        self._with_caller.add(call.position)
        self._wal.settle(call.position, outcome_of(call), confirm=True)
        self._hold_back(call)

    def _hold_back(self, call: Call[Any]) -> None:
        """The call ends when what it depends on is durable."""
        call.gated = False
        call.phase = HELD
        self._wal.hold(call)

    def fail(self, call: Call[Any], error: TelestoError) -> None:
        """The call is over; in doubt, the state keeps its request until the outcome is known."""
        if call.unattended:
            call.error = error
            call.number = 0
        elif call.position and not call.orphaned:
            if failures.in_doubt(call) and error.error_class not in _NOTHING_DONE:
                self._wal.give_up(call.position)
            else:
                self._forget(call)
        super().fail(call, error)

    def confirm_answer(self, call: Call[Any]) -> None:
        """The caller has the answer; a request of the state is confirmed when it is forgotten there."""
        if call.position and call.number and not call.orphaned:
            self._with_caller.discard(call.position)
            self._wal.forget(call.position, confirm=True)
        else:
            super().confirm_answer(call)

    def _forget(self, call: Call[Any]) -> None:
        """Nothing was done: before the caller hears of it, the state must have forgotten the request."""
        if call.position:
            self._wal.forget(call.position, confirm=False)
            call.position = 0
            call.gated = True

    def rejecting(self, call: Call[Any]) -> None:
        """A request is about to be rejected: the state forgets it."""
        if not (call.orphaned or call.unattended):
            self._forget(call)

    def _keep_unseen(self, call: TakingCall[Any]) -> None:
        """The messages of a read do not get to its caller; another one gets them."""
        self._unreturned(call.messages)
        self._ledger.received.keep(call.messages, self._clock())
        call.messages = []

    def _unreturned(self, messages: list[Message]) -> None:
        for message in messages:
            if message.hand_over is not None:
                self._wal.drop_message(message.hand_over)

    def _check_deadlines(self, now: float) -> None:
        super()._check_deadlines(now)
        for call in self._watchers:
            if call.deadline <= now:
                self._time_out(call)
            else:
                self.check_at = min(self.check_at, call.deadline)
        self._watchers = [call for call in self._watchers if call.phase != DONE]

    # ------------------------------------------------------------------ requests without a caller

    def when_settled(self) -> SettledCall:
        """Makes a call that is over once it is known what became of the requests without a caller.

        Raises NotConnectedError.
        """
        if self._closed is not None:
            raise failures.again(self._closed)
        if self._identity is None:
            raise failures.not_connected(self._ended)
        call = SettledCall()
        if self._wal.unattended:
            self._start_clock(call)
            self._watchers.append(call)
        else:
            self.finish(call)
        return call

    def recovered_puts(self) -> list[tuple[int, list[RecoveredPut]]]:
        """Returns what became of puts whose calls did not tell, request by request, each with a name."""
        return [
            (request.position, recovered_puts(request))
            for request in self._wal.settled_requests()
            if request.position not in self._with_caller
        ]

    def told(self, name: int) -> None:
        """The application knows what became of this request."""
        self._wal.forget(name, confirm=False)

    def orphan(self, call: Call[Any]) -> None:
        """The call ends before its request, which is the state's from now on.

        The request goes on as one without a caller. What becomes of it must not change what the call tells.
        """
        if not call.position:
            super().orphan(call)
            return
        self._wal.give_up(call.position)
        request = copy.copy(call)
        request.unattended = True
        request.phase = DONE
        call.orphaned = True
        call.position = 0
        if self.link is not None and self.link.pending.get(call.packet_id) is call:
            self.link.pending[call.packet_id] = request
        self._in_doubt = [request if doubtful is call else doubtful for doubtful in self._in_doubt]
        super().orphan(request)

    def orphan_ended(self, call: Call[Any]) -> None:
        """The call was over before this answer, which tells what became of a request of the state."""
        if call.position:
            self._settle_request(call)
        else:
            super().orphan_ended(call)

    def orphan_not_done(self, call: Call[Any]) -> None:
        """The call was over before this answer, which says that nothing was done."""
        self._settle_as(call, failures.not_done(call))

    def _settle_as(self, call: Call[Any], error: TelestoError) -> None:
        """The request was not done, or it cannot be known."""
        if call.position:
            call.error = error
            call.number = 0
            self._settle_request(call)

    def _settle_request(self, call: Call[Any]) -> None:
        call.phase = DONE
        self._wal.settle(call.position, outcome_of(call), confirm=call.number > 0)
        if not self._wal.unattended:
            for watcher in self._watchers:
                self.finish(watcher)
            self._watchers.clear()


def _refuses(call: Call[Any]) -> bool:
    """Tells whether a put was not taken by all queues."""
    return any(result.error is not None for result in call.response.results)
