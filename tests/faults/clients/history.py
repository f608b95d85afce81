"""What each client saw: one JSON line per event, written before the client goes on.

Times are seconds of CLOCK_MONOTONIC, which all processes of a machine share. A line is written by one system
call, so that what a process had seen is there after it was killed.
"""

import json
import os
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

#: Outcomes of a put: it was done, it was not and never will be, nobody knows.
DONE = "done"
REFUSED = "refused"
DOUBT = "doubt"


@dataclass(slots=True)
class Event:
    """Something that happened to a client.

    Attributes:
        client: its name.
        run: which of the processes under this name, counted from 1.
        at: when.
    """

    client: str
    run: int
    at: float


@dataclass(slots=True)
class Began(Event):
    """The client is connected.

    Attributes:
        client_id: its id.
        ordered: it makes its puts in the order of their events and has one read under way at a time.
    """

    client_id: int
    ordered: bool = True


@dataclass(slots=True)
class Ended(Event):
    """The client has closed and ends by itself.

    Attributes:
        leaks: tasks and threads that were left.
    """

    leaks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Killed(Event):
    """The process was killed, by who ran it."""


@dataclass(slots=True)
class Left(Event):
    """The killed process left its state to the next one; without this event it left nothing.

    Attributes:
        puts: what the state holds of puts: key and queue of each message, 0 for one to a topic.
    """

    puts: list[tuple[str, int]]


@dataclass(slots=True)
class Recovered(Event):
    """The client was told what became of a put whose call had not told it.

    Attributes:
        queue_id, topic: where it was put; 0 or empty for the other.
        outcome, message_id, error: as of PutEnded.
    """

    key: str
    queue_id: int
    outcome: str
    message_id: int = 0
    error: str = ""
    topic: str = ""


@dataclass(slots=True)
class PutBegan(Event):
    """A put of one message into one queue was called.

    Attributes:
        number: of the call; a call of several messages has an event for each, in their order.
        key: what the body begins with; unique.
        queue_id, priority, receiver_id: the message's; receiver 0 for anyone.
        session: the client's at the call.
        partition: the key of its partition; empty without.
    """

    number: int
    key: str
    queue_id: int
    priority: int
    receiver_id: int = 0
    session: int = 0
    partition: str = ""


@dataclass(slots=True)
class PutEnded(Event):
    """The put returned.

    Attributes:
        outcome: DONE, REFUSED or DOUBT.
        message_id: with DONE.
        error: name of the exception, if any.
        session: the client's at the return.
    """

    number: int
    key: str
    queue_id: int
    outcome: str
    message_id: int = 0
    error: str = ""
    session: int = 0


@dataclass(slots=True)
class ReadBegan(Event):
    """A read was called; it may wait for ``wait`` seconds."""

    number: int
    queue_id: int
    wait: float
    session: int = 0


@dataclass(slots=True)
class Taken:
    """A message as the application has it.

    Attributes:
        intact: the body is what was put under this key.
    """

    message_id: int
    key: str
    priority: int
    sender_id: int
    receiver_id: int
    redelivered: bool
    intact: bool


@dataclass(slots=True)
class ReadEnded(Event):
    """The read returned.

    Attributes:
        messages: what the application has now.
        error: name of the exception, if any; "cancelled" when the caller gave up.
        session: the client's at the return.
    """

    number: int
    queue_id: int
    messages: list[Taken] = field(default_factory=list)
    error: str = ""
    session: int = 0


@dataclass(slots=True)
class Confirmed(Event):
    """The application is about to confirm the messages of a read."""

    number: int
    session: int


@dataclass(slots=True)
class Noted(Event):
    """The client has written to its state that the messages of a read are confirmed."""

    number: int


@dataclass(slots=True)
class Released(Event):
    """The application gave the messages of a read back.

    Attributes:
        number: of the read.
        outcome: DONE when they are back in their queue; DOUBT when they may be.
    """

    number: int
    outcome: str


@dataclass(slots=True)
class PublishBegan(Event):
    """A put of one message to a topic was called.

    Attributes:
        number: of the call; a call of several messages has an event for each, in their order.
        key: what the body begins with; unique, but for a sequence that another process puts again.
        sequence: the publisher's own number; 0 without.
    """

    number: int
    key: str
    topic: str
    sequence: int = 0
    session: int = 0


@dataclass(slots=True)
class PublishEnded(Event):
    """The put returned.

    Attributes:
        outcome: DONE, REFUSED or DOUBT.
        message_number: with DONE; 0 where the service no longer knows it.
        error: name of the exception, if any.
    """

    number: int
    key: str
    topic: str
    outcome: str
    message_number: int = 0
    error: str = ""
    session: int = 0


@dataclass(slots=True)
class SubscribeBegan(Event):
    """The client is about to subscribe."""

    number: int
    topic: str


@dataclass(slots=True)
class Subscribed(Event):
    """The client knows that it has a subscription, by its answer or from the list."""

    topic: str
    subscription_id: int


@dataclass(slots=True)
class UnsubscribeBegan(Event):
    """The client is about to unsubscribe; from now on it may have got everything that it ever gets."""

    topic: str


@dataclass(slots=True)
class GetBegan(Event):
    """A get was called, of a topic or of all (empty); it may wait for ``wait`` seconds."""

    number: int
    topic: str
    wait: float
    session: int = 0


@dataclass(slots=True)
class Got:
    """A message of a topic as the application has it.

    Attributes:
        intact: the body is what was put under this key.
    """

    subscription_id: int
    topic: str
    message_number: int
    key: str
    intact: bool


@dataclass(slots=True)
class GetEnded(Event):
    """The get returned.

    Attributes:
        messages: what the application has now.
        error: name of the exception, if any; "cancelled" when the caller gave up.
    """

    number: int
    topic: str
    messages: list[Got] = field(default_factory=list)
    error: str = ""
    session: int = 0


@dataclass(slots=True)
class TakeBegan(Event):
    """A consumer asked for the next message that was pushed to it; it may wait for ``wait`` seconds."""

    number: int
    wait: float
    session: int = 0


@dataclass(slots=True)
class Leased:
    """A message that was pushed, as the application has it.

    Attributes:
        lease_id: rises with each lease in the service.
        intact: the body is what was put under this key.
        partition: the key of its partition; empty without.
        attempt: which attempt this is, as the service counts.
    """

    message_id: int
    queue_id: int
    lease_id: int
    key: str
    priority: int
    sender_id: int
    redelivered: bool
    intact: bool
    partition: str = ""
    attempt: int = 1


@dataclass(slots=True)
class TakeEnded(Event):
    """The consumer has messages now, or none came.

    Attributes:
        error: name of the exception, if any; "cancelled" when the caller gave up.
    """

    number: int
    messages: list[Leased] = field(default_factory=list)
    error: str = ""
    session: int = 0


@dataclass(slots=True)
class SettleBegan(Event):
    """The application answers a message; ``what`` is ack, nack or touch."""

    number: int
    message_id: int
    lease_id: int
    what: str
    session: int = 0


@dataclass(slots=True)
class SettleEnded(Event):
    """The answer was taken.

    Attributes:
        outcome: DONE; REFUSED when the lease was over, or nothing was done; DOUBT.
        error: name of the exception, if any.
    """

    number: int
    message_id: int
    lease_id: int
    what: str
    outcome: str
    error: str = ""
    session: int = 0


@dataclass(slots=True)
class Trouble(Event):
    """Something that must not happen."""

    what: str


@dataclass(slots=True)
class Fault(Event):
    """A fault was at work from ``at`` to ``until``; client names the kind, run counts them.

    Attributes:
        target: what it struck.
        effect: how much it struck (connections, chunks, processes); 0 for nothing.
    """

    until: float
    target: str
    effect: int


_KINDS: dict[str, type[Event]] = {
    name: each for name, each in dict(vars()).items() if isinstance(each, type) and issubclass(each, Event)
}
#: Events that hold messages, and what these are.
_HOLDING: dict[type[Event], type[Taken | Got | Leased]] = {ReadEnded: Taken, GetEnded: Got, TakeEnded: Leased}


class Recorder:
    """Writes the history of one process."""

    def __init__(self, directory: Path, client: str, run: int) -> None:
        self.client = client
        self.run = run
        self._file = os.open(
            directory / f"{client}.{run}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644
        )

    def write(self, event: type[Event], **values: Any) -> None:
        """Writes an event of this client, now."""
        values.setdefault("at", time.monotonic())
        self.write_event(event(client=self.client, run=self.run, **values))

    def write_event(self, event: Event) -> None:
        """Writes an event as it is."""
        line = json.dumps({"kind": type(event).__name__, **asdict(event)}, separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def read_histories(directory: Path, client: str = "*") -> list[Event]:
    """Returns the events of a client's processes, or of all: each process's in their order, one by one."""
    events: list[Event] = []
    for path in sorted(directory.glob(f"{client}.*.jsonl")):
        events += _read(path)
    return events


def _read(path: Path) -> Iterator[Event]:
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return  # the process was killed while it wrote
        values = json.loads(line)
        event = _KINDS[values.pop("kind")]
        if message := _HOLDING.get(event):
            values["messages"] = [message(**each) for each in values["messages"]]
        yield event(**values)
