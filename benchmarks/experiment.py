"""What an experiment is: its size, what the user asked for, and the database that it runs on."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telesto.benchmarks.measurement import Shape, Timing
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.throughput import SHAPES


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured; times in seconds."""

    seconds: float
    warm_up_s: float
    repetitions: int
    candidates: int
    steady_s: float
    backlog: int
    idle_connections: int
    topic_backlog: int
    consumer_backlog: int

    @property
    def timing(self) -> Timing:
        """How long an ordinary run takes."""
        return Timing(self.warm_up_s, self.seconds)


FULL_SIZE: Final = Size(
    seconds=5,
    warm_up_s=1,
    repetitions=5,
    candidates=9,
    steady_s=60,
    backlog=1_000_000,
    idle_connections=5_000,
    topic_backlog=20_000,
    consumer_backlog=600_000,
)
QUICK_SIZE: Final = Size(
    seconds=1,
    warm_up_s=0.5,
    repetitions=1,
    candidates=1,
    steady_s=6,
    backlog=20_000,
    idle_connections=200,
    topic_backlog=2_000,
    consumer_backlog=150_000,
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    size: Size
    shapes: Sequence[Shape] = SHAPES
    sections: Sequence[str] = ()
    middlewares: int = 1
    generators: int = 2
    queues: int = 1
    body_bytes: int = 200
    json_file: Path | None = None
    directory: Path | None = None


@dataclass(frozen=True, slots=True)
class Experiment:
    """An experiment that runs.

    Attributes:
        options: what the user asked for.
        bench: performs single runs.
        directory: for what the middlewares leave.
    """

    options: Options
    bench: Bench
    directory: Path

    @property
    def size(self) -> Size:
        """How much is measured."""
        return self.options.size
