"""What all connections of a middleware share."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from telesto.middleware.consumers import Consumers
from telesto.middleware.deadlines import Deadlines
from telesto.middleware.dispatcher import Dispatcher
from telesto.middleware.event_log import EventLog
from telesto.middleware.figures import Figures
from telesto.middleware.intake import Intake
from telesto.middleware.judge import Judge
from telesto.middleware.peers import Peers
from telesto.middleware.phases import Phases
from telesto.middleware.settings import ServerSettings
from telesto.middleware.shares import Shares
from telesto.middleware.waiting import WaitingRoom
from telesto.middleware.weights import Weights


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
