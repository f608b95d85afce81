"""The processes of all clients and their calls, and what holds for them whatever they do."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..clients.history import Began, Ended, Event, Killed, Left, Trouble

FENCED = "SessionFencedError"


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long calls may take, in seconds: ``call_s`` beyond the time that a call waits."""

    call_s: float


#: Kind and number of a call.
Call = tuple[str, int]


@dataclass(slots=True)
class Process:
    """One process of a client.

    Attributes:
        ordered: what it puts and takes has an order.
        killed, ended: how it ended.
        killed_at: when it was killed.
        left: the puts in the state that it left to the next process when it was killed; None for no state.
        calls: began and ended events of its calls by kind and number.
    """

    client: str
    run: int
    client_id: int = 0
    ordered: bool = True
    killed: bool = False
    ended: bool = False
    killed_at: float = math.inf
    left: list[tuple[str, int]] | None = None
    leaks: list[str] = field(default_factory=list)
    began: dict[Call, Any] = field(default_factory=dict)
    returned: dict[Call, Any] = field(default_factory=dict)


class Calls:
    """Sorts events by the process that they are of.

    Attributes:
        processes: by client and run.
        problems: what cannot even be entered.
    """

    def __init__(self) -> None:
        self.processes: dict[tuple[str, int], Process] = {}
        self.problems: list[str] = []

    def process(self, event: Event) -> Process:
        """Returns the process that an event is of."""
        key = (event.client, event.run)
        if key not in self.processes:
            self.processes[key] = Process(*key)
        return self.processes[key]

    def enter(self, event: Event) -> None:
        """Takes note of how a process began and ended."""
        match event:
            case Began():
                process = self.process(event)
                process.client_id, process.ordered = event.client_id, event.ordered
            case Ended():
                process = self.process(event)
                process.ended, process.leaks = True, event.leaks
            case Killed():
                process = self.process(event)
                process.killed, process.killed_at = True, event.at
            case Left():
                self.process(event).left = [(key, queue_id) for key, queue_id in event.puts]
            case Trouble():
                self.problems.append(f"{event.client}.{event.run}: {event.what}")

    def runs_of(self, client: str, first: int) -> list[Process]:
        """Returns the processes of a client from one of them on, in their order."""
        runs = [run for name, run in self.processes if name == client and run >= first]
        return [self.processes[client, run] for run in sorted(runs)]

    def keeps_state(self, event: Event, until: float) -> bool:
        """Tells whether what the client's state had by this event was still there at a time."""
        return all(
            process.left is not None
            for process in self.runs_of(event.client, event.run)
            if process.killed_at <= until
        )


def misbehaviour(calls: Calls, bounds: Bounds) -> Iterator[str]:
    """All that must not happen whatever the clients do."""
    yield from calls.problems
    yield from fences(calls)
    yield from late_calls(calls, bounds)
    yield from leftovers(calls)


def fences(calls: Calls) -> Iterator[str]:
    """Calls that failed because of another process of the client, although each is killed before the next."""
    for process in calls.processes.values():
        for call, event in process.returned.items():
            if event.error == FENCED or (event.error and not event.session):
                yield f"fenced: {call} of {process.client}.{process.run} by nobody"


def late_calls(calls: Calls, bounds: Bounds) -> Iterator[str]:
    """Calls that took longer than they may, or never returned."""
    for process in calls.processes.values():
        for call in process.began:
            took = _beyond_wait_s(process, call)
            if took is None and not process.killed:
                yield f"hung: {call} of {process.client}.{process.run} never returned"
            elif took is not None and took > bounds.call_s:
                yield f"late: {call} of {process.client}.{process.run} took {took:.1f} s beyond its wait"


def _beyond_wait_s(process: Process, call: Call) -> float | None:
    """How long a call took beyond the time that it was told to wait; None if it did not return."""
    began, returned = process.began[call], process.returned.get(call)
    if returned is None:
        return None
    took: float = returned.at - began.at - getattr(began, "wait", 0.0)
    return took


def leftovers(calls: Calls) -> Iterator[str]:
    """Processes that ended in no known way, or left something behind."""
    for process in calls.processes.values():
        who = f"{process.client}.{process.run}"
        if not (process.ended or process.killed):
            yield f"{who} did not end by itself and was not killed"
        for leak in process.leaks:
            yield f"leak: {who} left {leak}"


def slowest_s(calls: Calls) -> float:
    """The longest call beyond its waiting time."""
    times = (_beyond_wait_s(process, call) for process in calls.processes.values() for call in process.began)
    return max((took for took in times if took is not None), default=0.0)
