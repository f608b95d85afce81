"""A session, the service in memory, and the wire between them, moved by hand and by a clock of its own."""

import random
from typing import Any

from fake_service import FakeConnection, FakeService
from memory_state import MemoryState
from telesto.client.bookkeeping.identity import Identity, WantedClient, choose_identity
from telesto.client.calls.queue_calls import DONE, Call
from telesto.client.calls.state import StateChanges
from telesto.client.connection.link import Link
from telesto.client.durable.durable_session import DurableSession
from telesto.client.options import ClientOptions
from telesto.client.session.session import Delivery, Session
from telesto.client.url import Credentials, parse_address
from telesto.protocol.errors import ConnectionLostError


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Wire:
    """Connects a session with a service; bytes move when told to."""

    def __init__(
        self,
        clock: Clock,
        service: FakeService,
        options: ClientOptions | None = None,
        delivery: Delivery = "once",
        state: MemoryState | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.clock = clock
        self.service = service
        self.state = state
        self.writing: StateChanges | None = None
        self.writes_wait = False
        addresses = [parse_address("a:1"), parse_address("b:2")]
        chance = random.Random(1)
        options = options or ClientOptions()
        self.session: Any
        if state is None:
            self.session = Session(addresses, options, delivery, clock, chance, credentials=credentials)
        else:
            self.session = DurableSession(addresses, options, clock, chance, credentials=credentials)
            self.session.load(state.stored)
        self.link: Link | None = None
        self.remote: FakeConnection | None = None
        self.to_service = b""
        self.to_client = b""

    # moves

    def open_link(self) -> bool:
        """Connects if the session wants to and it is time."""
        attempt = self.session.next_attempt
        if attempt is None or attempt[1] > self.clock.now:
            return False
        self.link = self.session.link_up(attempt[0])
        self.remote = self.service.connect()
        self.to_service = self.to_client = b""
        return True

    def cut(self) -> None:
        """The connection breaks, with what is on its way."""
        if self.remote is not None:
            self.service.kill(self.remote)
        self.remote = None
        self.to_service = self.to_client = b""
        link, self.link = self.link, None
        if link is not None and self.session.link is link:
            self.session.link_down(ConnectionLostError("cut"))

    def collect(self) -> None:
        """Takes what both sides want to send."""
        self.session.pump()
        if not self.writes_wait:
            self.write()
        if self.link is not None and self.session.link is not self.link:
            self.cut()
            return
        self.to_service += self.session.take_output()
        if self.remote is not None:
            self.to_client += self.remote.take_output()

    # the state

    def write(self) -> None:
        """Writes what the session has to have written."""
        self.end_write()
        while self.begin_write():
            self.end_write()
            self.session.pump()

    def begin_write(self) -> bool:
        """Begins a write, if the session wants one; it is under way until ``end_write``."""
        if self.state is None or self.writing is not None:
            return False
        self.writing = self.session.begin_flush()
        return self.writing is not None

    def end_write(self) -> None:
        """Ends the write that is under way."""
        changes, self.writing = self.writing, None
        if self.state is not None and changes is not None:
            self.session.end_flush(self.state.try_write(changes))

    # bytes

    def reach_service(self) -> None:
        """Has the service receive what is to be sent."""
        self.collect()
        self.deliver_to_service()

    def deliver_to_service(self, size: int | None = None) -> None:
        data, self.to_service = _split(self.to_service, size)
        if self.remote is not None and data:
            self.remote.receive(data)

    def deliver_to_client(self, size: int | None = None) -> None:
        data, self.to_client = _split(self.to_client, size)
        if data:
            self.session.feed(data)
        elif self.remote is not None and self.remote.closing and not self.remote.output:
            self.cut()

    def advance(self, seconds: float) -> None:
        """Lets time pass, in steps at which something is due."""
        end = self.clock.now + seconds
        for _ in range(10_000):
            due = min([self.session.timer, *(parked.until for parked in self.service.parked)])
            attempt = self.session.next_attempt
            if attempt is not None:
                due = min(due, attempt[1])
            if due > end:
                break
            self.clock.now = max(self.clock.now, due)
            self.service.tick()
            self.session.tick()
            self.settle()
        else:
            raise AssertionError("the session is busy without end")
        self.clock.now = end

    def settle(self) -> None:
        """Moves everything until nothing moves."""
        for _ in range(10_000):
            moved = self.open_link()
            self.collect()
            moved = moved or bool(self.to_service or self.to_client)
            self.deliver_to_service()
            self.collect()
            self.deliver_to_client()
            if self.session.timer <= self.clock.now:
                self.session.tick()
                moved = True
            if not moved:
                return
        raise AssertionError("the wire never comes to rest")

    # calls

    def connect(self, name: str = "alice", **attributes: Any) -> None:
        """Connects and waits for it."""
        call = self.session.connect(self.identity(name, **attributes))
        self.settle()
        self.finish(call)

    def identity(self, name: str | None, **attributes: Any) -> Identity:
        """Makes the identity to connect as, as the shells do."""
        client_id = attributes.get("client_id")
        wanted = WantedClient(
            None if client_id is not None else name,
            client_id,
            attributes.get("mode"),
            attributes.get("existing", "error"),
        )
        return choose_identity(wanted, None, None if self.state is None else self.session.stored_client)

    def start(self, call: Call[Any]) -> Call[Any]:
        """Makes a call without waiting for it."""
        self.session.submit(call)
        return call

    def finish(self, call: Call[Any]) -> Any:
        """Returns what an answered call returns."""
        assert call.phase == DONE, "the call is not over"
        return self.session.take(call)

    def run(self, call: Call[Any]) -> Any:
        """Makes a call, waits for it and returns what it returns."""
        self.start(call)
        self.settle()
        return self.finish(call)


def _split(data: bytes, size: int | None) -> tuple[bytes, bytes]:
    return (data, b"") if size is None else (data[:size], data[size:])
