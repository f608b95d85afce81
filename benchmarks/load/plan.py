"""The plan of one process that generates load: the clients that take part, and how."""

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
"""These send requests on their own schedule; the others serve what comes, as fast as they can."""


@dataclass(frozen=True, slots=True)
class Participant:
    """One client that takes part.

    Attributes:
        number: of the client in the run, from 0; slots and streams are numbered after it.
        name: of the client, which is registered already.
        destination: its queue's id, or its topic's name.
        peers: ids of the clients to which it sends, a random one each time; anyone if empty.
    """

    number: int
    name: str
    role: Role
    destination: int | str
    peers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkloadPlan:
    """The plan of one process. Times are in seconds.

    Attributes:
        blocking: use the blocking client; then there is one participant, and one slot.
        states: the directory of the clients' durable states; None for clients without one.
        slots: requests in flight of each client.
        rate: requests a second of this process, in an open loop; None for a closed one.
        keys: partition keys of each client that puts; 0 for none.
        exhaustible: a client that finds nothing to read has finished.
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
        """Read a plan from JSON."""
        participants = tuple(
            Participant(**(each | {"peers": tuple(each["peers"])})) for each in plan["participants"]
        )
        return cls(**(plan | {"urls": tuple(plan["urls"]), "participants": participants}))
