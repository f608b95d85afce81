"""`telesto demo`: ships a text through the service and shows that every line came out once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from telesto.cli.common.options import Json
from telesto.cli.terminal.exit_codes import ExitCode

PRODUCERS = 3
READERS = 3
PROCESSES_MAX = 32


def demo(
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="FILE", help="The text to ship. Default: the largest log or changelog of this system."
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", metavar="DIRECTORY", help="Keep the database here. Default: a temporary one."
        ),
    ] = None,
    producers: Annotated[
        int, typer.Option("--producers", min=1, max=PROCESSES_MAX, help="Processes that put the lines.")
    ] = PRODUCERS,
    readers: Annotated[
        int, typer.Option("--readers", min=1, max=PROCESSES_MAX, help="Processes that read them.")
    ] = READERS,
    as_json: Json = False,
) -> ExitCode:
    """Ship every line of a text file through two middlewares and check that each came out exactly once.

    It starts its own PostgreSQL, two middlewares, and several processes that put and read, and ends by
    itself. It checks by the number of each line that none is lost, duplicated or changed, that the lines of
    each producer arrive in the queue in the order in which it put them, and that they reach each reader in
    that order.
    """
    from telesto.cli.demo.run import DemoPlan, run_demo

    return run_demo(DemoPlan(file, data_dir, producers, readers), as_json=as_json)
