"""What a client remembers beyond its process: the entries of a state, and what may be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol, TypeVar


class OperationId(NamedTuple):
    """Names a numbered request of a client."""

    session: int
    number: int


class Scope(NamedTuple):
    """Within which sessions and numbers mean something.

    Attributes:
        incarnation: the database.
        client_id: the client.
    """

    incarnation: str
    client_id: int


@dataclass(frozen=True, slots=True)
class StoredClient:
    """The client that a state belongs to, and how it comes back.

    Attributes:
        token: stands for the process that has this state; opens the session that only it may resume.
        attempts: how often the token was used to ask for a session; the next attempt has a higher number.
        name: the client's name; None while it was asked for by id and has never been connected.
        client_id: its id; None while it has never been connected.
        incarnation: the database that knows it; None while it has never been connected.
        first_session: the first session opened with this token; 0 while there is none.
    """

    token: bytes
    attempts: int = 0
    name: str | None = None
    client_id: int | None = None
    incarnation: str | None = None
    first_session: int = 0

    @property
    def scope(self) -> Scope | None:
        """Within which its sessions mean something; None while it has never been connected."""
        if self.client_id is None or self.incarnation is None:
            return None
        return Scope(self.incarnation, self.client_id)


class RequestPhase(IntEnum):
    """What a state knows of a request.

    OPEN: it may be sent or have been sent; the application waits for its end.
    GIVEN_UP: the same, but the call ended without telling what became of it; it is not sent again.
    SETTLED: what became of it is known, and the application has not been told.
    """

    OPEN = 1
    GIVEN_UP = 2
    SETTLED = 3


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A put.

    Attributes:
        position: identifies it within the state; requests are sent in this order.
        scope, session, number: of the last try.
        method_id, payload: the packet.
        phase: what is known of it.
        outcome: what became of it, when that is known, for telesto.client.durable.outcomes.
    """

    position: int
    scope: Scope
    session: int
    number: int
    method_id: int
    payload: bytes
    phase: RequestPhase = RequestPhase.OPEN
    outcome: bytes = b""

    @property
    def is_open(self) -> bool:
        """Tells whether it is not known what became of it."""
        return self.phase is not RequestPhase.SETTLED


@dataclass(frozen=True, slots=True)
class StoredHandOver:
    """A message that a read returned to the application.

    Attributes:
        position: identifies it within the state; messages were returned in this order.
        scope, session, number, message_id: name it.
        taken: the application has said, or shown by coming back, that it needs it no more.

    The message itself is not kept: the service has it until it is confirmed.
    """

    position: int
    scope: Scope
    session: int
    number: int
    message_id: int
    taken: bool


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """How far the application is in a subscription, as long as the service may not know.

    Attributes:
        scope: of the subscription.
        subscription_id: the subscription.
        number: the application needs the messages up to this one no more.
    """

    scope: Scope
    subscription_id: int
    number: int


@dataclass(slots=True)
class StateChanges:
    """What is to be written as one; writing it twice is as good as once.

    Attributes:
        clear: everything written before is void.
        client: the client's new entry; None when it stays as it is.
        requests: new entries by position, None for those to be dropped.
        hand_overs: the same for messages that were handed over.
        positions: the same for positions, by subscription.
    """

    clear: bool = False
    client: StoredClient | None = None
    requests: dict[int, StoredRequest | None] = field(default_factory=dict)
    hand_overs: dict[int, StoredHandOver | None] = field(default_factory=dict)
    positions: dict[int, StoredPosition | None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.clear or self.client or self.requests or self.hand_overs or self.positions)


@dataclass(slots=True)
class StoredState:
    """Everything that a state holds; requests and messages by position, positions by subscription."""

    client: StoredClient | None = None
    requests: dict[int, StoredRequest] = field(default_factory=dict)
    hand_overs: dict[int, StoredHandOver] = field(default_factory=dict)
    positions: dict[int, StoredPosition] = field(default_factory=dict)

    def apply(self, changes: StateChanges) -> None:
        """Takes the changes over; doing it twice is as good as once."""
        if changes.clear:
            self.client = None
            for entries in (self.requests, self.hand_overs, self.positions):
                entries.clear()
        self.client = changes.client or self.client
        _apply(self.requests, changes.requests)
        _apply(self.hand_overs, changes.hand_overs)
        _apply(self.positions, changes.positions)

    def as_changes(self) -> StateChanges:
        """Returns the changes that make this state out of an empty one."""
        return StateChanges(
            False, self.client, dict(self.requests), dict(self.hand_overs), dict(self.positions)
        )

    def is_of_one_client(self) -> bool:
        """Tells whether all that is not settled belongs to the state's client."""
        scopes = {request.scope for request in self.requests.values() if request.is_open}
        scopes.update(entry.scope for entry in self.hand_overs.values())
        scopes.update(entry.scope for entry in self.positions.values())
        return scopes <= {None if self.client is None else self.client.scope}


class StateStore(Protocol):
    """Where a state is kept."""

    @property
    def stored(self) -> StoredState:
        """What it holds."""

    def write(self, changes: StateChanges) -> None:
        """Writes the changes, all or none; they are durable on return. Raises StateWriteError."""

    def close(self) -> None:
        """Closes it, so that another process may have it."""

    def forked(self) -> None:
        """Closes it in a child process; the parent still has it."""


EntryT = TypeVar("EntryT")


def _apply(entries: dict[int, EntryT], changes: Mapping[int, EntryT | None]) -> None:
    for key, entry in changes.items():
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry
