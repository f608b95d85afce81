"""The experiment behind `make bench-core`: what gathering gives, what the service costs beside the bare
procedures, whether it stays that fast, and what idle clients cost.

    python -m telesto.benchmarks.core --quick
    python -m telesto.benchmarks.core --only put --only put-read --seconds 5 --json figures.json
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path

import asyncpg

from telesto.benchmarks.experiment import FULL_SIZE, QUICK_SIZE, Experiment, Options, Size
from telesto.benchmarks.idle import connections_allowed
from telesto.benchmarks.machine import describe_machine, file_system
from telesto.benchmarks.report import Report, as_plain, render
from telesto.benchmarks.runs import Bench
from telesto.benchmarks.sections import SECTIONS
from telesto.benchmarks.service import describe_database, running_database


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
        sections=given.only or tuple(SECTIONS),
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
            async with _experiment(options, directory, url) as experiment:
                return await _measure(experiment)


async def _measure(experiment: Experiment) -> Report:
    options, database = experiment.options, experiment.bench.database
    report = Report(describe_machine(), {**database.settings, **_describe(options, experiment.directory)})
    for name, section in SECTIONS.items():
        if name in options.sections:
            report.parts.append(await section(experiment))
    return report


@asynccontextmanager
async def _experiment(options: Options, directory: Path, url: str) -> AsyncIterator[Experiment]:
    connection = await asyncpg.connect(url)
    try:
        database = await describe_database(url)
        bench = Bench(database, connection, directory, options.generators, options.queues, options.body_bytes)
        yield Experiment(options, bench, directory)
    finally:
        await connection.close()


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


def main() -> None:
    """Run the experiment and print its report."""
    options = parse()
    report = asyncio.run(run(options))
    print(render(report))
    if options.json_file:
        options.json_file.write_text(json.dumps(as_plain(report), indent=1))


if __name__ == "__main__":
    main()
