"""The client to be on the service, and what the service answers when a connection becomes that client's."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass, field

from telesto.client import arguments
from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.calls.state import StoredClient
from telesto.client.errors import StateMismatchError
from telesto.client.url import ExistingClient
from telesto.protocol.errors import InvalidParameterError
from telesto.protocol.packets import ClientMode

#: Length of what stands for a process.
TOKEN_BYTES = 16

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
#: How much of this machine's name stands in names and is told to the service, in characters.
_HOST_MAX = 100


@dataclass(frozen=True, slots=True)
class WantedClient:
    """The client that the application wants to be.

    Attributes:
        name: its name, which may have placeholders; None with a ``client_id``, and for a temporary client.
        client_id: the id of a client that exists; None with a name, and for a temporary client.
        mode: what it may do; None for any (FULL when it has to be registered).
        existing: what to do when the name is taken.
    """

    name: str | None = None
    client_id: int | None = None
    mode: ClientMode | None = None
    existing: ExistingClient = "use"

    @property
    def temporary(self) -> bool:
        """Tells whether it is a client that lasts as long as it is connected."""
        return self.name is None and self.client_id is None

    @property
    def shared(self) -> bool:
        """Tells whether other processes may have the same name."""
        return self.name is None or not ("{pid}" in self.name or "{random}" in self.name)


def check_client_name(name: object) -> None:
    """Checks a client's name, and what comes of its placeholders. Raises TypeError, InvalidParameterError."""
    arguments.check_name("name", _expanded(arguments.check_name("name", name)))


def this_process() -> str:
    """Returns what tells this process from others, for people: ``host:pid``."""
    return _expanded("{host}:{pid}")


def _expanded(name: str) -> str:
    """Returns a client's name with what its placeholders stand for. Raises InvalidParameterError."""

    def value(match: re.Match[str]) -> str:
        match match[1]:
            case "host":
                return socket.gethostname()[:_HOST_MAX]
            case "pid":
                return str(os.getpid())
            case "random":
                return secrets.token_hex(4)
        raise InvalidParameterError(
            f"the client's name has {match[0]!a}; the placeholders are {{host}}, {{pid}} and {{random}}"
        )

    return _PLACEHOLDER.sub(value, name)


@dataclass(slots=True)
class Identity:
    """The client to be on the service.

    Attributes:
        client_id: its id; None until it is known.
        name: its name; None when it was asked for by id and is not known yet.
        mode: what it may do; None for any (FULL when it has to be registered).
        existing: what to do when the name is taken.
        temporary: it lasts as long as it is connected, and may be made anew under its name.
        locked: only one process of this machine may have it at a time, see NameLock.
        token: stands for this process; the same in each try, so that a repeated one gives the same client.
        attempts: how often it asked to be the client: one that comes late must not undo a later one.
        held: this session has been the client. From then on it resumes only if no other process was the
            client meanwhile: such a process has confirmed what it was told of, so a request that the takeover
            does not list may have been done.
        from_state: an earlier process was this client; this one has its state, but was not the client yet.
    """

    client_id: int | None
    name: str | None
    mode: ClientMode | None
    existing: ExistingClient
    temporary: bool = False
    locked: bool = False
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)
    attempts: int = 0
    held: bool = False
    from_state: bool = False

    def next_attempt(self) -> int:
        """Counts one more attempt; returns its number."""
        self.attempts += 1
        return self.attempts

    def begin_anew(self) -> None:
        """Another process was the client, or it was deleted: identify by the name, as a new process would."""
        if self.name is not None:
            self.client_id = None
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self.attempts = 0
        if self.existing == "error":
            self.existing = "use"
        self.held = self.from_state = False


def temporary_identity(mode: ClientMode | None) -> Identity:
    """Returns the identity of a new temporary client."""
    name = _expanded("temporary-{host}-{pid}-{random}{random}")
    return Identity(None, name, mode, "error", temporary=True)


def choose_identity(wanted: WantedClient, before: Identity | None, stored: StoredClient | None) -> Identity:
    """Returns the identity under which to connect.

    Args:
        wanted: the client that the application wants to be.
        before: the identity that was tried before, in vain; to connect is then to try the same registration
            again, in case that one was done and only its answer was lost.
        stored: the client that the state belongs to; None without one.

    Raises StateMismatchError when the state is that of another client.
    """
    if stored is None:
        if before is not None:
            return before
        if wanted.temporary:
            return temporary_identity(wanted.mode)
    elif wanted.temporary:
        client_id = None if stored.name else stored.client_id
        existing: ExistingClient = "use" if wanted.existing == "error" else wanted.existing
        identity = Identity(client_id, stored.name or None, wanted.mode, existing, locked=True)
        return _with_state(identity, stored)
    name = None if wanted.name is None else _expanded(wanted.name)
    identity = Identity(wanted.client_id, name, wanted.mode, wanted.existing, locked=wanted.shared)
    return identity if stored is None else _with_state(identity, stored)


def _with_state(identity: Identity, stored: StoredClient) -> Identity:
    """Returns the identity as which a client comes back that has been it before, or tried to be."""
    if stored.scope is not None:
        asked = identity.client_id if identity.name is None else identity.name
        if asked not in (stored.client_id, stored.name):
            raise StateMismatchError(
                f"the state directory belongs to client {stored.name!r} (id {stored.client_id}), not to "
                f"{asked!r}; connect as that client, or give this one a state directory of its own"
            )
        identity.client_id = stored.client_id
        identity.held = identity.from_state = True
    elif identity.name != stored.name:
        return identity
    identity.token, identity.attempts = stored.token, stored.attempts
    return identity


@dataclass(frozen=True, slots=True)
class HandshakeResult:
    """What came out of a handshake.

    Attributes:
        resumed: no other process has been the client since the session before, so that what the takeover does
            not list was not done.
    """

    client_id: int
    name: str
    mode: ClientMode
    session: int
    next_number: int
    incarnation: str
    takeover: Takeover
    resumed: bool
