"""The beginning of a connection: agreeing on version and limits, becoming a client, and taking over."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from telesto.client.bookkeeping.takeover import Takeover
from telesto.client.connection.link import Errand
from telesto.client.url import Existing
from telesto.protocol import packets
from telesto.protocol.errors import (
    AuthenticationFailedError,
    ClientNameNotUniqueError,
    ClientNotExistingError,
    ErrorClass,
    TakeoverBusyError,
    TelestoError,
    UnsupportedVersionError,
)
from telesto.protocol.packets import ClientMode, Packet

#: Length of what stands for a process.
TOKEN_BYTES = 16

_LIBRARY = "telesto-python"


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
        held: it has been this client. From then on it comes back only if nobody else was it meanwhile, for
            whoever was has confirmed what it was told of: what is not listed then may have been done.
        revived: an earlier process was this client, and this one has its state but has not been it yet.
    """

    client_id: int | None
    name: str | None
    mode: ClientMode | None
    existing: Existing
    token: bytes = field(default_factory=lambda: secrets.token_bytes(TOKEN_BYTES), repr=False)
    attempts: int = 0
    held: bool = False
    revived: bool = False

    def next_attempt(self) -> int:
        """Counts one more attempt; returns its number."""
        self.attempts += 1
        return self.attempts

    def begin_anew(self) -> None:
        """Somebody else was the client, or it was deleted: comes as anybody would, by its name."""
        if self.name is not None:
            self.client_id = None
        self.token = secrets.token_bytes(TOKEN_BYTES)
        self.attempts = 0
        self.existing = "use"
        self.held = self.revived = False


@dataclass(frozen=True, slots=True)
class Established:
    """What came out of a handshake.

    Attributes:
        resumed: nobody else has been the client since the session before, so that what the takeover does not
            list was not done.
    """

    client_id: int
    name: str
    mode: ClientMode
    session: int
    next_number: int
    incarnation: str
    takeover: Takeover
    resumed: bool


class HandshakeHost(Protocol):
    """What a handshake needs of the session that it belongs to."""

    def send_errand(self, errand: Errand) -> None:
        """Sends a request of the library."""

    def new_takeover(self) -> Takeover:
        """Makes the place for what a takeover lists."""

    def asking(self, identity: Identity) -> None:
        """The client is about to be asked for, with one more attempt."""

    def greeted(self, response: packets.HelloResponse) -> None:
        """Version and limits are agreed on."""

    def established(self, result: Established) -> None:
        """The connection is that of the client."""

    def handshake_failed(self, error: TelestoError) -> None:
        """Not on this connection; another one may succeed."""

    def handshake_refused(self, error: TelestoError) -> None:
        """Not on any connection."""


class Handshake:
    """Leads one connection to the point where requests may be sent.

    Attributes:
        retry_at: when to try again to take over, by the session's clock; infinity when nothing waits for it.
    """

    def __init__(self, host: HandshakeHost, retry_time: Callable[[int], float]) -> None:
        self._host = host
        self._retry_time = retry_time
        self._identity: Identity | None = None
        self._takeover: Takeover | None = None
        self._identified: packets.IdentifyClientResponse | None = None
        self._resuming = False
        self._busy = 0
        self.retry_at = math.inf

    def greet(self, max_frame: int) -> None:
        """Sends Hello."""
        hello = packets.Hello(
            packets.MAGIC,
            packets.PROTOCOL_MAJOR,
            packets.PROTOCOL_MINOR,
            _LIBRARY,
            _library_version(),
            max_frame,
            [],
        )
        self._send(hello, self._greeted)

    def identify(self, identity: Identity) -> None:
        """Becomes the client, after the greeting."""
        self._identity = identity
        if identity.client_id is None and identity.existing != "use":
            self._register(identity)
            return
        self._resuming = identity.held
        client_id, name = (identity.client_id, "") if identity.client_id else (0, identity.name or "")
        request = packets.IdentifyClient(
            client_id,
            name,
            token=identity.token,
            resume=identity.held,
            attempt=identity.next_attempt(),
            mode=identity.mode,
        )
        self._host.asking(identity)
        self._send(request, self._on_identified)

    def tick(self, now: float) -> None:
        """Tries again what was busy, when it is time."""
        if now >= self.retry_at and self._identity is not None:
            self.retry_at = math.inf
            self.identify(self._identity)

    def _register(self, identity: Identity) -> None:
        mode = identity.mode or ClientMode.FULL
        request = packets.RegisterClient(
            identity.name or "", mode, identity.token, attempt=identity.next_attempt()
        )
        self._host.asking(identity)
        self._send(request, self._on_registered)

    def _send(self, packet: Packet, on_answer: Callable[[Errand], None]) -> None:
        self._host.send_errand(Errand(packet, on_answer, self._refused, None))

    def _greeted(self, errand: Errand) -> None:
        response: packets.HelloResponse = errand.response
        if response.major != packets.PROTOCOL_MAJOR:
            details = (
                f"the middleware speaks protocol {response.major}, this library {packets.PROTOCOL_MAJOR}"
            )
            self._host.handshake_failed(UnsupportedVersionError(details))
        elif response.mechanisms:
            details = f"the middleware asks for authentication, by {', '.join(response.mechanisms)}"
            self._host.handshake_refused(AuthenticationFailedError(details))
        else:
            self._host.greeted(response)

    def _on_registered(self, errand: Errand) -> None:
        response: packets.RegisterClientResponse = errand.response
        identity = self._identity
        assert identity is not None
        self._host.established(
            Established(
                response.client_id,
                identity.name or "",
                identity.mode or ClientMode.FULL,
                response.session,
                1,
                response.incarnation,
                self._host.new_takeover(),
                False,
            )
        )

    def _on_identified(self, errand: Errand) -> None:
        response: packets.IdentifyClientResponse = errand.response
        self._identified = response
        self._takeover = self._host.new_takeover()
        self._add_page(response)

    def _on_listed(self, errand: Errand) -> None:
        self._add_page(errand.response)

    def _add_page(self, page: packets.IdentifyClientResponse | packets.ListUnconfirmedResponse) -> None:
        takeover, identified = self._takeover, self._identified
        assert takeover is not None
        assert identified is not None
        takeover.add(page)
        if page.more:
            self._send(takeover.next_page(), self._on_listed)
            return
        self._host.established(
            Established(
                identified.client_id,
                identified.client_name,
                identified.mode,
                identified.session,
                identified.next_number,
                identified.incarnation,
                takeover,
                self._resuming,
            )
        )

    def _refused(self, error: TelestoError) -> None:
        identity = self._identity
        by_name = identity is not None and identity.client_id is None and identity.existing == "use"
        if isinstance(error, TakeoverBusyError):
            self._busy += 1
            self.retry_at = self._retry_time(self._busy)
        elif identity is not None and by_name and isinstance(error, ClientNotExistingError):
            self._register(identity)
        elif identity is not None and by_name and isinstance(error, ClientNameNotUniqueError):
            self.identify(identity)
        elif error.error_class is ErrorClass.REJECTED:
            if isinstance(error, ClientNameNotUniqueError):
                name = identity.name if identity is not None else ""
                error.details = (
                    f'a client named {name!r} exists already; to become it, connect with existing="use"'
                )
            self._host.handshake_refused(error)
        else:
            self._host.handshake_failed(error)


@lru_cache(maxsize=1)
def _library_version() -> str:
    from importlib import metadata  # slow to import, and needed once

    try:
        return metadata.version("telesto-mq")
    except metadata.PackageNotFoundError:
        return "unknown"
