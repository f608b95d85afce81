"""Measures the phases of some requests: one in ``phase_every`` is followed and leaves a sample.

Requests that are not gathered are not followed.

The others are not measured at all, so that measuring does not slow them down.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from telesto.middleware.scheduling.requests import SINGLY, Mark, Outcome, Pipeline, Read, Request

#: How many samples are kept. Older ones are dropped.
SAMPLES_MAX: Final = 10_000
#: How many requests are followed at a time. The oldest is dropped when there are more: it may have been
#: answered without a call, or its client may be gone.
FOLLOWED_MAX: Final = 1_000

COLUMNS: Final = (
    "number",
    "received_at",
    "kind",
    "tries",
    "client_us",
    "parse_us",
    "fifo_us",
    "database_us",
    "parked_us",
    "answer_us",
    "batch",
    "together",
)


@dataclass(slots=True)
class Sample:
    """The phases of one request, in seconds.

    Attributes:
        kind: the kind of the request.
        received_at: when its last byte arrived, by the system's monotonic clock.
        client_s: the time since the last answer on its connection; -1 without one.
        parse_s: the time until it entered its pipeline: decoding and checking all that came in the same read.
        since: when its current phase began.
        together: how many requests came in the same read from the socket.
        fifo_s: the time in its pipeline, over all tries.
        database_s: the time in calls.
        parked_s: the time in the waiting room.
        answer_s: the time from the end of the call to the write to the socket.
        tries: how many calls it was in.
        batch: how many requests the last of these calls had.
        parked: it is in the waiting room.
    """

    kind: str
    received_at: float
    client_s: float
    parse_s: float
    since: float
    together: int
    fifo_s: float = 0.0
    database_s: float = 0.0
    parked_s: float = 0.0
    answer_s: float = 0.0
    tries: int = 0
    batch: int = 0
    parked: bool = False

    def as_row(self, number: int) -> str:
        """Return the sample as a line of CSV, in the order of COLUMNS; times in microseconds."""
        times = (
            self.client_s,
            self.parse_s,
            self.fifo_s,
            self.database_s,
            self.parked_s,
            self.answer_s,
        )
        shown = ",".join(f"{1e6 * seconds:.1f}" if seconds >= 0 else "-1" for seconds in times)
        place = f"{number},{self.received_at:.6f},{self.kind},{self.tries}"
        return f"{place},{shown},{self.batch},{self.together}\n"


class Tracer:
    """Chooses requests, follows them, and keeps their samples.

    Attributes:
        on: requests are chosen.
    """

    __slots__ = ("_every", "_followed", "_last", "_left", "_loop", "_samples", "on")

    def __init__(self, loop: asyncio.AbstractEventLoop, every: int) -> None:
        self._loop = loop
        self._every = every
        self._left = every
        self._followed: dict[Request, Sample] = {}
        self._samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
        self._last = 0
        self.on = every > 0

    def admitted(self, pipeline: Pipeline, count: int, received_at: float) -> None:
        """``count`` requests came in one read and are now the last in a pipeline."""
        while self._left <= count:
            from_end = count - self._left + 1
            # A request that was cancelled in the same read is not there any more.
            if from_end <= len(pipeline.requests):
                self._follow(pipeline.requests[-from_end], pipeline, count, received_at)
            self._left += self._every
        self._left -= count

    def called(self, requests: Sequence[Request]) -> list[tuple[int, Sample]]:
        """A call begins. Returns its followed requests, with their positions in it."""
        followed = self._followed
        if not followed:
            return []
        found = [(place, followed[request]) for place, request in enumerate(requests) if request in followed]
        now = monotonic()
        for _, sample in found:
            if sample.parked:
                sample.parked_s += now - sample.since
                sample.parked = False
            else:
                sample.fifo_s += now - sample.since
            sample.since = now
            sample.tries += 1
            sample.batch = len(requests)
        return found

    def returned(self, found: Sequence[tuple[int, Sample]]) -> None:
        """The call has ended."""
        now = monotonic()
        for _, sample in found:
            sample.database_s += now - sample.since
            sample.since = now

    def settled(
        self,
        found: Sequence[tuple[int, Sample]],
        requests: Sequence[Request],
        outcomes: Sequence[Outcome],
    ) -> None:
        """The connections have the outcomes and write them at the end of this turn of the event loop."""
        answered = []
        for place, sample in found:
            request, outcome = requests[place], outcomes[place]
            if outcome is Mark.NOTHING and _waits_on(request):
                sample.parked = True
            elif outcome is Mark.NOTHING or isinstance(outcome, bytes):
                self._followed.pop(request, None)
                answered.append(sample)
        if answered:
            # This runs after the writes, which were scheduled before.
            self._loop.call_soon(self._written, answered)

    def as_csv(self, after: int) -> str:
        """Return the samples with numbers above ``after``, as CSV with a heading."""
        first = self._last - len(self._samples) + 1
        rows = [
            sample.as_row(number)
            for number, sample in enumerate(self._samples, start=first)
            if number > after
        ]
        return ",".join(COLUMNS) + "\n" + "".join(rows)

    def _follow(self, request: Request, pipeline: Pipeline, together: int, received_at: float) -> None:
        if request.kind in SINGLY:
            return
        followed = self._followed
        if len(followed) >= FOLLOWED_MAX:
            del followed[next(iter(followed))]
        now = monotonic()
        client_s = received_at - pipeline.answered_at if pipeline.answered_at else -1.0
        followed[request] = Sample(
            request.kind.name.lower(), received_at, client_s, now - received_at, now, together
        )

    def _written(self, answered: Sequence[Sample]) -> None:
        now = monotonic()
        for sample in answered:
            sample.answer_s = now - sample.since
            self._samples.append(sample)
            self._last += 1


def _waits_on(request: Request) -> bool:
    """Tells whether a read that found nothing waits for a message, or was answered."""
    return isinstance(request, Read) and request.pipeline.waiting.get(request.packet_id) is request
