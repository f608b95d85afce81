"""What all connections of a middleware share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from telesto.middleware.consumers import Consumers
from telesto.middleware.deadlines import Deadlines
from telesto.middleware.dispatcher import Dispatcher
from telesto.middleware.event_log import EventLog
from telesto.middleware.figures import Figures
from telesto.middleware.intake import Intake
from telesto.middleware.judge import Judge
from telesto.middleware.phases import Phases
from telesto.middleware.settings import ServerSettings
from telesto.middleware.shares import Shares
from telesto.middleware.waiting import WaitingRoom
from telesto.middleware.weights import Weights

#: Addresses told to a client, at most.
_ADDRESSES_MAX = 16


@dataclass(slots=True)
class Peers:
    """This middleware among the others.

    Attributes:
        version: of this middleware.
        middleware_id: identifies it; 0 before it is registered.
        others: host:port of the other live ones, by their ids.
    """

    version: str
    middleware_id: int = 0
    others: dict[int, str] = field(default_factory=dict)

    @property
    def addresses(self) -> list[str]:
        """Addresses for clients to move to."""
        return list(dict.fromkeys(self.others.values()))[:_ADDRESSES_MAX]


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that connections use."""

    settings: ServerSettings
    loop: asyncio.AbstractEventLoop
    dispatcher: Dispatcher
    room: WaitingRoom
    weights: Weights
    figures: Figures
    peers: Peers
    deadlines: Deadlines
    consumers: Consumers
    phases: Phases
    judge: Judge
    shares: Shares
    events: EventLog
    intake: Intake
