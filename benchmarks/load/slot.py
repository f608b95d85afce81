"""A slot: consecutive requests on a client's connection, and what all client types need for them."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from random import Random
from typing import Final

from telesto.benchmarks.load.bodies import BACKLOG_STREAM, SEQUENCE_BITS, BodyMaker, open_envelope
from telesto.benchmarks.load.plan import Participant, WorkloadPlan
from telesto.benchmarks.load.recorder import NO_AGE, Operation, Recorder
from telesto.client import AsyncTelestoClient
from telesto.protocol.errors import TelestoError

PAUSE_AFTER_ERROR_S: Final = 0.02
PRIORITY_ALONE: Final = 5
TAKE_TIMEOUT_S: Final = 5.0


@dataclass(eq=False)
class Slot:
    """The context of a client type.

    Attributes:
        number: of the slot in the run; also that of its stream of messages.
        end: when no more requests are sent, by the monotonic clock.
        done: set when there is nothing more to do before the end.
    """

    client: AsyncTelestoClient
    participant: Participant
    number: int
    plan: WorkloadPlan
    recorder: Recorder
    end: float
    done: bool = False

    def __post_init__(self) -> None:
        self.settings = self.plan.settings
        self.random = Random(f"{self.plan.seed}-{self.number}")
        self._bodies = BodyMaker(self.number, self.settings.message_bytes)

    @property
    def queue_id(self) -> int:
        """The queue of the client."""
        return int(self.participant.destination)

    @property
    def topic(self) -> str:
        """The topic of the client."""
        return str(self.participant.destination)

    def priority(self) -> int:
        """Choose a priority: the middle one, or a random one of those in use."""
        priorities = self.settings.priority_spread
        return PRIORITY_ALONE if priorities == 1 else self.random.randint(1, priorities)

    def receiver(self) -> int | None:
        """Choose the receiver of a message; None for anyone."""
        peers = self.participant.peers
        return self.random.choice(peers) if peers else None

    def body(self, moment: float, priority: int = 0) -> tuple[int, bytes]:
        """Make the next message of the slot's stream: its identity and its body."""
        return self._bodies.next(moment, priority)

    def wait_s(self) -> float:
        """How long a read may wait, so that the slot ends in time."""
        return min(TAKE_TIMEOUT_S, max(0.0, self.end - time.monotonic()))

    def sent(
        self, operation: Operation, identity: int, intended: float, sent: float, priority: int = 0
    ) -> None:
        """Record an operation that has just succeeded."""
        self.recorder.add(
            operation, self.number, identity, intended, sent, time.monotonic(), priority=priority
        )

    def came(self, operation: Operation, body: bytes, sent: float, *, redelivered: bool = False) -> None:
        """Record a message that has just come, for which the slot has waited since `sent`."""
        now = time.monotonic()
        identity, moment, priority = open_envelope(body)
        age = NO_AGE if identity >> SEQUENCE_BITS == BACKLOG_STREAM else now - moment
        self.recorder.add(
            operation,
            self.number,
            identity,
            sent,
            sent,
            now,
            priority=priority,
            age=age,
            redelivered=redelivered,
        )

    async def failed(self, operation: Operation, error: TelestoError, identity: int | None = None) -> None:
        """Count an error and pause briefly; a message whose put failed is in doubt."""
        self.recorder.failed(operation, type(error).__name__)
        if identity is not None:
            self.recorder.doubtful.append(identity)
        await asyncio.sleep(PAUSE_AFTER_ERROR_S)


class ClientType(ABC):
    """The repeated behaviour of a client, until the slot's end."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot

    @abstractmethod
    async def run_once(self, intended: float) -> None:
        """Do it once; `intended` is the scheduled time."""

    async def finish(self) -> None:  # noqa: B027 - most have nothing to do
        """Wait for everything in flight, at the end."""
