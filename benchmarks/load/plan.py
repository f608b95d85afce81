"""What one process that generates load does: who takes part, and how."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self

from telesto.benchmarks.load.pacing import Arrivals, ThinkSpread
from telesto.benchmarks.load.worker import Plan
from telesto.client import Delivery

Role = Literal[
    "one-way",
    "sender",
    "receiver",
    "requester",
    "responder",
    "putter",
    "put-reader",
    "reader",
    "publisher",
    "subscriber",
    "away",
    "consumer",
    "idle",
]
ACTIVE_ROLES: tuple[Role, ...] = ("one-way", "sender", "requester", "putter", "put-reader", "publisher")
"""They send requests by themselves, as the pacing says; the others serve what comes, as fast as they can."""


@dataclass(frozen=True, slots=True)
class Participant:
    """One client that takes part.

    Attributes:
        number: counts the clients of a run, from 0; slots and streams are numbered after it.
        name: of the client, which is registered already.
        role: what it does.
        destination: its queue's id, or for topics the topic's name.
        peers: the ids of the clients to which it sends, one of them by chance each time; anyone when empty.
    """

    number: int
    name: str
    role: Role
    destination: int | str
    peers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """What one process does. Times in seconds.

    Attributes:
        blocking: with the blocking client; then there is one participant, and one slot.
        states: a directory in which each client has its durable state; None for clients without one.
        slots: requests in flight of each client.
        rate: requests a second of this process, in an open loop; None for a closed one.
        read_batch: messages of one read.
        fetch_batch: messages of one get of a topic.
        keys: partition keys of each client that puts; 0 for none.
        exhaustible: a client that finds nothing to read is done.
    """

    urls: tuple[str, ...]
    participants: tuple[Participant, ...]
    seconds: float
    records: str
    seed: int
    slots: int = 1
    body_bytes: int = 200
    priorities: int = 1
    delivery: Delivery = "once"
    blocking: bool = False
    states: str | None = None
    think_s: float = 0.0
    think_spread: ThinkSpread = "exponential"
    rate: float | None = None
    arrivals: Arrivals = "poisson"
    read_batch: int = 1
    fetch_batch: int = 100
    credit: int = 256
    keys: int = 0
    take_timeout_s: float = 5.0
    exhaustible: bool = False

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Read a plan that came as JSON."""
        participants = tuple(
            Participant(**(each | {"peers": tuple(each["peers"])})) for each in plan["participants"]
        )
        return cls(**(plan | {"urls": tuple(plan["urls"]), "participants": participants}))
