"""The parts of the middleware that all connections use."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from telesto.middleware.common.deadlines import Deadlines
from telesto.middleware.common.event_log import EventLog
from telesto.middleware.common.peers import Peers
from telesto.middleware.common.settings import ServerSettings
from telesto.middleware.common.tls import ServerTls
from telesto.middleware.consumers.behaviour_monitor import BehaviourMonitor
from telesto.middleware.consumers.registry import ConsumerRegistry
from telesto.middleware.metrics.counters import Counters
from telesto.middleware.metrics.tracing import Tracer
from telesto.middleware.scheduling.dispatcher import Dispatcher
from telesto.middleware.scheduling.expected_size import ExpectedSizes
from telesto.middleware.security.login import Logins
from telesto.middleware.waiting.room import WaitingRoom
from telesto.middleware.wire.quotas import Quotas


@dataclass(frozen=True, slots=True)
class Services:
    """The parts that connections use."""

    settings: ServerSettings
    loop: asyncio.AbstractEventLoop
    dispatcher: Dispatcher
    room: WaitingRoom
    expected_sizes: ExpectedSizes
    counters: Counters
    peers: Peers
    deadlines: Deadlines
    consumers: ConsumerRegistry
    tracer: Tracer
    monitor: BehaviourMonitor
    quotas: Quotas
    events: EventLog
    logins: Logins
    tls: ServerTls | None
