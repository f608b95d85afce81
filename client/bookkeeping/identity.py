"""The client to be on the service, and what the service answers when a connection becomes that client's."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.url import Existing
from telesto.protocol.packets import ClientMode

#: Length of what stands for a process.
TOKEN_BYTES = 16


@dataclass(slots=True)
class Identity:
    """The client to be on the service.

    Attributes:
        client_id: its id; None until it is known.
        name: its name; None when it was asked for by id and is not known yet.
        mode: what it may do; None for any (FULL when it has to be registered).
        existing: what to do when the name is taken.
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
    existing: Existing
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
        self.existing = "use"
        self.held = self.from_state = False


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
