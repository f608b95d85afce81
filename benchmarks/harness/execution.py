"""Runs an experiment: every run that is not complete yet, each on an empty database."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

from telesto.benchmarks.harness.experiment import Experiment, Run
from telesto.benchmarks.harness.manifest import ExperimentDirectory, create_or_resume
from telesto.benchmarks.harness.one_run import OnSecond, measure_run
from telesto.benchmarks.tiers.machine import describe, source_state
from telesto.benchmarks.tiers.service import DATA_DIRECTORY, Databases, running_server


class Listener(Protocol):
    """Is told about the progress of an experiment."""

    def begins(self, runs: int, done: int) -> None:
        """An experiment of `runs` runs begins; `done` of them are complete already."""

    def run_begins(self, run: Run) -> OnSecond:
        """A run begins; the returned function is called with the seconds since its load began."""

    def run_ends(self, run: Run, result: dict[str, Any]) -> None:
        """A run is complete."""


async def carry_out(
    experiment: Experiment, path: Path, listener: Listener, server_url: str | None = None
) -> ExperimentDirectory:
    """Run an experiment in a directory, or the rest of it.

    `server_url` names a server on this machine where databases may be created; by default the experiment
    starts its own. Raises ManifestError for a directory that cannot be used.
    """
    directory = create_or_resume(path, experiment, describe)
    runs = directory.runs
    left = [run for run in runs if not directory.is_complete(run)]
    listener.begins(len(runs), len(runs) - len(left))
    if not left:
        return directory
    with nullcontext(server_url) if server_url else running_server(path) as url:
        databases = Databases(url, experiment.name, directory.seed)
        async with databases.prepared():
            for run in left:
                await _carry_out_run(directory, run, databases, listener)
    if not experiment.keep_databases and server_url is None:
        shutil.rmtree(path / DATA_DIRECTORY)
    return directory


async def _carry_out_run(
    directory: ExperimentDirectory, run: Run, databases: Databases, listener: Listener
) -> None:
    keep = directory.experiment.keep_databases
    on_second = listener.run_begins(run)
    partial = directory.begin_run(run)
    url = await databases.create(run.name)
    result = {
        **run.as_plain(),
        "settings": run.settings.model_dump(),
        "source": source_state(),
        "database": databases.name_of(run.name) if keep else None,
        **await measure_run(run, url, partial, on_second),
    }
    if not keep:
        await databases.drop(run.name)
    directory.finish_run(run, result)
    listener.run_ends(run, result)
