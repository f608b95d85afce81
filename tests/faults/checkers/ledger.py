"""The histories of all clients, sorted by what the checks ask for."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ..clients.history import (
    DOUBT,
    Confirmed,
    Event,
    Noted,
    PutBegan,
    PutEnded,
    ReadBegan,
    ReadEnded,
    Recovered,
    Released,
    Taken,
)
from .calls import Calls


class Name(NamedTuple):
    """A message as its sender knows it: a body in a queue."""

    key: str
    queue_id: int


@dataclass(slots=True)
class Put:
    """A message that a client tried to put into a queue.

    Attributes:
        place: position among all puts of the client's processes.
        began, ended: the calls' events; a call that never returned left doubt, until the client was told.
        told: how often it was told what became of it.
    """

    place: int
    began: PutBegan
    ended: PutEnded | None = None
    told: int = 0

    @property
    def outcome(self) -> str:
        """DONE, REFUSED or DOUBT."""
        return DOUBT if self.ended is None else self.ended.outcome


@dataclass(slots=True)
class HandOver:
    """A message that an application got.

    Attributes:
        read: the event of the read that gave it.
        taken: the message.
        proven: the service is known to have heard of its confirmation.
        noted: the client's state is known to have it.
        released: the application gave it back: DONE, or DOUBT when nobody knows; empty when it did not.
    """

    read: ReadEnded
    taken: Taken
    proven: bool = False
    noted: bool = False
    released: str = ""


class Ledger(Calls):
    """Sorts the events of all processes.

    Attributes:
        puts: by name.
        hand_overs: by message id, in the order of time.
        taken_by: by client, its hand-overs in the order in which it got them.
    """

    def __init__(self, events: Iterable[Event]) -> None:
        super().__init__()
        self.puts: dict[Name, Put] = {}
        self.hand_overs: dict[int, list[HandOver]] = defaultdict(list)
        self.taken_by: dict[str, list[HandOver]] = defaultdict(list)
        self._places: dict[str, int] = defaultdict(int)
        self._unproven: dict[tuple[str, int], list[_Unproven]] = defaultdict(list)
        self._reads: dict[tuple[str, int, int], list[HandOver]] = {}
        for event in sorted(events, key=lambda event: event.at):
            self._enter(event)

    def _enter(self, event: Event) -> None:
        match event:
            case PutBegan():
                self._put_began(event)
            case PutEnded():
                self._put_ended(event)
            case ReadBegan():
                self._read_began(event)
            case ReadEnded():
                self._read_ended(event)
            case Confirmed():
                self._confirmed(event)
            case Recovered():
                self._recovered(event)
            case Noted():
                for hand_over in self._reads[event.client, event.run, event.number]:
                    hand_over.noted = True
            case Released():
                for hand_over in self._reads[event.client, event.run, event.number]:
                    hand_over.released = event.outcome
            case _:
                self.enter(event)

    def _put_began(self, event: PutBegan) -> None:
        self._places[event.client] += 1
        name = Name(event.key, event.queue_id)
        if name in self.puts:
            self.problems.append(f"the test itself put {name} twice")
        self.puts[name] = Put(self._places[event.client], event)
        self.process(event).began["put", event.number] = event

    def _put_ended(self, event: PutEnded) -> None:
        self.puts[Name(event.key, event.queue_id)].ended = event
        self.process(event).returned["put", event.number] = event

    def _recovered(self, event: Recovered) -> None:
        name = Name(event.key, event.queue_id)
        put = self.puts.get(name)
        if put is None:
            self.problems.append(f"{event.client}.{event.run} was told of {name}, which nobody put")
            return
        put.told += 1
        if event.outcome == DOUBT:
            self.problems.append(f"in doubt: {name} ({event.error}), although its client has its state")
        elif put.ended is None or put.ended.outcome == DOUBT:
            values = (event.outcome, event.message_id, event.error)
            number = put.began.number
            put.ended = PutEnded(event.client, event.run, event.at, number, *name, *values)
        elif (put.ended.outcome, put.ended.message_id) != (event.outcome, event.message_id):
            known = f"{put.ended.outcome} as {put.ended.message_id}"
            self.problems.append(f"told: {name} is {event.outcome} as {event.message_id}, but was {known}")

    def _read_began(self, event: ReadBegan) -> None:
        self.process(event).began["read", event.number] = event
        for unproven in self._unproven[event.client, event.run]:
            unproven.followers.add(event.number)

    def _read_ended(self, event: ReadEnded) -> None:
        self.process(event).returned["read", event.number] = event
        self._prove(event)
        got = [HandOver(event, taken) for taken in event.messages]
        self._reads[event.client, event.run, event.number] = got
        self.taken_by[event.client] += got
        for hand_over in got:
            self.hand_overs[hand_over.taken.message_id].append(hand_over)

    def _confirmed(self, event: Confirmed) -> None:
        """Only what was read and confirmed in one session is confirmed by the next read of that session."""
        hand_overs = self._reads[event.client, event.run, event.number]
        began = self.process(event).began["read", event.number]
        assert isinstance(began, ReadBegan)
        if hand_overs and began.session == hand_overs[0].read.session == event.session:
            self._unproven[event.client, event.run].append(_Unproven(event.session, hand_overs))

    def _prove(self, event: ReadEnded) -> None:
        """A read that was called after a confirmation, in the same session, carried it.

        One whose messages are redelivered may have been answered by the library itself.
        """
        if event.error or any(taken.redelivered for taken in event.messages):
            return
        kept = []
        for unproven in self._unproven[event.client, event.run]:
            if event.number in unproven.followers and event.session == unproven.session:
                for hand_over in unproven.hand_overs:
                    hand_over.proven = True
            else:
                kept.append(unproven)
        self._unproven[event.client, event.run] = kept


@dataclass(slots=True)
class _Unproven:
    session: int
    hand_overs: list[HandOver]
    followers: set[int] = field(default_factory=set)
