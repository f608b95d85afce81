"""How long a request is where: every so many-th is followed on its way and leaves a sample.

Requests that are not gathered are not followed.

Nothing is measured of the others, and nothing at all when it is switched off, so that the figures of a load
are not those of measuring it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from telesto.middleware.scheduling.requests import SINGLY, Mark, Outcome, Pipeline, Read, Request

#: Samples that are kept for whoever asks; older ones are forgotten.
SAMPLES_MAX: Final = 10_000
#: Requests that are followed at a time. One that is answered without a call, or whose client is gone, is
#: given up when it is the oldest of so many.
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
        kind: of the request.
        received_at: when its last byte came, by the system's monotonic clock, in seconds.
        client_s: since the last answer on its connection; -1 when there was none.
        parse_s: until it stood in its pipeline: decoding and checking, with all that came in the same read.
        since: when the phase began in which it is.
        together: how many requests came in the same read from the socket.
        fifo_s: waiting for its turn, over all its tries.
        database_s: in calls.
        parked_s: waiting for a message.
        answer_s: from the end of the call to the write to the socket.
        tries: how often it was in a call.
        batch: how many requests the last of these calls had.
        parked: it waits for a message.
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
        """``count`` requests came in one read and stand at the end of a pipeline now."""
        while self._left <= count:
            from_end = count - self._left + 1
            # One that was cancelled in the same read stands there no more.
            if from_end <= len(pipeline.requests):
                self._follow(pipeline.requests[-from_end], pipeline, count, received_at)
            self._left += self._every
        self._left -= count

    def called(self, requests: Sequence[Request]) -> list[tuple[int, Sample]]:
        """A call begins; returns those of its requests that are followed, with their places in it."""
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
        """The call is over."""
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
        """The outcomes were given to the connections, which write when this turn of the loop is over."""
        answered = []
        for place, sample in found:
            request, outcome = requests[place], outcomes[place]
            if outcome is Mark.NOTHING and _waits_on(request):
                sample.parked = True
            elif outcome is Mark.NOTHING or isinstance(outcome, bytes):
                self._followed.pop(request, None)
                answered.append(sample)
        if answered:
            # Behind the writes, which were asked for before.
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
    """Whether a read that found nothing waits for a message, instead of being answered."""
    return isinstance(request, Read) and request.pipeline.waiting.get(request.packet_id) is request
