"""`telesto bench peers`: other message queues and Telesto, on this machine."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from telesto.cli.common.durations import duration_option
from telesto.cli.terminal import output
from telesto.cli.terminal.exit_codes import ExitCode

if TYPE_CHECKING:
    from telesto.benchmarks.comparison.compare import Comparison, Work

SECONDS = 5.0
REPETITIONS = 5

Names = Annotated[
    list[str] | None,
    typer.Option(
        "--only", metavar="PEER", help="Compare only with this peer; repeatable. Default: all peers."
    ),
]
Works = Annotated[
    list[str] | None,
    typer.Option(
        "--work", metavar="WORK", help="put, end-to-end or latency; repeatable. Default: all three."
    ),
]


def peers(
    only: Names = None,
    work: Works = None,
    seconds: Annotated[
        float, duration_option("--seconds", least=0.1, help="Measured part of a run.")
    ] = SECONDS,
    repetitions: Annotated[
        int, typer.Option("--repetitions", min=1, help="Runs of each peer and work.")
    ] = REPETITIONS,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Also write all figures to a file.")
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--directory",
            exists=True,
            file_okay=False,
            metavar="DIR",
            help="Where the servers keep their data, on a disk. Default: the temporary directory.",
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="First install what is missing, by apt-get (as root) and pip.")
    ] = False,
) -> ExitCode:
    """Compare Telesto with other message queues: the same work, interleaved, every run audited.

    It starts Telesto and those of RabbitMQ, NATS JetStream, Redis, PGMQ, PgQ, procrastinate and pgqueuer that
    are installed, and stops them at the end. It says which ones it skips, and why.
    """
    from telesto.benchmarks.comparison.catalog import CATALOG
    from telesto.benchmarks.comparison.compare import WORKS, Comparison, Size
    from telesto.benchmarks.comparison.table import as_plain, facts_of, render, targets
    from telesto.cli.terminal.stopping import run_to_its_end

    names = _chosen("--only", only, CATALOG)
    works = _chosen("--work", work, WORKS)
    if install:
        from telesto.benchmarks.comparison.catalog import install as get_missing

        get_missing(names, output.print_note)
    size = Size(seconds=seconds, repetitions=repetitions)
    comparison, facts = Comparison(size), facts_of(directory)

    async def compare_and_show() -> None:
        try:
            await _compare(comparison, names, works, directory)  # type: ignore[arg-type]
        finally:
            # Complete results are shown after a signal too.
            output.print_line(render(comparison, facts))
            if json_file is not None:
                json_file.write_text(json.dumps(as_plain(comparison, facts), indent=1))

    run_to_its_end(compare_and_show())
    return ExitCode.DONE if targets(comparison)[-1].reached else ExitCode.REFUSED


async def _compare(
    comparison: Comparison, names: list[str], works: list[Work], directory: Path | None
) -> None:
    import os
    import tempfile

    from telesto.benchmarks.comparison.compare import compare_peers

    with tempfile.TemporaryDirectory(prefix="telesto-peers-", dir=directory) as name:
        # The servers run under other accounts, which must be able to enter.
        os.chmod(name, 0o711)
        await compare_peers(comparison, names, works, Path(name), output.print_note)


def _chosen(option: str, given: list[str] | None, known: Iterable[str]) -> list[str]:
    """The chosen names in their order; all of them if none is chosen."""
    from telesto.cli.terminal.failures import usage_error

    names = list(known)
    for name in given or ():
        if name not in names:
            raise usage_error(f"{option} {name}: there are {', '.join(names)}")
    return [name for name in names if not given or name in given]
