"""The experiment behind `make bench-core`: what gathering gives, what the service costs beside the bare
procedures, whether it stays that fast, and what idle clients cost.

    python -m telesto.benchmarks.core --quick
    python -m telesto.benchmarks.core --only put --only put-read --seconds 5 --json figures.json
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import asyncpg
from telesto.benchmarks.idle import connections_allowed, measure_idle
from telesto.benchmarks.machine import describe_machine, file_system
from telesto.benchmarks.measurement import Shape, Timing
from telesto.benchmarks.report import Report, render, targets
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.service import describe_database, running_database, running_middlewares
from telesto.benchmarks.steady import measure_steady
from telesto.benchmarks.tally import Workload
from telesto.benchmarks.throughput import (
    SHAPES,
    Throughput,
    ThroughputPlan,
    measure_throughput,
    ungathered_candidates,
)

SECTIONS: Final = ("put", "put-read", "steady", "idle")
THROUGHPUT_SECTIONS: Final[tuple[Workload, ...]] = ("put", "put-read")


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


FULL_SIZE: Final = Size(
    seconds=5,
    warm_up_s=1,
    repetitions=5,
    candidates=9,
    steady_s=60,
    backlog=1_000_000,
    idle_connections=5_000,
)
QUICK_SIZE: Final = Size(
    seconds=1, warm_up_s=0.5, repetitions=1, candidates=1, steady_s=6, backlog=20_000, idle_connections=200
)


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for."""

    size: Size
    shapes: Sequence[Shape] = SHAPES
    sections: Sequence[str] = SECTIONS
    middlewares: int = 1
    generators: int = 2
    queues: int = 1
    body_bytes: int = 200
    json_file: Path | None = None
    directory: Path | None = None


def parse(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m telesto.benchmarks.core", description=__doc__)
    parser.add_argument("--seconds", type=float, help="measured part of a run (default 5, with --quick 1)")
    parser.add_argument("--repetitions", type=int, help="runs of each arm (default 5, with --quick 1)")
    parser.add_argument(
        "--only", action="append", choices=SECTIONS, help="only this section; may be repeated"
    )
    parser.add_argument(
        "--quick", action="store_true", help="everything once and short, to see that it works"
    )
    parser.add_argument("--middlewares", type=int, default=1, help="middleware processes (default 1)")
    parser.add_argument("--generators", type=int, default=2, help="processes that generate load (default 2)")
    parser.add_argument("--queues", type=int, default=1, help="queues, clients in turn (default 1)")
    parser.add_argument("--body-bytes", type=int, default=200, help="bytes of a body (default 200)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything measured to a file")
    parser.add_argument(
        "--directory", type=Path, help="where the database is made (default: the temporary directory)"
    )
    given = parser.parse_args(arguments)
    base = QUICK_SIZE if given.quick else FULL_SIZE
    changed = {name: getattr(given, name) for name in ("seconds", "repetitions") if getattr(given, name)}
    return Options(
        size=Size(**(asdict(base) | changed)),
        sections=given.only or SECTIONS,
        middlewares=given.middlewares,
        generators=given.generators,
        queues=given.queues,
        body_bytes=given.body_bytes,
        json_file=given.json,
        directory=given.directory,
    )


async def run(options: Options) -> Report:
    """Start a database, measure the sections asked for, and return the report."""
    connections_allowed(options.size.idle_connections)
    with tempfile.TemporaryDirectory(prefix="telesto-bench-", dir=options.directory) as name:
        directory = Path(name)
        # The embedded server may run under an account of its own, which has to pass.
        os.chmod(directory, 0o711)
        with running_database(directory / "data") as url:
            return await _measure(options, directory, url)


async def _measure(options: Options, directory: Path, url: str) -> Report:
    size = options.size
    async with _bench(options, directory, url) as bench:
        report = Report(describe_machine(), {**bench.database.settings, **_describe(options, directory)})
        for workload in THROUGHPUT_SECTIONS:
            if workload in options.sections:
                plan = _throughput_plan(options)
                report.throughput.append(await measure_throughput(bench, workload, plan, directory, progress))
        if "steady" in options.sections:
            progress(f"put plus read over {size.steady_s:g} s under each condition")
            async with running_middlewares(url, directory, options.middlewares) as middlewares:
                timing = Timing(size.warm_up_s, size.steady_s)
                report.steady = await measure_steady(bench, middlewares, timing, size.backlog)
        if "idle" in options.sections:
            progress(f"{size.idle_connections:,} idle connections")
            # A fresh middleware: what an earlier load left in memory is not the idle connections'.
            async with running_middlewares(url, directory, options.middlewares) as middlewares:
                report.idle = await measure_idle(middlewares, size.idle_connections)
    return report


@asynccontextmanager
async def _bench(options: Options, directory: Path, url: str) -> AsyncIterator[Bench]:
    connection = await asyncpg.connect(url)
    try:
        database = await describe_database(url)
        yield Bench(database, connection, directory, options.generators, options.queues, options.body_bytes)
    finally:
        await connection.close()


def _throughput_plan(options: Options) -> ThroughputPlan:
    size = options.size
    candidates = ungathered_candidates()
    # The middle of the list is the likeliest: it is what a short run tries.
    first = (len(candidates) - size.candidates) // 2 if size.candidates < len(candidates) else 0
    timing = Timing(size.warm_up_s, size.seconds)
    chosen = candidates[first : first + size.candidates]
    return ThroughputPlan(options.shapes, chosen, timing, size.repetitions, options.middlewares)


def _describe(options: Options, directory: Path) -> dict[str, str]:
    """Return the settings of the experiment, as the report shows them."""
    size = options.size
    return {
        "file system": file_system(directory),
        "run": f"{size.repetitions} repetitions of {size.seconds:g} s after {size.warm_up_s:g} s",
        "bodies": f"{options.body_bytes} bytes",
        "queues": str(options.queues),
        "tiers": f"{options.middlewares} middleware, {options.generators} generators, PostgreSQL together",
    }


def progress(line: str) -> None:
    """Tell what is going on, apart from the report."""
    print(line, file=sys.stderr, flush=True)


def as_json(report: Report) -> str:
    """Return all that was measured as JSON; keys that are not text become text."""
    plain: dict[str, Any] = {
        "machine": dict(report.machine),
        "settings": dict(report.settings),
        "throughput": [_throughput_as_plain(part) for part in report.throughput],
        "steady": [asdict(part) | {"change": part.change} for part in report.steady],
        "idle": asdict(report.idle) if report.idle else None,
        "targets": [asdict(target) for target in targets(report)],
    }
    return json.dumps(plain, indent=1)


def _throughput_as_plain(part: Throughput) -> dict[str, Any]:
    arms = {f"service {shape}": runs for shape, runs in part.service.items()}
    arms |= {f"ceiling {shape}": runs for shape, runs in part.ceiling.items()}
    arms |= {"ungathered": part.ungathered, "single call": part.single_call}
    return {
        "workload": part.workload,
        "ungathered with": asdict(part.ungathered_with),
        "arms": {name: [asdict(run) for run in runs] for name, runs in arms.items()},
    }


def main() -> None:
    """Run the experiment and print its report."""
    options = parse()
    report = asyncio.run(run(options))
    print(render(report))
    if options.json_file:
        options.json_file.write_text(as_json(report))


if __name__ == "__main__":
    main()
