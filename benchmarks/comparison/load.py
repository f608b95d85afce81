"""A load generator for any peer: a process with some producers and some consumers of one queue.

Closed loop: a fixed number of messages is in flight on each connection, and the next follow when these are
confirmed. Open loop: puts are scheduled in advance, and sent on time unless too many are in flight; delays
count from the scheduled time, so a stall is not hidden.

Bodies are ASCII, so every system can carry them unchanged: the identity and the scheduled time of the put
(microseconds of the monotonic clock) in hexadecimal digits, then padding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from telesto.benchmarks.load.bodies import Stream
from telesto.benchmarks.load.recorder import Operation, Recorder
from telesto.benchmarks.load.worker import Plan, Result, StartSignal, run_worker
from telesto.benchmarks.peers.interface import Address, Client

IDENTITY_END: Final = 16
MOMENT_END: Final = 32


class TextBodyMaker(Stream):
    """Makes the bodies of one stream, each of `size` bytes."""

    __slots__ = ()
    HEAD: ClassVar[str] = "identity and a moment"
    HEAD_BYTES: ClassVar[int] = MOMENT_END

    def next(self, intended: float) -> tuple[int, bytes]:
        """Return the next identity and its body."""
        identity = self._next
        self._next = identity + 1
        return identity, b"%016x%016x%b" % (identity, int(1e6 * intended), self._padding)


def identity_of(body: bytes) -> int:
    """Return the identity of a message."""
    return int(body[:IDENTITY_END], 16)


def intended_of(body: bytes) -> float:
    """Return the scheduled time of a message's put, in seconds of the monotonic clock."""
    return int(body[IDENTITY_END:MOMENT_END], 16) / 1e6


ERRORS_PER_SLOT_MAX: Final = 20
PAUSE_AFTER_ERROR_S: Final = 0.02
QUIET_S: Final = 1.5
"""Consumers end when no message has come for this long after the last put."""
DRAIN_S_MAX: Final = 60.0
"""Consumers work at most this long after the last put."""
STOP_S_MAX: Final = 30.0
LOOK_S: Final = 0.1
TIMER_S: Final = 0.0005
"""A timer of the event loop may fire this much early, because it counts milliseconds."""


@dataclass(frozen=True, slots=True)
class PeerPlan:
    """The plan of one generator.

    Attributes:
        module: has `connect` for the peer's clients.
        records: the file for the records.
        at_once: messages of one put.
        in_flight: messages in flight on each of the producers' connections.
        rate: puts a second of the whole process, in an open loop; 0 for a closed one.
    """

    module: str
    address: Address
    queue: str
    seconds: float
    records: str
    producers: int = 0
    consumers: int = 0
    at_once: int = 1
    in_flight: int = 1
    rate: float = 0.0
    body_bytes: int = 200
    first_stream: int = 0


class Clock:
    """Schedules the puts of one connection."""

    def __init__(self, begin: float, end: float, interval_s: float) -> None:
        self._next = begin
        self._end = end
        self._interval_s = interval_s

    async def due(self, at_most: int) -> list[float]:
        """Wait until a put is due; return its time and those of others that are due, none at the end."""
        now = time.monotonic()
        if not self._interval_s:
            return [now] * at_most if now < self._end else []
        first = self._take()
        if first >= self._end:
            return []
        if first > now:
            await asyncio.sleep(first - now + TIMER_S)
            now = time.monotonic()
        moments = [first]
        while len(moments) < at_most and self._next <= min(now, self._end):
            moments.append(self._take())
        return moments

    def _take(self) -> float:
        moment = self._next
        self._next += self._interval_s
        return moment


class Slot:
    """Sends consecutive puts, of one message or several."""

    def __init__(
        self, client: Client, at_once: int, stream: int, body_bytes: int, recorder: Recorder
    ) -> None:
        self._client = client
        self._at_once = at_once
        self._stream = stream
        self._bodies = TextBodyMaker(stream, body_bytes)
        self._recorder = recorder
        self._errors_left = ERRORS_PER_SLOT_MAX

    async def run(self, clock: Clock) -> None:
        """Put until the schedule ends."""
        while self._errors_left and (moments := await clock.due(self._at_once)):
            await self._put(moments)

    async def _put(self, moments: Sequence[float]) -> None:
        made = [self._bodies.next(moment) for moment in moments]
        identities = [identity for identity, _ in made]
        sent = time.monotonic()
        try:
            await self._client.put([body for _, body in made])
        except Exception as error:  # noqa: BLE001 - each peer has errors of its own
            self._recorder.doubtful.extend(identities)
            self._recorder.errors[type(error).__name__] += 1
            self._errors_left -= 1
            await asyncio.sleep(PAUSE_AFTER_ERROR_S)
            return
        ended = time.monotonic()
        if len(identities) == 1:
            self._recorder.add(Operation.PUT, self._stream, identities[0], moments[0], sent, ended)
        else:
            self._recorder.add_batch(Operation.PUT, self._stream, identities, np.array(moments), sent, ended)


class RecordingSink:
    """Records when each message was acknowledged, and its age when it was delivered."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.last = time.monotonic()

    def acknowledged(self, bodies: Sequence[bytes], delivered_at: float) -> None:
        """These messages, which were delivered at that time (monotonic), are acknowledged."""
        now = self.last = time.monotonic()
        for body in bodies:
            intended = intended_of(body)
            self._recorder.add(
                Operation.ACK, 0, identity_of(body), intended, intended, now, age=delivered_at - intended
            )


async def generate(raw: Plan, start: StartSignal) -> Result:
    """Carry out a `PeerPlan`; write the records into its file and return the rest."""
    plan = PeerPlan(**raw)
    stop = asyncio.Event()
    clients = [await _connect(plan) for _ in range(plan.producers + plan.consumers)]
    producers, consumers = clients[: plan.producers], clients[plan.producers :]
    with Recorder(Path(plan.records)) as recorder:
        sink = RecordingSink(recorder)
        consuming = [asyncio.create_task(client.consume(sink, stop)) for client in consumers]
        begin = await start.wait()
        end = begin + plan.seconds
        await asyncio.gather(*_slots(plan, producers, recorder, begin, end))
        await asyncio.sleep(end - time.monotonic())
        if consumers:
            await _drain(sink, consuming)
        stop.set()
        await _finish(consuming, recorder)
        for client in clients:
            await client.close()
    return recorder.result()


async def _connect(plan: PeerPlan) -> Client:
    client: Client = await import_module(plan.module).connect(plan.address, plan.queue)
    return client


def _slots(
    plan: PeerPlan, producers: Sequence[Client], recorder: Recorder, begin: float, end: float
) -> list[asyncio.Task[None]]:
    """Start all slots; those of one connection share its clock."""
    slots: list[asyncio.Task[None]] = []
    interval_s = plan.producers / plan.rate if plan.rate else 0.0
    for index, client in enumerate(producers):
        # The puts of different connections are due at different times.
        first = begin + interval_s * index / max(1, plan.producers)
        clock = Clock(first, end, interval_s)
        for _ in range(max(1, plan.in_flight // plan.at_once)):
            stream = plan.first_stream + len(slots)
            slot = Slot(client, plan.at_once, stream, plan.body_bytes, recorder)
            slots.append(asyncio.create_task(slot.run(clock)))
    return slots


async def _drain(sink: RecordingSink, consuming: Sequence[asyncio.Task[None]]) -> None:
    """Let the consumers work until no more messages come, or all have failed."""
    ended = time.monotonic()
    while (now := time.monotonic()) - max(ended, sink.last) < QUIET_S and now - ended < DRAIN_S_MAX:
        if all(task.done() for task in consuming):
            return
        await asyncio.sleep(LOOK_S)


async def _finish(consuming: Sequence[asyncio.Task[None]], recorder: Recorder) -> None:
    """Wait for the consumers to leave; their failures are errors of the run."""
    if not consuming:
        return
    done, late = await asyncio.wait(consuming, timeout=STOP_S_MAX)
    for task in late:
        task.cancel()
        recorder.errors["a consumer did not stop"] += 1
    for task in done:
        if (error := task.exception()) is not None:
            recorder.errors[f"{type(error).__name__}: {error}"[:200]] += 1


if __name__ == "__main__":
    run_worker(generate)
