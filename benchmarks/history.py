"""What the history costs: put plus read with each kind of it, through the service and by bare calls."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Final, get_args

from telesto.benchmarks.figures import Ratio, Target, at_least, rate_cell, rates, ratio, table
from telesto.benchmarks.measurement import Conditions, History, Measurement, Timing
from telesto.benchmarks.report import Part
from telesto.benchmarks.runs import CEILING_BATCH, Bench
from telesto.benchmarks.service import Middlewares
from telesto.benchmarks.throughput import PIPELINED

CLIENTS: Final = 64
HISTORIES: Final[tuple[History, ...]] = get_args(History)
METADATA_SHARE_MIN: Final = 0.9

_HEADER: Final = (
    "load",
    "old snapshot",
    "history",
    "per second",
    "against none",
    "put ms",
    "take ms",
    "postgres us",
)


@dataclass(slots=True)
class Histories:
    """The runs of one load, with an old snapshot or without, by what is kept; the lists are parallel, one
    element for each repetition."""

    bare: bool
    old_snapshot: bool
    runs: dict[History, list[Measurement]] = field(default_factory=lambda: {name: [] for name in HISTORIES})

    @property
    def load(self) -> str:
        """How the procedures are called."""
        return f"bare calls of {CEILING_BATCH}" if self.bare else f"service, {PIPELINED}"

    def share(self, history: History) -> Ratio:
        """The rate against that without history."""
        return ratio(rates(self.runs[history]), rates(self.runs["none"]))


async def measure_histories(
    bench: Bench, middlewares: Middlewares, timing: Timing, repetitions: int, progress: Callable[[str], None]
) -> list[Histories]:
    """Put, take and confirm with each setting in turn, under each condition."""
    found = [Histories(False, False), Histories(True, False), Histories(True, True)]
    for repetition in range(1, repetitions + 1):
        progress(f"history: repetition {repetition} of {repetitions}")
        for each in found:
            for history, runs in each.runs.items():
                conditions = Conditions(old_snapshot=each.old_snapshot, history=history)
                if each.bare:
                    run = await bench.ceiling(CLIENTS, CEILING_BATCH, "put-read", timing, conditions)
                else:
                    run = await bench.service(middlewares, PIPELINED, "put-read", timing, conditions)
                runs.append(run)
    return found


def histories_part(found: Sequence[Histories]) -> Part:
    """Return the part of the report."""
    rows = [row for each in found for row in _rows(each)]
    title = "What the history costs: put plus read"
    runs = [run for each in found for runs in each.runs.values() for run in runs]
    targets = [_target(each) for each in found]
    return Part(
        "history", f"{title}\n\n{table(_HEADER, rows)}", targets, runs, [asdict(each) for each in found]
    )


def _target(found: Histories) -> Target:
    condition = ", an old snapshot is held" if found.old_snapshot else ""
    what = f"history metadata against none, {found.load}{condition}"
    return at_least(what, METADATA_SHARE_MIN, found.share("metadata"))


def _rows(found: Histories) -> list[list[str]]:
    return [
        [
            found.load,
            "yes" if found.old_snapshot else "no",
            name,
            rate_cell(runs),
            "" if name == "none" else str(found.share(name)),
            f"{1000 * median(run.put.median_s for run in runs):.2f}",
            f"{1000 * median(run.take.median_s for run in runs):.2f}",
            f"{median(run.cpu_us['postgres'] for run in runs):.1f}",
        ]
        for name, runs in found.runs.items()
    ]
