"""The plan of one process that generates load: the clients that take part, and how."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Literal, Self

from telesto.benchmarks.load.settings import RunSettings
from telesto.benchmarks.load.worker import Plan

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
    """The plan of one process.

    Attributes:
        settings: of the run.
        records: the file for the records.
        rate: requests a second of this process, in an open loop; None for a closed one.
        states: the directory of the clients' durable states; None for clients without one.
    """

    urls: tuple[str, ...]
    participants: tuple[Participant, ...]
    settings: RunSettings
    records: str
    seed: int
    rate: float | None = None
    states: str | None = None

    def as_plain(self) -> Plan:
        """Return the plan as JSON."""
        return {
            **{each.name: getattr(self, each.name) for each in fields(self)},
            "participants": [asdict(each) for each in self.participants],
            "settings": self.settings.model_dump(),
        }

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Read a plan from JSON."""
        participants = tuple(
            Participant(**(each | {"peers": tuple(each["peers"])})) for each in plan["participants"]
        )
        settings = RunSettings(**plan["settings"])
        return cls(
            **(plan | {"urls": tuple(plan["urls"]), "participants": participants, "settings": settings})
        )
