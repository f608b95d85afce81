"""What a client has to write down before it goes on, without I/O.

The session notes here what its durable state has to know: the intent of a request before it is sent, a
message before it is returned. The shell writes what has gathered, many notes with one flush, and says so;
until then the session holds back what depends on it. What nothing depends on is written along, or soon.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from telesto.client.calls.queue_calls import Call
from telesto.client.calls.state import (
    OperationId,
    RequestPhase,
    Scope,
    StateChanges,
    StoredClient,
    StoredHandOver,
    StoredPosition,
    StoredRequest,
    StoredState,
)
from telesto.client.models import HandOverId, Message
from telesto.client.options import ClientOptions

#: Length field, method id and packet id: what stands before the payload in a frame.
_FRAME_HEAD = 10


@dataclass(slots=True)
class PendingWrite:
    """What is written with one flush, and what waits for it.

    Attributes:
        changes: the notes.
        required: something must not leave before they are durable.
        done: requests whose records at the service need not stay once the notes are durable.
        settled: those of them that are to be confirmed then.
        held: calls that end then.
    """

    changes: StateChanges = field(default_factory=StateChanges)
    required: bool = False
    done: list[OperationId] = field(default_factory=list)
    settled: list[OperationId] = field(default_factory=list)
    held: list[Call[Any]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _ReturnedMessage:
    """A message that was returned to the application."""

    position: int
    taken: bool


class WriteAheadLog:
    """The state of one client as it is, and the part of it that is not written yet.

    Attributes:
        client: the client and how it comes back; None before it was connected for the first time.
        size: bytes of puts in the state.
        unattended: puts that no caller waits for and of which it is not known what became of them.
    """

    def __init__(self, options: ClientOptions, clock: Callable[[], float]) -> None:
        self._options = options
        self._clock = clock
        self._pending = PendingWrite()
        self._writing: PendingWrite | None = None
        self.client: StoredClient | None = None
        self._delay = options.confirm_after
        self._due = math.inf
        self.size = 0
        self._requests: dict[int, StoredRequest] = {}
        self._hand_overs: dict[OperationId, dict[int, _ReturnedMessage]] = {}
        #: Requests whose record at the service must stay for now.
        self._needed: set[OperationId] = set()
        self._positions: dict[int, int] = {}
        self._position = 0
        self.unattended: set[int] = set()

    def load(self, stored: StoredState) -> None:
        """Takes over what an earlier process stored."""
        self.client = stored.client
        for position, request in sorted(stored.requests.items()):
            self._requests[position] = request
            self.size += len(request.payload)
            if request.is_open:
                self.unattended.add(request.position)
                self._needed.add(OperationId(request.session, request.number))
        for _, entry in sorted(stored.hand_overs.items()):
            self._note(entry)
        self._position = max([0, *stored.requests, *stored.hand_overs])
        self._positions = {key: entry.number for key, entry in stored.positions.items()}

    # ------------------------------------------------------------------ writing

    @property
    def clean(self) -> bool:
        """Tells whether nothing has to wait for a flush."""
        return not (self._pending.required or (self._writing is not None and self._writing.required))

    @property
    def settled(self) -> bool:
        """Tells whether everything is written."""
        return self._writing is None and not self._pending.changes

    @property
    def due(self) -> float:
        """When what nothing depends on has to be written, by the session's clock; infinity for never."""
        return self._due if self._writing is None else math.inf

    def has_space(self) -> bool:
        """Tells whether one more request may be noted; drops what the application never asked for."""
        self._make_space(1)
        return self.size < self._options.max_state_bytes

    def begin(self) -> StateChanges | None:
        """Returns what has to be written now, None when there is nothing; ``end`` has to follow."""
        pending = self._pending
        if self._writing is not None or not (pending.required or self._clock() >= self._due):
            return None
        self._writing, self._pending = pending, PendingWrite()
        self._due = math.inf
        return pending.changes

    def written(self) -> PendingWrite:
        """The changes are durable; returns what waited for them."""
        batch, self._writing = self._writing, None
        assert batch is not None
        self._needed.difference_update(batch.done)
        return batch

    def not_written(self) -> list[Call[Any]]:
        """The changes could not be written; they are kept for the next time. Returns the calls held."""
        batch, self._writing = self._writing, None
        assert batch is not None
        later = self._pending
        self._pending = PendingWrite(
            _merged(batch.changes, later.changes),
            False,
            [*batch.done, *later.done],
            [*batch.settled, *later.settled],
        )
        self._due = self._clock() + self._options.backoff_max
        return [*batch.held, *later.held]

    def hold(self, call: Call[Any]) -> None:
        """The call ends when all that is noted now is durable."""
        self._pending.held.append(call)
        self._pending.required = True

    def hurry(self) -> None:
        """Everything noted is to be written at once from now on."""
        self._delay = 0.0
        self._due = -math.inf if self._pending.changes else math.inf

    def _soon(self) -> None:
        if self._due == math.inf:
            self._due = self._clock() + self._delay

    # ------------------------------------------------------------------ the client

    def asked(self, token: bytes, attempts: int, name: str | None) -> None:
        """The client is about to ask for a session; without this number it could not ask again."""
        client = self.client
        if client is None or client.token != token:
            known = client if client is not None and client.scope is not None else StoredClient(token)
            client = replace(known, token=token, first_session=0)
        self._keep_client(replace(client, attempts=attempts, name=name or client.name))
        self._pending.required = True

    def begin_anew(self) -> None:
        """The service has deleted the client; another one of this name follows."""
        if self.client is not None:
            self._keep_client(StoredClient(self.client.token, self.client.attempts, self.client.name))

    def joined(self, scope: Scope, name: str, session: int) -> None:
        """The client has a session."""
        assert self.client is not None
        self._keep_client(
            replace(
                self.client,
                name=name,
                client_id=scope.client_id,
                incarnation=scope.incarnation,
                first_session=self.client.first_session or session,
            )
        )

    def clear(self) -> None:
        """The client was deleted: there is nothing left to remember."""
        self.client = None
        self.size = 0
        self._requests.clear()
        self._hand_overs.clear()
        self._positions.clear()
        self._needed.clear()
        self.unattended.clear()
        self._pending.changes = StateChanges(clear=True)
        for batch in (self._pending, self._writing or self._pending):
            batch.done.clear()
            batch.settled.clear()
        self._soon()

    def _keep_client(self, client: StoredClient) -> None:
        self.client = client
        self._pending.changes.client = client
        self._soon()

    @property
    def _scope(self) -> Scope:
        scope = self.client.scope if self.client is not None else None
        assert scope is not None, "requests and messages belong to a client that is connected"
        return scope

    # ------------------------------------------------------------------ requests

    def sent(self, call: Call[Any], number: int) -> None:
        """The put is about to leave under this number."""
        if not call.position:
            self._position += 1
            call.position = self._position
        before = self._requests.get(call.position)
        if before is None:
            frame = call.frame(0, [], 0, 0.0)
            method_id, payload = int.from_bytes(frame[4:6], "big"), frame[_FRAME_HEAD:]
            self._make_space(len(payload))
            request = StoredRequest(call.position, self._scope, call.session, number, method_id, payload)
        else:
            self._needed.discard(OperationId(before.session, before.number))
            request = replace(before, session=call.session, number=number)
        self._needed.add(OperationId(call.session, number))
        self._keep_request(request)
        self._pending.required = True

    def forget(self, position: int, *, confirm: bool) -> None:
        """The application has, or will have, what became of this request.

        Only when this is durable may its record at the service be confirmed: a state that still had the
        request would take it for not done.
        """
        request = self._requests.pop(position, None)
        if request is not None:
            self.unattended.discard(position)
            self.size -= len(request.payload)
            self._pending.changes.requests[position] = None
            self._done(request, confirm)

    def give_up(self, position: int) -> None:
        """The call ended in doubt; the request is under way, or not, and must not be sent again."""
        request = self._requests.get(position)
        if request is not None and request.phase is RequestPhase.OPEN:
            self.unattended.add(position)
            self._keep_request(replace(request, phase=RequestPhase.GIVEN_UP))

    def settle(self, position: int, outcome: bytes, *, confirm: bool) -> None:
        """It is known what became of a put that no caller waits for; ``confirm`` as for ``forget``."""
        request = self._requests.get(position)
        if request is None:
            return
        self.unattended.discard(position)
        self._keep_request(replace(request, phase=RequestPhase.SETTLED, outcome=outcome))
        self._done(request, confirm)

    def needs(self, operation: OperationId) -> bool:
        """Tells whether the record of this request at the service must stay for now."""
        return operation in self._needed

    def open_requests(self) -> list[StoredRequest]:
        """Returns the requests of which it is not known what became of them, in their order."""
        return [request for request in self._requests.values() if request.is_open]

    def settled_requests(self) -> list[StoredRequest]:
        """Returns those of which the application is to be told, in their order."""
        return [request for request in self._requests.values() if not request.is_open]

    def _keep_request(self, request: StoredRequest) -> None:
        if request.position not in self._requests:
            self.size += len(request.payload)
        self._requests[request.position] = request
        self._pending.changes.requests[request.position] = request
        self._soon()

    def _done(self, request: StoredRequest, confirm: bool) -> None:
        if not request.is_open:
            return
        operation = OperationId(request.session, request.number)
        self._pending.done.append(operation)
        if confirm:
            self._pending.settled.append(operation)
        self._soon()

    def _make_space(self, size: int) -> None:
        """Drops the oldest of what the application never asked for, when there is no space."""
        if self.size + size > self._options.max_state_bytes:
            for request in self.settled_requests():
                self.forget(request.position, confirm=False)
                if self.size + size <= self._options.max_state_bytes:
                    return

    # ------------------------------------------------------------------ messages

    def handed(self, messages: Iterable[Message]) -> None:
        """These messages are about to be returned to the application."""
        for message in messages:
            if message.hand_over is None or not message.hand_over.number:
                continue
            position = self._position_of(message.hand_over)
            entry = StoredHandOver(position, self._scope, *message.hand_over, False)
            self._note(entry)
            self._pending.changes.hand_overs[entry.position] = entry
            self._pending.required = True

    def taken(self, names: Iterable[HandOverId]) -> None:
        """The application needs these messages no more."""
        for name in names:
            noted = self._hand_overs.get(OperationId(name.session, name.number), {}).get(name.message_id)
            if noted is not None and not noted.taken:
                entry = StoredHandOver(noted.position, self._scope, *name, True)
                self._note(entry)
                self._pending.changes.hand_overs[entry.position] = entry
                self._soon()

    def has_returned(self, name: HandOverId) -> bool:
        """Tells whether the application may have seen this message; False when it certainly has not."""
        noted = self._hand_overs.get(OperationId(name.session, name.number))
        if noted is not None and name.message_id in noted:
            return True
        return not self.is_own(name.session)

    def is_own(self, session: int) -> bool:
        """Tells whether no other process was the client since that session; False when that is not known."""
        first = self.client.first_session if self.client is not None else 0
        return 0 < first <= session

    def taken_messages(self) -> list[HandOverId]:
        """Returns the messages that the application needs no more and that the service may still keep."""
        return [
            HandOverId(*operation, message_id)
            for operation, messages in self._hand_overs.items()
            for message_id, noted in messages.items()
            if noted.taken
        ]

    def drop_message(self, name: HandOverId) -> None:
        """The service no longer keeps this message for the client."""
        operation = OperationId(name.session, name.number)
        messages = self._hand_overs.get(operation)
        if messages is None:
            return
        noted = messages.pop(name.message_id, None)
        if noted is not None:
            self._drop(noted)
        if not messages:
            del self._hand_overs[operation]

    def drop_read(self, operation: OperationId) -> None:
        """The service no longer keeps anything of this read."""
        for noted in self._hand_overs.pop(operation, {}).values():
            self._drop(noted)

    def keep_listed(self, listed: Collection[HandOverId]) -> None:
        """A takeover lists these messages: others were confirmed, or are no longer this client's."""
        for operation, messages in list(self._hand_overs.items()):
            for message_id in list(messages):
                name = HandOverId(*operation, message_id)
                if name not in listed:
                    self.drop_message(name)

    def _position_of(self, name: HandOverId) -> int:
        noted = self._hand_overs.get(OperationId(name.session, name.number), {}).get(name.message_id)
        if noted is not None:
            return noted.position
        self._position += 1
        return self._position

    def _note(self, entry: StoredHandOver) -> None:
        messages = self._hand_overs.setdefault(OperationId(entry.session, entry.number), {})
        messages[entry.message_id] = _ReturnedMessage(entry.position, entry.taken)

    def _drop(self, noted: _ReturnedMessage) -> None:
        self._pending.changes.hand_overs[noted.position] = None
        self._soon()

    # ------------------------------------------------------------------ topics

    @property
    def positions(self) -> dict[int, int]:
        """By subscription, the number up to which the application has processed the messages."""
        return dict(self._positions)

    @property
    def owes_positions(self) -> bool:
        """Tells whether a position that the service may not know is not durable yet."""
        batches = [self._pending] if self._writing is None else [self._pending, self._writing]
        return any(entry is not None for batch in batches for entry in batch.changes.positions.values())

    def reached(self, subscription_id: int, number: int) -> None:
        """The application needs the messages of a subscription up to this one no more."""
        self._positions[subscription_id] = number
        position = StoredPosition(self._scope, subscription_id, number)
        self._pending.changes.positions[subscription_id] = position
        self._soon()

    def drop_position(self, subscription_id: int, number: int | None) -> None:
        """The service knows this position, or (None) no longer has the subscription."""
        known = self._positions.get(subscription_id)
        if known is not None and (number is None or known <= number):
            del self._positions[subscription_id]
            self._pending.changes.positions[subscription_id] = None
            self._soon()


def _merged(earlier: StateChanges, later: StateChanges) -> StateChanges:
    if later.clear:
        return later
    return StateChanges(
        earlier.clear,
        later.client or earlier.client,
        {**earlier.requests, **later.requests},
        {**earlier.hand_overs, **later.hand_overs},
        {**earlier.positions, **later.positions},
    )
